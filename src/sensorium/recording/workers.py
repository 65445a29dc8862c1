"""Several processes that share the frames of a replay."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import queue
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sensorium._system import end_with_parent
from sensorium.errors import DatasetError
from sensorium.recording.recording import Recording
from sensorium.recording.replay_job import Progress, ReplayJob
from sensorium.recording.runs import Run
from sensorium.worlds.contents import decode


class _Lock:
    """The lock of a folder that is written, held by another process too: it is free when the last has ended."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __reduce__(self) -> Any:
        if sys.platform == "win32":  # where a lock cannot be shared: the parent alone holds the folder
            return _Lock, (-1,)
        from multiprocessing.reduction import DupFd  # which Windows lacks

        return _Lock._detach, (DupFd(self.descriptor),)

    @staticmethod
    def _detach(held: Any) -> _Lock:
        return _Lock(held.detach())


def run_in_processes(
    episode: Recording,
    folder: Path,
    form: dict[str, Any],
    shares: Sequence[Sequence[Run]],
    lock: int,
    progress: Progress | None,
) -> None:
    """Give each process its share of the frames.

    Args:
        episode: the recording.
        folder: where to write.
        form: the options of the replay, as JSON.
        shares: runs of frames for each process.
        lock: descriptor of the folder's lock.
        progress: called when frames are whole.
    """
    context = multiprocessing.get_context("spawn")
    reports: Any = context.Queue()
    modules = sorted({name for name in _modules(episode.config) if name in sys.modules and name != "__main__"})
    arguments = [(str(episode.folder), str(folder), form, share, modules, _Lock(lock), reports) for share in shares]
    processes = [context.Process(target=_work, args=each, daemon=True) for each in arguments]
    error: str | None = None
    try:
        for process in processes:
            process.start()
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
                process.terminate()  # it completes what it has
        for process in processes:
            if process.pid is not None:
                process.join()
    if error is None and any(process.exitcode for process in processes):
        error = "a process of the replay ended before its work was done; run it again with --resume"
    if error is not None:
        raise DatasetError(error)


def _modules(form: Any) -> set[str]:
    """The modules whose classes a JSON form names."""
    if isinstance(form, list):
        return {name for item in form for name in _modules(item)}
    if not isinstance(form, dict):
        return set()
    keys = ("type", "module", "part")
    own = {value.split(":")[0] for key, value in form.items() if key in keys and isinstance(value, str)}
    return own | {name for item in form.values() for name in _modules(item)}


def _work(source: str, out: str, form: Any, share: Any, modules: list[str], lock: _Lock, reports: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one tells the others
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        _end_with_parent()
        for name in modules:
            importlib.import_module(name)
        job = ReplayJob(Recording(source), decode(form))
        try:
            job.run(Path(out), share, reports.put)
        finally:
            job.close()
    except KeyboardInterrupt:
        if _is_orphan():  # nobody reads the reports: do not wait for that
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
    """Let the end of the first process, be it killed, end this one: it must not write where the next one will."""
    end_with_parent()
    if _is_orphan():  # before that was said
        raise KeyboardInterrupt


def _is_orphan() -> bool:
    parent = multiprocessing.parent_process()
    return parent is not None and not parent.is_alive()


def _interrupt(*_: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: what is whole is being kept
    raise KeyboardInterrupt
