"""Image files of a replay: colour as H.264 in MP4, other kinds exactly, in compressed HDF5.

A file holds one buffer of one env over one run of frames. While it is written, its frames are in a draft beside it. The
file is made from the draft without encoding the frames again. Any frame can be read without those before: a video has a
key frame at least every 12 frames, and HDF5 files have one compressed block per frame. A file ends with the checksum of
everything before, in a box of the type "free", which MP4 players skip. HDF5 ignores data after its own end.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict

from sensorium.files import PART, file_checksum

KEY_FRAMES = 12
"""Maximum number of frames from one key frame of a video to the next."""
_BOX = struct.Struct(">I4s8sI")
"""Last bytes of a file: size of this box, its type "free", our mark, and the CRC-32 of everything before."""
_MARK = b"sn crc32"


class ImageFormat(NamedTuple):
    """How images of one kind are stored."""

    codec: str
    suffix: str
    unit: str
    scale: float
    """A stored value times ``scale`` is in ``unit``."""


FORMATS: dict[str, ImageFormat] = {
    "rgb": ImageFormat("h264", ".mp4", "sRGB", 1.0),
    "depth": ImageFormat("hdf5-shuffle-gzip", ".h5", "m", 1.0),
    "segmentation": ImageFormat("hdf5-shuffle-gzip", ".h5", "body id, geom id", 1),
    "instance": ImageFormat("hdf5-shuffle-gzip", ".h5", "entity number", 1),
    "normals": ImageFormat("hdf5-shuffle-gzip", ".h5", "1", 1.0),
}
"""Image kind -> format."""


class ImageHeader(TypedDict):
    """Description of an image buffer in ``config.json``."""

    kind: str
    codec: str
    unit: str
    scale: float
    dtype: str
    shape: list[int]
    """Shape of one image: (H, W) or (H, W, channels)."""
    fps: float
    """Frames per second."""


def image_header(kind: str, dtype: str, shape: Sequence[int], fps: float) -> ImageHeader:
    """Return the header of an image buffer of some kind."""
    form = FORMATS[kind]
    return {
        "kind": kind,
        "codec": form.codec,
        "unit": form.unit,
        "scale": form.scale,
        "dtype": dtype,
        "shape": list(shape),
        "fps": fps,
    }


def is_image_header(form: object) -> bool:
    """Return whether the JSON form of an image buffer can be used."""
    if not isinstance(form, dict) or not {*ImageHeader.__annotations__} <= {*form} or form["kind"] not in [*FORMATS]:
        return False
    shape, texts, numbers = form["shape"], ("codec", "unit", "dtype"), ("scale", "fps")
    return (
        all(isinstance(form[name], str) for name in texts)
        and all(isinstance(form[name], int | float) and form[name] > 0 for name in numbers)
        and isinstance(shape, list)
        and len(shape) in (2, 3)
        and all(isinstance(extent, int) and 0 < extent < 2**16 for extent in shape)
    )


def file_notes(header: ImageHeader) -> dict[str, str | float]:
    """Return what every image file says about its images: codec, unit and scale."""
    return {"codec": header["codec"], "unit": header["unit"], "scale": header["scale"]}


def draft_path(path: Path) -> Path:
    """Return the path of the draft of an image file."""
    return path.with_name(f"{path.name}.frames{PART}")


def seal(path: Path) -> None:
    """Append the checksum of a file to it."""
    box = _BOX.pack(_BOX.size, b"free", _MARK, int(file_checksum(path), 16))
    with open(path, "ab") as file:
        file.write(box)


def is_sealed(path: Path) -> bool | None:
    """Return whether a file matches its checksum; None if it has no checksum, as files of version 1."""
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
