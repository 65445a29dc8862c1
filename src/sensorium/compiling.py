"""Compiling the kernels of a scene on all cores, and telling the user about it.

Numba compiles one kernel at a time in a process, however many threads ask for it. So kernels that no cache holds are
shared out: this process compiles a part of them, and others fill the cache with the rest, from where they are loaded. A
process that fails costs time only: its kernels are compiled here at their first call.
"""

from __future__ import annotations

import heapq
import pickle
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from sensorium import _system, jit

_SECONDS = 1 / 1800
"""Seconds of compilation for a byte of bytecode: measured on a 2.5 GHz Xeon with Numba 0.68.1."""
_WORTH = 2.0
"""Seconds of compilation from which starting another process pays."""


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
    shares = _shares(jobs, min(_system.cpu_count(), len(jobs)))
    longest = max(sum(job.seconds for job in share) for share in shares)
    with _Notice(len(jobs), longest):
        workers = [worker for share in shares[1:] if (worker := _start(share)) is not None]
        try:
            for job in shares[0]:
                job.kernel.compile(job.signature)
            for worker in workers:
                worker.wait()
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
        for job in jobs:
            job.kernel.compile(job.signature)  # loads what the others compiled


def _missing(calls: Iterable[tuple[Any, tuple[Any, ...]]]) -> list[_Job]:
    """The calls whose kernels are neither in memory nor on disk, the longest to compile first."""
    jobs = {}
    for kernel, signature in calls:
        cache = getattr(kernel, "_cache", None)
        if not isinstance(cache, jit.KernelCache) or signature in kernel.overloads:
            continue
        file = cache.path(signature)
        if file is None or not file.exists():
            seconds = jit.code_size(kernel) * _SECONDS
            jobs[kernel, signature] = _Job(seconds, kernel.__module__, kernel.__name__, signature, kernel)
    return sorted(jobs.values(), key=lambda job: -job.seconds)


def _shares(jobs: list[_Job], count: int) -> list[list[_Job]]:
    """Jobs by process, of about the same length; this process has the first share, with what it alone can compile."""
    if count > 1 and sum(job.seconds for job in jobs) < _WORTH:
        count = 1
    shares: list[list[_Job]] = [[] for _ in range(count)]
    loads = [(0.0, number) for number in range(count)]
    own = 0.0
    for job in jobs:
        if not _portable(job):
            shares[0].append(job)
            own += job.seconds
    loads[0] = (own, 0)
    heapq.heapify(loads)
    for job in jobs:
        if _portable(job):
            load, number = heapq.heappop(loads)
            shares[number].append(job)
            heapq.heappush(loads, (load + job.seconds, number))
    return [shares[0], *(share for share in shares[1:] if share)]


def _portable(job: _Job) -> bool:
    """Whether another process can import the kernel without the whole package, and write to the cache."""
    return job.module.startswith("sensorium.") and job.module.endswith("kernels") and job.kernel._cache.cache_path


def _start(share: list[_Job]) -> subprocess.Popen[bytes] | None:
    """A process that compiles a share, or None where none can be started."""
    if not Path(sys.executable or "").name.startswith("python"):  # an application that embeds Python
        return None
    folder = Path(jit.__file__).parent
    packages = sorted(
        {".".join(parts[:n]) for job in share for parts in [job.module.split(".")] for n in range(1, len(parts))}
    )
    try:
        worker = subprocess.Popen(
            [sys.executable, str(folder / "_jit_worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None
    assert worker.stdin is not None
    jobs = [(job.module, job.name, job.signature) for job in share]
    try:
        worker.stdin.write(pickle.dumps((sys.path, str(folder), packages)) + pickle.dumps(jobs))
        worker.stdin.close()
    except OSError:  # it ended already
        pass
    return worker


# -- telling the user --------------------------------------------------------------------------------------------------


class _Notice:
    """A line on stderr for the time of compiling: how many kernels, about how long, and where they are kept."""

    current: _Notice | None = None

    def __init__(self, count: int, seconds: float) -> None:
        self._count, self._seconds, self._done = count, seconds, 0

    def __enter__(self) -> _Notice:
        self._began = time.perf_counter()
        _tell(f"sensorium: compiling {_kernels(self._count)}, once, about {max(self._seconds, 1):.0f} s ...")
        type(self).current = self
        return self

    def begin(self, name: str) -> None:
        """One more kernel is compiled in this process."""
        if sys.stderr.isatty():
            share = min((time.perf_counter() - self._began) / max(self._seconds, 1), 0.99)
            bar = "#" * round(20 * share)
            sys.stderr.write(f"\rsensorium: compiling kernels, once [{bar:<20}] {name:<20.20}")
            sys.stderr.flush()

    def __exit__(self, *exception: object) -> None:
        type(self).current = None
        if sys.stderr.isatty():
            sys.stderr.write("\r" + 80 * " " + "\r")
        if exception[0] is None:
            _tell(f"sensorium: compiled {_kernels(self._count)} in {time.perf_counter() - self._began:.1f} s")


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
    if sys.stderr is not None:
        print(line, file=sys.stderr, flush=True)


jit.on_miss = _on_miss
