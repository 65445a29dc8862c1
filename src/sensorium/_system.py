"""Differences between operating systems: file locks, positioned writes, processes, processors, memory.

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

from sensorium.errors import DatasetError, DeviceError, OptionError

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


# -- memory -----------------------------------------------------------------------------------------------------------

_USABLE = 0.9
"""Part of the free memory that one request may take: estimates omit temporary memory and that of other libraries."""
_ALWAYS_FITS = 2**24
"""Requests of fewer bytes are not checked."""


def free_memory() -> int | None:
    """Return how many bytes this process can still allocate, or None if the system does not say (macOS, Windows).

    It is the smallest of what the machine has available, what the limits of the control groups leave (cgroups v1 and
    v2, as containers and job schedulers set them), and what the limit of the address space leaves (``ulimit -v``).
    """
    found = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "memory":
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
                found += _left_in_groups(Path("/sys/fs/cgroup/memory"), path, *names)
            elif not controllers:
                found += _left_in_groups(Path("/sys/fs/cgroup"), path, "memory.max", "memory.current", "inactive_file")
    with contextlib.suppress(OSError, ValueError, ImportError):
        import resource  # Windows lacks it

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            found.append(limit - int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize())
    return max(min(found), 0) if found else None


def _left_in_groups(root: Path, path: str, limit: str, usage: str, cache: str) -> Iterator[int]:
    """Yield the bytes that the limits of a control group and of those around it leave.

    Args:
        root: folder of the hierarchy.
        path: the group of this process.
        limit, usage: names of the files with the limit and the usage, bytes.
        cache: line of ``memory.stat`` with the part of the usage that the kernel drops when memory is short.
    """
    own = root / path.lstrip("/")
    for folder in (own, *own.parents):
        with contextlib.suppress(OSError, ValueError):
            allowed = int((folder / limit).read_text())  # "max" is no number: there is no limit
            lines = map(str.split, (folder / "memory.stat").read_text().splitlines())
            droppable = next((int(value) for key, value in lines if key == cache), 0)
            yield allowed - int((folder / usage).read_text()) + droppable
        if folder == root:
            return


MAX_WORKERS = 1024
"""Largest number of processes of a command."""


def check_memory(option: str, value: int, what: str, each: float, fixed: float = 0.0, minimum: int = 1) -> None:
    """Raise an error if a size needs more memory than is free. Call it before the memory is allocated.

    Args:
        option: name of the size, for the message: "n_envs".
        value: its value.
        what: what needs the memory, for the message, in the plural: "the images of the camera 'front'".
        each: bytes for each unit of the size.
        fixed: bytes that do not depend on it.
        minimum: the smallest value that the size may have.

    Raises:
        OptionError: the memory is too small. The message has the bytes, and the largest size that fits.
    """
    needed = value * each + fixed
    if needed < _ALWAYS_FITS:
        return
    free = free_memory()
    if free is None or needed <= free * _USABLE:
        return
    largest = int((free * _USABLE - fixed) / each)
    advice = f"use {option} <= {largest}" if largest >= minimum else f"{option}={minimum} does not fit either"
    raise OptionError(
        f"{option}={value}: {what} need {memory_text(needed)} of memory, and {memory_text(free)} are free; {advice}"
    )


def memory_text(size: float) -> str:
    """Return a number of bytes as text: "1.5 GiB"."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"


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


def start_worker(process: BaseProcess) -> None:
    """Start a spawned process that ends with this one, from before it imports anything, and never receives Ctrl-C.

    A spawned process unpickles its configuration before its target, whose modules take seconds to import. The call in
    the configuration needs the standard library only (the order of attributes was checked with Python 3.11 and 3.12).
    It has an effect on Linux only. Ctrl-C in a terminal reaches all processes. The worker inherits a mask that blocks
    it, so that it prints no traceback while it imports; this process receives it after the start.
    """
    if sys.platform == "linux":
        tie = f"ctypes.CDLL(None).prctl({_PARENT_DEATH_SIGNAL}, {int(signal.SIGTERM)})"
        late = f"os.getppid() == {os.getpid()} or os._exit(1)"  # this process ended before that call
        configuration: dict[str, object] = getattr(process, "_config")  # noqa: B009  # not in the stubs
        configuration["tied to parent"] = _Call(exec, f"import ctypes, os; {tie}; {late}")
    if sys.platform == "win32":
        process.start()
        return
    from multiprocessing import resource_tracker  # not available on Windows

    resource_tracker.ensure_running()  # process.start() calls it, and the first call unblocks Ctrl-C
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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


def lock_file(descriptor: int) -> None:
    """Lock an open file until it is closed; not on Windows, which does not remove open files.

    Raises:
        BlockingIOError: another process holds the lock.
    """
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


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
