"""The output folder of a recording, and the recording that it replaces."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path

from sensorium.errors import DatasetError
from sensorium.files import PART, explain_errors, lock_folder, sync
from sensorium.recording.chunk import Chunk
from sensorium.recording.folder import STATE, check_new, was_begun


class OutputFolder:
    """A folder that is locked for writing until :meth:`release` or :meth:`abandon`.

    A recording that is replaced is renamed first, and removed only when the new one has a step on the disk
    (:meth:`commit`).

    Args:
        path: a new or an empty folder, or one in which a process was killed before it wrote ``config.json``.
        overwrite: whether a recording in the folder may be replaced.

    Attributes:
        folder: the folder.
        lock: file descriptor of the lock. A process that inherits it also holds the lock.

    Raises:
        DatasetError: the folder is not empty and may not be replaced, or another process writes into it.
    """

    def __init__(self, path: str | Path, overwrite: bool = False) -> None:
        self.folder = check_new(path, overwrite)
        self._replaced = replaced_path(self.folder)
        with explain_errors(self.folder):
            self._set_aside(overwrite)
            self.folder.mkdir(parents=True, exist_ok=True)
        self._stack = ExitStack()
        self.lock = self._stack.enter_context(lock_folder(self.folder))

    def _set_aside(self, overwrite: bool) -> None:
        if self._replaced.exists():
            with ExitStack() as stack:
                if self.folder.exists():
                    stack.enter_context(lock_folder(self.folder))
                if not has_step(self.folder):  # an earlier process was killed while it replaced a recording
                    restore_replaced(self.folder)
            check_new(self.folder, overwrite)
        if self.folder.exists() and any(self.folder.iterdir()):
            with lock_folder(self.folder):
                if was_begun(self.folder):
                    shutil.rmtree(self.folder)
                    return
                shutil.rmtree(self._replaced, ignore_errors=True)
                os.rename(self.folder, self._replaced)

    @property
    def replaces(self) -> bool:
        """Whether a replaced recording still exists beside the folder."""
        return self._replaced.exists()

    def commit(self) -> None:
        """Remove the replaced recording. Call this when a step of the new one is on the disk."""
        sync(self.folder)
        shutil.rmtree(self._replaced, ignore_errors=True)

    def release(self) -> None:
        """Release the lock."""
        self._stack.close()

    def abandon(self) -> None:
        """Release the lock, and restore what was there before."""
        self.release()
        if self.replaces:
            restore_replaced(self.folder)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)  # it was new or empty


def replaced_path(folder: Path) -> Path:
    """Return where a recording is kept while another one replaces it: ``.NAME.replaced`` beside it."""
    folder = folder.absolute()
    return folder.with_name(f".{folder.name}.replaced")


def restore_replaced(folder: Path) -> None:
    """Remove a recording without steps, and move the one that it was to replace back in its place."""
    with explain_errors(folder):
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(replaced_path(folder), folder)


def has_step(folder: Path) -> bool:
    """Return whether a recording has a complete step, in a finished or an unfinished chunk."""
    if any((folder / STATE).glob("*.h5")):
        return True
    for part in (folder / STATE).glob(f"*.h5{PART}"):
        try:
            if Chunk(part).is_whole(0):
                return True
        except DatasetError:
            continue
    return False
