"""The recorder: every step of a running scene, streamed to disk."""

from __future__ import annotations

import base64
import queue
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sensorium.errors import DatasetError, DivergenceError
from sensorium.files import DiskFullError, package_versions
from sensorium.recording.chunk import ChunkWriter
from sensorium.recording.describe import save_scene
from sensorium.recording.folder import STATE, complete_config, write_config
from sensorium.recording.output_folder import OutputFolder
from sensorium.recording.rows import IMAGE_TAGS, Slot, StepSource, known_tags
from sensorium.worlds import Scene
from sensorium.worlds.contents import encode
from sensorium.worlds.journal import Call, Restart

if TYPE_CHECKING:
    from typing import Self


_FIRST_BYTES = 1 << 20
"""Size of the first file of steps."""


class SavesMap(Protocol):
    """An occupancy map, as far as the recorder is concerned."""

    def save(self, folder: Any) -> Any: ...


class Recorder:
    """Records a running scene into a folder: call :meth:`step` after each ``scene.step()``.

    Example:
        >>> with sn.recording.Recorder(scene, "runs/a") as recorder:
        ...     for _ in range(500):
        ...         scene.step()
        ...         recorder.step()

    A step costs one copy of its buffers; a thread of its own writes them while the scene goes on. A step is handed over
    when the one before is written: a disk that is slower holds the scene back, memory stays flat, and a process that is
    killed loses at most the step in flight. If the sensors have stepped since all envs were last restarted, they start
    afresh when recording begins, for otherwise replay could not know what they remember.

    Args:
        scene: a scene that was built.
        out: folder to write: a new or an empty one.
        exclude_tags: buffers with any of these tags are left out. Default: images, which replay renders again.
        occupancy_map: saved with the recording, where there is one.
        metadata: anything that has a JSON form, kept in ``config.json``.
        chunk_bytes: how large a file of steps becomes.
        overwrite: whether a recording that is there may be replaced. It is kept until there is a step of this one.
    """

    def __init__(
        self,
        scene: Scene,
        out: str | Path,
        *,
        exclude_tags: Iterable[str] = IMAGE_TAGS,
        occupancy_map: SavesMap | None = None,
        metadata: Mapping[str, Any] | None = None,
        chunk_bytes: int = 64 << 20,
        overwrite: bool = False,
    ) -> None:
        self.scene = scene
        self.n_steps = 0
        self._world = scene.world
        if scene._journal.recording:
            raise DatasetError("this scene is being recorded already; close that recorder first")
        self._source = StepSource(scene, known_tags(scene, exclude_tags))
        self._row = self._source.row
        # files begin small, so that short recordings are small, and each has twice the room of the one before
        self._most = max(1, chunk_bytes // self._row.n_bytes)
        self._capacity = min(self._most, max(1, _FIRST_BYTES // self._row.n_bytes))

        self._place = OutputFolder(out, overwrite)
        self.folder = self._place.folder
        try:
            (self.folder / STATE).mkdir(parents=True)
            described = save_scene(scene, self.folder)
            if occupancy_map is not None:
                occupancy_map.save(self.folder / "occupancy_map")
            write_config(
                self.folder,
                {
                    "created": datetime.now(UTC).isoformat(timespec="seconds"),
                    "versions": package_versions(),
                    "dt": scene.dt,
                    "scene": described,
                    **self._source.config,
                    "start": scene.step_count,
                    "metadata": encode(dict(metadata or {})),
                },
            )
            self._start()
        except BaseException:
            self._place.abandon()
            raise

    def _start(self) -> None:
        journal = self.scene._journal
        # values per env may be newer than what sensors started from; a replay on a GPU starts them afresh at every step
        exact = not self._world.is_gpu
        first = None if self._world.expanded and exact else journal.begin(anyhow=not exact)
        if first is None:
            with suppress(DivergenceError):  # envs that have failed were reported when they did
                self.scene.forward()  # the journal now begins with it
            first = journal.begin() or []
        self._events: list[Restart | Call] = first
        self._world.keep_before(True)
        self._at, self._warned = self.scene.step_count, False
        # one step may be on its way while the next is filled in: more would be lost with the process
        self._slots = (Slot(self._row), Slot(self._row))
        self._written = threading.Lock()  # held while a step is on its way
        self._filled: queue.SimpleQueue[tuple[Slot, list[Any], dict[str, Any]] | None] = queue.SimpleQueue()
        self._done = 0
        self._error: BaseException | None = None
        self._closed = False
        self._writer = threading.Thread(target=self._write, name="recorder", daemon=True)
        self._writer.start()

    # -- in the scene's thread ----------------------------------------------------------------------------------------

    def step(self) -> None:
        """Record the scene as it is. Waits only while the step before is not written yet.

        Raises:
            DatasetError: writing failed, of this or an earlier step; what was written before is whole.
        """
        if self._closed:
            raise DatasetError(f"the recorder of {self.folder} was closed; make another one")
        self._raise()
        self._source.update()
        slot = self._slots[self.n_steps % 2]
        before = self._world.before
        self._source.fill(slot, self.scene.step_count, before)
        self._events += self.scene._journal.take()
        skipped = self.scene.step_count - self._at - 1
        self._at = self.scene.step_count
        if skipped > 0 and not self._warned:
            self._warned = True
            warnings.warn(
                f"{skipped} step(s) of the scene were not recorded: sensors that remember (delay, drift, filters) will "
                "not read the same when this is replayed; call recorder.step() after every scene.step()",
                stacklevel=2,
            )
        forms = [_event_form(event) for event in self._events]
        while not self._written.acquire(timeout=0.2):
            self._raise()
        self._events = []
        self._filled.put((slot, forms, self._source.changes()))
        self.n_steps += 1

    def record(self, n_steps: int, before: Callable[[], Any] | None = None) -> None:
        """Make ``n_steps`` steps of the scene and record each.

        Args:
            n_steps: how many.
            before: called before each step: what drives the robots, for example ``scenario.step``.
        """
        for _ in range(n_steps):
            if before is not None:
                before()
            self.scene.step()
            self.step()

    def _raise(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            self._stop()
            raise error

    def close(self) -> None:
        """Wait until everything is written, and complete the last file."""
        if self._closed:
            return
        self._stop()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _stop(self) -> None:
        self._closed = True
        self._filled.put(None)
        self._writer.join()
        self.scene._journal.end()
        self._world.keep_before(False)
        if self._done or not self._place.replaces:
            try:
                if self._error is None:
                    complete_config(self.folder, self._done)
            finally:
                self._place.release()
        else:
            self._place.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- in the writer's thread ---------------------------------------------------------------------------------------

    def _write(self) -> None:
        chunk: ChunkWriter | None = None
        values: dict[str, Any] = {}
        closing: Future[None] | None = None
        closer = ThreadPoolExecutor(1, thread_name_prefix="recorder")  # the disk takes its time to have all of a file
        try:
            while (item := self._filled.get()) is not None:
                slot, events, changes = item
                values |= changes
                if chunk is None:
                    chunk, changes = self._open(), values  # a file can be read without those before
                chunk.write(slot.block, [*events, {"values": changes}] if changes else events)
                if not self._done and self._place.replaces:
                    chunk.sync()
                    self._place.keep()
                self._done += 1
                self._written.release()
                if chunk.full:
                    if closing is not None:
                        closing.result()
                    closing, chunk = closer.submit(chunk.close), None
            if closing is not None:
                closing.result()
            if chunk is not None:
                chunk.close()
        except BaseException as error:
            if chunk is not None:
                chunk.drop()  # its whole steps are there for `sensorium check` to complete
            self._error = error
        finally:
            closer.shutdown()

    def _open(self) -> ChunkWriter:
        """A file for the next steps: of as many as there is room for on the disk."""
        while True:
            try:
                chunk = ChunkWriter(self.folder / STATE, self._row, self._done, self._capacity)
            except DiskFullError:
                if self._capacity == 1:
                    raise
                self._capacity = self._most = self._capacity // 2
            else:
                self._capacity = min(self._most, 2 * self._capacity)
                return chunk


def _event_form(event: Restart | Call) -> dict[str, Any]:
    if isinstance(event, Call):
        arguments = {name: encode(value) for name, value in event.arguments.items()}
        return {"stepped": event.stepped, "uuid": event.uuid, "method": event.method, "arguments": arguments}
    envs = None if event.envs is None else event.envs.tolist()
    form: dict[str, Any] = {"stepped": event.stepped, "restart": event.call, "envs": envs}
    if event.state is not None:
        form["state"] = base64.b64encode(np.ascontiguousarray(event.state, "<f8").tobytes()).decode("ascii")
    return form
