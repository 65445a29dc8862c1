"""Worker processes that make units. A process that dies is replaced, and its unit is made again."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

from sensorium._system import end_with_parent, start_worker
from sensorium.errors import GenerationError, SensoriumError
from sensorium.generation.ledger import UnitJob, UnitResult
from sensorium.generation.options import GenerateOptions

_MAX_DEATHS = 3
"""How often a unit may end its process before generation fails."""


@dataclass
class _Worker:
    process: SpawnProcess
    pipe: Connection
    job: UnitJob | None = None


class Pool:
    """Makes units in worker processes.

    Args:
        options: options of the dataset.
        folder: folder of the dataset.
        workers: number of processes.
    """

    def __init__(self, options: GenerateOptions, folder: Path, workers: int) -> None:
        self._options, self._folder = options, folder
        self._context = multiprocessing.get_context("spawn")
        self._deaths: dict[int, int] = {}
        self._workers: list[_Worker] = []
        try:
            for _ in range(workers):
                self._workers.append(self._start())
        except BaseException:
            for worker in self._workers:
                worker.process.terminate()
            self.close()
            raise

    def run(self, next_job: Callable[[], UnitJob | None], progress: Callable[[int], None]) -> Iterator[UnitResult]:
        """Make units until ``next_job()`` returns None; yield each when it is finished.

        Raises:
            GenerationError: a worker failed, or a unit ended its process 3 times.
        """
        again: list[UnitJob] = []
        while True:
            for worker in self._workers:
                if worker.job is None:
                    job = again.pop() if again else next_job()
                    if job is not None:
                        self._give(worker, job)
            busy = [worker for worker in self._workers if worker.job is not None]
            if not busy:
                return
            for ready in wait([worker.pipe for worker in busy]):
                worker = next(each for each in busy if each.pipe is ready)
                result = self._receive(worker, again, progress)
                if result is not None:
                    yield result

    def _give(self, worker: _Worker, job: UnitJob) -> None:
        worker.job = job
        with contextlib.suppress(BrokenPipeError, OSError):  # a dead worker is noticed when its answer is awaited
            worker.pipe.send(job)

    def _receive(self, worker: _Worker, again: list[UnitJob], progress: Callable[[int], None]) -> UnitResult | None:
        assert worker.job is not None
        job = worker.job
        try:
            kind, value = worker.pipe.recv()
        except (EOFError, OSError):
            self._replace(worker)
            self._deaths[job.unit] = self._deaths.get(job.unit, 0) + 1
            if self._deaths[job.unit] >= _MAX_DEATHS:
                raise GenerationError(
                    f"unit {job.unit} (episodes {sorted(job.wanted)}) ended its worker process {_MAX_DEATHS} times"
                ) from None
            again.append(job)
            return None
        if kind == "steps":
            progress(value)
            return None
        worker.job = None
        if kind == "error":
            raise GenerationError(f"a worker failed at unit {job.unit}: {value}")
        return UnitResult(job.unit, value)

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs, self._options, self._folder, os.getpid()))
        start_worker(process)
        theirs.close()
        return _Worker(process, ours)

    def _replace(self, worker: _Worker) -> None:
        worker.process.join()
        worker.pipe.close()
        fresh = self._start()
        worker.process, worker.pipe, worker.job = fresh.process, fresh.pipe, None

    def pids(self) -> list[int]:
        """Return the process ids of the workers."""
        return [worker.process.pid for worker in self._workers if worker.process.pid is not None]

    def close(self) -> None:
        """End the worker processes."""
        for worker in self._workers:
            if worker.job is None:
                with contextlib.suppress(BrokenPipeError, OSError):
                    worker.pipe.send(None)
            else:
                worker.process.terminate()
        for worker in self._workers:
            worker.process.join()
            worker.pipe.close()


def _work(pipe: Connection, options: GenerateOptions, folder: Path, parent: int) -> None:
    """Run a worker: make the units that come through the pipe until it receives None."""
    from sensorium.generation.unit import UnitMaker

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C the parent ends the workers
    _end_with(parent)
    maker = None
    try:
        while (job := pipe.recv()) is not None:
            maker = maker or UnitMaker(options, folder)
            made = maker.make(job.unit, job.wanted, lambda steps: pipe.send(("steps", steps)))
            pipe.send(("done", made))
    except (EOFError, BrokenPipeError):
        pass
    except SensoriumError as error:
        pipe.send(("error", str(error)))


def _end_with(parent: int) -> None:
    """End this process when its parent ends."""
    end_with_parent()
    if os.getppid() != parent:  # the parent ended before the call
        raise SystemExit
