"""File helpers: atomic writes, temporary names, checksums, folder locks, and the errors of the system."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from sensorium import _system
from sensorium.errors import DatasetError

PART = ".part"
"""Suffix of files that are being written."""
_TEMPORARY = re.compile(rf"(\.[0-9a-f]{{16}})?{re.escape(PART)}\Z")
_DISK_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
_FIXES = {
    **dict.fromkeys((errno.EEXIST, errno.ENOTDIR), "; a file is where a folder is needed: choose another path"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "; choose a folder that you can write to"),
    errno.ENAMETOOLONG: "; choose a shorter name, since those of temporary files are 22 characters longer",
}
"""Error of the system -> what to do, for the end of a message."""


class DiskFullError(DatasetError):
    """A file cannot be written because the disk is full."""


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically: afterwards it exists with all of its data, or it is unchanged.

    Raises:
        DatasetError: the file cannot be written.
    """
    if not path.name:  # such as "." or "/"
        raise DatasetError(f"cannot write {path}: it is a folder; give the name of a file.")
    remove_leftovers(path)
    with explain_errors(path):
        file, part = create_locked(path)
        try:
            with file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                if sys.platform != "win32":  # while it is locked, so that no other process removes it
                    os.replace(part, path)
            if sys.platform == "win32":  # it cannot rename an open file
                os.replace(part, path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    sync(path.parent)


def create_locked(path: Path) -> tuple[BinaryIO, Path]:
    """Create a temporary file that is locked until it is closed.

    Args:
        path: the file that is to be replaced by it.

    Raises:
        DatasetError: ``path`` is not a file.
        OSError: the temporary file cannot be created.
    """
    check_replaceable(path)
    while True:
        part = temporary_path(path)
        file = create(part)
        with contextlib.suppress(BlockingIOError):
            _system.lock_file(file.fileno())
            if part.exists():
                return file, part
        file.close()  # another process removed it before it was locked


def check_replaceable(path: Path) -> None:
    """Check that a path is free, a file or a link: a rename would replace devices too, and root ``/dev/null``.

    Raises:
        DatasetError: it is a folder, a device, a FIFO or a socket.
    """
    try:
        mode = path.lstat().st_mode
    except OSError:  # such as a missing folder
        return
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        kind = "Is a directory" if stat.S_ISDIR(mode) else "it is a device, a FIFO or a socket"
        raise DatasetError(f"cannot write {path}: {kind}; give the name of a file.")


def temporary_path(path: Path) -> Path:
    """Return a name in the same folder for a file or folder that is being written; it cannot be predicted."""
    return path.with_name(f"{path.name}.{os.urandom(8).hex()}{PART}")


def written_name(name: str) -> str | None:
    """Return the name that a temporary file or folder is given when it is complete; None for others.

    Earlier versions of Sensorium wrote "NAME.part" instead of "NAME.0123456789abcdef.part".
    """
    return _TEMPORARY.sub("", name) if name.endswith(PART) else None


def remove_leftovers(path: Path) -> None:
    """Remove temporary files of a file, which processes left that were killed while they wrote it.

    Files that another process is writing are locked, and are kept.
    """
    with contextlib.suppress(OSError):
        for entry in os.scandir(path.parent):
            if entry.name != path.name + PART and written_name(entry.name) == path.name:
                with contextlib.suppress(OSError):
                    _remove_unlocked(Path(entry.path))


def _remove_unlocked(part: Path) -> None:
    if part.is_symlink():
        part.unlink()
    elif part.is_file():
        descriptor = os.open(part, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        try:
            _system.lock_file(descriptor)
            part.unlink()
        finally:
            os.close(descriptor)


def create(path: Path) -> BinaryIO:
    """Create a file for writing. A file or link that has its name is removed first, never followed or overwritten.

    So a folder that was received from others cannot direct what is written into it elsewhere. Libraries that open files
    by name (HDF5, FFmpeg) get a name that was created here before.
    """
    return os.fdopen(create_descriptor(path), "wb")


def create_descriptor(path: Path, append: bool = False, readable: bool = False) -> int:
    """Create a file as :func:`create` does; return its descriptor.

    Args:
        path: the file.
        append: whether every write goes to the end of the file.
        readable: whether it can be read as well.
    """
    flags = os.O_CREAT | os.O_EXCL | _system.BINARY | getattr(os, "O_NOFOLLOW", 0)
    flags |= (os.O_RDWR if readable else os.O_WRONLY) | (os.O_APPEND if append else 0)
    try:
        return os.open(path, flags, 0o666)
    except FileExistsError:
        path.unlink()
        return os.open(path, flags, 0o666)


def read_file(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        OSError: it cannot be read, or is a FIFO, a device or a socket, which may have no end.
    """
    if not stat.S_ISREG(mode := path.stat().st_mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, "it is a device, a FIFO or a socket, not a file", str(path))
    return path.read_bytes()


@contextmanager
def made_folder(folder: Path, file: Path | None = None, keep: bool = True) -> Iterator[None]:
    """Create a folder with its parents for a block. If the block raises, those of them that are empty are removed.

    Args:
        folder, file: the folder, and what is to be written into it, for the message. Default: the folder.
        keep: False to remove them after a block that does not raise, too.

    Raises:
        DatasetError: it cannot be created.
    """
    new: list[Path] = []
    try:
        with explain_errors(file or folder):
            new = [each for each in (folder, *folder.parents) if not each.exists()]
            folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        keep = False
        raise
    finally:
        for each in () if keep else new:
            with contextlib.suppress(OSError):  # not empty, or not created
                each.rmdir()


def make_temporary_folder(parent: Path, prefix: str) -> Path:
    """Create a folder with an unpredictable name. Its mode is that of other folders, unlike ``tempfile.mkdtemp``."""
    folder = parent / f"{prefix}{os.urandom(8).hex()}"
    folder.mkdir()
    return folder


def publish(part: Path, path: Path) -> None:
    """Flush the finished file ``part`` to the disk, then rename it to ``path``.

    Raises:
        DatasetError: the file cannot be written.
    """
    with explain_errors(path):
        sync(part)
        os.replace(part, path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    _system.sync(path)


def sync_tree(folder: Path) -> None:
    """Flush a folder and everything below it to the disk."""
    for path in (*folder.rglob("*"), folder):
        sync(path)


@contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """Turn operating system and HDF5 errors of the block into a ``DatasetError`` that names ``path``.

    Raises:
        DiskFullError: the disk is full.
        DatasetError: writing failed for another reason.
    """
    try:
        yield
    except DatasetError:
        raise
    except (OSError, RuntimeError) as error:  # HDF5 raises RuntimeError
        full = disk_full_message(error)
        if full is not None:
            raise DiskFullError(
                f"cannot write {path}: {full}. Free some disk space; everything written before is complete."
            ) from error
        why = getattr(error, "strerror", None) or error
        fix = _FIXES.get(getattr(error, "errno", None) or 0, "")
        raise DatasetError(f"cannot write {path}: {why}{fix}.") from error


def disk_full_message(error: BaseException) -> str | None:
    """Return the system's message if the disk is full, without the text that HDF5 adds; None for other errors."""
    text = getattr(error, "strerror", None) or str(error)
    return next((os.strerror(number) for number in _DISK_FULL if os.strerror(number) in text), None)


@contextmanager
def lock_folder(folder: Path) -> Iterator[int]:
    """Lock a folder for writing during the block. The system releases the lock when the process ends or is killed.

    Yields:
        The file descriptor of the lock. A process that inherits a copy of it also holds the lock (not on Windows).

    Raises:
        DatasetError: another process holds the lock.
    """
    with ExitStack() as stack:
        with explain_errors(folder):
            try:
                descriptor = stack.enter_context(_system.lock(folder))
            except BlockingIOError:
                raise DatasetError(f"{folder} is being written by another process; wait until it has ended") from None
        yield descriptor


def file_checksum(path: Path, size: int | None = None) -> str:
    """Return the CRC-32 of a file as eight hexadecimal digits.

    Args:
        path: the file.
        size: number of bytes to read from the start. Default: all.
    """
    crc, left = 0, os.path.getsize(path) if size is None else size
    with open(path, "rb") as file:
        while left and (block := file.read(min(left, 1 << 20))):
            crc, left = zlib.crc32(block, crc), left - len(block)
    return f"{crc:08x}"


def quote(name: str) -> str:
    """Return the name of a buffer as a file or HDF5 name, which cannot contain a slash."""
    return name.replace("%", "%25").replace("/", "%2F")


def unquote(name: str) -> str:
    """Return the name of a buffer from a file or HDF5 name: the inverse of :func:`quote`."""
    return name.replace("%2F", "/").replace("%25", "%")
