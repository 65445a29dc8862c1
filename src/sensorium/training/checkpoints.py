"""Checkpoints: folders that are complete if they exist, with checksums that detect later damage.

::

    checkpoints/000000020000/     number of steps
        manifest.json             name -> [bytes, CRC-32] of every other file
        ...                       the files of the training
"""

from __future__ import annotations

import json
import shutil
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sensorium.errors import DatasetError, SensoriumError
from sensorium.files import explain_errors, make_temporary_folder, sync, sync_tree
from sensorium.json_files import load_json
from sensorium.links import inside

STATE = "state.json"
"""The counters of a training in a checkpoint."""
_MANIFEST = "manifest.json"
_N_KEPT = 2
"""Number of checkpoints that are kept: if the disk damages the newest, there is one before it."""


def save(folder: Path, steps: int, write: Callable[[Path], None]) -> Path:
    """Make a checkpoint under a hidden name, rename it when it is complete, and remove old checkpoints.

    Args:
        folder: folder of the checkpoints.
        steps: number of steps, which names the checkpoint.
        write: writes all files to the folder that it is given.

    Returns:
        The folder of the checkpoint.
    """
    with explain_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(".[0-9]*-*"):  # left by a process that was killed while it wrote
        shutil.rmtree(leftover, ignore_errors=True)
    path = folder / f"{steps:012d}"
    with explain_errors(path):
        new = make_temporary_folder(folder, f".{path.name}-")
        try:
            write(new)
            manifest = {file.relative_to(new).as_posix(): list(_size_and_checksum(file)) for file in _files(new)}
            (new / _MANIFEST).write_text(json.dumps(manifest, indent=1))
            sync_tree(new)
            if path.exists():  # the same step again after a resume: the new checkpoint is equivalent
                shutil.rmtree(path)
            new.rename(path)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
    sync(folder)
    for old in _all(folder)[:-_N_KEPT]:
        shutil.rmtree(old)
    return path


def newest(folder: Path) -> Path | None:
    """Return the newest checkpoint that is not damaged, or None if there is none. Damaged newer ones cause a warning.

    Raises:
        DatasetError: all checkpoints are damaged.
    """
    problems: list[str] = []
    for path in reversed(_all(folder)):
        problem = _problem(path)
        if problem is None:
            for each in problems:
                warnings.warn(f"{each}; using {path.name} instead", stacklevel=2)
            return path
        problems.append(f"the checkpoint {path} is damaged: {problem}")
    if problems:
        raise DatasetError(
            "; ".join(problems) + "; there is no other checkpoint: start a new training in another folder"
        )
    return None


def _problem(path: Path) -> str | None:
    """Return what is wrong with a checkpoint, or None."""
    try:
        manifest = load_json((path / _MANIFEST).read_bytes())
        for name, (size, checksum) in manifest.items():
            if _size_and_checksum(inside(path, name)) != (size, checksum):
                return f"{name} has changed since it was written"
    except (OSError, ValueError, TypeError, AttributeError, DatasetError) as error:
        return str(error)
    return None


def read_state(folder: Path) -> dict[str, Any]:
    """Return the content of a checkpoint's ``state.json``.

    Raises:
        DatasetError: it cannot be read, or is not a JSON object.
    """
    path = folder / STATE
    try:
        state = load_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path} cannot be read: {error}; start a new training in another folder") from None
    if not isinstance(state, dict):
        raise DatasetError(f"{path} is not a JSON object; start a new training in another folder")
    return state


@contextmanager
def explain_wrong_state(folder: Path) -> Iterator[None]:
    """Turn the errors of a block that uses ``state.json`` into a DatasetError: values are missing or of other types."""
    try:
        yield
    except SensoriumError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError) as error:  # RuntimeError: shapes of tensors
        why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise DatasetError(f"{folder / STATE} cannot be used: {why}; start a new training in another folder") from error


def _all(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("[0-9]*") if path.is_dir())


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _size_and_checksum(path: Path) -> tuple[int, int]:
    """Return the bytes and the CRC-32 of a file."""
    size = checksum = 0
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            size, checksum = size + len(part), zlib.crc32(part, checksum)
    return size, checksum
