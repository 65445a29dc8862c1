"""HDF5 files on disks that may be full.

If the HDF5 library cannot write, it can neither close the file, and later it crashes the process (seen with HDF5 2.0 of
h5py 3.16: SIGSEGV at exit). :class:`Hdf5File` therefore never lets a write fail: from the first error on, writes go to
memory, and the error is raised by :meth:`Hdf5File.check` and when the file is closed.
"""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

import h5py

from sensorium._system import BINARY
from sensorium.files import create_descriptor, explain_errors

if TYPE_CHECKING:
    from typing_extensions import Buffer  # collections.abc.Buffer from Python 3.12 on


class Hdf5Sink(FileIO):
    """A file object for h5py whose writes do not fail. It seeks and tells as the file itself does.

    Args:
        path: the file.
        new: whether it is created; otherwise it is opened.

    Attributes:
        error: the first error of a write, or None.
    """

    def __init__(self, path: Path, new: bool) -> None:
        super().__init__(create_descriptor(path, readable=True) if new else os.open(path, os.O_RDWR | BINARY), "r+b")
        self.error: OSError | None = None
        self._in_memory: list[tuple[int, bytes]] = []

    def write(self, data: Buffer, /) -> int:
        """Write at the position, to the file or, after an error, to memory."""
        size, done = memoryview(data).nbytes, 0
        if self.error is None:
            try:
                done = super().write(data)
                while done < size:  # the disk is almost full: the next write fails
                    done += super().write(memoryview(data).cast("B")[done:])
            except OSError as error:
                self._note(error)
            else:
                return size
        start, rest = self.tell(), bytes(memoryview(data).cast("B")[done:])
        self._in_memory.append((start, rest))
        self.seek(start + len(rest))
        return size

    def readinto(self, target: Buffer, /) -> int:
        """Read at the position, as if all writes had succeeded. Bytes that were never written are 0."""
        view, start = memoryview(target).cast("B"), self.tell()
        done = 0
        while done < len(view) and (count := super().readinto(view[done:])):
            done += count
        view[done:] = bytes(len(view) - done)
        for at, kept in self._in_memory:
            first, last = max(at, start), min(at + len(kept), start + len(view))
            if first < last:
                view[first - start : last - start] = kept[first - at : last - at]
        self.seek(start + len(view))
        return len(view)

    def truncate(self, size: int | None = None, /) -> int:
        """Set the size of the file."""
        size = self.tell() if size is None else size
        try:
            super().truncate(size)
        except OSError as error:
            self._note(error)
        return size

    def _note(self, error: OSError) -> None:
        """Keep the first error, without its traceback: that refers to memory of HDF5, which is freed before."""
        self.error = self.error or OSError(error.errno, error.strerror)

    def check(self, path: Path) -> None:
        """Raise the error of an earlier write, if there was one.

        Args:
            path: the name of the file in the message.

        Raises:
            DatasetError: a write failed.
        """
        if self.error is not None:
            with explain_errors(path):
                raise self.error


class Hdf5File(h5py.File):  # type: ignore[misc]  # h5py has no types
    """An HDF5 file for writing that raises a full disk as an error, instead of crashing the process.

    Call :meth:`check` after each larger part: after an error, writes need memory.

    Args:
        path: the file.
        mode: "w" creates it, "a" opens it or creates it.
        **options: further options of ``h5py.File``.

    Raises:
        DatasetError: the file cannot be created; from :meth:`check` and :meth:`close`: a write failed.
    """

    def __init__(self, path: str | Path, mode: str = "w", **options: object) -> None:
        self._path = Path(path)
        new = mode == "w" or not self._path.exists()
        with explain_errors(self._path):
            self._sink = Hdf5Sink(self._path, new)
        super().__init__(self._sink, "w" if new else "r+", **options)

    def check(self) -> None:
        """Raise the error of an earlier write, if there was one."""
        self._sink.check(self._path)

    def close(self) -> None:
        """Close the file."""
        if self.id:
            super().close()
            self._sink.close()
            self.check()
