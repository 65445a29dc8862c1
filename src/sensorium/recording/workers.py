"""Worker processes that share the frames of a replay."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import sys
from collections.abc import Sequence
from multiprocessing.queues import Queue
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sensorium._system import end_with_parent, start_worker
from sensorium.errors import DatasetError
from sensorium.recording.recording import Recording
from sensorium.recording.replay_job import Progress, ReplayJob
from sensorium.recording.runs import Run
from sensorium.user_modules import import_modules, importable
from sensorium.worlds.contents import decode

if TYPE_CHECKING:
    from multiprocessing.resource_sharer import DupFd


class _Lock:
    """The lock of an output folder, shared with a worker: the folder stays locked until the last process has ended."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __reduce__(self) -> tuple[object, ...]:
        if sys.platform == "win32":  # locks cannot be shared there: only the parent holds the lock
            return _Lock, (-1,)
        from multiprocessing.reduction import DupFd  # not available on Windows

        return _Lock._detach, (DupFd(self.descriptor),)

    @staticmethod
    def _detach(descriptor: DupFd) -> _Lock:
        return _Lock(descriptor.detach())


def run_in_processes(
    recording: Recording,
    folder: Path,
    options_form: dict[str, Any],
    shares: Sequence[Sequence[Run]],
    lock: int,
    progress: Progress | None,
) -> None:
    """Write the frames of a replay in several worker processes.

    Args:
        recording: the recording.
        folder: output folder.
        options_form: options of the replay, as JSON.
        shares: runs of frames of each worker.
        lock: file descriptor of the folder's lock.
        progress: called with the number of frames that were completed since the last call.

    Raises:
        DatasetError: a worker failed. Complete frames are kept.
    """
    context = multiprocessing.get_context("spawn")
    reports: Queue[int | str] = context.Queue()
    named = {name for name in _modules(recording.config) if name in sys.modules and name != "__main__"}
    modules = [importable(name) for name in sorted(named)]
    source, out = str(recording.folder), str(folder)
    arguments = [(source, out, options_form, runs, modules, _Lock(lock), reports) for runs in shares]
    processes = [context.Process(target=_work, args=each, daemon=True) for each in arguments]
    error: str | None = None
    try:
        for process in processes:
            start_worker(process)
        while any(process.is_alive() for process in processes) or not reports.empty():
            try:
                report = reports.get(timeout=0.1)
            except queue.Empty:
                continue
            if isinstance(report, str):
                error = error or report
            elif progress is not None:
                progress(report)
    finally:
        for process in processes:
            if process.is_alive():
                process.terminate()  # the worker completes the frames that it has
        for process in processes:
            if process.pid is not None:
                process.join()
    if error is None and any(process.exitcode for process in processes):
        error = "a worker process ended before it was done; run the replay again with --resume"
    if error is not None:
        raise DatasetError(error)


def _modules(form: object) -> set[str]:
    """Return the names of the modules whose classes a JSON form refers to."""
    if isinstance(form, list):
        return {name for item in form for name in _modules(item)}
    if not isinstance(form, dict):
        return set()
    keys = ("type", "module", "part")
    own = {value.split(":")[0] for key, value in form.items() if key in keys and isinstance(value, str)}
    return own | {name for item in form.values() for name in _modules(item)}


def _work(
    source: str,
    out: str,
    options_form: dict[str, Any],
    runs: Sequence[Run],
    modules: list[str],
    lock: _Lock,
    reports: Queue[int | str],
) -> None:
    """Run a worker: write its share of the frames and report progress and errors to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent ends the workers
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        _end_with_parent()
        import_modules(modules)
        job = ReplayJob(Recording(source), decode(options_form))
        try:
            job.run(Path(out), runs, reports.put)
        finally:
            job.close()
    except KeyboardInterrupt:
        if _is_orphan():  # the parent no longer reads the reports: do not wait until they are sent
            reports.cancel_join_thread()
        sys.exit(1)
    except DatasetError as error:
        reports.put(str(error))
        sys.exit(1)
    except Exception as error:
        reports.put(f"{type(error).__name__}: {error}")
        sys.exit(1)
    finally:
        if lock.descriptor >= 0:
            os.close(lock.descriptor)


def _end_with_parent() -> None:
    """End this process when its parent ends or is killed: it must not write into a folder that another one uses."""
    end_with_parent()
    if _is_orphan():  # the parent ended before the call
        raise KeyboardInterrupt


def _is_orphan() -> bool:
    parent = multiprocessing.parent_process()
    return parent is not None and not parent.is_alive()


def _interrupt(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second signal must not interrupt the completion of the frames
    raise KeyboardInterrupt
