"""Files on disk: write them whole or not at all, checksum them, lock their folders."""

from __future__ import annotations

import errno
import os
import platform
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sensorium import _system
from sensorium.errors import DatasetError

PART = ".part"
"""Suffix of files that are being written."""
_PACKAGES = ("sensorium", "mujoco", "numpy", "torch", "h5py", "av", "gymnasium")
_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


class DiskFullError(DatasetError):
    """There is no room for a file."""


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    part = path.with_name(path.name + PART)
    with named(path):
        with open(part, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)  # once it is closed: Windows renames no open file
    sync(path.parent)


def publish(part: Path, path: Path) -> None:
    """Give a file that was written under another name its final one, once it is on the disk."""
    with named(path):
        sync(part)
        os.replace(part, path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Have a file on the disk, or the names in a folder."""
    _system.sync(path)


def sync_tree(folder: Path) -> None:
    """Have a folder on the disk, with everything below it."""
    for path in (*folder.rglob("*"), folder):
        sync(path)


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Turn what the system says about a file into an error that names it and what to do."""
    try:
        yield
    except DatasetError:
        raise
    except (OSError, RuntimeError) as error:  # HDF5 has no errors of its own
        full = _full_text(error)
        if full is not None:
            raise DiskFullError(
                f"cannot write {path}: {full}. Free some space: what was written before is whole."
            ) from error
        raise DatasetError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}.") from error


def _full_text(error: BaseException) -> str | None:
    """What the system says where there is no room, without what HDF5 says around it."""
    text = getattr(error, "strerror", None) or str(error)
    return next((os.strerror(number) for number in _FULL if os.strerror(number) in text), None)


@contextmanager
def writing(folder: Path) -> Iterator[int]:
    """Hold a recording for writing; the system lets go of it when the process ends, however it ends.

    Gives the descriptor of the lock: a process that has a copy of it holds the recording too (not on Windows).
    """
    with ExitStack() as stack:
        with named(folder):
            try:
                held = stack.enter_context(_system.lock(folder))
            except BlockingIOError:
                raise DatasetError(f"{folder} is being written by another process; wait until it has ended") from None
        yield held


def file_checksum(path: Path, size: int | None = None) -> str:
    """CRC-32 of a file, or of its first bytes."""
    crc, left = 0, os.path.getsize(path) if size is None else size
    with open(path, "rb") as file:
        while left and (block := file.read(min(left, 1 << 20))):
            crc, left = zlib.crc32(block, crc), left - len(block)
    return f"{crc:08x}"


def quote(name: str) -> str:
    """The name of a buffer as that of a file or data set, which may have no slash."""
    return name.replace("%", "%25").replace("/", "%2F")


def unquote(name: str) -> str:
    """The other way."""
    return name.replace("%2F", "/").replace("%25", "%")


@cache
def package_versions() -> dict[str, str]:
    """Return the versions of the packages that can change a result: package -> version, for file headers."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # running from a source tree
            found[package] = "unknown"
    return found
