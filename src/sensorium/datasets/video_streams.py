"""Videos of image sensors, encoded in threads: colour and grey as H.264, all others as lossless FFV1."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sensorium._system import cpu_count
from sensorium.datasets.image_formats import ImageEncoding
from sensorium.files import create_locked, explain_errors, publish
from sensorium.recording.colour import to_frame

if TYPE_CHECKING:
    from av import VideoFrame
    from av.container import InputContainer


_X264 = "bframes=0:subme=1:mbtree=0"
"""Parameters of x264, with the preset ``veryfast``. Without B-frames, no frame depends on a later one.

Without the macroblock tree, the same images give the same bytes. With it, 1 to 9 of 100 encodings of the same frames
differed on CPUs with AVX-512, also in one thread; with ``asm=AVX2`` and ``asm=SSE2`` none of 300 did. Checked with
x264 of PyAV 18.1."""
_CRF = "26"
"""Constant rate factor of x264: without the macroblock tree, PSNR is 0.5 dB higher than with the tree at 23."""

KEY_FRAMES = 4
"""A key frame at least every so many frames. A random frame is decoded from the key frame before it.

For "pick" at 640 x 480, a random colour image takes about half the time of that with 12. Colour videos need 1.3 to 1.5
times the bytes (1.6 instead of 1.1 kB per frame, mean of four cameras), and PSNR is 41.3 instead of 41.1 dB."""


class VideoStream:
    """One video, written under a temporary name until it is closed.

    Args:
        path: its final name.
        form: format of the images.
        rate: frames per second.
        x264: additional parameters of the colour encoder, e.g. "zones=0,9,q=16".
    """

    def __init__(self, path: Path, form: ImageEncoding, rate: Fraction, x264: str = "") -> None:
        import av
        from av.video.stream import VideoStream as Stream

        self.path = path
        self._form, self._rate, self.count = form, rate, 0
        height, width = form.frame_size
        with explain_errors(path):
            container = "mp4" if form.is_colour else "matroska"
            self._lock, self._part = create_locked(path)
            # bitexact: without the random numbers of the container, equal images make equal files
            self._file = av.open(str(self._part), "w", format=container, options={"fflags": "+bitexact"})
            stream = self._file.add_stream("libx264" if form.is_colour else "ffv1", rate=rate)
            assert isinstance(stream, Stream)
            stream.width, stream.height = width, height
            stream.codec_context.thread_count = 1
            stream.codec_context.gop_size = KEY_FRAMES
            if form.is_colour:
                stream.pix_fmt = "yuv444p" if width % 2 or height % 2 else "yuv420p"
                parameters = ":".join(filter(None, (_X264, x264)))
                stream.options = {"preset": "veryfast", "crf": _CRF, "x264-params": parameters}
            else:
                stream.pix_fmt = form.pixel_format
            self._stream = stream

    def write(self, image: np.ndarray) -> None:
        """Add a frame, as the camera returned it."""
        import av

        with explain_errors(self.path):
            stored = self._form.store(image)
            if self._form.is_colour:
                frame = to_frame(stored)
            else:
                frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(stored), format=self._form.pixel_format)
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
        self._lock.close()
        publish(self._part, folder / self.path.name)

    def drop(self) -> None:
        """Close and remove the file."""
        self._file.close()
        self._lock.close()
        self._part.unlink(missing_ok=True)


def decode_frames(file: InputContainer) -> Iterator[VideoFrame]:
    """Yield the frames of an open video.

    FFmpeg conceals damage and ends a truncated file without an error, unless it is asked not to.

    Raises:
        ValueError: a frame is damaged.
        EOFError: the video has fewer frames than its header says.
    """
    if not file.streams.video or file.streams.video[0].codec_context is None:
        raise ValueError("it has no video that can be decoded")
    stream, count = file.streams.video[0], 0
    expected = stream.frames  # 0 in Matroska
    if not expected and file.duration and stream.average_rate:
        expected = round(file.duration * stream.average_rate / 1_000_000)  # the duration is in microseconds
    stream.codec_context.options = {"err_detect": "explode"}
    for frame in file.decode(stream):
        if frame.is_corrupt:
            raise ValueError(f"frame {count} is damaged")
        yield frame
        count += 1
    if count < expected:
        raise EOFError(f"it has {count} frames instead of {expected}")


def read_video(
    path: Path, form: ImageEncoding | None = None, max_frames: int | None = None, no_depth: float = np.inf
) -> np.ndarray:
    """Return the images of a video, (n, *form.shape); at most ``max_frames``. Without a format it is a colour video.

    Raises:
        ValueError, EOFError, OSError: the video is damaged, truncated or missing.
    """
    import av

    frames = []
    with av.open(str(path)) as file:
        for frame in decode_frames(file):
            pixels = frame.to_ndarray(format="rgb24" if form is None else form.pixel_format)
            frames.append(pixels if form is None else form.restore(pixels, no_depth))
            if max_frames is not None and len(frames) >= max_frames:
                break
    return np.stack(frames)


def frame_size(path: Path) -> tuple[int, int]:
    """Return the height and width of the frames of a video in pixels."""
    import av

    with av.open(str(path)) as file:
        stream = file.streams.video[0]
        return stream.height, stream.width


def count_frames(path: Path) -> int:
    """Decode a whole video and return its number of frames."""
    import av

    with av.open(str(path)) as file:
        return sum(1 for _ in decode_frames(file))


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
