"""What differs between operating systems: file locks, positioned writes, processes, processors.

Sensorium is developed and tested on Linux. Nothing here is imported or called on another system before it is needed;
what has a simple equivalent there uses it, and what has none raises an error that names the system.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sensorium.errors import DatasetError, DeviceError

BINARY: int = getattr(os, "O_BINARY", 0)
"""Flag of ``os.open`` without which Windows changes line ends."""


def name() -> str:
    """Return the name of this operating system, as "Linux", "macOS" or "Windows"."""
    return {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}.get(sys.platform, sys.platform)


def unsupported(what: str, needs: str, instead: str) -> DeviceError:
    """Return the error for what this system lacks: what needs it, what it needs, and what to do instead."""
    return DeviceError(f"{what} needs {needs}; this system is {name()}. {instead}")


def cpu_count() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):  # macOS and Windows lack it
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# -- processes --------------------------------------------------------------------------------------------------------


def end_with_parent() -> None:
    """Have the system send SIGTERM to this process when its parent ends. Does nothing on other systems than Linux."""
    if sys.platform == "linux":
        parent_death_signal = 1  # PR_SET_PDEATHSIG of prctl(2), part of the kernel's ABI since Linux 2.1.57
        with contextlib.suppress(OSError, AttributeError):  # a C library without prctl
            ctypes.CDLL(None).prctl(parent_death_signal, signal.SIGTERM)


def is_alive(process: int) -> bool:
    """Return whether there is a process of that id."""
    if sys.platform == "win32":  # where os.kill(process, 0) would send Ctrl-C
        synchronize, denied, running = 0x00100000, 5, 0x102  # SYNCHRONIZE, ERROR_ACCESS_DENIED, WAIT_TIMEOUT
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.OpenProcess.restype = ctypes.c_void_p
        handle = ctypes.c_void_p(kernel.OpenProcess(synchronize, False, process))
        if not handle:
            return ctypes.get_last_error() == denied
        try:
            return bool(kernel.WaitForSingleObject(handle, 0) == running)
        finally:
            kernel.CloseHandle(handle)
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


# -- files ------------------------------------------------------------------------------------------------------------


def _seek_and_read(descriptor: int, size: int, offset: int) -> bytes:
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.read(descriptor, size)


def _seek_and_write(descriptor: int, data: Any, offset: int) -> int:
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.write(descriptor, data)


def _join_and_write(descriptor: int, parts: Any) -> int:
    return os.write(descriptor, b"".join(parts))


# Windows lacks these three. The replacements move the position of the file, which no caller relies on; a file is
# written by one thread.
pread: Callable[[int, int, int], bytes] = getattr(os, "pread", _seek_and_read)
pwrite: Callable[[int, Any, int], int] = getattr(os, "pwrite", _seek_and_write)
writev: Callable[[int, Any], int] = getattr(os, "writev", _join_and_write)


def reserve(descriptor: int, size: int) -> None:
    """Allocate the first ``size`` bytes of a file, so that a full disk is noticed now and not in a later write.

    macOS and Windows lack ``posix_fallocate``: there a file that is shorter is extended, which may allocate nothing.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    elif os.fstat(descriptor).st_size < size:
        os.ftruncate(descriptor, size)


def sync(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk. Windows cannot do that for folders, which are skipped."""
    windows = sys.platform == "win32"
    if windows and path.is_dir():
        return
    descriptor = os.open(path, (os.O_RDWR if windows else os.O_RDONLY) | BINARY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def lock(folder: Path) -> Iterator[int]:
    """Hold a folder for writing, until the end of the block or of the process, however that ends.

    Where there is ``flock`` (Linux, macOS), the folder itself is locked. On Windows, which cannot open folders, it is
    a file beside it, ``.NAME.lock``, which is removed afterwards.

    Yields:
        The descriptor of the lock. With ``flock``, a process that has a copy of it holds the folder too.

    Raises:
        BlockingIOError: another process holds it.
        DatasetError: this system has neither kind of lock.
    """
    try:
        import fcntl
    except ModuleNotFoundError:
        with _lock_file(folder.absolute().with_name(f".{folder.absolute().name}.lock")) as held:
            yield held
        return
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield held
    finally:
        os.close(held)


@contextmanager
def _lock_file(path: Path) -> Iterator[int]:
    try:
        msvcrt: Any = importlib.import_module("msvcrt")
    except ModuleNotFoundError:
        raise DatasetError(
            f"cannot lock {path}: writing files needs fcntl (Linux, macOS) or msvcrt (Windows), and this Python for "
            f"{name()} has neither; write on another system"
        ) from None
    held = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        try:
            msvcrt.locking(held, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            raise BlockingIOError(f"{path} is locked") from None
        yield held
    finally:
        os.close(held)  # which unlocks it
        with contextlib.suppress(OSError):  # Windows removes no file that another process has open
            path.unlink()
