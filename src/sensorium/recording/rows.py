"""The row of one recorded step: every buffer at a fixed offset in one block of memory.

A :class:`Row` is laid out once, when recording begins. Capturing a step then takes one copy per buffer, and its
checksum one pass over the block. Values that seldom change are stored in the events of the step where they change:
values that are not arrays (text, None), and model fields with a value per env.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch

from sensorium.errors import DatasetError, OptionError, did_you_mean, shorten
from sensorium.tree import Buffer, tag_set
from sensorium.worlds import Scene

IMAGE_TAGS = ("rgb", "depth", "segmentation", "instance", "normals", "points")
"""Tags of image buffers, which are not recorded because replay renders them again."""
STEP, BEFORE = "@step", "@before"
"""Fields of a row that are not buffers: the step number, and the physics state before the last substep."""
SCALARS = {bool: "bool", int: "int64", float: "float64"}
_TENSORS = {
    getattr(torch, name)
    for name in (
        "bool",
        "float16",
        "float32",
        "float64",
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    )
}
"""Dtypes of tensors that NumPy has too."""


class RowField(NamedTuple):
    """One array of a row."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    tags: tuple[str, ...] = ()
    scalar: bool = False
    """Whether the value is a Python number."""

    @property
    def n_bytes(self) -> int:
        """Size in bytes."""
        return int(np.dtype(self.dtype).itemsize * np.prod(self.shape, dtype=np.int64))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form in ``config.json``."""
        return {"name": self.name, "dtype": self.dtype, "shape": list(self.shape), "tags": list(self.tags)} | (
            {"scalar": True} if self.scalar else {}
        )

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> RowField:
        """Return the field of a JSON form: the inverse of :meth:`to_json`.

        Raises:
            DatasetError: it is not such a form.
        """
        try:
            shape, dtype = tuple(int(extent) for extent in form["shape"]), np.dtype(form["dtype"])
            name, tags = form["name"], tuple(form["tags"])
            if (
                dtype.kind not in "fiub"
                or min(shape, default=0) < 0
                or not all(isinstance(x, str) for x in (name, *tags))
            ):
                raise ValueError("its name, dtype, shape or tags cannot be used")
        except (KeyError, TypeError, ValueError) as error:
            raise DatasetError(f"a field of the recording is damaged: {form!r:.80}: {error}") from error
        return cls(name, form["dtype"], shape, tags, bool(form.get("scalar", False)))


class Row:
    """The layout of a step: each field starts at a multiple of 8 bytes in a block of ``n_bytes``."""

    def __init__(self, fields: Iterable[RowField]) -> None:
        self.fields = list(fields)
        self.starts: list[int] = []
        end = 0
        for field in self.fields:
            self.starts.append(end)
            end += -(-field.n_bytes // 8) * 8
        self.n_bytes = max(end, 8)

    def slices(self, block: np.ndarray) -> list[np.ndarray]:
        """Return views of the fields of a block, as bytes."""
        return [block[start : start + field.n_bytes] for field, start in zip(self.fields, self.starts, strict=True)]

    def arrays(self, block: np.ndarray) -> list[np.ndarray]:
        """Return views of the fields of a block, as arrays of their dtypes and shapes."""
        return [
            part.view(field.dtype).reshape(field.shape)
            for field, part in zip(self.fields, self.slices(block), strict=True)
        ]


def row_field(name: str, buffer: Buffer) -> RowField | None:
    """Return the field for a buffer, or None if its value is text or None.

    Raises:
        DatasetError: the value cannot be recorded.
    """
    value, tags = buffer.value, tuple(sorted(buffer.tags))
    if isinstance(value, torch.Tensor):
        if value.is_complex():
            raise DatasetError(f"the buffer {name!r} is complex, which cannot be recorded; use torch.view_as_real()")
        if value.layout != torch.strided:
            raise DatasetError(f"the buffer {name!r} is sparse, which cannot be recorded; use value.to_dense()")
        if value.dtype not in _TENSORS:
            raise DatasetError(f"the buffer {name!r} is {value.dtype}, which HDF5 cannot store; use another dtype")
        return RowField(name, str(value.dtype).removeprefix("torch."), tuple(value.shape), tags)
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biuf":
            raise DatasetError(f"the buffer {name!r} holds {value.dtype}, which cannot be recorded; use numbers")
        return RowField(name, str(value.dtype), value.shape, tags)
    if type(value) in SCALARS:
        return RowField(name, SCALARS[type(value)], (), tags, scalar=True)
    if value is None or isinstance(value, str):
        return None
    raise DatasetError(f"the buffer {name!r} holds {type(value).__name__}, which cannot be recorded; use an array")


def array_to_json(array: np.ndarray) -> dict[str, Any]:
    """Return the exact JSON form of an array: its bytes as base64, with dtype and shape."""
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return {"base64": data, "dtype": str(array.dtype), "shape": list(array.shape)}


def from_json_value(form: dict[str, Any] | str | float | None) -> np.ndarray | str | float | None:
    """Return the value of a JSON form: an array for the form of :func:`array_to_json`, else the form itself."""
    if not isinstance(form, dict):
        return form
    return np.frombuffer(base64.b64decode(form["base64"]), form["dtype"]).reshape(form["shape"]).copy()


def check_tags(scene: Scene, exclude_tags: Iterable[str]) -> frozenset[str]:
    """Return ``exclude_tags`` as a set.

    Raises:
        OptionError: no buffer of the scene has one of the tags.
    """
    tags = tag_set("exclude_tags", exclude_tags)
    known = {tag for _, buffer in scene.named_buffers() for tag in buffer.tags} | set(IMAGE_TAGS)
    for tag in sorted(tags - known):
        hint = did_you_mean(tag, known) or f"; known tags: {shorten(sorted(known))}"
        raise OptionError(f"exclude_tags: no buffer of the scene has the tag {tag!r}{hint}")
    return tags
