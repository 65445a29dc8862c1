"""Output folders that appear only when they are complete."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sensorium.errors import DatasetError
from sensorium.files import explain_errors, lock_folder, made_folder, sync, sync_tree, temporary_path, written_name


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
    with made_folder(out.parent):
        with explain_errors(out):
            _remove_leftovers(out)
            part = temporary_path(out)
            part.mkdir()
        with lock_folder(part):
            try:
                yield part
                sync_tree(part)
                if sys.platform == "win32" and out.exists():
                    out.rmdir()  # it is empty; Windows cannot replace a folder
                os.replace(part, out)
            except BaseException:
                shutil.rmtree(part, ignore_errors=True)
                raise
    sync(out.parent)


def _remove_leftovers(out: Path) -> None:
    """Remove temporary folders that processes left which were killed. Those that are being written are locked."""
    for path in out.parent.iterdir():
        if written_name(path.name) != out.name:
            continue
        if path.is_symlink():
            path.unlink()
        elif path.is_dir():
            with contextlib.suppress(DatasetError), lock_folder(path):
                shutil.rmtree(path, ignore_errors=True)
