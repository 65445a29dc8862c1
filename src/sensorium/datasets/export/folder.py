"""Output folders that appear only when they are complete."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sensorium.errors import DatasetError
from sensorium.files import PART, lock_folder, sync, sync_tree


def check_free(out: Path) -> None:
    """Check that a folder can be written: it does not exist, or is empty.

    Raises:
        DatasetError: it is a file, or is not empty.
    """
    if out.exists() and not out.is_dir():
        raise DatasetError(f"{out} is a file; choose another output folder")
    if out.exists() and any(out.iterdir()):
        raise DatasetError(f"{out} is not empty; choose another output folder, or remove it")


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """Write a folder atomically.

    Args:
        out: the folder. It must not exist, or be empty.

    Yields:
        A temporary folder to write into. It is renamed to ``out`` at the end of the block, and removed after an error.
    """
    check_free(out)
    out = out.absolute()
    part = out.with_name(out.name + PART)
    if part.is_symlink():
        part.unlink()
    part.mkdir(parents=True, exist_ok=True)
    with lock_folder(part):
        try:
            _empty(part)  # files that a killed process left
            yield part
            sync_tree(part)
            if sys.platform == "win32" and out.exists():
                out.rmdir()  # it is empty; Windows cannot replace a folder
            os.replace(part, out)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
    sync(out.parent)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
