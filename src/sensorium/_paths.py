"""Checks of paths that are arguments."""

from __future__ import annotations

import os
from pathlib import Path

from sensorium.errors import OptionError

_MAX_NAME = 255
"""Max size of the name of a file or folder, bytes; common file systems have this limit."""
_MAX_PATH = 4095
"""Max size of a path, bytes, on Linux. Other systems refuse shorter ones themselves."""


def path_text(name: str, value: str | os.PathLike[str]) -> str:
    """Return a path as text.

    Raises:
        OptionError: ``__fspath__`` returns no text. The message names the argument.
    """
    try:
        path = os.fspath(value)
    except TypeError:
        path = None  # type: ignore[assignment]
    if not isinstance(path, str):
        raise OptionError(f"{name} must be a path of text, got {value!r:.80}")
    return path


def checked_path(name: str, value: str | os.PathLike[str]) -> None:
    """Raise OptionError that names the argument if no file can have a path. XML text in place of a path is accepted."""
    if isinstance(value, str) and value.lstrip().startswith("<"):
        return
    path = path_text(name, value)
    try:
        sizes = [len(part.encode()) for part in Path(path).parts]  # HDF5, FFmpeg, JSON and YAML need UTF-8
    except UnicodeEncodeError:
        raise OptionError(f"{name} must be a path of valid characters, got {path!r:.80}") from None
    if "\0" in path:
        raise OptionError(f"{name} must be a path without NUL characters, got {path!r:.80}")
    if max(sizes, default=0) > _MAX_NAME:
        raise OptionError(
            f"{name} must be a path of names of at most {_MAX_NAME} bytes, got one of {max(sizes)}: {path!r:.80}"
        )
    if sum(sizes) + len(sizes) > _MAX_PATH:
        raise OptionError(f"{name} must be a path of at most {_MAX_PATH} bytes, got {len(path.encode())}: {path!r:.80}")
