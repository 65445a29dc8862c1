"""The recorder: streams every step of a running scene to disk."""

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

from sensorium._arguments import checked
from sensorium.errors import DatasetError, DivergenceError
from sensorium.files import DiskFullError, explain_errors
from sensorium.options import checked_integer
from sensorium.recording.chunk import ChunkWriter
from sensorium.recording.describe import save_scene
from sensorium.recording.events import Event
from sensorium.recording.folder import STATE, complete_config, write_config
from sensorium.recording.output_folder import OutputFolder
from sensorium.recording.rows import IMAGE_TAGS, check_tags
from sensorium.recording.slots import Slot
from sensorium.recording.step_source import StepSource
from sensorium.versions import package_versions
from sensorium.worlds import Scene
from sensorium.worlds.contents import encode
from sensorium.worlds.journal import Call, Restart

if TYPE_CHECKING:
    from typing import Self


_FIRST_BYTES = 1 << 20
"""Size of the first chunk."""


class SavesMap(Protocol):
    """An occupancy map that can be saved with a recording."""

    def save(self, folder: Path) -> object:
        """Write the map into a folder."""
        ...


class Recorder:
    """Records a running scene into a folder. Call :meth:`step` after each ``scene.step()``.

    A step costs one copy of its buffers. A separate thread writes it while the scene continues. On a GPU the copy
    stays on the device, and comes to the host beside the next step: ``step()`` does not wait for the device. The
    next step is handed over when the previous one is written: a slow disk slows the scene down, memory stays
    bounded, and a killed process loses at most the step being written. If the sensors have stepped since the last
    restart of all envs, they are restarted when recording begins, because replay cannot know what they remember.

    Args:
        scene: a built scene.
        out: output folder, new or empty.
        exclude_tags: buffers with any of these tags are skipped. Default: images, which replay renders again.
        occupancy_map: a map to save with the recording.
        metadata: any values with a JSON form, kept in ``config.json``.
        chunk_bytes: maximum size of a chunk of steps, in bytes.
        overwrite: whether a recording in the folder may be replaced. It is removed when this one has a step.

    Attributes:
        folder: the output folder.
        n_steps: number of recorded steps.

    Raises:
        DatasetError: the folder cannot be written, a buffer cannot be recorded, or the scene is already being recorded.
        OptionError: no buffer has one of ``exclude_tags``.

    Example:
        >>> with sn.recording.Recorder(scene, "runs/a") as recorder:
        ...     for _ in range(500):
        ...         scene.step()
        ...         recorder.step()
    """

    @checked
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
            raise DatasetError("the scene is already being recorded; close the other recorder first")
        self._source = StepSource(scene, check_tags(scene, exclude_tags))
        self._row = self._source.row
        # chunks start small, so that short recordings are small, and each has twice the capacity of the one before
        self._max_capacity = max(1, chunk_bytes // self._row.n_bytes)
        self._capacity = min(self._max_capacity, max(1, _FIRST_BYTES // self._row.n_bytes))

        self._output = OutputFolder(out, overwrite)
        self.folder = self._output.folder
        try:
            with explain_errors(self.folder):
                (self.folder / STATE).mkdir(parents=True)
            scene_form = save_scene(scene, self.folder)
            if occupancy_map is not None:
                occupancy_map.save(self.folder / "occupancy_map")
            write_config(
                self.folder,
                {
                    "created": datetime.now(UTC).isoformat(timespec="seconds"),
                    "versions": package_versions(),
                    "dt": scene.dt,
                    "scene": scene_form,
                    **self._source.config,
                    "start": scene.step_count,
                    "metadata": encode(dict(metadata or {})),
                },
            )
            self._start()
        except BaseException:
            self._output.abandon()
            raise

    def _start(self) -> None:
        # one step may be in flight while the next is filled in: a killed process would lose more. Before the journal
        # begins, since there may be too little memory
        self._slots = (self._source.slot(), self._source.slot())
        journal = self.scene._journal
        # model values per env may be newer than the state that the sensors started from; on a GPU that does not matter,
        # since replay restarts the sensors at every step there
        exact = self._world.can_retrace
        first = None if self._world.expanded and exact else journal.begin(even_if_stale=not exact)
        if first is None:
            with suppress(DivergenceError):  # failed envs were reported when they failed
                self.scene.forward()  # the journal now begins with this restart
            first = journal.begin() or []
        self._events: list[Restart | Call] = first
        self._world.keep_before(True)
        self._last_step, self._warned = self.scene.step_count, False
        self._writing = threading.Lock()  # held while a step is in flight
        self._queue: queue.SimpleQueue[tuple[Slot, list[Event]] | None] = queue.SimpleQueue()
        self._n_written = 0
        self._error: BaseException | None = None
        self._closed = False
        self._writer = threading.Thread(target=self._write, name="recorder", daemon=True)
        self._writer.start()

    # -- in the scene's thread ----------------------------------------------------------------------------------------

    def step(self) -> None:
        """Record the current state of the scene. Waits only until the previous step is written.

        Raises:
            DatasetError: writing this or an earlier step failed. Everything written before is complete.
        """
        if self._closed:
            raise DatasetError(f"the recorder of {self.folder} is closed; create another one")
        self._raise()
        self._source.update()
        slot = self._slots[self.n_steps % 2]
        self._source.fill(slot, self.scene.step_count, self._world.before)
        self._events += self.scene._journal.take()
        skipped = self.scene.step_count - self._last_step - 1
        self._last_step = self.scene.step_count
        if skipped > 0 and not self._warned:
            self._warned = True
            warnings.warn(
                f"{skipped} step(s) of the scene were not recorded: sensors with memory (delay, drift, filters) will "
                "read other values in a replay; call recorder.step() after every scene.step()",
                stacklevel=2,
            )
        events = [_event_form(event) for event in self._events]
        while not self._writing.acquire(timeout=0.2):
            self._raise()
        self._events = []
        self._queue.put((slot, events))
        self.n_steps += 1

    @checked
    def record(self, n_steps: int, before: Callable[[], object] | None = None) -> None:
        """Step the scene ``n_steps`` times and record each step.

        Args:
            n_steps: number of steps.
            before: called before each step, to drive the robots, e.g. ``scenario.step``.
        """
        for _ in range(checked_integer("n_steps", n_steps, 0, 2**31 - 1)):
            if before is not None:
                before()
            self.scene.step()
            self.step()

    def _raise(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            with suppress(DatasetError):  # a full disk has no space for config.json either
                self._stop()
            raise error

    def close(self) -> None:
        """Wait until all steps are written, and complete the last chunk.

        Raises:
            DatasetError: writing failed. Everything written before is complete.
        """
        if self._closed:
            return
        self._stop()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _stop(self) -> None:
        self._closed = True
        self._queue.put(None)
        self._writer.join()
        self.scene._journal.end()
        self._world.keep_before(False)
        if self._n_written or not self._output.replaces:
            try:
                if self._error is None:
                    complete_config(self.folder, self._n_written)
            finally:
                self._output.release()
        else:
            self._output.abandon()

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
        closer = ThreadPoolExecutor(1, thread_name_prefix="recorder")  # flushing a chunk to the disk takes long
        try:
            while (item := self._queue.get()) is not None:
                slot, events = item
                changes = self._source.changes(slot)
                values |= changes
                if chunk is None:
                    chunk, changes = self._open(), values  # so that a chunk can be read without those before
                chunk.write(slot.block, [*events, {"values": changes}] if changes else events)
                if not self._n_written and self._output.replaces:
                    chunk.sync()
                    self._output.commit()
                self._n_written += 1
                self._writing.release()
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
                chunk.release()  # `sensorium validate --update` completes it from its whole steps
            self._error = error
        finally:
            closer.shutdown()

    def _open(self) -> ChunkWriter:
        """Create the next chunk, smaller if the disk is too full for the usual size."""
        while True:
            try:
                chunk = ChunkWriter(self.folder / STATE, self._row, self._n_written, self._capacity)
            except DiskFullError:
                if self._capacity == 1:
                    raise
                self._capacity = self._max_capacity = self._capacity // 2
            else:
                self._capacity = min(self._max_capacity, 2 * self._capacity)
                return chunk


def _event_form(event: Restart | Call) -> Event:
    if isinstance(event, Call):
        arguments = {name: encode(value) for name, value in event.arguments.items()}
        return {"stepped": event.stepped, "uuid": event.uuid, "method": event.method, "arguments": arguments}
    envs = None if event.envs is None else event.envs.tolist()
    form: Event = {"stepped": event.stepped, "restart": event.call, "envs": envs}
    if event.episodes is not None:
        form["episodes"] = event.episodes.tolist()
    if event.state is not None:
        form["state"] = base64.b64encode(np.ascontiguousarray(event.state, "<f8").tobytes()).decode("ascii")
    return form
