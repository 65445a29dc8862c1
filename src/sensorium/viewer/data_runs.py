"""A recording or a replay, to be looked at: one of its envs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from sensorium.cameras import CameraSensor
from sensorium.recording import IMAGE_TAGS, Recording
from sensorium.sensors import Sensor
from sensorium.viewer.data_source import POINTS, Series, Texts, as_columns, names_of
from sensorium.worlds.model_fields import MODEL_TAG

_MEASURED, _TRUTH = ".measured", ".ground_truth"
_MOVES = ("set_pose", "attach")
"""Changes of a camera after which it is elsewhere."""


class _SensorColumns(NamedTuple):
    """Some columns of a buffer."""

    buffer: str
    truth: str | None
    columns: slice


class RunSource:
    """See :class:`sensorium.viewer.data_source.PageSource`. The scene is the recorded one, in the recorded states."""

    kind = "Env"

    def __init__(self, episode: Recording) -> None:
        self._episode = episode
        self.title = f"the {'replay' if episode.images else 'recording'} {episode.folder}"
        self.keys = list(range(episode.n_envs))
        self.key = self.env = 0
        self.n_steps, self.dt = len(episode), episode.dt
        self.images = {name: str(about["kind"]) for name, about in episode.images.items()}
        self.scene = episode.build_scene(device="cpu")
        self.hidden = frozenset(
            str(event["uuid"]) for _, event in episode.events(range(len(episode))) if event.get("method") in _MOVES
        )
        kinds = {tag for tags in episode.tags.values() for tag in tags}
        self._state_tags = [tag for tag in ("physics", MODEL_TAG) if tag in kinds]
        self._parts = self._find_parts()
        texts = [name for name, tags in episode.config["others"].items() if MODEL_TAG not in tags]
        self.names = [*self._parts, *texts]

    def label(self, key: int) -> str:
        """Which env."""
        return f"{key}"

    def choose(self, key: int) -> None:
        """Go to another env."""
        self.key = self.env = key

    def pose(self, step: int) -> None:
        """Be in the recorded state."""
        values = self._episode.read_state_dict(step, include_tags=self._state_tags)
        world, env = self.scene.world, self.env
        physics = values.pop("physics")
        for name, value in values.items():
            field = world.expanded.get(name.removeprefix("world."))
            if field is not None and isinstance(value, np.ndarray):
                field[env] = torch.from_numpy(value[env]).to(field)
        world.set_state(torch.from_numpy(physics[env : env + 1]).double(), [env])

    def image(self, name: str, step: int) -> np.ndarray:
        """A frame that the replay rendered."""
        frame: np.ndarray = getattr(self._episode, f"read_{self.images[name]}")(name, step, self.env)
        return frame

    def series(self, name: str) -> Series | Texts:
        """A buffer of the env over time, beside ground truth where that was recorded."""
        episode = self._episode
        if name not in self._parts:
            return Texts([str(value) for value in episode.column(name)])
        part = self._parts[name]
        steps = range(0, len(episode), max(1, len(episode) // POINTS))
        measured = self._columns(part.buffer, part.columns, steps)
        truth = None if part.truth is None else self._columns(part.truth, part.columns, steps)
        return Series(np.array(steps) * self.dt, measured, truth, names_of(measured.shape[1]))

    def close(self) -> None:
        """Free the scene, and close the files."""
        self._episode.close()
        self.scene.close()

    # -- which arrays there are ---------------------------------------------------------------------------------------

    def _columns(self, name: str, columns: slice, steps: range) -> np.ndarray:
        values = self._episode.column(name, steps)
        own = values[:, self.env] if values.ndim > 1 and values.shape[1] == self._episode.n_envs else values
        return as_columns(own)[:, columns]

    def _find_parts(self) -> dict[str, _SensorColumns]:
        """Every array; those of sensors by field, in one with ground truth."""
        episode = self._episode
        shapes = {field["name"]: field["shape"] for field in episode.config["fields"]}
        sensors = {path: one for path, one in self.scene.named_modules() if isinstance(one, Sensor)}
        sensed: dict[str, _SensorColumns] = {}
        others: dict[str, _SensorColumns] = {}
        for name, tags in episode.tags.items():
            if name not in shapes or tags & set(IMAGE_TAGS):
                continue
            base = name.removesuffix(_MEASURED)
            if name.endswith(_TRUTH) and f"{name.removesuffix(_TRUTH)}{_MEASURED}" in episode.tags:
                continue
            if base == name:
                others[name] = _SensorColumns(name, None, slice(None))
                continue
            truth = f"{base}{_TRUTH}" if f"{base}{_TRUTH}" in episode.tags else None
            fields = _fields(sensors.get(base), shapes[name])
            for field, columns in fields.items():
                sensed[f"{base} {field}".rstrip()] = _SensorColumns(name, truth, columns)
        return {**sensed, **others}


def _fields(sensor: Any, shape: list[int]) -> dict[str, slice]:
    """Field -> its columns, of what a sensor's buffer holds; one without a name where it is not known."""
    whole = {"": slice(None)}
    if not isinstance(sensor, Sensor) or isinstance(sensor, CameraSensor):
        return whole
    reading = sensor.read()
    if isinstance(reading, torch.Tensor):
        return whole
    lead = 2 if sensor.options.history_length else 1  # envs, and what was read before
    fields, end = {}, 0
    for name, value in reading._asdict().items():
        if value is not None:
            count = int(np.prod(value.shape[lead:], dtype=int))
            fields[name] = slice(end, end + count)
            end += count
    return fields if end == int(np.prod(shape[1:], dtype=int)) else whole
