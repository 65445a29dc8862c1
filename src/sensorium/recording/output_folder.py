"""Where a recording is written, and what it replaces: that is kept until there is a step."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path

from sensorium.errors import DatasetError
from sensorium.files import PART, named, sync, writing
from sensorium.recording.chunk import Chunk
from sensorium.recording.folder import STATE, check_new


class OutputFolder:
    """A folder that is held for writing, until :meth:`release` or :meth:`abandon`.

    Args:
        path: which folder: a new or an empty one.
        overwrite: whether a recording that is there may be replaced. It is set aside, under another name.
    """

    def __init__(self, path: str | Path, overwrite: bool = False) -> None:
        self.folder = check_new(path, overwrite)
        self._aside = aside_of(self.folder)
        with named(self.folder):
            self._set_aside(overwrite)
            self.folder.mkdir(parents=True, exist_ok=True)
        self._stack = ExitStack()
        self.lock = self._stack.enter_context(writing(self.folder))
        """Descriptor by which the folder is held; processes that inherit it hold it too."""

    def _set_aside(self, overwrite: bool) -> None:
        if self._aside.exists():
            with ExitStack() as stack:
                if self.folder.exists():
                    stack.enter_context(writing(self.folder))
                if not has_step(self.folder):  # a process was killed before
                    put_back(self.folder)
            check_new(self.folder, overwrite)
        if self.folder.exists() and any(self.folder.iterdir()):
            with writing(self.folder):
                shutil.rmtree(self._aside, ignore_errors=True)
                os.rename(self.folder, self._aside)

    @property
    def replaces(self) -> bool:
        """Whether something was set aside."""
        return self._aside.exists()

    def keep(self) -> None:
        """There is a step on the disk: what was set aside goes."""
        sync(self.folder)
        shutil.rmtree(self._aside, ignore_errors=True)

    def release(self) -> None:
        """Let go of the folder."""
        self._stack.close()

    def abandon(self) -> None:
        """Leave everything as it was before: nothing was recorded."""
        self.release()
        if self.replaces:
            put_back(self.folder)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)  # it was new or empty


def aside_of(folder: Path) -> Path:
    """Where a recording is while another is begun in its place."""
    folder = folder.absolute()
    return folder.with_name(f".{folder.name}.replaced")


def put_back(folder: Path) -> None:
    """Have the recording that was set aside again, instead of the one without a step."""
    with named(folder):
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(aside_of(folder), folder)


def has_step(folder: Path) -> bool:
    """Whether a recording has a step, be it in a file that was not finished."""
    if any((folder / STATE).glob("*.h5")):
        return True
    for part in (folder / STATE).glob(f"*.h5{PART}"):
        try:
            if Chunk(part).is_whole(0):
                return True
        except DatasetError:
            continue
    return False
