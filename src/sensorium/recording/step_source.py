"""``StepSource``: the buffers of a running scene, copied into a slot at each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from sensorium.errors import DatasetError
from sensorium.recording.rows import BEFORE, STEP, Row, RowField, array_to_json, row_field
from sensorium.recording.slots import Slot, device_copier, host_copier
from sensorium.tree import Buffer
from sensorium.worlds import Scene
from sensorium.worlds.model_fields import MODEL_TAG, ModelFields


class StepSource:
    """The buffers of a running scene, copied into a slot at each step.

    Args:
        scene: a built scene.
        exclude_tags: buffers with any of these tags are skipped.

    Attributes:
        row: layout of a step.
        others: name -> buffer whose value is stored in the events instead of the row.
        config: the part of ``config.json`` that describes the buffers.
    """

    def __init__(self, scene: Scene, exclude_tags: frozenset[str]) -> None:
        scene.update_state()
        buffers = {name: buffer for name, buffer in scene.named_buffers() if buffer.matches(None, exclude_tags)}
        fields = [RowField(STEP, "int64", ())]
        self._updates = scene.unrolled("update_state")
        self._has_before = scene.world.can_retrace
        if self._has_before:
            fields.append(RowField(BEFORE, "float64", tuple(scene.get_state().shape)))
        self._device = scene.device
        self._on_device = [False] * len(fields)
        self._to_host: list[tuple[int, Callable[[np.ndarray], None]]] = []
        self._on_gpu: list[tuple[int, Callable[[torch.Tensor], None]]] = []
        self.others: dict[str, Buffer] = {}
        for name, buffer in buffers.items():
            if name.startswith("@"):
                raise DatasetError(f"the name of the buffer {name!r} begins with '@', which is reserved; rename it")
            field = None if MODEL_TAG in buffer.tags else row_field(name, buffer)
            if field is None:
                self.others[name] = buffer
            else:
                self._on_device.append(self._is_on_gpu(buffer.value))
                if self._on_device[-1]:
                    self._on_gpu.append((len(fields), device_copier(field, buffer)))
                else:
                    self._to_host.append((len(fields), host_copier(field, buffer)))
                fields.append(field)
        self.row = Row(fields)
        self._model = next(module for _, module in scene.named_modules() if isinstance(module, ModelFields))
        self._held: dict[str, np.ndarray] = {}
        self._last: dict[str, object] = {}
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
        """Copy the simulation's state into the buffers, as ``scene.update_state()`` does."""
        for update in self._updates:
            update()

    def slot(self) -> Slot:
        """Return new memory for one step."""
        return Slot(self.row, self._on_device, self._device)

    def fill(self, slot: Slot, step: int, before: np.ndarray | None) -> None:
        """Copy the current values of all buffers into a slot. Those on a GPU arrive later; see :meth:`Slot.wait`.

        Args:
            slot: where to copy them.
            step: number of the step.
            before: physics state before the last substep, (B, n_state); None for GPU worlds.
        """
        slot.arrays[0][...] = step
        if self._has_before and before is not None:
            slot.arrays[1][...] = before
        for number, to_host in self._to_host:
            to_host(slot.arrays[number])
        for number, on_gpu in self._on_gpu:
            on_gpu(slot.staged[number])
        if self._with_model and len(self._model.fields) > self._n_model:  # fields were expanded since
            self._n_model = len(self._model.fields)
            self.others |= {f"world.{name}": buffer for name, buffer in self._model.fields.items()}
        slot.others = {name: self._snapshot(name, buffer) for name, buffer in self.others.items()}
        slot.send()

    def _snapshot(self, name: str, buffer: Buffer) -> object:
        """Return the value of a buffer, which does not change later: a copy on the device for one of a GPU."""
        value = buffer.value
        if value is None or isinstance(value, str):
            return value
        row_field(name, buffer)  # raises an error if the value cannot be recorded
        if self._is_on_gpu(value):
            return value.clone()
        if isinstance(value, torch.Tensor):
            value = value.numpy(force=True)
        if not isinstance(value, np.ndarray):
            return value
        held = self._held.get(name)
        if held is None or not _same(held, value):
            held = self._held[name] = value.copy()
        return held

    def _is_on_gpu(self, value: object) -> bool:
        return isinstance(value, torch.Tensor) and value.device == self._device and self._device.type == "cuda"

    def values(self, slot: Slot) -> dict[str, Any]:
        """Return the JSON forms of all values outside the row: name -> form. Takes every filled slot, in order."""
        self.changes(slot)
        return dict(self._forms)

    def changes(self, slot: Slot) -> dict[str, Any]:
        """Return the JSON forms of the values outside the row that differ from those of the slot before.

        Call it for every filled slot, in order, from any one thread. Waits until the values of a GPU have arrived.
        """
        slot.wait()
        changed = {}
        for name, value in slot.others.items():
            found = value.numpy() if isinstance(value, torch.Tensor) else value
            if name in self._last and _same(self._last[name], found):
                continue
            self._last[name] = found
            changed[name] = self._forms[name] = array_to_json(found) if isinstance(found, np.ndarray) else found
        return changed


def _same(one: object, other: object) -> bool:
    if one is other:
        return True
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):  # bytes, since NaN differs from itself
        return one.shape == other.shape and one.tobytes() == other.tobytes()
    return type(one) is type(other) and bool(one == other)
