"""What one recorded step holds: every array at its place in one block of memory.

A :class:`Row` is laid out once, when recording begins; taking a step then is one copy per buffer, and its check sum
one pass over the block. What seldom changes goes into the events of the step where it does: values that are not arrays
(text, None), and fields of the model that differ per env.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import torch

from sensorium.errors import DatasetError, OptionError, did_you_mean, shorten
from sensorium.tree import Buffer, _tags
from sensorium.worlds import Scene
from sensorium.worlds.model_fields import MODEL_TAG, ModelFields

IMAGE_TAGS = ("rgb", "depth", "segmentation", "instance", "normals", "points")
"""Tags of what replay renders again, and recording leaves out."""
STEP, BEFORE = "@step", "@before"
"""Fields beside the buffers: the number of the step, and the physics before its last substep."""
_SCALARS = {bool: "bool", int: "int64", float: "float64"}


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
        """As in ``config.json``."""
        return {"name": self.name, "dtype": self.dtype, "shape": list(self.shape), "tags": list(self.tags)} | (
            {"scalar": True} if self.scalar else {}
        )

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> RowField:
        """The other way."""
        shape = tuple(int(extent) for extent in form["shape"])
        return cls(form["name"], form["dtype"], shape, tuple(form["tags"]), bool(form.get("scalar", False)))


class Row:
    """Where the fields of a step lie in its block of ``n_bytes``."""

    def __init__(self, fields: Iterable[RowField]) -> None:
        self.fields = list(fields)
        self.starts: list[int] = []
        end = 0
        for field in self.fields:
            self.starts.append(end)
            end += -(-field.n_bytes // 8) * 8
        self.n_bytes = max(end, 8)

    def parts(self, block: np.ndarray) -> list[np.ndarray]:
        """The fields of a block of bytes, as bytes."""
        return [block[start : start + field.n_bytes] for field, start in zip(self.fields, self.starts, strict=True)]

    def arrays(self, block: np.ndarray) -> list[np.ndarray]:
        """The same as arrays of their shapes."""
        return [
            part.view(field.dtype).reshape(field.shape)
            for field, part in zip(self.fields, self.parts(block), strict=True)
        ]


def field_of(name: str, buffer: Buffer) -> RowField | None:
    """The field of a buffer; None for a value that is no array and no number."""
    value, tags = buffer.value, tuple(sorted(buffer.tags))
    if isinstance(value, torch.Tensor):
        if value.dtype == torch.bfloat16:
            raise DatasetError(f"the buffer {name!r} is bfloat16, which files do not have; use another dtype")
        return RowField(name, str(value.dtype).removeprefix("torch."), tuple(value.shape), tags)
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biufc":
            raise DatasetError(f"the buffer {name!r} holds {value.dtype}, which cannot be recorded; use numbers")
        return RowField(name, str(value.dtype), value.shape, tags)
    if type(value) in _SCALARS:
        return RowField(name, _SCALARS[type(value)], (), tags, scalar=True)
    if value is None or isinstance(value, str):
        return None
    raise DatasetError(f"the buffer {name!r} holds {type(value).__name__}, which cannot be recorded; use an array")


def copier(field: RowField, buffer: Buffer) -> Callable[[np.ndarray], None]:
    """A call that copies what a buffer holds now into an array of a row.

    By NumPy, in this thread alone: torch would share the copy with threads that the physics keeps busy.
    """

    def copy(target: np.ndarray) -> None:
        value = buffer.value
        if isinstance(value, torch.Tensor | np.ndarray):
            if tuple(value.shape) != field.shape:
                raise DatasetError(
                    f"the buffer {field.name!r} changed its shape from {field.shape} to {tuple(value.shape)} while it "
                    "was recorded; keep shapes, or start another recording"
                )
            target[...] = value.numpy(force=True) if isinstance(value, torch.Tensor) else value
        elif value is None or isinstance(value, str):
            raise DatasetError(f"the buffer {field.name!r} held {field.dtype} when recording began, now {value!r}")
        else:
            target[...] = value

    return copy


class Slot:
    """Memory of one step."""

    def __init__(self, row: Row) -> None:
        self.block = np.zeros(row.n_bytes, np.uint8)
        self.arrays = row.arrays(self.block)


class StepSource:
    """The buffers of a running scene, as what is recorded of each step.

    Attributes:
        row: how a step is laid out.
        others: name -> buffer of those whose values are no arrays.
        config: what ``config.json`` says of them.
    """

    def __init__(self, scene: Scene, exclude_tags: frozenset[str]) -> None:
        scene.update_state()
        buffers = {name: buffer for name, buffer in scene.named_buffers() if buffer.matches(None, exclude_tags)}
        fields = [RowField(STEP, "int64", ())]
        self._updates = scene.unrolled("update_state")
        self._before = scene.world.can_retrace
        if self._before:
            fields.append(RowField(BEFORE, "float64", tuple(scene.get_state().shape)))
        self._own = len(fields)
        self._copies: list[Callable[[np.ndarray], None]] = []
        self.others: dict[str, Buffer] = {}
        for name, buffer in buffers.items():
            if name.startswith("@"):
                raise DatasetError(f"the buffer {name!r}: names that begin with '@' are the recording's own; rename it")
            field = None if MODEL_TAG in buffer.tags else field_of(name, buffer)
            if field is None:
                self.others[name] = buffer
            else:
                fields.append(field)
                self._copies.append(copier(field, buffer))
        self.row = Row(fields)
        self._model = next(one for _, one in scene.named_modules() if isinstance(one, ModelFields))
        self._last: dict[str, Any] = {}
        self._forms: dict[str, Any] = {}
        self._with_model = MODEL_TAG not in exclude_tags
        self._n_model = len(self._model.fields)
        rebuilt = {"physics", "world", *scene.entities, *scene.sensors, *scene.modules}
        self.config = {
            "fields": [field.to_json() for field in fields],
            "others": {name: sorted(buffer.tags) for name, buffer in self.others.items()},
            "extra": [name for name in buffers if name.split(".")[0] not in rebuilt],
            "excluded": sorted(exclude_tags),
        }

    def update(self) -> None:
        """Bring the buffers up to date, as ``scene.update_state()`` does."""
        for update in self._updates:
            update()

    def fill(self, slot: Slot, step: int, before: np.ndarray | None) -> None:
        """Copy what the buffers hold."""
        slot.arrays[0][...] = step
        if self._before and before is not None:
            slot.arrays[1][...] = before
        for copy, target in zip(self._copies, slot.arrays[self._own :], strict=True):
            copy(target)

    def values(self) -> dict[str, Any]:
        """Name -> JSON form of what is not in the row."""
        self.changes()
        return dict(self._forms)

    def changes(self) -> dict[str, Any]:
        """Those that are new or have changed since the last call."""
        if self._with_model and len(self._model.fields) > self._n_model:  # some were given values per env since
            self._n_model = len(self._model.fields)
            self.others |= {f"world.{name}": buffer for name, buffer in self._model.fields.items()}
        changed = {}
        for name, buffer in self.others.items():
            value = buffer.value
            if isinstance(value, torch.Tensor):
                value = value.numpy(force=True)
            if name in self._last and _same(self._last[name], value):
                continue
            self._last[name] = value.copy() if isinstance(value, np.ndarray) else value
            changed[name] = self._forms[name] = array_form(value) if isinstance(value, np.ndarray) else value
        return changed


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.shape == other.shape and one.tobytes() == other.tobytes()
    return type(one) is type(other) and bool(one == other)


def array_form(array: np.ndarray) -> dict[str, Any]:
    """An array as JSON, bit by bit."""
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return {"base64": data, "dtype": str(array.dtype), "shape": list(array.shape)}


def value_of(form: Any) -> Any:
    """What a JSON form of a value that is not in the rows stands for."""
    if not isinstance(form, dict):
        return form
    return np.frombuffer(base64.b64decode(form["base64"]), form["dtype"]).reshape(form["shape"]).copy()


def known_tags(scene: Scene, exclude_tags: Iterable[str]) -> frozenset[str]:
    """Tags that are to be left out; an error for one that no buffer has."""
    tags = _tags("exclude_tags", exclude_tags)
    known = {tag for _, buffer in scene.named_buffers() for tag in buffer.tags} | set(IMAGE_TAGS)
    for tag in sorted(tags - known):
        hint = did_you_mean(tag, known) or f"; there are {shorten(sorted(known))}"
        raise OptionError(f"exclude_tags: nothing in the scene has the tag {tag!r}{hint}")
    return tags
