"""Images on disk: colour as H.264 in MP4, everything else bit by bit in compressed HDF5.

A file holds one buffer of one env over one run of frames. While it is written, its frames go into a draft beside it,
from which the file is made without coding them again. Frames are found without reading those before: videos have a key
frame in every twelfth place at least, and HDF5 one compressed block a frame. The last bytes of a file are the check sum
of the others, in a box of the kind that MP4 players skip ("free"); HDF5 looks at nothing behind its own end.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from fractions import Fraction
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import h5py
import numpy as np

from sensorium._system import pread, reserve
from sensorium.errors import DatasetError
from sensorium.files import PART, file_checksum, named, publish
from sensorium.recording.colour import to_frame
from sensorium.recording.drafts import Draft, records

KINDS: dict[str, dict[str, Any]] = {
    "rgb": {"codec": "h264", "file": ".mp4", "unit": "sRGB", "scale": 1.0},
    "depth": {"codec": "hdf5-shuffle-gzip", "file": ".h5", "unit": "m", "scale": 1.0},
    "segmentation": {"codec": "hdf5-shuffle-gzip", "file": ".h5", "unit": "body id, geom id", "scale": 1},
    "instance": {"codec": "hdf5-shuffle-gzip", "file": ".h5", "unit": "entity number", "scale": 1},
    "normals": {"codec": "hdf5-shuffle-gzip", "file": ".h5", "unit": "1", "scale": 1.0},
}
"""Kind of image -> how it is kept."""
_TOLD = ("codec", "unit", "scale")
"""What every file says of its images."""
KEY_FRAMES = 12
"""From one key frame of a video to the next, at most."""
_SLACK = 1 << 16
"""Room for what HDF5 itself needs."""
_BOX = struct.Struct(">I4s8sI")
"""The last bytes of a file: how many they are, "free", our mark, and the CRC-32 of all that is before."""
_MARK = b"sn crc32"


class Writer(Protocol):
    """Adds the frames of one file to its draft."""

    def write(self, image: np.ndarray, key: bool) -> None: ...
    def close(self) -> None: ...


def draft_of(path: Path) -> Path:
    """Where the frames of a file are while it is written."""
    return path.with_name(f"{path.name}.frames{PART}")


def writer(path: Path, about: dict[str, Any]) -> Writer:
    """A writer of the draft of a file."""
    return VideoWriter(path, about) if about["kind"] == "rgb" else ArrayWriter(path, about)


def finish(path: Path, about: dict[str, Any], count: int) -> None:
    """Make a file of the first frames of its draft, which stays."""
    draft = draft_of(path)
    with open(draft, "rb") as file:
        frames = (pread(file.fileno(), size, offset) for offset, size in records(draft)[:count])
        if about["kind"] == "rgb":
            _finish_video(path, about, frames)
        else:
            _finish_arrays(path, about, frames, os.path.getsize(draft))


class VideoWriter:
    """Frames (H, W, 3) uint8 as H.264. Sizes that are odd keep all their pixels, at full colour resolution.

    Each frame is coded as it comes, with the same quantizer: what it becomes depends on those since the last key frame,
    and on nothing before. A record is 1 or 0 (whether it is a key frame), and the packet.
    """

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        import av

        height, width = about["shape"][:2]
        self._av, self._count = av, 0
        context: Any = av.CodecContext.create("libx264", "w")
        context.width, context.height = width, height
        context.pix_fmt = "yuv444p" if width % 2 or height % 2 else "yuv420p"
        context.time_base, context.framerate = 1 / _rate(about), _rate(about)
        context.thread_count = 1
        context.max_b_frames = 0
        context.gop_size = 1 << 20  # they are asked for
        context.options = {"preset": "ultrafast", "tune": "zerolatency", "qp": "16", "forced-idr": "1"}
        self._context = context
        self._draft = Draft(draft_of(path))

    def write(self, image: np.ndarray, key: bool) -> None:
        """Add a frame. Converting and coding let other threads go on meanwhile."""
        frame = to_frame(image)
        frame.pts, frame.time_base = self._count, self._context.time_base
        if key:
            frame.pict_type = self._av.video.frame.PictureType.I
        (packet,) = self._context.encode(frame)
        self._draft.add(bytes([packet.is_keyframe]) + bytes(packet))
        self._count += 1

    def close(self) -> None:
        """Let go of the draft."""
        self._draft.close()


def _finish_video(path: Path, about: dict[str, Any], frames: Iterator[bytes]) -> None:
    import av

    data, part = BytesIO(), path.with_name(path.name + f".whole{PART}")
    first = next(frames)
    with av.open(BytesIO(first[1:]), format="h264") as like, av.open(data, "w", format="mp4") as file:
        file.metadata["comment"] = ", ".join(f"{name}: {about[name]}" for name in _TOLD)
        stream = file.add_stream_from_template(like.streams.video[0])
        tick = 1 / _rate(about)
        stream.time_base = tick
        for number, frame in enumerate(chain([first], frames)):
            packet = av.Packet(frame[1:])
            packet.stream, packet.time_base = stream, tick
            packet.pts = packet.dts = number
            packet.duration, packet.is_keyframe = 1, bool(frame[0])
            file.mux_one(packet)
    with named(path):
        part.write_bytes(data.getbuffer())
        _seal(part)
    publish(part, path)


def _rate(about: dict[str, Any]) -> Fraction:
    return Fraction(about["fps"]).limit_denominator(100_000)


class ArrayWriter:
    """Frames of any numbers, bit by bit: bytes of equal weight side by side, then deflated, as HDF5's filters do."""

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self._dtype = np.dtype(about["dtype"])
        self._draft = Draft(draft_of(path))

    def write(self, image: np.ndarray, key: bool) -> None:
        """Add a frame. Compressing lets other threads go on meanwhile."""
        raw = np.ascontiguousarray(image, self._dtype).view(np.uint8).reshape(-1, self._dtype.itemsize)
        self._draft.add(zlib.compress(np.ascontiguousarray(raw.T).data, 1))

    def close(self) -> None:
        """Let go of the draft."""
        self._draft.close()


def _finish_arrays(path: Path, about: dict[str, Any], frames: Iterator[bytes], n_bytes: int) -> None:
    shape, part = tuple(about["shape"]), path.with_name(path.name + f".whole{PART}")
    with named(path):
        with open(part, "wb") as room:  # a full disk shows here, and not inside HDF5
            reserve(room.fileno(), n_bytes + _SLACK)
        with h5py.File(part, "w", libver="v110") as file:
            data = file.create_dataset(
                "frames",
                (0, *shape),
                about["dtype"],
                maxshape=(None, *shape),
                chunks=(1, *shape),
                shuffle=True,
                compression="gzip",
                compression_opts=1,
            )
            for name in _TOLD:
                data.attrs[name] = about[name]
            for number, frame in enumerate(frames):
                data.resize(number + 1, axis=0)
                data.id.write_direct_chunk((number, *(0 for _ in shape)), frame)
        _seal(part)
    publish(part, path)


def _seal(path: Path) -> None:
    box = _BOX.pack(_BOX.size, b"free", _MARK, int(file_checksum(path), 16))
    with open(path, "ab") as file:
        file.write(box)


def _is_sealed(path: Path) -> bool | None:
    """Whether a file is as it was completed; None where it does not say, as those of version 1."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        file.seek(max(0, size - 2 * _BOX.size))
        last = file.read()
    if _MARK not in last:
        return None
    if len(last) < _BOX.size:
        return False
    length, _, mark, expected = _BOX.unpack(last[-_BOX.size :])
    return bool(length == _BOX.size and mark == _MARK and int(file_checksum(path, size - _BOX.size), 16) == expected)


# -- reading ----------------------------------------------------------------------------------------------------------


class VideoReader:
    """A video that stays open, so that frames one after the other need no seeking.

    Args:
        path: the file.
        form: PyAV's name of the pixels to give: "rgb24", "gray16le".
    """

    def __init__(self, path: Path, form: str = "rgb24") -> None:
        import av

        self._form = form

        self._file = av.open(str(path))
        stream: Any = self._file.streams.video[0]
        self._stream = stream
        self.count = int(stream.frames)
        self._next = 0
        self._frames = self._file.decode(self._stream)
        self._tick: Fraction = 1 / (stream.average_rate * stream.time_base)

    def read(self, index: int) -> np.ndarray:
        """One frame, (H, W, ...).

        Raises:
            EOFError: there are not as many.
        """
        if not self._next <= index < self._next + KEY_FRAMES:
            self._file.seek(int(index * self._tick), stream=self._stream, backward=True)
            self._frames = self._file.decode(self._stream)
        for frame in self._frames:
            number = round(frame.pts / self._tick)
            self._next = number + 1
            if number == index:
                return np.asarray(frame.to_ndarray(format=self._form))
        self._next = -KEY_FRAMES
        raise EOFError(f"it ends before frame {index}")

    def decodes(self) -> bool:
        """Whether every frame can be decoded, for files without a check sum."""
        self._stream.codec_context.options = {"err_detect": "explode"}
        return sum(not frame.is_corrupt for frame in self._file.decode(self._stream)) == self.count

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class _Arrays:
    def __init__(self, path: Path) -> None:
        self._file = h5py.File(path, "r", locking=False)
        self._data = self._file["frames"]
        self.count = len(self._data)

    def decodes(self) -> bool:
        """Likewise; the codec has sums of its own."""
        return all(self.read(index) is not None for index in range(self.count))

    def read(self, index: int) -> np.ndarray:
        return np.asarray(self._data[index])

    def close(self) -> None:
        self._file.close()


_open: OrderedDict[Path, VideoReader | _Arrays] = OrderedDict()
_MOST = 16


def _reader(path: Path) -> VideoReader | _Arrays:
    if path not in _open:
        if not path.is_file():
            raise DatasetError(f"the file {path} is missing; render it again with `sensorium replay`")
        try:
            _open[path] = VideoReader(path) if path.suffix == ".mp4" else _Arrays(path)
        except (OSError, KeyError, IndexError, ValueError) as error:
            raise _unreadable(path, error) from None
        while len(_open) > _MOST:
            _open.popitem(last=False)[1].close()
    _open.move_to_end(path)
    return _open[path]


def read(stem: Path, about: dict[str, Any], index: int) -> np.ndarray:
    """One frame of a file."""
    path = stem.with_name(stem.name + KINDS[about["kind"]]["file"])
    try:
        return _reader(path).read(index)
    except (OSError, EOFError, ValueError) as error:
        forget(path)
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> DatasetError:
    return DatasetError(f"{path} cannot be read ({error}); render it again with `sensorium replay`")


def verify(path: Path, version: int) -> int:
    """How many frames a file has, once every byte of them was looked at.

    Args:
        path: the file.
        version: of the recording. Files of the first have no check sum, and are decoded instead.

    Raises:
        DatasetError: it is missing or damaged.
    """
    forget(path)
    try:
        reader = _reader(path)
        try:
            sealed = _is_sealed(path)
            whole = reader.decodes() if sealed is None and version == 1 else bool(sealed)
        finally:
            forget(path)
    except (OSError, EOFError, ValueError, KeyError, RuntimeError) as error:
        if isinstance(error, DatasetError):
            raise
        raise _unreadable(path, error) from None
    if not whole:
        raise DatasetError(f"{path} was changed or truncated; render it again with `sensorium replay`")
    return reader.count


def forget(path: Path) -> None:
    """Close a file."""
    held = _open.pop(path, None)
    if held is not None:
        held.close()
