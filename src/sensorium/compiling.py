"""Compiling the kernels of a scene on all cores, and telling the user about it.

Numba compiles one kernel at a time in a process, however many threads ask for it. So kernels that no cache holds are
handed out one by one: to this process, and to others that fill the cache, from where they are loaded. A process that
fails costs time only: its kernel is compiled here.
"""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from sensorium import _system, jit

_SECONDS = 1 / 2500
"""Seconds of compilation for a byte of bytecode: measured on a 2.5 GHz Xeon with Numba 0.68.1."""
_WORTH = 2.0
"""Seconds of compilation from which starting another process pays."""


_PATIENCE = 60.0
"""Seconds that other processes have for their last kernel, besides ten times its estimate, before they are killed."""


class _Job(NamedTuple):
    """One kernel for one tuple of argument types."""

    seconds: float
    module: str
    name: str
    signature: tuple[Any, ...]
    kernel: Any


def prepare(calls: Iterable[tuple[Any, tuple[Any, ...]]]) -> None:
    """Have the kernels of these calls in memory: loaded from the cache, or compiled on all cores.

    Args:
        calls: kernels with the types of their arguments.
    """
    jobs = _missing(calls)
    if not jobs:
        return
    own = deque(job for job in jobs if not _portable(job))
    shared = deque(job for job in jobs if _portable(job))
    seconds = sum(job.seconds for job in jobs)
    count = min(_system.cpu_count(), len(shared) + bool(own)) if seconds >= _WORTH else 1
    job = _next(own) or _next(shared)  # the longest is for this process, since others take a second to start
    with _Notice(jobs, max(seconds / count, jobs[0].seconds), (own, shared)):
        workers = [worker for _ in range(count - 1) if (worker := _start()) is not None]
        threads = [threading.Thread(target=_hand_out, args=(shared, worker), daemon=True) for worker in workers]
        try:
            for thread in threads:
                thread.start()
            while job is not None:
                job.kernel.compile(job.signature)
                job = _next(own) or _next(shared)
            deadline = time.monotonic() + _PATIENCE + 10 * seconds
            for thread in threads:
                thread.join(max(0.0, deadline - time.monotonic()))
        finally:
            for worker in workers:
                worker.kill()
                worker.communicate()  # closes the pipes
        for job in jobs:
            job.kernel.compile(job.signature)  # loads what the workers compiled


def _next(queue: deque[_Job]) -> _Job | None:
    try:
        return queue.popleft()  # atomic
    except IndexError:
        return None


def _missing(calls: Iterable[tuple[Any, tuple[Any, ...]]]) -> list[_Job]:
    """The calls whose kernels are neither in memory nor on disk, the longest to compile first."""
    jobs = {}
    for kernel, signature in calls:
        cache = getattr(kernel, "_cache", None)
        if not isinstance(cache, jit.KernelCache) or signature in kernel.overloads:
            continue
        if not cache.files(signature):
            seconds = jit.code_size(kernel) * _SECONDS
            jobs[kernel, signature] = _Job(seconds, kernel.__module__, kernel.__name__, signature, kernel)
    return sorted(jobs.values(), key=lambda job: -job.seconds)


def _portable(job: _Job) -> bool:
    """Whether another process can import the kernel without the whole package, and write to the cache."""
    return job.module.startswith("sensorium.") and job.module.endswith("kernels") and job.kernel._cache.cache_path


def _start() -> subprocess.Popen[bytes] | None:
    """A process that compiles kernels, or None where none can be started."""
    if not Path(sys.executable or "").name.startswith("python"):  # an application that embeds Python
        return None
    folder = Path(jit.__file__).parent
    inner = [file.parent.relative_to(folder).parts for file in folder.rglob("__init__.py")]
    packages = [".".join(("sensorium", *parts)) for parts in inner]
    try:
        worker = subprocess.Popen(
            [sys.executable, str(folder / "_jit_worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None
    assert worker.stdin is not None
    with contextlib.suppress(OSError):  # it ended already, which _hand_out notices
        worker.stdin.write(pickle.dumps((sys.path, str(folder), packages)))
        worker.stdin.flush()
    return worker


def _hand_out(jobs: deque[_Job], worker: subprocess.Popen[bytes]) -> None:
    """Give a process one job after the other, until none is left or it fails."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    while (job := _next(jobs)) is not None:
        try:
            worker.stdin.write(pickle.dumps((job.module, job.name, job.signature)))
            worker.stdin.flush()
            if not worker.stdout.read(1):
                return
        except OSError:
            return


# -- telling the user --------------------------------------------------------------------------------------------------


class _Notice:
    """A line on stderr for the time of compiling: how many kernels, and about how long it takes."""

    current: _Notice | None = None

    def __init__(self, jobs: list[_Job], seconds: float, waiting: tuple[deque[_Job], ...]) -> None:
        self._jobs, self._seconds, self._waiting = jobs, seconds, waiting

    def __enter__(self) -> _Notice:
        self._began = time.perf_counter()
        _tell(f"sensorium: compiling {_kernels(len(self._jobs))}, once, about {max(self._seconds, 1):.0f} s ...")
        type(self).current = self
        return self

    def begin(self, name: str) -> None:
        """One more kernel is compiled in this process."""
        if _is_terminal():
            total = sum(job.seconds for job in self._jobs)
            left = sum(job.seconds for queue in self._waiting for job in tuple(queue))
            bar = "#" * round(20 * (1 - left / total))
            _write(f"\rsensorium: compiling kernels, once [{bar:<20}] {name:<20.20}")

    def __exit__(self, *exception: object) -> None:
        type(self).current = None
        if _is_terminal():
            _write("\r" + 80 * " " + "\r")
        if exception[0] is None:
            _tell(f"sensorium: compiled {_kernels(len(self._jobs))} in {time.perf_counter() - self._began:.1f} s")


def _kernels(count: int) -> str:
    return f"{count} kernel{'s' * (count != 1)}"


_told = False


def _on_miss(name: str) -> None:
    """A kernel that is in no cache is about to be compiled."""
    global _told
    if _Notice.current is not None:
        _Notice.current.begin(name)
    elif not _told:
        _tell(f"sensorium: compiling {name} and other kernels at their first use, once; this takes seconds ...")
        _told = True


def _tell(line: str) -> None:
    _write(f"{line}\n")


def _write(text: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):  # stderr is closed, full or None
        sys.stderr.write(text)
        sys.stderr.flush()


def _is_terminal() -> bool:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return sys.stderr.isatty()
    return False


jit.on_miss = _on_miss
