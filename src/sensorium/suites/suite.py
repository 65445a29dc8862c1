"""``SensorSuite``: everything that a policy sees, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from sensorium.errors import DuplicateNameError, NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.sensors import Sensor
from sensorium.suites.observation import ObservationSensor, PipelineSensor
from sensorium.worlds import Envs


class SensorSuite(Mapping[str, ObservationSensor]):
    """Sensors by uuid, in the order in which they were added.

    Example:
        >>> suite = SensorSuite(n_envs=scene.n_envs)
        >>> suite.add(imu, owner="robot")                   # a sensor of the scene, after build
        >>> suite.add(ArraySensor("height", height, (1,)), owner="task")
        >>> observation = suite.read()                      # {"imu": {"lin_acc": (B, 3), ...}, "height": (B, 1)}
        >>> observation in suite.space
        True

    Args:
        n_envs: B.
        sensors: to begin with.
        owner: who contributes those.
        privileged: whether it may hold ground truth of a robot's sensors.
    """

    def __init__(
        self,
        n_envs: int,
        sensors: Iterable[ObservationSensor | Sensor[Any]] = (),
        owner: str = "suite",
        privileged: bool = False,
    ) -> None:
        self.n_envs = n_envs
        self.privileged = privileged
        self._sensors: dict[str, ObservationSensor] = {}
        self._owners: dict[str, str] = {}
        self._seen: set[str] = set()
        self.extend(sensors, owner)

    # -- what it holds ------------------------------------------------------------------------------------------------

    def add(self, sensor: ObservationSensor | Sensor[Any], owner: str = "suite") -> None:
        """Take one more sensor, of the scene (after build) or of observations.

        Raises:
            DuplicateNameError: the uuid is taken; names both owners.
        """
        self.extend([sensor], owner)

    def extend(self, sensors: Iterable[ObservationSensor | Sensor[Any]], owner: str = "suite") -> None:
        """Take several; if one of them cannot be taken, none is."""
        new: dict[str, ObservationSensor] = {}
        for sensor in sensors:
            if not isinstance(sensor, ObservationSensor | Sensor):
                raise OptionError(f"a suite holds sensors; {owner} gave {sensor!r}")
            if sensor.uuid in self._sensors or sensor.uuid in new:
                first = self._owners.get(sensor.uuid, owner)
                raise DuplicateNameError(
                    f"the uuid {sensor.uuid!r} is contributed by {first} and by {owner}; give one of the two another"
                )
            if isinstance(sensor, ObservationSensor) and sensor.privileged and not self.privileged:
                raise OptionError(f"{sensor.uuid!r} shows ground truth; make the suite with privileged=True for that")
            new[sensor.uuid] = PipelineSensor(sensor) if isinstance(sensor, Sensor) else sensor
        self._sensors |= new
        self._owners |= dict.fromkeys(new, owner)
        self._space: spaces.Dict | None = None

    def owner(self, uuid: str) -> str:
        """Who contributed a sensor."""
        return self._owners[self[uuid].uuid]

    def __getitem__(self, uuid: str) -> ObservationSensor:
        if uuid not in self._sensors:
            hint = did_you_mean(uuid, self._sensors) or f"; it has {shorten(self._sensors)}"
            raise NameNotFoundError(f"the suite has no sensor {uuid!r}{hint}")
        return self._sensors[uuid]

    def get(self, uuid: str, default: Any = None) -> Any:
        """A sensor, or ``default`` where there is none of that name."""
        return self._sensors.get(uuid, default)

    def __contains__(self, uuid: object) -> bool:
        return uuid in self._sensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._sensors)

    def __len__(self) -> int:
        return len(self._sensors)

    # -- what it gives ------------------------------------------------------------------------------------------------

    @property
    def single_space(self) -> spaces.Dict:
        """What one env's observation lies in, one key per uuid."""
        return _in_order({uuid: sensor.space for uuid, sensor in self._sensors.items()})

    @property
    def space(self) -> spaces.Dict:
        """What :meth:`read` gives lies in it: the spaces of B envs, one key per uuid. Dicts are a tuple of B spaces."""
        if self._space is None:
            self._space = _in_order(
                {uuid: batch_space(sensor.space, self.n_envs) for uuid, sensor in self._sensors.items()}
            )
        return self._space

    def read(self) -> dict[str, Any]:
        """The observations of all envs, by uuid: values that later steps do not change."""
        observation = {uuid: sensor.read() for uuid, sensor in self._sensors.items()}
        if len(self._seen) < len(observation):
            self._look_at(observation)
        return observation

    def _look_at(self, observation: dict[str, Any]) -> None:
        """See that what sensors read for the first time lies in their spaces."""
        for uuid, value in observation.items():
            if uuid not in self._seen and not self.space[uuid].contains(value):
                raise OptionError(
                    f"the sensor {uuid!r} of {self._owners[uuid]} reads {_form(value)}, which is not in the space that "
                    f"it declares, of {self.n_envs} envs: {self.space[uuid]}"
                )
            self._seen.add(uuid)

    def reset(self, envs: Envs = None) -> None:
        """Some envs begin an episode."""
        for sensor in self._sensors.values():
            sensor.reset(envs)

    def to_disk(self, observation: Mapping[str, Any]) -> dict[str, Any]:
        """What :meth:`read` gave in the form of files: dicts as fixed-length UTF-8, see :func:`suites.encode`."""
        lacking = [uuid for uuid in self._sensors if uuid not in observation]
        if lacking:
            raise OptionError(f"the observation lacks {shorten(lacking)}: give what read() gave")
        return {uuid: sensor.to_disk(observation[uuid]) for uuid, sensor in self._sensors.items()}

    def describe(self) -> list[dict[str, str]]:
        """One row a sensor: uuid, owner, and the space of one env."""
        return [
            {"uuid": uuid, "owner": self._owners[uuid], "space": str(sensor.space)}
            for uuid, sensor in self._sensors.items()
        ]

    def __repr__(self) -> str:
        return f"<SensorSuite of {len(self)}: {', '.join(self)}>"


def _in_order(by_name: dict[str, spaces.Space[Any]]) -> spaces.Dict:
    """A Dict space that keeps the order; given a dict, Gymnasium would sort it."""
    return spaces.Dict(list(by_name.items()))  # type: ignore[arg-type]


def _form(value: Any) -> str:
    """Shapes and types of an observation, for messages."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name!r}: {_form(each)}" for name, each in value.items()) + "}"
    if isinstance(value, tuple):
        return f"{len(value)} dicts"
    return f"{getattr(value, 'dtype', type(value).__name__)} {getattr(value, 'shape', '')}"


def pick_env(value: Any, env: int) -> Any:
    """One env's part of what a suite read."""
    if isinstance(value, dict):
        return {name: pick_env(each, env) for name, each in value.items()}
    return value[env]


def flat(value: Any) -> np.ndarray:
    """What a suite read of one uuid as (B, k) float32: arrays side by side, those of nested ones sorted by name."""
    return np.concatenate(_columns(value), axis=1)


def _columns(value: Any) -> list[np.ndarray]:
    if isinstance(value, dict):
        return [part for name in sorted(value) for part in _columns(value[name])]
    return [np.asarray(value, np.float32).reshape(len(value), -1)]
