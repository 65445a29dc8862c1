"""Values of the terms of a contract from ROS messages.

A message is a mapping, or an object with attributes such as those of rclpy; both may nest. The field of a term is a
path with dots in it. ``conversion`` of the term says how the field becomes values:

============== ========================================================================================================
conversion     values
============== ========================================================================================================
``values``     a number, an array, or an object with x, y and z
``quaternion`` an object with x, y, z and w, as (w, x, y, z); NaN unless its norm is 1 within 0.1
``yaw``        the same, as the angle about z in rad
``joints``     entries of an array, by the names in the field ``name`` of the message
``time``       an object with sec and nanosec, in s
``points``     fields of a ``PointCloud2``: x, y and z, or value; those of ray sensors by their names, e.g. range
``image``      an ``Image``, (height, width, channels)
============== ========================================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np

from sensorium.deploy.contract import ObservationTerm
from sensorium.errors import NameNotFoundError, OptionError, did_you_mean, shorten

Message = object
"""A message: a mapping, or an object with attributes."""
Converter = Callable[[Message], np.ndarray | None]
"""Returns the values of a term, (size,) float32, or an image (height, width, channels); None if it has none of them."""

_POINT_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 8: "f8"}
"""``datatype`` of the fields of a PointCloud2 -> type of NumPy."""
_ENCODINGS = {
    "rgb8": ("u1", 3),
    "bgr8": ("u1", 3),
    "rgba8": ("u1", 4),
    "bgra8": ("u1", 4),
    "mono8": ("u1", 1),
    "8UC1": ("u1", 1),
    "8UC3": ("u1", 3),
    "mono16": ("u2", 1),
    "16UC1": ("u2", 1),
    "32FC1": ("f4", 1),
}
"""Encoding of an Image -> type and number of its channels."""
_MILLIMETRES = 1e-3
_NORM_ERROR = 0.1
"""Largest difference of the norm of a quaternion to 1."""
_POINT_NAMES = {
    "points": ["x", "y", "z"],
    "normals": ["normal_x", "normal_y", "normal_z"],
    "distances": ["range"],
    "body_ids": ["body_id"],
    "intensity": ["intensity"],
    "times": ["t"],
}
"""Field of a ray sensor's reading -> names of its fields in a PointCloud2."""


def get(message: Message, path: str) -> object:
    """Return a field of a message, or of messages in it: "pose.position".

    Raises:
        NameNotFoundError: the message has no such field.
    """
    found = message
    for part in path.split("."):
        try:
            found = found[part] if isinstance(found, Mapping) else getattr(found, part)
        except (KeyError, AttributeError):
            names = list(found) if isinstance(found, Mapping) else [each for each in dir(found) if each[0] != "_"]
            hint = did_you_mean(part, map(str, names)) or f"; it has {shorten(map(str, names))}"
            raise NameNotFoundError(f"the message has no field {path!r}: there is no {part!r}{hint}") from None
    return found


def capture_time(message: Message) -> float | None:
    """Return the stamp of a message's header in s, or None if it has no header or the stamp is 0."""
    header = message.get("header") if isinstance(message, Mapping) else getattr(message, "header", None)
    if header is None:
        return None
    return _seconds(get(header, "stamp")) or None


def converter(term: ObservationTerm) -> Converter:
    """Return the function that reads a term from its message."""
    kinds: dict[str, Callable[[ObservationTerm], Converter]] = {"joints": _Joints, "points": _Points, "image": _Image}
    make = kinds.get(term.conversion)
    if make is not None:
        return make(term)
    read = {"quaternion": _wxyz, "yaw": _yaw, "time": _seconds}.get(term.conversion, _numbers)
    path, size = term.field, term.size

    def convert(message: Message) -> np.ndarray:
        values = np.asarray(read(get(message, path)), dtype=np.float32).reshape(-1)
        if len(values) != size:
            raise OptionError(f"the field {path!r} must have shape {term.shape}, got {len(values)} values")
        return values

    return convert


def _numbers(value: object) -> object:
    """Return an object with x, y and z as a list; anything else unchanged."""
    if isinstance(value, Mapping):
        return [value[axis] for axis in "xyz"] if "x" in value else list(value.values())
    if hasattr(value, "x"):
        return [value.x, value.y, value.z]  # type: ignore[attr-defined]
    return value


def _wxyz(value: object) -> list[float]:
    """Return a quaternion; NaN for one that is no orientation, such as the zeros of a driver that has none yet."""
    x, y, z, w = (cast("float", get(value, axis)) for axis in "xyzw")
    return [w, x, y, z] if abs(math.hypot(x, y, z, w) - 1.0) <= _NORM_ERROR else [math.nan] * 4


def _yaw(value: object) -> float:
    w, x, y, z = _wxyz(value)
    return math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


def _seconds(value: object) -> float:
    return cast("int", get(value, "sec")) + 1e-9 * cast("int", get(value, "nanosec"))


class _Joints:
    """Reads entries of a JointState by the names of the joints, in any order. Prefixes such as "robot/" may differ."""

    def __init__(self, term: ObservationTerm) -> None:
        self._term = term
        self._known: list[str] | None = None
        self._index = np.zeros(0, np.intp)

    def __call__(self, message: Message) -> np.ndarray | None:
        names = [str(name) for name in cast("Sequence[str]", get(message, "name"))]
        if names != self._known:
            self._index = self._find(names)
            self._known = names
        values = np.asarray(get(message, self._term.field), dtype=np.float32)
        if values.shape != (len(names),):
            raise OptionError(
                f"the field {self._term.field!r} must have one value for each of the {len(names)} names, got shape "
                f"{values.shape}"
            )
        return values[self._index] if len(self._index) else None

    def _find(self, names: list[str]) -> np.ndarray:
        ends = [name.rpartition("/")[2] for name in names]
        if not {*names, *ends} & set(self._term.names):  # of another publisher
            return np.zeros(0, np.intp)
        found = []
        for name in self._term.names:
            if name in names:
                found.append(names.index(name))
            elif ends.count(name) > 1:
                same = [each for each, end in zip(names, ends, strict=True) if end == name]
                raise OptionError(f"the message has several joints {name!r}: {shorten(same)}")
            elif name in ends:
                found.append(ends.index(name))
            else:
                hint = did_you_mean(name, names) or f"; it has {shorten(names)}"
                raise NameNotFoundError(f"the message has no joint {name!r}{hint}")
        return np.array(found, np.intp)


class _Points:
    """Reads a field of a PointCloud2."""

    def __init__(self, term: ObservationTerm) -> None:
        self._term = term

    def __call__(self, message: Message) -> np.ndarray:
        fields = {cast("str", get(each, "name")): each for each in cast("Sequence[object]", get(message, "fields"))}
        wanted = self._term.field
        names = _POINT_NAMES.get(wanted, ["x", "y", "z"] if "x" in fields else ["value"])
        for name in names:
            if name not in fields:
                raise NameNotFoundError(f"the point cloud has no field {wanted!r}; it has {shorten(fields)}")
        step, order = cast("int", get(message, "point_step")), ">" if get(message, "is_bigendian") else "<"
        kinds = [order + _POINT_TYPES[cast("int", get(fields[name], "datatype"))] for name in names]
        offsets = [cast("int", get(fields[name], "offset")) for name in names]
        row = np.dtype({"names": names, "formats": kinds, "offsets": offsets, "itemsize": step})
        points = np.frombuffer(bytes(cast("bytes", get(message, "data"))), row)
        values = np.stack([points[name] for name in names], axis=1).astype(np.float32).reshape(-1)
        if len(values) != self._term.size:
            raise OptionError(f"the point cloud must have {self._term.size} values, got {len(values)}")
        return values


class _Image:
    """Reads an Image. Depth in mm (16UC1) becomes m."""

    def __init__(self, term: ObservationTerm) -> None:
        self._term = term

    def __call__(self, message: Message) -> np.ndarray:
        encoding = cast("str", get(message, "encoding"))
        if encoding not in _ENCODINGS:
            raise OptionError(f"the encoding must be one of {', '.join(_ENCODINGS)}, got {encoding!r}")
        kind, channels = _ENCODINGS[encoding]
        height, width, step = (cast("int", get(message, name)) for name in ("height", "width", "step"))
        pixel = np.dtype((">" if get(message, "is_bigendian") else "<") + kind)
        rows = np.frombuffer(bytes(cast("bytes", get(message, "data"))), np.uint8)
        if rows.size != height * step:
            raise OptionError(f"the image must have {height} rows of {step} bytes, got {rows.size} bytes")
        rows = np.ascontiguousarray(rows.reshape(height, step)[:, : width * channels * pixel.itemsize])
        image = rows.view(pixel).reshape(height, width, channels)
        if encoding.startswith("bgr"):
            image = image[..., [2, 1, 0, *range(3, channels)]]
        shape = self._term.shape if len(self._term.shape) == 3 else (*self._term.shape, 1)
        image = image[..., : shape[2]]
        if image.shape != shape:
            raise OptionError(f"the image must have shape {shape} (height, width, channels), got {image.shape}")
        if self._term.dtype == "float32" and kind == "u2":
            image = image * np.float32(_MILLIMETRES)
        return np.ascontiguousarray(image, dtype=self._term.dtype).reshape(self._term.shape)
