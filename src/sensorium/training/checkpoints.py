"""Checkpoints: folders that are there whole or not at all, and that say when something in them was changed since.

::

    checkpoints/000000020000/     the steps after which it was made
        manifest.json             name -> [bytes, CRC-32] of every other file
        ...                       what the training writes
"""

from __future__ import annotations

import json
import shutil
import tempfile
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

from sensorium.errors import DatasetError
from sensorium.files import explain_errors, sync, sync_tree

_MANIFEST = "manifest.json"
_KEPT = 2
"""Checkpoints that are kept: should the disk damage the newest, there is one before it."""


def save(folder: Path, steps: int, write: Callable[[Path], None]) -> Path:
    """Make a checkpoint by ``write``, first under a hidden name, and remove those that are too old.

    Args:
        folder: where checkpoints lie.
        steps: after how many steps it is.
        write: writes all files into the folder that it is given.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(".[0-9]*-*"):  # of a process that was killed while it wrote
        shutil.rmtree(left, ignore_errors=True)
    path = folder / f"{steps:012d}"
    with explain_errors(path):
        new = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=folder))
        try:
            write(new)
            manifest = {file.relative_to(new).as_posix(): list(_sum(file)) for file in _files(new)}
            (new / _MANIFEST).write_text(json.dumps(manifest, indent=1))
            sync_tree(new)
            if path.exists():  # the same step again, after a resume: this one is as good
                shutil.rmtree(path)
            new.rename(path)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
    sync(folder)
    for old in _all(folder)[:-_KEPT]:
        shutil.rmtree(old)
    return path


def newest(folder: Path) -> Path | None:
    """The newest checkpoint that is whole, or None where none was made; a warning tells of newer ones that are damaged.

    Raises:
        DatasetError: all that there are are damaged.
    """
    problems: list[str] = []
    for path in reversed(_all(folder)):
        problem = _problem(path)
        if problem is None:
            for each in problems:
                warnings.warn(f"{each}; going on from {path.name}", stacklevel=2)
            return path
        problems.append(f"the checkpoint {path} is damaged: {problem}")
    if problems:
        raise DatasetError("; ".join(problems) + "; no earlier one is left: train anew in another folder")
    return None


def _problem(path: Path) -> str | None:
    """What is wrong with a checkpoint."""
    try:
        manifest = json.loads((path / _MANIFEST).read_bytes())
        for name, (size, check) in manifest.items():
            if _sum(path / name) != (size, check):
                return f"{name} is not what was written"
    except (OSError, ValueError, TypeError, AttributeError) as error:
        return str(error)
    return None


def _all(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("[0-9]*") if path.is_dir())


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _sum(path: Path) -> tuple[int, int]:
    size = check = 0
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            size, check = size + len(part), zlib.crc32(part, check)
    return size, check
