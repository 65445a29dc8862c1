"""A folder that is there whole or not at all."""

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
    """Whether a folder may be written: it does not exist, or is empty."""
    if out.exists() and not out.is_dir():
        raise DatasetError(f"{out} is a file; give another folder to write into")
    if out.exists() and any(out.iterdir()):
        raise DatasetError(f"{out} is not empty; give another folder to write into, or remove it")


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """A folder under another name, which becomes ``out`` if nothing goes wrong, and is removed otherwise."""
    check_free(out)
    out = out.absolute()
    part = out.with_name(out.name + PART)
    part.mkdir(parents=True, exist_ok=True)
    with lock_folder(part):
        try:
            _empty(part)  # what a killed process left
            yield part
            sync_tree(part)
            if sys.platform == "win32" and out.exists():
                out.rmdir()  # it is empty; Windows puts nothing in the place of a folder
            os.replace(part, out)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
    sync(out.parent)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
