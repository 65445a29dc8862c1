"""A run of frames that replay writes: their images, and a file of their steps, which comes last and makes it count."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from sensorium.cameras.camera import CameraSensor
from sensorium.recording import media
from sensorium.recording.chunk import ChunkWriter
from sensorium.recording.folder import STATE
from sensorium.recording.recording import Step
from sensorium.recording.rows import Slot, StepSource
from sensorium.recording.runs import ReplayLayout, finish_run

_AHEAD = 1
"""Frames that may be on their way to the disk while the next is rendered: those are what a killed process loses."""


class ImageStream:
    """One buffer of images of a camera: its dotted name, and what it is."""

    def __init__(self, name: str, camera: CameraSensor, kind: str, fps: float) -> None:
        self.name, self.camera, self.kind = name, camera, kind
        image = self.read()
        how = {key: value for key, value in media.KINDS[kind].items() if key != "file"}
        self.about = {"kind": kind, **how, "dtype": str(image.dtype), "shape": list(image.shape[1:]), "fps": fps}

    def read(self) -> np.ndarray:
        """The images of now, (B, H, W, ...); what is stale is rendered."""
        image = getattr(self.camera.read(), self.kind)
        if self.camera.options.history_length:
            image = image[:, 0]
        return np.asarray(image.numpy(force=True))


class SegmentEncoders:
    """Threads that write images, those of one file always in the same; and one that completes files."""

    def __init__(self, count: int) -> None:
        self._threads = [ThreadPoolExecutor(1, thread_name_prefix="encoder") for _ in range(count)]
        self._finisher = ThreadPoolExecutor(1, thread_name_prefix="finisher")
        self._finishing: Future[None] | None = None

    def submit(self, jobs: list[tuple[media.Writer, np.ndarray]], key: bool) -> list[Future[None]]:
        """Have writers write the images of a frame, some time."""
        step = len(self._threads)
        return [thread.submit(_write, jobs[number::step], key) for number, thread in enumerate(self._threads)]

    def finish(self, call: Callable[[], None]) -> None:
        """Have a run of frames completed, while the next is rendered; waits for the one before."""
        self.wait()
        self._finishing = self._finisher.submit(call)

    def wait(self) -> None:
        """Wait until all runs are complete."""
        if self._finishing is not None:
            finishing, self._finishing = self._finishing, None
            finishing.result()

    def close(self) -> None:
        """Wait for all."""
        for thread in (*self._threads, self._finisher):
            thread.shutdown(wait=True)


def _write(jobs: list[tuple[media.Writer, np.ndarray]], key: bool) -> None:
    for writer, image in jobs:
        writer.write(image, key)


class ReplaySegment:
    """The frames ``first`` to ``first + capacity - 1`` of a replay.

    Args:
        layout: where files are.
        source: what is kept of a step.
        streams: what is kept of images.
        encoders: who writes them.
        first: number of the first frame.
        capacity: how many there are.
        is_key: whether a frame, by its number, is a key frame of videos.
        done: called when a further frame is whole on the disk.
    """

    def __init__(
        self,
        layout: ReplayLayout,
        source: StepSource,
        streams: list[ImageStream],
        encoders: SegmentEncoders,
        first: int,
        capacity: int,
        is_key: Callable[[int], bool],
        done: Callable[[int], None],
    ) -> None:
        self._layout, self._source, self._streams, self._encoders = layout, source, streams, encoders
        self._first, self._is_key, self._done = first, is_key, done
        self._slot = Slot(source.row)
        self._pending: deque[list[Future[None]]] = deque()
        self._writers: list[media.Writer] = []
        self._chunk = ChunkWriter(layout.folder / STATE, source.row, first, capacity)
        try:
            for path, about in layout.files(first):
                self._writers.append(media.writer(path, about))
        except BaseException:
            self.leave()
            raise

    def write(self, step: Step, events: list[Any]) -> None:
        """Add a frame: the scene as it is."""
        key = self._is_key(self._first + self._chunk.count)
        # copied, for the renderer writes its images anew
        images = [image for stream in self._streams for image in stream.read().copy()]
        self._source.fill(self._slot, step.number, step.before)
        while len(self._pending) >= _AHEAD:
            self._wait()
        self._pending.append(self._encoders.submit(list(zip(self._writers, images, strict=True)), key))
        others = self._source.values()
        self._chunk.write(self._slot.block, [*events, {"values": others}] if others else events)

    def _wait(self) -> None:
        for future in self._pending[0]:
            future.result()
        self._pending.popleft()
        self._done(1)

    def close(self) -> None:
        """Complete all files, by and by; without a frame, there are none."""
        try:
            while self._pending:
                self._wait()
        finally:
            self.leave()
        count = self._chunk.count
        self._encoders.finish(lambda: finish_run(self._layout, self._first, count))

    def leave(self) -> None:
        """Leave everything as it is: the frames that are whole are kept when the replay is resumed."""
        for future in [future for futures in self._pending for future in futures]:
            future.cancel() or future.exception()
        self._pending.clear()
        for writer in self._writers:
            writer.close()
        self._chunk.drop()
