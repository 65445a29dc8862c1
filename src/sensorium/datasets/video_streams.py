"""Videos of cameras, encoded in threads: colour as H.264; depth in millimetres and segmentation as lossless FFV1."""

from __future__ import annotations

import os
import platform
import queue
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sensorium._system import cpu_count
from sensorium.files import PART, explain_errors, publish
from sensorium.recording.colour import to_frame

if TYPE_CHECKING:
    from av import VideoFrame


class VideoFormat(NamedTuple):
    """How images of one kind are stored."""

    suffix: str
    codec: str
    unit: str
    scale: float
    """A stored number times ``scale`` is in ``unit``."""


VIDEO_FORMATS = {
    "rgb": VideoFormat(".mp4", "h264", "sRGB", 1.0),
    "depth": VideoFormat(".mkv", "ffv1", "m", 0.001),
    "segmentation": VideoFormat(".mkv", "ffv1", "body id, then geom id below it", 1),
}
"""Image kind -> format. Depth 0 means that nothing is hit. Segmentation has 1 added, so that 0 means nothing; the image
of body ids is above that of geom ids."""
_MAX_DEPTH = 65535
_X264 = "bframes=0:subme=1"
"""Parameters of x264. Encoding takes two thirds of the time of plain ``veryfast`` at the same quality, with files a
fifth larger. Without B-frames, no frame depends on a later one."""


def part_path(path: Path) -> Path:
    """Return the temporary name of a file, with host and process: others may write the same file at the same time."""
    return path.with_name(f"{path.name}.{platform.node()}-{os.getpid()}{PART}")


def image_kind(uuid: str) -> str:
    """Return the image kind of a sensor from its uuid: "depth", "segmentation" or "rgb"."""
    for kind in ("depth", "segmentation"):
        if uuid.endswith(f"_{kind}"):
            return kind
    return "rgb"


def pixel_format(kind: str) -> str:
    """Return PyAV's name of the pixel format in which images of a kind are decoded."""
    return "rgb24" if kind == "rgb" else "gray16le"


class VideoStream:
    """One video, written under a temporary name until it is closed.

    Args:
        path: its final name.
        kind: image kind, a key of :data:`VIDEO_FORMATS`.
        shape: shape of an image, (H, W, ...).
        rate: frames per second.
        x264: additional parameters of the colour encoder, e.g. "zones=0,9,q=16".
    """

    def __init__(self, path: Path, kind: str, shape: tuple[int, ...], rate: Fraction, x264: str = "") -> None:
        import av
        from av.video.stream import VideoStream as Stream

        self.path, self._part = path, part_path(path)
        self._kind, self._rate, self.count = kind, rate, 0
        height, width = shape[:2]
        with explain_errors(path):
            container = "mp4" if kind == "rgb" else "matroska"
            # bitexact: without the random numbers of the container, equal images make equal files
            self._file = av.open(str(self._part), "w", format=container, options={"fflags": "+bitexact"})
            stream = self._file.add_stream("libx264" if kind == "rgb" else "ffv1", rate=rate)
            assert isinstance(stream, Stream)
            stream.width, stream.height = width, height * 2 if kind == "segmentation" else height
            stream.codec_context.thread_count = 1
            if kind == "rgb":
                stream.pix_fmt = "yuv444p" if width % 2 or height % 2 else "yuv420p"
                stream.codec_context.gop_size = 12
                parameters = ":".join(filter(None, (_X264, x264)))
                stream.options = {"preset": "veryfast", "crf": "23", "x264-params": parameters}
            else:
                stream.pix_fmt = "gray16le"
            self._stream = stream

    def write(self, image: np.ndarray) -> None:
        """Add a frame, as the camera returned it."""
        import av

        with explain_errors(self.path):
            if self._kind == "rgb":
                frame = to_frame(image)
            else:
                stored = np.ascontiguousarray(to_stored(image, self._kind))
                frame = av.VideoFrame.from_ndarray(stored, format="gray16le")
        self.write_frame(frame)

    def write_frame(self, frame: VideoFrame) -> None:
        """Add a frame that was decoded from a video of the same kind."""
        with explain_errors(self.path):
            frame.pts, frame.time_base = self.count, 1 / self._rate
            self._file.mux(self._stream.encode(frame))
        self.count += 1

    def close(self, folder: Path) -> None:
        """Complete the file and move it into a folder on the same disk."""
        with explain_errors(self.path):
            self._file.mux(self._stream.encode())
            self._file.close()
        publish(self._part, folder / self.path.name)

    def drop(self) -> None:
        """Close and remove the file."""
        self._file.close()
        self._part.unlink(missing_ok=True)


def to_stored(image: np.ndarray, kind: str) -> np.ndarray:
    """Return an image in the numbers of its video."""
    if kind == "depth":
        millimetres = np.where(np.isfinite(image), image, 0.0) * 1000 + 0.5
        return np.minimum(millimetres, _MAX_DEPTH).astype(np.uint16)
    if kind == "segmentation":
        return (np.concatenate([image[..., 0], image[..., 1]]) + 1).astype(np.uint16)
    return image


def from_stored(frame: np.ndarray, kind: str) -> np.ndarray:
    """Return the image of a stored frame: depth (H, W) in metres, infinite for 0; segmentation (H, W, 2)."""
    if kind == "depth":
        return np.where(frame == 0, np.inf, frame * 0.001).astype(np.float32)
    if kind == "segmentation":
        upper, lower = np.split(frame.astype(np.int32) - 1, 2)
        return np.stack([upper, lower], axis=-1)
    return frame


def read_video(path: Path, kind: str, max_frames: int | None = None) -> np.ndarray:
    """Return the frames of a video as :func:`from_stored` does, (n, H, W, ...); at most ``max_frames``."""
    import av

    frames = []
    with av.open(str(path)) as file:
        for frame in file.decode(video=0):
            frames.append(from_stored(frame.to_ndarray(format=pixel_format(kind)), kind))
            if max_frames is not None and len(frames) >= max_frames:
                break
    return np.stack(frames)


def count_frames(path: Path) -> int:
    """Decode a whole video and return its number of frames."""
    import av

    with av.open(str(path)) as file:
        return sum(1 for _ in file.decode(video=0))


Job = tuple[Callable[[], None], bool]
"""A call to make, and whether to make it even after an error."""


class VideoEncoders:
    """Threads that encode frames. Each stream stays in one thread, in order. Submitting blocks while queues are full.

    Args:
        threads: number of threads. Default: half the number of cores, at least 2.
        max_waiting: maximum number of frames in all queues.
    """

    def __init__(self, threads: int | None = None, max_waiting: int = 64) -> None:
        count = max(2, cpu_count() // 2) if threads is None else threads
        self._queues: list[queue.Queue[Job | None]] = [queue.Queue(max(2, max_waiting // count)) for _ in range(count)]
        self._queue_of: dict[Path, queue.Queue[Job | None]] = {}
        self._error: BaseException | None = None
        self._threads = [threading.Thread(target=self._run, args=(each,), daemon=True) for each in self._queues]
        for thread in self._threads:
            thread.start()

    def write(self, stream: VideoStream, image: np.ndarray) -> None:
        """Queue a frame of a stream."""
        self._raise()
        self._queue(stream).put((lambda: stream.write(image), False))

    def finish(self, stream: VideoStream, folder: Path) -> None:
        """Queue the completion of a stream, whose file goes into a folder."""
        self._raise()
        self._queue(stream).put((lambda: stream.close(folder), False))

    def drop(self, stream: VideoStream) -> None:
        """Queue the removal of a stream, even after an error."""
        self._queue(stream).put((stream.drop, True))

    def _queue(self, stream: VideoStream) -> queue.Queue[Job | None]:
        """Return the queue of a stream: new streams are assigned round-robin."""
        return self._queue_of.setdefault(stream.path, self._queues[len(self._queue_of) % len(self._queues)])

    def wait(self) -> None:
        """Wait until all queues are empty; raise the first error of a thread."""
        for each in self._queues:
            each.join()
        self._raise()

    def close(self) -> None:
        """End the threads."""
        for each in self._queues:
            each.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self, jobs: queue.Queue[Job | None]) -> None:
        while (job := jobs.get()) is not None:
            call, always = job
            try:
                if self._error is None or always:
                    call()
            except BaseException as error:  # raised in the thread that submits
                self._error = error
            finally:
                jobs.task_done()
        jobs.task_done()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error
