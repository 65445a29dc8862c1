"""``Observations``: the readings of a tensor task in one matrix, and its parts by name."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import torch
from gymnasium import spaces

from sensorium.errors import NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.robots import Robot
from sensorium.suites.observation import PRIVILEGED
from sensorium.tasks.rig_cameras import find_cameras
from sensorium.tasks.tensor.outputs import divide

Tensors: TypeAlias = "dict[str, torch.Tensor | dict[str, torch.Tensor]]"
"""Observations by uuid: a tensor (B, ...), or one for each part of a reading."""
Source: TypeAlias = Callable[[], Mapping[str, torch.Tensor]]
"""Returns name -> (B, ...) tensors, the same names and shapes each time."""

_Row: TypeAlias = tuple[str, str, torch.Tensor]
"""uuid, part and value (B, ...) of an observation."""


@dataclass(frozen=True)
class ObservationPart:
    """One tensor of an observation, and its columns."""

    uuid: str
    """Name of the sensor or of the value."""
    part: str
    """Field of a reading, "" if it is one array."""
    shape: tuple[int, ...]
    """Shape in one env."""
    columns: slice
    """Columns in the matrix of observations."""


class Observations:
    """What the actor and the critic of a task observe, in one matrix (B, columns) float32 that is written in place.

    The actor's columns come first. The critic's columns are the ground truth of the same readings, and what only the
    simulator knows.

    Args:
        robot: the robot, in a built scene.
        patterns: which of its readings are observed; see ``TensorTaskConfig.observe``.
        ground_truth: whether the actor observes true values.
        own: further observations of the actor, such as a command. The critic gets them, too.
        privileged: further observations of the critic.
        entity_sensors: names of the sensors of an entity, and of those whose ground truth only its critics observe. The
            entity observes these sensors and ``own``, and nothing else is returned by name. Default: no entity.
        default_of: name of the task whose default the patterns are, for messages; "" if its user gave them.

    Attributes:
        values: the matrix, (B, n_actor + n_critic).
        n_actor, n_critic: number of columns of each.
        actor_parts: what the actor observes, in the order of its columns.
    """

    def __init__(
        self,
        robot: Robot,
        patterns: Sequence[str],
        ground_truth: bool,
        own: Source,
        privileged: Source,
        entity_sensors: tuple[list[str], list[str]] | None = None,
        default_of: str = "",
    ) -> None:
        measured, true = (patterns, []) if entity_sensors is None else entity_sensors
        self._readings, self._truths = select_readings(robot, measured, default_of), select_readings(robot, true)
        self._ground_truth, self._own, self._privileged = ground_truth, own, privileged
        self._parts: list[ObservationPart] = []
        actor, critic = self._gather()
        rows = [*actor, *critic]
        start = 0
        for uuid, part, value in rows:
            stop = start + value[0].numel()
            self._parts.append(ObservationPart(uuid, part, tuple(value.shape[1:]), slice(start, stop)))
            start = stop
        self.actor_parts = self._parts[: len(actor)]
        self.n_actor = self._parts[len(actor) - 1].columns.stop if actor else 0
        self.n_critic = start - self.n_actor
        self._widths = [part.columns.stop - part.columns.start for part in self._parts]
        self._shaped = [(number, part.shape) for number, part in enumerate(self._parts) if len(part.shape) != 1]
        uuids: list[tuple[str, slice]] = []  # with their parts
        for uuid, found in groupby(enumerate(self._parts), lambda each: each[1].uuid):
            numbers = [number for number, _ in found]
            uuids.append((uuid, slice(numbers[0], numbers[-1] + 1)))
        sensors = dict.fromkeys(uuid for uuid, *_ in (*self._readings, *self._truths))
        _check_different(sensors, {**own(), **privileged()}, "robot" if entity_sensors is None else "entity")
        if entity_sensors is not None:
            exposed = {*measured, *own(), *(PRIVILEGED + name for name in true)}
            uuids = [each for each in uuids if each[0] in exposed]
        self._uuids, self._firsts = [uuid for uuid, _ in uuids], [parts.start for _, parts in uuids]
        self._divided = [
            (uuid, [each.part for each in self._parts[parts]], parts)
            for uuid, parts in uuids
            if self._parts[parts.start].part
        ]
        if not rows:
            raise OptionError(
                "a tensor task must observe something: give the robot sensors, or return values in observe()"
            )
        first = rows[0][2]
        self.values = torch.zeros(len(first), start, device=first.device)

    def update(self) -> None:
        """Write the current readings into :attr:`values`."""
        actor, critic = self._gather()
        rows = [value.reshape(len(self.values), -1).float() for _, _, value in (*actor, *critic)]
        torch.cat(rows, dim=1, out=self.values)

    def by_name(self, values: torch.Tensor) -> Tensors:
        """Return the parts of a matrix by uuid, as views. Those of the critic begin with "privileged/"."""
        pieces = divide(values, self._widths, 1)
        if self._shaped:
            pieces = list(pieces)
            for number, shape in self._shaped:
                pieces[number] = pieces[number].view(len(values), *shape)
        # This is a quarter of the host's time in a step on a GPU; zip() with strict=True takes a fifth longer.
        found: Tensors = dict(zip(self._uuids, map(pieces.__getitem__, self._firsts)))  # noqa: B905
        for uuid, names, parts in self._divided:
            found[uuid] = dict(zip(names, pieces[parts]))  # noqa: B905
        return found

    def not_finite(self) -> str:
        """Return the name and an env of an observation of the actor that is not finite; "" if all are."""
        for each in self.actor_parts:
            bad = ~torch.isfinite(self.values[:, each.columns]).all(dim=1)
            if bool(bad.any()):
                return f"{f'{each.uuid}/{each.part}'.rstrip('/')!r} in env {int(bad.nonzero()[0])}"
        return ""

    def _gather(self) -> tuple[list[_Row], list[_Row]]:
        """Return what the actor and what the critic observes."""
        own = self._own()
        actor = [(uuid, part, read(self._ground_truth)) for uuid, part, read in self._readings]
        actor += [(uuid, "", value) for uuid, value in own.items()]
        critic = [(PRIVILEGED + uuid, part, read(True)) for uuid, part, read in (*self._readings, *self._truths)]
        critic += [(PRIVILEGED + uuid, "", value) for uuid, value in {**own, **self._privileged()}.items()]
        return actor, critic


def space_of(value: torch.Tensor | dict[str, torch.Tensor]) -> spaces.Space[Any]:
    """Return the space of one env's part of an observation (B, ...)."""
    if isinstance(value, dict):
        return spaces.Dict([(name, space_of(each)) for name, each in value.items()])  # type: ignore[arg-type]
    return spaces.Box(-np.inf, np.inf, tuple(value.shape[1:]), np.float32)


def _check_different(sensors: Iterable[str], values: Container[str], owner: str) -> None:
    """Raise OptionError if a sensor has the name of a value that the task observes."""
    for name in sensors:
        if name in values:
            raise OptionError(
                f"the {owner}'s sensor {name!r} has the name of a value of the task; give one of them another name"
            )


def select_readings(
    robot: Robot, patterns: Sequence[str], default_of: str = ""
) -> list[tuple[str, str, Callable[[bool], torch.Tensor]]]:
    """Return uuid, part and a function of whether to read ground truth, for each reading that a pattern matches.

    Cameras are excluded: their images have hundreds of thousands of values, which need a network for images.

    Args:
        robot: the robot.
        patterns: see ``TensorTaskConfig.observe``.
        default_of: name of the task whose default the patterns are, for messages; "" if its user gave them.

    Raises:
        NameNotFoundError: a pattern matches no reading.
        OptionError: a pattern matches cameras only, or a default matches no reading.
    """
    readings: dict[str, tuple[str, str, Callable[[bool], torch.Tensor]]] = {}
    cameras = find_cameras(robot)
    for uuid in (name for name in robot.rig.names if name not in cameras):
        sensor = robot.rig[uuid]
        reading = sensor.read()
        for part in getattr(reading, "_fields", ("",)):
            if part and getattr(reading, part) is None:  # switched off by an option, such as the points of a lidar
                continue
            readings[f"{uuid}/{part}".rstrip("/")] = uuid, part, _reader(sensor, part)
    chosen: dict[str, tuple[str, str, Callable[[bool], torch.Tensor]]] = {}
    for pattern in patterns:
        found = [key for key in readings if _matches(key, pattern)]
        seen = [uuid for uuid in cameras if fnmatchcase(uuid, pattern.split("/")[0])]
        if not found and seen and pattern != "*":
            raise OptionError(
                f"observe: {pattern!r} is a camera of {robot.name!r}, and a tensor task observes no images of a rig; "
                "name a camera of the option cameras in observe_cameras, or remove the pattern"
            )
        if not found and not (pattern == "*" and not readings):
            has = shorten(readings) if readings else "no sensors: give it some by the option rig"
            if default_of:
                wanted = ", ".join(map(repr, patterns))
                lacking = [repr(each) for each in patterns if not any(_matches(key, each) for key in readings)]
                raise OptionError(
                    f"robot: {robot.options.kind or 'this model'!r} does not fit the task {default_of!r}, which by "
                    f"default observes {wanted}: it lacks {', '.join(lacking)}. Use a robot or a rig "
                    f"with these readings, or set observe; the robot has {has}"
                )
            hint = did_you_mean(pattern, readings) or f"; the robot has {has}"
            raise NameNotFoundError(f"observe: the pattern {pattern!r} matches no reading of {robot.name!r}{hint}")
        chosen |= {key: readings[key] for key in found}
    return [each for key, each in readings.items() if key in chosen]


def _matches(reading: str, pattern: str) -> bool:
    """Return whether a pattern matches a reading "SENSOR/PART", or its sensor."""
    return fnmatchcase(reading, pattern) or fnmatchcase(reading.split("/")[0], pattern)


def _reader(sensor: object, part: str) -> Callable[[bool], torch.Tensor]:
    def read(ground_truth: bool) -> torch.Tensor:
        value = sensor.read_ground_truth() if ground_truth else sensor.read()  # type: ignore[attr-defined]
        found: torch.Tensor = getattr(value, part) if part else value
        return found

    return read
