"""Compiling the kernels of a scene on all cores, with messages to the user.

Numba compiles one kernel at a time per process, even when several threads ask for one. So kernels that no cache holds
are compiled in several processes: in this one, and in workers that write to the cache, from which this process loads
them. A worker that fails only costs time: its kernel is compiled here.
"""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from sensorium import _system, jit
from sensorium.errors import DatasetError
from sensorium.jit import Kernel, Signature

_SECONDS_PER_BYTE = 1 / 2500
"""Seconds of compilation per byte of bytecode, measured on a 2.5 GHz Xeon with Numba 0.68.1."""
_WORTH_A_WORKER = 2.0
"""Seconds of compilation from which starting a worker pays."""
_PATIENCE = 60.0
"""Seconds that workers have for their last kernel, in addition to ten times the estimate, before they are killed."""


class _Job(NamedTuple):
    """One kernel for one tuple of argument types."""

    seconds: float
    module: str
    name: str
    signature: Signature
    kernel: Kernel


def prepare(calls: Iterable[tuple[Kernel, Signature]]) -> None:
    """Load the kernels of these calls from the cache, or compile them on all cores.

    Args:
        calls: kernels with the types of their arguments.
    """
    wanted = list(calls)
    jobs = _missing(wanted)
    if not jobs:
        return
    with _alone(jobs):
        jobs = _missing(wanted)  # another process may have compiled them meanwhile
        if jobs:
            _compile(jobs)


@contextlib.contextmanager
def _alone(jobs: list[_Job]) -> Iterator[None]:
    """Wait while another process compiles for the same cache: processes that start together compile a kernel once.

    The wait is bounded. It costs time at worst, since a kernel may be compiled twice.
    """
    folder = jobs[0].kernel._cache.cache_path
    deadline = time.monotonic() + _PATIENCE + 10 * sum(job.seconds for job in jobs)
    with contextlib.ExitStack() as stack:
        announced = False
        while folder is not None and time.monotonic() < deadline:
            try:
                stack.enter_context(_system.lock(Path(folder)))
                break
            except BlockingIOError:
                if not announced:
                    _print("sensorium: waiting for another process that compiles kernels ...")
                announced = True
                time.sleep(0.1)
            except (OSError, DatasetError):  # a file system without locks
                break
        yield


def _compile(jobs: list[_Job]) -> None:
    """Compile kernels in this process and in workers."""
    own = deque(job for job in jobs if not _is_portable(job))
    shared = deque(job for job in jobs if _is_portable(job))
    seconds = sum(job.seconds for job in jobs)
    count = min(_system.cpu_count(), len(shared) + bool(own)) if seconds >= _WORTH_A_WORKER else 1
    job = _next(own) or _next(shared)  # this process takes the longest, since workers need a second to start
    with _Progress(jobs, max(seconds / count, jobs[0].seconds), (own, shared)):
        workers = [worker for _ in range(count - 1) if (worker := _start_worker()) is not None]
        threads = [threading.Thread(target=_serve, args=(shared, worker), daemon=True) for worker in workers]
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


def _missing(calls: Iterable[tuple[Kernel, Signature]]) -> list[_Job]:
    """Return the calls whose kernels are neither in memory nor on disk, the longest to compile first."""
    jobs = {}
    for kernel, signature in calls:
        cache = getattr(kernel, "_cache", None)
        if not isinstance(cache, jit.KernelCache) or signature in kernel.overloads:
            continue
        if not cache.files(signature):
            seconds = jit.code_size(kernel) * _SECONDS_PER_BYTE
            jobs[kernel, signature] = _Job(seconds, kernel.__module__, kernel.__name__, signature, kernel)
    return sorted(jobs.values(), key=lambda job: -job.seconds)


def _is_portable(job: _Job) -> bool:
    """Return whether a worker can import the kernel without the whole package, and write it to the cache."""
    is_ours = job.module.startswith("sensorium.") and is_kernel_module(job.module)
    return is_ours and job.kernel._cache.cache_path is not None


def is_kernel_module(module: str) -> bool:
    """Return whether a module, by its name, holds kernels and imports NumPy and Numba only.

    The name of such a module, or of a package that it lies in, ends with "kernels".
    """
    return any(part.endswith("kernels") for part in module.split("."))


def _start_worker() -> subprocess.Popen[bytes] | None:
    """Start a process that compiles kernels; return None if that is impossible."""
    if not Path(sys.executable or "").name.startswith("python"):  # an application that embeds Python
        return None
    folder = Path(jit.__file__).parent
    parts = [file.parent.relative_to(folder).parts for file in folder.rglob("__init__.py")]
    packages = [name for name in (".".join(("sensorium", *part)) for part in parts) if not is_kernel_module(name)]
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
    with contextlib.suppress(OSError):  # it has ended already, which _serve notices
        worker.stdin.write(pickle.dumps((sys.path, str(folder), packages)))
        worker.stdin.flush()
    return worker


def _serve(jobs: deque[_Job], worker: subprocess.Popen[bytes]) -> None:
    """Send jobs to a worker, one after the other, until none is left or the worker fails."""
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


# -- messages ----------------------------------------------------------------------------------------------------------


class _Progress:
    """Messages on stderr while kernels are compiled: their number, and about how long it takes."""

    current: _Progress | None = None

    def __init__(self, jobs: list[_Job], seconds: float, waiting: tuple[deque[_Job], ...]) -> None:
        self._jobs, self._seconds, self._waiting = jobs, seconds, waiting

    def __enter__(self) -> _Progress:
        self._began = time.perf_counter()
        _print(f"sensorium: compiling {_kernels(len(self._jobs))}, once, about {max(self._seconds, 1):.0f} s ...")
        type(self).current = self
        return self

    def begin(self, name: str) -> None:
        """Show that this process compiles one more kernel."""
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
            _print(f"sensorium: compiled {_kernels(len(self._jobs))} in {time.perf_counter() - self._began:.1f} s")


def _kernels(count: int) -> str:
    return f"{count} kernel{'s' * (count != 1)}"


_announced = False


def _on_miss(name: str) -> None:
    """Show that a kernel is about to be compiled."""
    global _announced
    if _Progress.current is not None:
        _Progress.current.begin(name)
    elif not _announced:
        _print(f"sensorium: compiling {name} and other kernels at their first use, once; this takes seconds ...")
        _announced = True


def _print(line: str) -> None:
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
