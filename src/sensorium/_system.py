"""Differences between operating systems: file locks, positioned writes, processes, processors.

Sensorium is developed and tested on Linux. System-specific modules are imported when they are needed, not before. On
other systems a function uses the simple equivalent if there is one, and raises an error that names the system if not.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sensorium.errors import DatasetError, DeviceError

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from typing_extensions import Buffer  # collections.abc.Buffer from Python 3.12 on

BINARY: int = getattr(os, "O_BINARY", 0)
"""Flag of ``os.open`` that keeps Windows from changing line ends; 0 elsewhere."""
_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of prctl(2), part of the kernel's ABI since Linux 2.1.57."""


def name() -> str:
    """Return the name of this operating system: "Linux", "macOS", "Windows", or Python's name of another one."""
    return {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}.get(sys.platform, sys.platform)


def unsupported(what: str, needs: str, instead: str) -> DeviceError:
    """Return the error for a feature that this system does not support.

    Args:
        what: the feature.
        needs: what the feature needs.
        instead: what to do, as a sentence.
    """
    return DeviceError(f"{what} needs {needs}; this system is {name()}. {instead}")


def cpu_count() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # macOS and Windows lack it
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# -- processes --------------------------------------------------------------------------------------------------------


def end_with_parent() -> None:
    """Let the system send SIGTERM to this process when its parent ends. Has an effect on Linux only."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # the C library has no prctl
            ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGTERM)


class _Call:
    """A call that is made where this object is unpickled."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self._function, self._arguments = function, arguments

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self._function, self._arguments


def tie_to_parent(process: BaseProcess) -> None:
    """Let a process that is about to be spawned end with this one, from before it imports anything. Linux only.

    A spawned process unpickles its configuration before its target, whose modules take seconds to import. The call in
    the configuration needs the standard library only (the order of attributes was checked with Python 3.11 and 3.12).
    """
    if sys.platform == "linux":
        tie = f"ctypes.CDLL(None).prctl({_PARENT_DEATH_SIGNAL}, {int(signal.SIGTERM)})"
        late = f"os.getppid() == {os.getpid()} or os._exit(1)"  # this process ended before that call
        configuration: dict[str, object] = getattr(process, "_config")  # noqa: B009  # not in the stubs
        configuration["tied to parent"] = _Call(exec, f"import ctypes, os; {tie}; {late}")


def is_alive(process: int) -> bool:
    """Return whether a process with this id exists."""
    if sys.platform == "win32":  # os.kill(process, 0) would send Ctrl-C there
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


def _seek_and_write(descriptor: int, data: Buffer, offset: int) -> int:
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.write(descriptor, data)


def _join_and_write(descriptor: int, parts: Sequence[Buffer]) -> int:
    return os.write(descriptor, b"".join(parts))


# Windows lacks these three. The replacements move the position of the file. No caller relies on it, and each file is
# written by one thread only.
pread: Callable[[int, int, int], bytes] = getattr(os, "pread", _seek_and_read)
pwrite: Callable[[int, Buffer, int], int] = getattr(os, "pwrite", _seek_and_write)
writev: Callable[[int, Sequence[Buffer]], int] = getattr(os, "writev", _join_and_write)


def reserve(descriptor: int, size: int) -> None:
    """Allocate the first ``size`` bytes of a file, so that a full disk raises now and not in a later write.

    macOS and Windows lack ``posix_fallocate``. There a shorter file is extended, which may not allocate anything.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    elif os.fstat(descriptor).st_size < size:
        os.ftruncate(descriptor, size)


def sync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk. On Windows, folders are skipped, since it cannot."""
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
    """Lock a folder for writing, until the block or the process ends, even if the process is killed.

    With ``flock`` (Linux, macOS), the folder itself is locked. Windows cannot open folders. There a file beside it,
    ``.NAME.lock``, is locked, and removed afterwards.

    Yields:
        The descriptor of the lock. With ``flock``, a process that has a copy of the descriptor holds the lock too.

    Raises:
        BlockingIOError: another process holds the lock.
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
        os.close(held)  # unlocks it
        with contextlib.suppress(OSError):  # Windows does not remove a file that another process has open
            path.unlink()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block, so that what it writes is whole. Other threads never receive Ctrl-C."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    received: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if received and callable(before):
            before(signal.SIGINT, None)
