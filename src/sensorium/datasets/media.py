"""Images on disk: colour as H.264 in MP4, everything else bit by bit in compressed HDF5.

A file holds one buffer of one env over one run of frames. It is written under another name and gets its own when it is
complete. Frames are found without reading those before: videos have a key frame in every twelfth place, and HDF5 one
compressed block a frame. The last bytes of a file are the check sum of the others, in a box of the kind that MP4
players skip ("free"); HDF5 looks at nothing behind its own end.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections import OrderedDict
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import h5py
import numpy as np

from sensorium.datasets.files import PART, file_sum, named, publish
from sensorium.errors import DatasetError

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
_KEY_FRAMES = 12
_BOX = struct.Struct(">I4s8sI")
"""The last bytes of a file: how many they are, "free", our mark, and the CRC-32 of all that is before."""
_MARK = b"sn crc32"


class Writer(Protocol):
    """Writes the frames of one file."""

    def write(self, image: np.ndarray) -> None: ...
    def close(self) -> None: ...
    def drop(self) -> None: ...


def writer(stem: Path, kind: str, about: dict[str, Any], rate: Fraction) -> Writer:
    """A writer of ``stem`` with the ending of its kind; ``rate`` in frames a second."""
    with named(stem):
        stem.parent.mkdir(parents=True, exist_ok=True)
    path = stem.with_name(stem.name + KINDS[kind]["file"])
    if kind == "rgb":
        return VideoWriter(path, about, rate)
    return ArrayWriter(path, about)


class VideoWriter:
    """Frames (H, W, 3) uint8 as H.264. Sizes that are odd keep all their pixels, at full colour resolution."""

    def __init__(self, path: Path, about: dict[str, Any], rate: Fraction) -> None:
        import av

        height, width = about["shape"][:2]

        self._path, self._part = path, path.with_name(path.name + PART)
        self._frame = av.VideoFrame.from_ndarray
        self._count = 0
        with named(path):
            self._file = av.open(str(self._part), "w", format="mp4")
            self._file.metadata["comment"] = ", ".join(f"{name}: {about[name]}" for name in _TOLD)
            stream: Any = self._file.add_stream("libx264", rate=rate)
            stream.width, stream.height = width, height
            stream.pix_fmt = "yuv444p" if width % 2 or height % 2 else "yuv420p"
            stream.codec_context.thread_count = 1
            stream.codec_context.gop_size = _KEY_FRAMES
            stream.codec_context.max_b_frames = 0
            stream.options = {"preset": "ultrafast", "crf": "16"}
            self._stream = stream

    def write(self, image: np.ndarray) -> None:
        """Add a frame."""
        with named(self._path):
            frame = self._frame(np.ascontiguousarray(image), format="rgb24")
            frame.pts = self._count
            self._file.mux(self._stream.encode(frame))
        self._count += 1

    def close(self) -> None:
        """Complete the file."""
        with named(self._path):
            self._file.mux(self._stream.encode())
            self._file.close()
            _seal(self._part)
        publish(self._part, self._path)

    def drop(self) -> None:
        """Leave no file."""
        import contextlib

        with contextlib.suppress(OSError, ValueError):
            self._file.close()
        self._part.unlink(missing_ok=True)


class ArrayWriter:
    """Frames of any numbers, bit by bit: bytes of equal weight side by side, then deflated, as HDF5's filters do."""

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self._path, self._part = path, path.with_name(path.name + PART)
        self._dtype = dtype = np.dtype(about["dtype"])
        shape = tuple(about["shape"])
        self._count = 0
        with named(path):
            self._file = h5py.File(self._part, "w", libver="v110")
            self._data = self._file.create_dataset(
                "frames",
                (0, *shape),
                dtype,
                maxshape=(None, *shape),
                chunks=(1, *shape),
                shuffle=True,
                compression="gzip",
                compression_opts=1,
            )
            for name in _TOLD:
                self._data.attrs[name] = about[name]

    def write(self, image: np.ndarray) -> None:
        """Add a frame. Compressing is done here, where other threads can go on meanwhile."""
        raw = np.ascontiguousarray(image, self._dtype).view(np.uint8).reshape(-1, self._dtype.itemsize)
        packed = zlib.compress(np.ascontiguousarray(raw.T).data, 1)
        with named(self._path):
            self._data.resize(self._count + 1, axis=0)
            self._data.id.write_direct_chunk((self._count, *(0 for _ in image.shape)), packed)
        self._count += 1

    def close(self) -> None:
        """Complete the file."""
        with named(self._path):
            self._file.close()
            _seal(self._part)
        publish(self._part, self._path)

    def drop(self) -> None:
        """Leave no file."""
        self._file.close()
        self._part.unlink(missing_ok=True)


def _seal(path: Path) -> None:
    box = _BOX.pack(_BOX.size, b"free", _MARK, int(file_sum(path), 16))
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
    return bool(length == _BOX.size and mark == _MARK and int(file_sum(path, size - _BOX.size), 16) == expected)


# -- reading ----------------------------------------------------------------------------------------------------------


class _Video:
    """A video that stays open, so that frames one after the other need no seeking."""

    def __init__(self, path: Path) -> None:
        import av

        self._file = av.open(str(path))
        stream: Any = self._file.streams.video[0]
        self._stream = stream
        self.count = int(stream.frames)
        self._next = 0
        self._frames = self._file.decode(self._stream)
        self._tick: Fraction = 1 / (stream.average_rate * stream.time_base)

    def read(self, index: int) -> np.ndarray:
        if not self._next <= index < self._next + _KEY_FRAMES:
            self._file.seek(int(index * self._tick), stream=self._stream, backward=True)
            self._frames = self._file.decode(self._stream)
        for frame in self._frames:
            number = round(frame.pts / self._tick)
            self._next = number + 1
            if number == index:
                return np.asarray(frame.to_ndarray(format="rgb24"))
        self._next = -_KEY_FRAMES
        raise EOFError(f"it ends before frame {index}")

    def decodes(self) -> bool:
        """Whether every frame can be decoded, for files without a check sum."""
        self._stream.codec_context.options = {"err_detect": "explode"}
        return sum(not frame.is_corrupt for frame in self._file.decode(self._stream)) == self.count

    def close(self) -> None:
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


_open: OrderedDict[Path, _Video | _Arrays] = OrderedDict()
_MOST = 16


def _reader(path: Path) -> _Video | _Arrays:
    if path not in _open:
        if not path.is_file():
            raise DatasetError(f"the file {path} is missing; render it again with `sensorium replay`")
        try:
            _open[path] = _Video(path) if path.suffix == ".mp4" else _Arrays(path)
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


def verify(path: Path) -> int:
    """How many frames a file has, once every byte of them was looked at.

    Raises:
        DatasetError: it is missing or damaged.
    """
    forget(path)
    try:
        reader = _reader(path)
        try:
            sealed = _is_sealed(path)
            whole = reader.decodes() if sealed is None else sealed
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
