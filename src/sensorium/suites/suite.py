"""``SensorSuite``: the observation sensors of a policy, by uuid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, overload

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from sensorium._arguments import as_array, checked
from sensorium.errors import DuplicateNameError, NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.sensors import Sensor
from sensorium.suites.observation import ObservationSensor, PipelineSensor, Reading, Stored
from sensorium.suites.reading_check import ReadingCheck
from sensorium.worlds import Envs

DefaultT = TypeVar("DefaultT")


class BatchedDict(spaces.Dict):
    """The space of the observations of B envs at once, which is not that of one env.

    Args:
        by_name: (uuid, space) of each sensor, in this order.
        n_envs: number of envs, B.
    """

    @checked
    def __init__(self, by_name: Sequence[tuple[str, spaces.Space[Any]]], n_envs: int) -> None:
        pairs = [one for one in by_name if isinstance(one, tuple) and len(one) == 2]
        if len(pairs) < len(by_name) or not all(isinstance(space, spaces.Space) for _, space in pairs):
            raise OptionError(f"BatchedDict: by_name must be pairs of a uuid and a space, got {by_name!r:.80}")
        super().__init__(pairs)  # type: ignore[arg-type]  # Gymnasium sorts the keys of a dict, but not of a list
        self.n_envs = n_envs
        """Number of envs, B."""


class SensorSuite(Mapping[str, ObservationSensor]):
    """An ordered mapping from uuid to observation sensor.

    Example:
        >>> suite = SensorSuite(n_envs=scene.n_envs)
        >>> suite.add(imu, owner="robot")                   # a sensor of the scene, after build
        >>> suite.add(ArraySensor("height", height, (1,)), owner="task")
        >>> observation = suite.read()                      # {"imu": {"lin_acc": (B, 3), ...}, "height": (B, 1)}
        >>> observation in suite.space
        True

    Args:
        n_envs: number of envs, B.
        sensors: the first sensors.
        owner: who contributes them, for messages and files.
        privileged: whether the suite accepts ground truth of a robot's sensors.
    """

    @checked
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
        self._checks: dict[str, ReadingCheck] = {}
        self.extend(sensors, owner)

    # -- contents -----------------------------------------------------------------------------------------------------

    def add(self, sensor: ObservationSensor | Sensor[Any], owner: str = "suite") -> None:
        """Add an observation sensor, or a sensor of a built scene.

        Args:
            sensor: the sensor.
            owner: who contributes it.

        Raises:
            DuplicateNameError: the uuid is taken. The message names both owners.
            OptionError: ``sensor`` is not a sensor, or reads ground truth and the suite is not privileged.
        """
        self.extend([sensor], owner)

    def extend(self, sensors: Iterable[ObservationSensor | Sensor[Any]], owner: str = "suite") -> None:
        """Add several sensors; raises as :meth:`add`. If one of them is refused, none is added."""
        if not isinstance(sensors, Iterable):
            raise OptionError(f"SensorSuite: the sensors of {owner} must be an iterable, got {sensors!r:.80}")
        if not isinstance(owner, str):
            raise OptionError(f"SensorSuite: owner must be text, got {owner!r:.80}")
        new: dict[str, ObservationSensor] = {}
        for sensor in sensors:
            if not isinstance(sensor, ObservationSensor | Sensor):
                raise OptionError(
                    f"a suite takes an ObservationSensor or a Sensor of a scene; {owner} contributes {sensor!r}"
                )
            if not isinstance(getattr(sensor, "uuid", None), str):
                raise OptionError(
                    f"{type(sensor).__name__}, which {owner} contributes, has no uuid: call super().__init__ in its "
                    "__init__"
                )
            if sensor.uuid in self._sensors or sensor.uuid in new:
                first = self._owners.get(sensor.uuid, owner)
                raise DuplicateNameError(
                    f"the uuid {sensor.uuid!r} is contributed by {first} and by {owner}; rename one of the two sensors"
                )
            if isinstance(sensor, ObservationSensor) and sensor.privileged and not self.privileged:
                raise OptionError(
                    f"{sensor.uuid!r} reads ground truth, which a suite accepts only if it is made with privileged=True"
                )
            new[sensor.uuid] = PipelineSensor(sensor) if isinstance(sensor, Sensor) else sensor
        self._sensors |= new
        self._owners |= dict.fromkeys(new, owner)
        self._space: BatchedDict | None = None

    def owner(self, uuid: str) -> str:
        """Return who contributed a sensor."""
        return self._owners[self[uuid].uuid]

    def __getitem__(self, uuid: str) -> ObservationSensor:
        if not isinstance(uuid, str):
            raise OptionError(f"SensorSuite: a uuid must be text, got {uuid!r:.80}")
        if uuid not in self._sensors:
            hint = did_you_mean(uuid, self._sensors) or f"; it has {shorten(self._sensors)}"
            raise NameNotFoundError(f"the suite has no sensor {uuid!r}{hint}")
        return self._sensors[uuid]

    @overload
    def get(self, uuid: str) -> ObservationSensor | None: ...
    @overload
    def get(self, uuid: str, default: DefaultT) -> ObservationSensor | DefaultT: ...
    def get(self, uuid: str, default: object = None) -> object:
        """Return a sensor, or ``default`` if the suite has none of that uuid."""
        return self[uuid] if uuid in self or not isinstance(uuid, str) else default

    def __contains__(self, uuid: object) -> bool:
        return isinstance(uuid, str) and uuid in self._sensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._sensors)

    def __len__(self) -> int:
        return len(self._sensors)

    # -- observations -------------------------------------------------------------------------------------------------

    @property
    def single_space(self) -> spaces.Dict:
        """The space of one env's observation, one key per uuid."""
        return _ordered_dict_space({uuid: sensor.space for uuid, sensor in self._sensors.items()})

    @property
    def space(self) -> spaces.Dict:
        """The space of :meth:`read`, for B envs, one key per uuid. A dict sensor has a tuple of B spaces."""
        if self._space is None:
            batched = [(uuid, batch_space(sensor.space, self.n_envs)) for uuid, sensor in self._sensors.items()]
            self._space = BatchedDict(batched, self.n_envs)
        return self._space

    def read(self) -> dict[str, Any]:
        """Return the observations of all envs, by uuid. Later steps do not change them.

        The shapes and dtypes of every reading are checked, and the bounds of the first one.

        Raises:
            OptionError: a reading does not lie in the space that the sensor declares.
        """
        observation: dict[str, Any] = {}
        checks = self._checks
        for uuid, sensor in self._sensors.items():
            value = observation[uuid] = sensor.read()
            if uuid not in checks or not checks[uuid].fits(value):
                self._check_reading(uuid, value)
        return observation

    def _check_reading(self, uuid: str, value: Reading) -> None:
        """Check the first reading of a sensor, or raise for one that differs in shape or dtype."""
        space, check = self.space[uuid], ReadingCheck(self.space[uuid])
        fits = check.fits(value)
        if not fits or not space.contains(value):
            why = "; its shapes and dtypes are right, but it has NaN or values beyond the bounds" if fits else ""
            raise OptionError(
                f"the sensor {uuid!r} of {self._owners[uuid]} reads {_format(value)}, which is not in the space "
                f"that it declares for {self.n_envs} envs: {space}{why}"
            )
        self._checks[uuid] = check

    def reset(self, envs: Envs = None) -> None:
        """Reset the sensors for envs that start an episode."""
        for sensor in self._sensors.values():
            sensor.reset(envs)

    def to_disk(self, observation: Mapping[str, Reading]) -> dict[str, Stored]:
        """Return an observation of :meth:`read` in the form that is written to files.

        Dicts become fixed-length UTF-8; see :func:`sensorium.suites.encode`.

        Raises:
            OptionError: the observation lacks a sensor of the suite.
        """
        if not isinstance(observation, Mapping):
            raise OptionError(f"observation must be a mapping of uuid -> reading, got {observation!r:.80}")
        missing = [uuid for uuid in self._sensors if uuid not in observation]
        if missing:
            raise OptionError(f"the observation lacks {shorten(missing)}; pass the result of suite.read()")
        return {uuid: sensor.to_disk(observation[uuid]) for uuid, sensor in self._sensors.items()}

    def describe(self) -> list[dict[str, str]]:
        """Return one row per sensor: its uuid, its owner and the space of one env."""
        return [
            {"uuid": uuid, "owner": self._owners[uuid], "space": str(sensor.space)}
            for uuid, sensor in self._sensors.items()
        ]

    def __repr__(self) -> str:
        return f"<SensorSuite of {len(self)}: {', '.join(self)}>"


def _ordered_dict_space(by_name: dict[str, spaces.Space[Any]]) -> spaces.Dict:
    """Return a Dict space that keeps the order of its keys. Gymnasium sorts the keys of a dict, but not of a list."""
    return spaces.Dict(list(by_name.items()))  # type: ignore[arg-type]


def _format(value: Reading, depth: int = 8) -> str:
    """Return the shapes and dtypes of a reading, for messages; of a nested one, the outer ``depth`` levels."""
    if isinstance(value, dict):
        if not depth:
            return "{...}"
        return "{" + ", ".join(f"{name!r}: {_format(each, depth - 1)}" for name, each in value.items()) + "}"
    if isinstance(value, tuple):
        return f"{len(value)} dicts"
    shape = "" if getattr(value, "is_nested", False) else getattr(value, "shape", "")  # nested tensors have no shape
    return f"{getattr(value, 'dtype', type(value).__name__)} {shape}"


def pick_env(value: Any, env: int) -> Any:
    """Return one env's part of a reading, or of a whole observation.

    Raises:
        OptionError: the value has no such env.
    """
    try:
        if isinstance(value, dict):
            return {name: pick_env(each, env) for name, each in value.items()}
        return value[env]
    except OptionError:
        raise
    except (TypeError, IndexError, ValueError, RuntimeError):  # RuntimeError: tensors that cannot be indexed, recursion
        raise OptionError(f"pick_env: there is no env {env!r:.40} in {_format(value)}") from None


def flatten_reading(value: Reading) -> np.ndarray:
    """Return an array reading as one (B, k) float32 array.

    Nested arrays are concatenated in the order of their names.

    Raises:
        OptionError: the reading has no arrays with one row per env.
    """
    try:
        return np.concatenate(_columns(value), axis=1)
    except (TypeError, ValueError, RecursionError) as error:
        raise OptionError(f"flatten_reading: {_format(value)} is not a reading of arrays: {error}") from error


def _columns(value: Reading) -> list[np.ndarray]:
    if isinstance(value, dict):
        return [part for name in sorted(value) for part in _columns(value[name])]
    array = as_array(value)
    return [np.asarray(array, np.float32).reshape(len(array), -1)]
