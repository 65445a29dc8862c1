"""Processes that make units; one that dies is replaced, and what it was making is made again."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from sensorium._system import end_with_parent
from sensorium.errors import GenerationError, SensoriumError
from sensorium.generation.options import GenerateOptions

_DEATHS = 3
"""How often one unit may take its process with it."""


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    job: tuple[int, frozenset[int]] | None = None


class Pool:
    """Makes units in processes of their own.

    Args:
        options: of the data set.
        folder: where to.
        workers: how many processes.
    """

    def __init__(self, options: GenerateOptions, folder: Path, workers: int) -> None:
        self._options, self._folder = options, folder
        self._context = multiprocessing.get_context("spawn")
        self._workers = [self._start() for _ in range(workers)]
        self._deaths: dict[int, int] = {}

    def run(
        self, next_job: Callable[[], tuple[int, frozenset[int]] | None], progress: Callable[[int], None]
    ) -> Iterator[tuple[int, dict[int, bool]]]:
        """Make units until ``next_job`` has none and all are made; gives each as it is done."""
        again: list[tuple[int, frozenset[int]]] = []
        while True:
            for number, worker in enumerate(self._workers):
                if worker.job is None:
                    job = again.pop() if again else next_job()
                    if job is not None:
                        self._give(number, job)
            busy = [worker for worker in self._workers if worker.job is not None]
            if not busy:
                return
            for ready in wait([worker.pipe for worker in busy]):
                worker = next(each for each in busy if each.pipe is ready)
                result = self._receive(worker, again, progress)
                if result is not None:
                    yield result

    def _give(self, number: int, job: tuple[int, frozenset[int]]) -> None:
        worker = self._workers[number]
        worker.job = job
        with contextlib.suppress(BrokenPipeError, OSError):  # its death is noticed when it is waited for
            worker.pipe.send(job)

    def _receive(
        self, worker: _Worker, again: list[tuple[int, frozenset[int]]], progress: Callable[[int], None]
    ) -> tuple[int, dict[int, bool]] | None:
        assert worker.job is not None
        job = worker.job
        try:
            kind, value = worker.pipe.recv()
        except (EOFError, OSError):
            self._replace(worker)
            self._deaths[job[0]] = self._deaths.get(job[0], 0) + 1
            if self._deaths[job[0]] >= _DEATHS:
                raise GenerationError(
                    f"unit {job[0]} (episodes {sorted(job[1])}) ended the process that made it {_DEATHS} times"
                ) from None
            again.append(job)
            return None
        if kind == "steps":
            progress(value)
            return None
        worker.job = None
        if kind == "error":
            raise GenerationError(f"a worker failed at unit {job[0]}: {value}")
        return job[0], value

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs, self._options, self._folder, os.getpid()))
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def _replace(self, worker: _Worker) -> None:
        worker.process.join()
        worker.pipe.close()
        fresh = self._start()
        worker.process, worker.pipe, worker.job = fresh.process, fresh.pipe, None

    def pids(self) -> list[int]:
        """Of the processes."""
        return [worker.process.pid for worker in self._workers]

    def close(self) -> None:
        """End the processes."""
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
    """The life of a process."""
    from sensorium.generation.unit import UnitMaker

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    _end_with(parent)
    maker = None
    try:
        while (job := pipe.recv()) is not None:
            unit, wanted = job
            maker = maker or UnitMaker(options, folder)
            made = maker.make(unit, wanted, lambda steps: pipe.send(("steps", steps)))
            pipe.send(("done", made))
    except (EOFError, BrokenPipeError):
        pass
    except SensoriumError as error:
        pipe.send(("error", str(error)))


def _end_with(parent: int) -> None:
    """Have the system end this process with its parent."""
    end_with_parent()
    if os.getppid() != parent:
        raise SystemExit
