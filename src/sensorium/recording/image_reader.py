"""Reading image files: frames by number, and verification of whole files."""

from __future__ import annotations

from collections import OrderedDict
from fractions import Fraction
from pathlib import Path

import h5py
import numpy as np

from sensorium.errors import DatasetError
from sensorium.recording.image_files import FORMATS, KEY_FRAMES, ImageHeader, is_sealed

_MAX_OPEN = 16
"""Maximum number of files that are kept open."""


class VideoReader:
    """A video that stays open, so that consecutive frames are read without seeking.

    Args:
        path: the file.
        pixel_format: PyAV's name of the pixel format to return, e.g. "rgb24" or "gray16le".
        threads: number of threads that decode; 0 for FFmpeg's choice.
        key_frames: number of frames ahead from which on seeking is faster than decoding all frames up to there.

    Attributes:
        count: number of frames.
    """

    def __init__(self, path: Path, pixel_format: str = "rgb24", threads: int = 0, key_frames: int = KEY_FRAMES) -> None:
        import av
        from av.video.reformatter import VideoReformatter

        self._pixel_format, self._key_frames = pixel_format, key_frames
        self._reformatter = VideoReformatter()  # frame.to_ndarray(format=...) makes one for each frame
        self._file = av.open(str(path))
        self._stream = self._file.streams.video[0]
        self._stream.codec_context.thread_count = threads
        self._stream.codec_context.options = {"err_detect": "explode"}  # FFmpeg would conceal damage
        self.count = int(self._stream.frames)
        self._next = 0
        self._frames = self._file.decode(self._stream)
        rate, time_base = self._stream.average_rate, self._stream.time_base
        if rate is None or time_base is None:
            self._file.close()
            raise ValueError("the video has no frame rate")
        self._tick: Fraction = 1 / (rate * time_base)
        self._frames_per_tick = float(1 / self._tick)  # fractions are slow, and one is computed per frame

    def read(self, index: int) -> np.ndarray:
        """Return one frame, (H, W, ...).

        Raises:
            EOFError: the video has fewer frames.
            ValueError: the frame is damaged.
        """
        if not self._next <= index < self._next + self._key_frames:
            self._file.seek(int(index * self._tick), stream=self._stream, backward=True)
            self._frames = self._file.decode(self._stream)
        for frame in self._frames:
            number = round((frame.pts or 0) * self._frames_per_tick)
            self._next = number + 1
            if number == index:
                if frame.is_corrupt:
                    raise ValueError(f"frame {index} is damaged")
                return np.asarray(self._reformatter.reformat(frame, format=self._pixel_format).to_ndarray())
        self._next = -self._key_frames
        raise EOFError(f"it ends before frame {index}")

    def decodes(self) -> bool:
        """Return whether every frame can be decoded, for files without a checksum."""
        return sum(not frame.is_corrupt for frame in self._file.decode(self._stream)) == self.count

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class ArrayReader:
    """An HDF5 file of images that stays open.

    Attributes:
        count: number of frames.
    """

    def __init__(self, path: Path) -> None:
        self._file = h5py.File(path, "r", locking=False)
        self._data = self._file["frames"]
        self.count = len(self._data)

    def read(self, index: int) -> np.ndarray:
        """Return one frame, (H, W, ...)."""
        return np.asarray(self._data[index])

    def decodes(self) -> bool:
        """Return whether every frame can be decompressed, for files without a checksum. Deflate has its own."""
        return all(self.read(index) is not None for index in range(self.count))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


_open: OrderedDict[Path, VideoReader | ArrayReader] = OrderedDict()


def _reader(path: Path) -> VideoReader | ArrayReader:
    if path not in _open:
        if not path.is_file():
            raise DatasetError(f"the file {path} is missing; render it again with `sensorium replay`")
        try:
            _open[path] = VideoReader(path) if path.suffix == ".mp4" else ArrayReader(path)
        except Exception as error:  # h5py and FFmpeg raise nearly anything for damaged files
            raise _unreadable(path, error) from None
        while len(_open) > _MAX_OPEN:
            _open.popitem(last=False)[1].close()
    _open.move_to_end(path)
    return _open[path]


def read_image(stem: Path, header: ImageHeader, index: int) -> np.ndarray:
    """Return one frame of an image file.

    Args:
        stem: path of the file without its suffix.
        header: description of the images.
        index: number of the frame in the file.

    Raises:
        DatasetError: the file is missing or damaged.
    """
    path = stem.with_name(stem.name + FORMATS[header["kind"]].suffix)
    try:
        return _reader(path).read(index)
    except DatasetError:
        raise
    except Exception as error:
        forget(path)
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> DatasetError:
    return DatasetError(f"cannot read {path} ({error}); render it again with `sensorium replay`")


def verify(path: Path, version: int) -> int:
    """Verify every byte of an image file; return its number of frames.

    Args:
        path: the file.
        version: format version of the recording. Files of version 1 have no checksum and are decoded instead.

    Raises:
        DatasetError: the file is missing or damaged.
    """
    forget(path)
    try:
        reader = _reader(path)
        try:
            sealed = is_sealed(path)
            whole = reader.decodes() if sealed is None and version == 1 else bool(sealed)
        finally:
            forget(path)
    except DatasetError:
        raise
    except Exception as error:
        raise _unreadable(path, error) from None
    if not whole:
        raise DatasetError(f"{path} was changed or truncated; render it again with `sensorium replay`")
    return reader.count


def forget(path: Path) -> None:
    """Close an image file if it is open, e.g. before it is removed or rewritten."""
    reader = _open.pop(path, None)
    if reader is not None:
        reader.close()
