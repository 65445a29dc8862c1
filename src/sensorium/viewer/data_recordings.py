"""A recording or a replay as the source of a page: one of its envs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from sensorium.cameras import CameraSensor
from sensorium.recording import IMAGE_TAGS, Recording
from sensorium.sensors import Sensor
from sensorium.sensors.rays.ray_sensor import RaySensor
from sensorium.tree import Module
from sensorium.viewer.data_source import POINTS, Series, Texts, as_columns, column_names
from sensorium.worlds.model_fields import MODEL_TAG

_MEASURED, _TRUTH = ".measured", ".ground_truth"
_MOVES = ("set_pose", "attach")
"""Methods that change the pose of a camera."""


class _SensorColumns(NamedTuple):
    """Columns of a buffer that belong to one field of a sensor."""

    buffer: str
    truth: str | None
    """Buffer of the ground truth."""
    columns: slice


class RecordingSource:
    """The envs of a recording as a :class:`~sensorium.viewer.data_source.PageSource`, in the recorded scene."""

    kind = "Env"

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.title = f"the {'replay' if recording.images else 'recording'} {recording.folder}"
        self.keys = list(range(recording.n_envs))
        self.key = self.env = 0
        self.n_steps, self.dt = len(recording), recording.dt
        self.images = {name: header["kind"] for name, header in recording.images.items()}
        self.scene = recording.build_scene(device="cpu")
        events = recording.events(range(len(recording)))
        self.hidden = frozenset(str(event["uuid"]) for _, event in events if event.get("method") in _MOVES)
        tags = {tag for tags in recording.tags.values() for tag in tags}
        self._state_tags = [tag for tag in ("physics", MODEL_TAG) if tag in tags]
        self._arrays = self._find_arrays()
        self._lidars = {
            path: module
            for path, module in self.scene.named_modules()
            if isinstance(module, RaySensor) and f"{path} distances" in self._arrays
        }
        texts = [name for name, tags in recording.config["others"].items() if MODEL_TAG not in tags]
        self.names = [*self._arrays, *texts]

    def label(self, key: int) -> str:
        """Return the number of an env."""
        return f"{key}"

    def choose(self, key: int) -> None:
        """Switch to another env."""
        self.key = self.env = key

    def pose(self, step: int) -> None:
        """Set the scene to the recorded state of a step."""
        values = self._recording.read_state_dict(step, include_tags=self._state_tags)
        world, env = self.scene.world, self.env
        physics = values.pop("physics")
        for name, value in values.items():
            field = world.expanded.get(name.removeprefix("world."))
            if field is not None and isinstance(value, np.ndarray):
                field[env] = torch.from_numpy(value[env]).to(field)
        world.set_state(torch.from_numpy(physics[env : env + 1]).double(), [env])

    def returns(self, step: int) -> dict[str, np.ndarray]:
        """Return where the rays of recorded lidars ended."""
        found = {}
        for path, sensor in self._lidars.items():
            array = self._arrays[f"{path} distances"]
            row = self._columns(array.buffer, array.columns, range(step, step + 1))
            found[path] = sensor.returns_in_world(self.env, row[0])
        return found

    def image(self, name: str, step: int) -> np.ndarray:
        """Return a frame of the replay."""
        read: Callable[[str, int, int], np.ndarray] = getattr(self._recording, f"read_{self.images[name]}")
        return read(name, step, self.env)

    def series(self, name: str) -> Series | Texts:
        """Return a buffer of the env over time, with ground truth if that was recorded."""
        recording = self._recording
        if name not in self._arrays:
            return Texts([str(value) for value in recording.column(name)])
        array = self._arrays[name]
        steps = range(0, len(recording), max(1, len(recording) // POINTS))
        measured = self._columns(array.buffer, array.columns, steps)
        truth = None if array.truth is None else self._columns(array.truth, array.columns, steps)
        return Series(np.array(steps) * self.dt, measured, truth, column_names(measured.shape[1]))

    def close(self) -> None:
        """Free the scene and close the files."""
        self._recording.close()
        self.scene.close()

    # -- arrays -------------------------------------------------------------------------------------------------------

    def _columns(self, name: str, columns: slice, steps: range) -> np.ndarray:
        values = self._recording.column(name, steps)
        own = values[:, self.env] if values.ndim > 1 and values.shape[1] == self._recording.n_envs else values
        return as_columns(own)[:, columns]

    def _find_arrays(self) -> dict[str, _SensorColumns]:
        """Return all arrays by name; those of sensors by field, each with its ground truth."""
        recording = self._recording
        shapes = {field["name"]: field["shape"] for field in recording.config["fields"]}
        sensors = {path: module for path, module in self.scene.named_modules() if isinstance(module, Sensor)}
        sensed: dict[str, _SensorColumns] = {}
        others: dict[str, _SensorColumns] = {}
        for name, tags in recording.tags.items():
            if name not in shapes or tags & set(IMAGE_TAGS):
                continue
            base = name.removesuffix(_MEASURED)
            if name.endswith(_TRUTH) and f"{name.removesuffix(_TRUTH)}{_MEASURED}" in recording.tags:
                continue
            if base == name:
                others[name] = _SensorColumns(name, None, slice(None))
                continue
            truth = f"{base}{_TRUTH}" if f"{base}{_TRUTH}" in recording.tags else None
            fields = _fields(sensors.get(base), shapes[name])
            for field, columns in fields.items():
                sensed[f"{base} {field}".rstrip()] = _SensorColumns(name, truth, columns)
        return {**sensed, **others}


def _fields(sensor: Module | None, shape: Sequence[int]) -> dict[str, slice]:
    """Return the fields of a sensor's buffer and their columns; one field "" if they are not known."""
    whole = {"": slice(None)}
    if not isinstance(sensor, Sensor) or isinstance(sensor, CameraSensor):
        return whole
    reading = sensor.read()
    if isinstance(reading, torch.Tensor):
        return whole
    lead = 2 if sensor.options.history_length else 1  # axes of envs and history
    fields, end = {}, 0
    for name, value in reading._asdict().items():
        if value is not None:
            count = int(np.prod(value.shape[lead:], dtype=int))
            fields[name] = slice(end, end + count)
            end += count
    return fields if end == int(np.prod(shape[1:], dtype=int)) else whole
