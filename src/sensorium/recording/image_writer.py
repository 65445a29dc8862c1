"""Writing image files: frames are encoded into a draft, and the draft becomes the file when it is complete."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from fractions import Fraction
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Protocol

import numpy as np

from sensorium._system import pread
from sensorium.files import create, explain_errors, publish, temporary_path
from sensorium.hdf5_files import Hdf5File
from sensorium.recording.colour import to_frame
from sensorium.recording.drafts import Draft, records
from sensorium.recording.image_files import ImageHeader, draft_path, file_notes, seal


class ImageWriter(Protocol):
    """Encodes frames and appends them to the draft of one file."""

    def write(self, image: np.ndarray, key: bool) -> None:
        """Append a frame, (H, W, ...); ``key`` makes it a key frame of a video."""
        ...

    def close(self) -> None:
        """Close the draft."""
        ...


def image_writer(path: Path, header: ImageHeader) -> ImageWriter:
    """Return a writer for the draft of the image file ``path``."""
    return VideoWriter(path, header) if header["kind"] == "rgb" else ArrayWriter(path, header)


def finish(path: Path, header: ImageHeader, count: int) -> None:
    """Write an image file from the first ``count`` frames of its draft. The draft is kept."""
    draft = draft_path(path)
    with open(draft, "rb") as file:
        frames = (pread(file.fileno(), size, offset) for offset, size in records(draft)[:count])
        if header["kind"] == "rgb":
            _finish_video(path, header, frames)
        else:
            _finish_arrays(path, header, frames)


class VideoWriter:
    """Writes frames (H, W, 3) uint8 as H.264. Images of odd size keep all pixels, at full colour resolution.

    Each frame is encoded when it is written, with a constant quantizer, so it depends only on the frames since the last
    key frame. A record of the draft is one byte, 1 for a key frame and 0 for others, followed by the packet.
    """

    def __init__(self, path: Path, header: ImageHeader) -> None:
        import av
        from av.video.codeccontext import VideoCodecContext
        from av.video.frame import PictureType

        height, width = header["shape"][:2]
        self._key_frame, self._count = PictureType.I, 0
        context = av.CodecContext.create("libx264", "w")
        assert isinstance(context, VideoCodecContext)
        context.width, context.height = width, height
        context.pix_fmt = "yuv444p" if width % 2 or height % 2 else "yuv420p"
        context.time_base, context.framerate = 1 / _rate(header), _rate(header)
        context.thread_count = 1
        context.max_b_frames = 0
        context.gop_size = 1 << 20  # key frames are requested frame by frame
        context.options = {"preset": "ultrafast", "tune": "zerolatency", "qp": "16", "forced-idr": "1"}
        self._context = context
        self._draft = Draft(draft_path(path))

    def write(self, image: np.ndarray, key: bool) -> None:
        """Append a frame. Conversion and encoding release the GIL."""
        frame = to_frame(image)
        frame.pts, frame.time_base = self._count, self._context.time_base
        if key:
            frame.pict_type = self._key_frame
        (packet,) = self._context.encode(frame)
        self._draft.add(bytes([packet.is_keyframe]) + bytes(packet))
        self._count += 1

    def close(self) -> None:
        """Close the draft."""
        self._draft.close()


def _finish_video(path: Path, header: ImageHeader, frames: Iterator[bytes]) -> None:
    import av

    data, part = BytesIO(), temporary_path(path)
    first = next(frames)
    with av.open(BytesIO(first[1:]), format="h264") as like, av.open(data, "w", format="mp4") as file:
        file.metadata["comment"] = ", ".join(f"{name}: {value}" for name, value in file_notes(header).items())
        stream = file.add_stream_from_template(like.streams.video[0])
        tick = 1 / _rate(header)
        stream.time_base = tick
        for number, frame in enumerate(chain([first], frames)):
            packet = av.Packet(frame[1:])
            packet.stream, packet.time_base = stream, tick
            packet.pts = packet.dts = number
            packet.duration, packet.is_keyframe = 1, bool(frame[0])
            file.mux_one(packet)
    with explain_errors(path):
        with create(part) as target:
            target.write(data.getbuffer())
        seal(part)
    publish(part, path)


def _rate(header: ImageHeader) -> Fraction:
    return Fraction(header["fps"]).limit_denominator(100_000)


class ArrayWriter:
    """Writes frames of numbers exactly: bytes shuffled by significance, then deflated, as the filters of HDF5 do."""

    def __init__(self, path: Path, header: ImageHeader) -> None:
        self._dtype = np.dtype(header["dtype"])
        self._draft = Draft(draft_path(path))

    def write(self, image: np.ndarray, key: bool) -> None:
        """Append a frame. Compression releases the GIL."""
        raw = np.ascontiguousarray(image, self._dtype).view(np.uint8).reshape(-1, self._dtype.itemsize)
        self._draft.add(zlib.compress(np.ascontiguousarray(raw.T).data, 1))

    def close(self) -> None:
        """Close the draft."""
        self._draft.close()


def _finish_arrays(path: Path, header: ImageHeader, frames: Iterator[bytes]) -> None:
    shape, part = tuple(header["shape"]), temporary_path(path)
    with explain_errors(path):
        with Hdf5File(part, libver="v110") as file:
            data = file.create_dataset(
                "frames",
                (0, *shape),
                header["dtype"],
                maxshape=(None, *shape),
                chunks=(1, *shape),
                shuffle=True,
                compression="gzip",
                compression_opts=1,
            )
            for name, value in file_notes(header).items():
                data.attrs[name] = value
            for number, frame in enumerate(frames):
                data.resize(number + 1, axis=0)
                data.id.write_direct_chunk((number, *(0 for _ in shape)), frame)
                file.check()
        seal(part)
    publish(part, path)
