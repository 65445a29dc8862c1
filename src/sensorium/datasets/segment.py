"""A run of frames that replay writes: their images, and a file of their steps, which comes last and makes it count."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from sensorium.cameras.camera import CameraSensor
from sensorium.datasets import media
from sensorium.datasets.chunk import ChunkWriter
from sensorium.datasets.episode import Step
from sensorium.datasets.files import STATE, quote
from sensorium.datasets.rows import Slot, StepSource
from sensorium.worlds import Scene

_AHEAD = 4
"""Frames that may wait for the encoders."""


class Stream:
    """One buffer of images of a camera: its dotted name, and what it is."""

    def __init__(self, name: str, camera: CameraSensor, kind: str) -> None:
        self.name, self.camera, self.kind = name, camera, kind
        image = self.read()
        how = {key: value for key, value in media.KINDS[kind].items() if key != "file"}
        self.about = {"kind": kind, **how, "dtype": str(image.dtype), "shape": list(image.shape[1:])}

    def read(self) -> np.ndarray:
        """The images of now, (B, H, W, ...); what is stale is rendered."""
        image = getattr(self.camera.read(), self.kind)
        if self.camera.options.history_length:
            image = image[:, 0]
        return np.asarray(image.numpy(force=True))


class Encoders:
    """Threads that write images; those of one file always in the same."""

    def __init__(self, count: int) -> None:
        self._threads = [ThreadPoolExecutor(1, thread_name_prefix="encoder") for _ in range(count)]

    def submit(self, number: int, writer: media.Writer, image: np.ndarray) -> Future[None]:
        """Have a writer write an image, some time."""
        return self._threads[number % len(self._threads)].submit(writer.write, image)

    def close(self) -> None:
        """Wait for all."""
        for thread in self._threads:
            thread.shutdown(wait=True, cancel_futures=True)


class Segment:
    """The frames ``first`` to ``first + capacity - 1`` of a replay."""

    def __init__(
        self,
        folder: Path,
        scene: Scene,
        source: StepSource,
        streams: list[Stream],
        encoders: Encoders,
        first: int,
        capacity: int,
        rate: Fraction,
    ) -> None:
        self._scene, self._source, self._streams, self._encoders = scene, source, streams, encoders
        self._slot = Slot(source.row)
        self._pending: deque[list[Future[None]]] = deque()
        self._writers: list[list[media.Writer]] = []
        self._chunk = ChunkWriter(folder / STATE, source.row, first, capacity)
        try:
            for stream in streams:
                self._writers.append([])
                for env in range(scene.n_envs):
                    stem = folder / stream.kind / quote(stream.name) / f"env{env:04d}" / f"{first:08d}"
                    self._writers[-1].append(media.writer(stem, stream.kind, stream.about, rate))
        except BaseException:
            self.drop()
            raise

    def write(self, step: Step, events: list[Any]) -> None:
        """Add a frame: the scene as it is."""
        images = [stream.read().copy() for stream in self._streams]  # the renderer writes them anew
        self._source.fill(self._slot, step.number, step.before)
        while len(self._pending) >= _AHEAD:
            self._wait()
        jobs = [
            (writer, image[env])
            for image, writers in zip(images, self._writers, strict=True)
            for env, writer in enumerate(writers)
        ]
        self._pending.append([self._encoders.submit(number, *job) for number, job in enumerate(jobs)])
        others = self._source.values()
        self._chunk.write(self._slot.block, [*events, {"values": others}] if others else events)

    def _wait(self) -> None:
        for future in self._pending.popleft():
            future.result()

    def close(self) -> None:
        """Complete all files; without a frame, there are none."""
        if not self._chunk.count:
            self.drop()
            return
        while self._pending:
            self._wait()
        for writers in self._writers:
            for writer in writers:
                writer.close()
        self._chunk.close()

    def drop(self) -> None:
        """Leave no files."""
        for future in [future for futures in self._pending for future in futures]:
            future.cancel() or future.exception()
        for writers in self._writers:
            for writer in writers:
                writer.drop()
        self._chunk.discard()
