"""A segment of a replay: the images of a run of frames and the chunk of their steps, which is completed last."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from sensorium.cameras.camera import CameraSensor
from sensorium.recording.chunk import ChunkWriter
from sensorium.recording.events import Event, Step
from sensorium.recording.folder import STATE
from sensorium.recording.image_files import image_header
from sensorium.recording.image_writer import ImageWriter, image_writer
from sensorium.recording.runs import ReplayLayout, finish_run
from sensorium.recording.step_source import StepSource

_MAX_PENDING = 1
"""Frames that may be on their way to the disk while the next one is rendered. A killed process loses them."""


class ImageStream:
    """One image buffer of a camera.

    Args:
        name: dotted name of the buffer.
        camera: the camera.
        kind: image kind, "rgb", "depth", ...
        fps: frames per second of the replay.
    """

    def __init__(self, name: str, camera: CameraSensor, kind: str, fps: float) -> None:
        self.name, self.camera, self.kind = name, camera, kind
        image = self.read()
        self.header = image_header(kind, str(image.dtype), image.shape[1:], fps)

    def read(self) -> np.ndarray:
        """Return the current images, (B, H, W, ...). Outdated images are rendered."""
        image = getattr(self.camera.read(), self.kind)
        if self.camera.options.history_length:
            image = image[:, 0]
        return np.asarray(image.numpy(force=True))


class SegmentEncoders:
    """Threads that encode images, each file always in the same thread, and one thread that completes files.

    Args:
        count: number of encoding threads.
    """

    def __init__(self, count: int) -> None:
        self._threads = [ThreadPoolExecutor(1, thread_name_prefix="encoder") for _ in range(count)]
        self._finisher = ThreadPoolExecutor(1, thread_name_prefix="finisher")
        self._finishing: Future[None] | None = None

    def submit(self, jobs: list[tuple[ImageWriter, np.ndarray]], key: bool) -> list[Future[None]]:
        """Queue the images of one frame; return the futures of their writes."""
        step = len(self._threads)
        return [thread.submit(_write, jobs[number::step], key) for number, thread in enumerate(self._threads)]

    def finish(self, call: Callable[[], None]) -> None:
        """Complete a run of frames in the background. Waits for the run before."""
        self.wait()
        self._finishing = self._finisher.submit(call)

    def wait(self) -> None:
        """Wait until all runs are complete."""
        if self._finishing is not None:
            finishing, self._finishing = self._finishing, None
            finishing.result()

    def close(self) -> None:
        """Wait for all threads and end them."""
        for thread in (*self._threads, self._finisher):
            thread.shutdown(wait=True)


def _write(jobs: list[tuple[ImageWriter, np.ndarray]], key: bool) -> None:
    for writer, image in jobs:
        writer.write(image, key)


class ReplaySegment:
    """Frames ``first`` to ``first + capacity - 1`` of a replay.

    Args:
        layout: the files of the replay.
        source: buffers of the scene.
        streams: image buffers.
        encoders: threads that encode the images.
        first: number of the first frame.
        capacity: number of frames.
        is_key: returns whether a frame, given by its number, is a key frame of videos.
        progress: called with 1 when another frame is complete on the disk.
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
        progress: Callable[[int], None],
    ) -> None:
        self._layout, self._source, self._streams, self._encoders = layout, source, streams, encoders
        self._first, self._is_key, self._progress = first, is_key, progress
        self._slot = source.slot()
        self._pending: deque[list[Future[None]]] = deque()
        self._writers: list[ImageWriter] = []
        self._chunk = ChunkWriter(layout.folder / STATE, source.row, first, capacity)
        try:
            for path, header in layout.files(first):
                self._writers.append(image_writer(path, header))
        except BaseException:
            self.release()
            raise

    def write(self, step: Step, events: list[Event]) -> None:
        """Add the current state of the scene as a frame."""
        key = self._is_key(self._first + self._chunk.count)
        # copied, since the renderer overwrites its images
        images = [image for stream in self._streams for image in stream.read().copy()]
        self._source.fill(self._slot, step.number, step.before)
        while len(self._pending) >= _MAX_PENDING:
            self._wait()
        others = self._source.values(self._slot)
        # before the encoders begin: each of its many short writes would wait for them to release the GIL
        self._chunk.write(self._slot.block, [*events, {"values": others}] if others else events)
        self._pending.append(self._encoders.submit(list(zip(self._writers, images, strict=True)), key))

    def _wait(self) -> None:
        for future in self._pending[0]:
            future.result()
        self._pending.popleft()
        self._progress(1)

    def close(self) -> None:
        """Complete all files in the background. A segment without frames leaves no files."""
        try:
            while self._pending:
                self._wait()
        finally:
            self.release()
        count = self._chunk.count
        self._encoders.finish(lambda: finish_run(self._layout, self._first, count))

    def release(self) -> None:
        """Close the files and leave their drafts, from which a resumed replay keeps the complete frames."""
        for future in [future for futures in self._pending for future in futures]:
            future.cancel() or future.exception()
        self._pending.clear()
        for writer in self._writers:
            writer.close()
        self._chunk.release()
