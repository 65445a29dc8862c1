"""Videos of cameras, encoded in threads: colour as H.264; depth in millimetres and segmentation as lossless FFV1."""

from __future__ import annotations

import os
import platform
import queue
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from sensorium._system import cpu_count
from sensorium.files import PART, explain_errors, publish
from sensorium.recording.colour import to_frame

KINDS: dict[str, dict[str, Any]] = {
    "rgb": {"ending": ".mp4", "codec": "h264", "unit": "sRGB", "scale": 1.0},
    "depth": {"ending": ".mkv", "codec": "ffv1", "unit": "m", "scale": 0.001},
    "segmentation": {"ending": ".mkv", "codec": "ffv1", "unit": "body id, then geom id below it", "scale": 1},
}
"""Kind -> how it is kept. A stored number times ``scale`` is in ``unit``; depth 0 is nothing; segmentation has 1 added,
so that 0 is nothing, and the two ids of a pixel stand above each other."""
_DEPTH = 65535
_X264 = "bframes=0:subme=1"
"""Of two thirds of the time that ``veryfast`` takes, as good, and a fifth larger; and a frame needs none after it."""


def part_of(path: Path) -> Path:
    """What a file is called while this process writes it; another may be writing the same, on another machine."""
    return path.with_name(f"{path.name}.{platform.node()}-{os.getpid()}{PART}")


def kind_of(uuid: str) -> str:
    """Which kind of image a sensor is, by its name."""
    for kind in ("depth", "segmentation"):
        if uuid.endswith(f"_{kind}"):
            return kind
    return "rgb"


class VideoStream:
    """One video, under another name until it is complete.

    Args:
        path: its final name.
        kind: of images, as in :data:`KINDS`.
        shape: of an image.
        rate: frames in a second.
        x264: further parameters of the encoder of colour images, as "zones=0,9,q=16".
    """

    def __init__(self, path: Path, kind: str, shape: tuple[int, ...], rate: Fraction, x264: str = "") -> None:
        import av

        self.path, self._part = path, part_of(path)
        self._kind, self._rate, self.count = kind, rate, 0
        height, width = shape[:2]
        with explain_errors(path):
            form = "mp4" if kind == "rgb" else "matroska"
            # without the random numbers that a container else has, so that equal images make equal files
            self._file = av.open(str(self._part), "w", format=form, options={"fflags": "+bitexact"})
            stream: Any = self._file.add_stream("libx264" if kind == "rgb" else "ffv1", rate=rate)
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
        """Add a frame, as the camera gave it."""
        import av

        with explain_errors(self.path):
            if self._kind == "rgb":
                frame = to_frame(image)
            else:
                stored = np.ascontiguousarray(to_stored(image, self._kind))
                frame = av.VideoFrame.from_ndarray(stored, format="gray16le")
        self.write_frame(frame)

    def write_frame(self, frame: Any) -> None:
        """Add a frame of PyAV, as a video of the same kind gave it."""
        with explain_errors(self.path):
            frame.pts, frame.time_base = self.count, 1 / self._rate
            self._file.mux(self._stream.encode(frame))
        self.count += 1

    def close(self, folder: Path) -> None:
        """Complete the file, in a folder of the same disk."""
        with explain_errors(self.path):
            self._file.mux(self._stream.encode())
            self._file.close()
        publish(self._part, folder / self.path.name)

    def drop(self) -> None:
        """Leave no file."""
        self._file.close()
        self._part.unlink(missing_ok=True)


def to_stored(image: np.ndarray, kind: str) -> np.ndarray:
    """An image in the numbers of its video."""
    if kind == "depth":
        millimetres = np.where(np.isfinite(image), image, 0.0) * 1000 + 0.5
        return np.minimum(millimetres, _DEPTH).astype(np.uint16)
    if kind == "segmentation":
        return (np.concatenate([image[..., 0], image[..., 1]]) + 1).astype(np.uint16)
    return image


def from_stored(frame: np.ndarray, kind: str) -> np.ndarray:
    """The image that was stored: depth in metres, infinite where there is nothing; segmentation (H, W, 2)."""
    if kind == "depth":
        return np.where(frame == 0, np.inf, frame * 0.001).astype(np.float32)
    if kind == "segmentation":
        upper, lower = np.split(frame.astype(np.int32) - 1, 2)
        return np.stack([upper, lower], axis=-1)
    return frame


def read_video(path: Path, kind: str, most: int | None = None) -> np.ndarray:
    """All frames of a video (or the first ``most``), as :func:`from_stored` gives them."""
    import av

    form = "rgb24" if kind == "rgb" else "gray16le"
    frames = []
    with av.open(str(path)) as file:
        for frame in file.decode(video=0):
            frames.append(from_stored(frame.to_ndarray(format=form), kind))
            if most is not None and len(frames) >= most:
                break
    return np.stack(frames)


def count_frames(path: Path) -> int:
    """Decode a video to its end, and count."""
    import av

    with av.open(str(path)) as file:
        return sum(1 for _ in file.decode(video=0))


class VideoEncoders:
    """Threads that encode frames, each stream in one of them, in order; waits when too many frames wait.

    Args:
        threads: how many. Default: half as many as there are cores, two at least.
        waiting: frames that may wait in all.
    """

    def __init__(self, threads: int | None = None, waiting: int = 64) -> None:
        count = max(2, cpu_count() // 2) if threads is None else threads
        self._queues: list[queue.Queue[Any]] = [queue.Queue(max(2, waiting // count)) for _ in range(count)]
        self._queue_of: dict[Path, queue.Queue[Any]] = {}
        self._error: BaseException | None = None
        self._threads = [threading.Thread(target=self._run, args=(each,), daemon=True) for each in self._queues]
        for thread in self._threads:
            thread.start()

    def submit(self, stream: VideoStream, call: str, *args: Any) -> None:
        """Have a stream's method called, after those submitted before."""
        self._raise()
        self._of(stream).put((stream, call, args))

    def submit_drop(self, stream: VideoStream) -> None:
        """Have a stream leave no file, whatever went wrong before."""
        self._of(stream).put((stream, "drop", ()))

    def _of(self, stream: VideoStream) -> queue.Queue[Any]:
        """Each stream goes to the next thread, so that all have as many."""
        return self._queue_of.setdefault(stream.path, self._queues[len(self._queue_of) % len(self._queues)])

    def wait(self) -> None:
        """Until everything is done; raises what went wrong."""
        for each in self._queues:
            each.join()
        self._raise()

    def close(self) -> None:
        """End the threads."""
        for each in self._queues:
            each.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self, mine: queue.Queue[Any]) -> None:
        while (item := mine.get()) is not None:
            stream, call, args = item
            try:
                if self._error is None or call == "drop":
                    getattr(stream, call)(*args)
            except BaseException as error:  # told to the thread that submits
                self._error = error
            finally:
                mine.task_done()
        mine.task_done()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error
