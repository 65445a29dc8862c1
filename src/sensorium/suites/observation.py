"""Observation sensors: the entries of a suite. Each is read for all envs at once and has a Gymnasium space."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypedDict

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from numpy.typing import DTypeLike

from sensorium._arguments import checked
from sensorium.errors import OptionError
from sensorium.sensors import Sensor
from sensorium.suites.purposes import Purpose, check_purpose, default_purpose
from sensorium.suites.text import JsonSpace, encode
from sensorium.worlds import Envs

Arrays: TypeAlias = "np.ndarray | Mapping[str, Arrays]"
"""An array, or a mapping of them that may nest. The first axis is the env."""
Reading: TypeAlias = "Arrays | tuple[dict[str, Any], ...]"
"""A reading of all envs: arrays, or one dict per env."""
Stored: TypeAlias = "Reading | list[str]"
"""A reading in the form that is written to files."""
Shape: TypeAlias = "tuple[int, ...] | Mapping[str, Shape]"
"""The shape of one env's array, or a mapping of shapes that may nest."""

PRIVILEGED = "privileged/"
"""Prefix of the uuids of ground truth in a suite, so that spaces and files show it."""


class SensorDescription(TypedDict):
    """A sensor of a scene as a value with a JSON form."""

    type: str
    """Class of its options: a name in ``sensorium``, or ``package.module:Class``."""
    options: dict[str, Any]
    """The options that were set."""
    spreads: dict[str, list[list[float]]]
    """Channel -> standard deviations of a sample's noise and of the drift, per axis."""
    joints: list[str]
    """Names of its joints; [] for sensors without joints."""


class ObservationSensor:
    """One entry of a suite.

    Derive from it and define :meth:`read`, or use :class:`ArraySensor` or :class:`DictSensor`.

    Args:
        uuid: its key in observations and files. Slashes are allowed ("actions/ee_pose").
        space: the space of one env's observation.
        is_image: whether it reads an image. Histories skip images by default.
        purpose: "observation" if a robot could sense it, "privileged" if it is true state, "annotation" if it labels
            the data. Datasets and exports keep them apart. Default: that of the task's, robot's or policy's sensor of
            this uuid, otherwise "observation".

    Raises:
        OptionError: ``uuid`` is empty, or ``purpose`` is unknown.
    """

    is_dict = False
    """Whether it reads as one JSON-able dict per env."""
    privileged = False
    """Whether it reads ground truth, which a real robot does not have."""
    str_max_len: int | None = None
    """Dicts: bytes of UTF-8 that one dict takes on disk; None for strings of any length."""
    of_numbers = False
    """Dicts: whether every value is a list of floats."""

    @checked
    def __init__(
        self, uuid: str, space: spaces.Space[Any], is_image: bool = False, purpose: Purpose | None = None
    ) -> None:
        if not uuid:
            raise OptionError("uuid must not be empty")
        if purpose is not None:
            check_purpose(uuid, purpose)
        self.uuid = uuid
        self.purpose: Purpose = purpose or default_purpose(uuid)
        self.space = space
        self.is_image = is_image

    def read(self) -> Reading:
        """Return the observation of all envs: (B, ...) arrays, a dict of them, or a tuple of B dicts.

        The values are copies: later steps do not change them.
        """
        raise TypeError(f"{type(self).__name__} must define read()")

    def reset(self, envs: Envs = None) -> None:
        """Handle the start of an episode in some envs. Does nothing by default."""

    def to_disk(self, value: Reading) -> Stored:
        """Return a reading in the form that is written to files: arrays or strings."""
        return value

    def describe(self) -> SensorDescription | None:
        """Return the sensor of the scene that it reads; None if it reads none, or a camera."""
        return None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.uuid!r}>"


class ArraySensor(ObservationSensor):
    """An observation sensor that reads arrays from a function.

    Example:
        >>> height = ArraySensor("height", lambda: robot.get_pose()[0][:, 2:].numpy(), shape=(1,))

    Args:
        uuid: its key in observations and files.
        source: returns ``(B, *shape)``, or a dict of such arrays.
        shape: shape of one env's array, or a dict of shapes. Dicts may nest.
        dtype: dtype of the arrays.
        low, high: bounds of the space.
        is_image: whether it reads an image.
        purpose: see :class:`ObservationSensor`.
    """

    @checked
    def __init__(
        self,
        uuid: str,
        source: Callable[[], Arrays],
        shape: Shape,
        dtype: DTypeLike = np.float32,
        low: float = -np.inf,
        high: float = np.inf,
        is_image: bool = False,
        purpose: Purpose | None = None,
    ) -> None:
        try:
            self._dtype = np.dtype(dtype)
        except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: a tensor
            raise OptionError(f"ArraySensor: dtype must be a dtype of NumPy, got {dtype!r:.80}") from error
        super().__init__(uuid, _boxes(shape, self._dtype, low, high), is_image, purpose)
        self._source = source

    def read(self) -> Arrays:
        """Return copies of the arrays."""
        return _copied(self._source(), self._dtype, self.uuid)


class DictSensor(ObservationSensor):
    """An observation sensor that reads nested JSON-able dicts from a function, one per env.

    Args:
        uuid: its key in observations and files.
        source: returns B dicts.
        str_max_len: maximum number of bytes that one dict takes on disk, at least 2; None for strings of any length.
        of_numbers: whether every value is a list of floats. Such dicts are written faster, since only the finiteness of
            the floats is validated.
        purpose: see :class:`ObservationSensor`.

    Raises:
        OptionError: ``str_max_len`` is less than 2.
    """

    is_dict = True

    @checked
    def __init__(
        self,
        uuid: str,
        source: Callable[[], Sequence[dict[str, Any]]],
        str_max_len: int | None = None,
        of_numbers: bool = False,
        purpose: Purpose | None = None,
    ) -> None:
        super().__init__(uuid, JsonSpace(), purpose=purpose)
        if str_max_len is not None and str_max_len < 2:
            raise OptionError(f"{uuid!r}: str_max_len must be >= 2 (the bytes of '{{}}') or None, got {str_max_len}")
        self.str_max_len = str_max_len
        self.of_numbers = of_numbers
        self._source = source

    def read(self) -> tuple[dict[str, Any], ...]:
        """Return one dict per env."""
        found = self._source()
        if not isinstance(found, Iterable):
            raise OptionError(f"{self.uuid!r}: the source must return one dict per env, got {found!r:.80}")
        return tuple(found)

    def to_disk(self, value: Reading) -> Stored:
        """Return a reading as (B, str_max_len) uint8, or as B strings if ``str_max_len`` is None."""
        return encode(self.uuid, value, self.str_max_len)  # type: ignore[arg-type]


class PipelineSensor(ObservationSensor):
    """A sensor of the scene (IMU, lidar, camera, ...) as an entry of a suite.

    It reads what ``sensor.read()`` returns. A reading of one tensor becomes an array. A reading of several becomes a
    dict of those that are not None.

    Args:
        sensor: a sensor of a built scene.
        uuid: its key in the suite. Default: the sensor's own uuid.
        privileged: whether to read ground truth, under the key "privileged/UUID". Only a privileged suite accepts it.
    """

    @checked
    def __init__(self, sensor: Sensor[Any], uuid: str | None = None, privileged: bool = False) -> None:
        self._sensor = sensor
        self._read = sensor.read_ground_truth if privileged else sensor.read
        reading = _fields(self._read())
        images = isinstance(reading, dict) and "rgb" in reading
        name = uuid or sensor.uuid
        super().__init__(f"{PRIVILEGED}{name}" if privileged else name, _space_of(reading), images)
        self.privileged = privileged

    def read(self) -> Arrays:
        """Return the reading as copied NumPy arrays."""
        reading = _fields(self._read())
        if isinstance(reading, dict):
            return {name: value.cpu().numpy().copy() for name, value in reading.items()}
        return reading.cpu().numpy().copy()

    def describe(self) -> SensorDescription | None:
        """Return the sensor; None for a camera, and for options without a JSON form."""
        sensor, kind = self._sensor, type(self._sensor.options)
        if hasattr(sensor, "outputs"):
            return None
        is_own = kind.__module__.startswith("sensorium.")
        try:
            options = sensor.options.model_dump(mode="json", exclude_unset=True)
        except ValueError:  # values of a user's class that pydantic cannot write
            return None
        spreads = sensor._parameters.spreads()
        return {
            "type": kind.__name__ if is_own else f"{kind.__module__}:{kind.__qualname__}",
            "options": options,
            "spreads": {name: [part.tolist() for part in parts] for name, parts in spreads.items()},
            "joints": list(getattr(sensor, "joint_names", ())),
        }


@checked
def box_space(
    shape: tuple[int, ...], dtype: DTypeLike = np.float32, low: float = -np.inf, high: float = np.inf
) -> spaces.Box:
    """Return a ``Box`` space. Infinite bounds of integer dtypes become the limits of the dtype, at most +-2**62."""
    try:
        dtype = np.dtype(dtype)
    except (TypeError, ValueError) as error:
        raise OptionError(f"box_space: dtype must be a dtype of NumPy, got {dtype!r:.80}") from error
    if dtype.kind not in "fiub" or not all(isinstance(side, int | np.integer) and side >= 0 for side in shape):
        raise OptionError(f"box_space: shape must be integers and dtype one of numbers, got {shape!r:.80} and {dtype}")
    if dtype == np.bool_:
        return spaces.Box(0, 1, shape, np.bool_)  # type: ignore[arg-type]
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return spaces.Box(
            max(int(info.min), -(2**62)) if low == -np.inf else int(low),
            min(int(info.max), 2**62) if high == np.inf else int(high),
            shape,
            dtype.type,
        )
    return spaces.Box(low, high, shape, dtype.type)


class SensedBox(spaces.Box):
    """A ``Box`` space that also contains NaN, which sensors read for example for a ray that hits nothing."""

    def contains(self, x: object) -> bool:
        """Return whether ``x`` is a possible reading."""
        if isinstance(x, np.ndarray) and x.dtype.kind == "f" and np.isnan(x).any():
            x = np.where(np.isnan(x), np.zeros((), x.dtype), x)
        return super().contains(x)


@batch_space.register(SensedBox)
def _(space: SensedBox, n: int = 1) -> SensedBox:
    low, high = (np.broadcast_to(bound, (n, *space.shape)).copy() for bound in (space.low, space.high))
    return SensedBox(low, high, dtype=space.dtype.type)  # type: ignore[union-attr]


def _boxes(shape: Shape, dtype: np.dtype[Any], low: float, high: float) -> spaces.Space[Any]:
    if isinstance(shape, Mapping):
        try:
            return spaces.Dict({name: _boxes(each, dtype, low, high) for name, each in shape.items()})
        except RecursionError:
            raise OptionError("shape contains itself, or is nested too deeply") from None
    if not isinstance(shape, Sequence) or isinstance(shape, str):
        raise OptionError(f"shape must be a sequence of sizes, or a mapping of names to such, got {shape!r:.80}")
    return box_space(tuple(shape), dtype, low, high)


def _space_of(reading: dict[str, torch.Tensor] | torch.Tensor) -> spaces.Space[Any]:
    if isinstance(reading, dict):
        return spaces.Dict({name: _space_of(each) for name, each in reading.items()})
    array = reading.cpu().numpy()
    if array.dtype.kind == "f":
        return SensedBox(-np.inf, np.inf, array.shape[1:], array.dtype.type)
    return box_space(array.shape[1:], array.dtype)


def _fields(reading: torch.Tensor | NamedTuple) -> dict[str, torch.Tensor] | torch.Tensor:
    if isinstance(reading, torch.Tensor):
        return reading
    return {name: value for name, value in reading._asdict().items() if value is not None}


def _copied(value: Arrays, dtype: np.dtype[Any], uuid: str) -> Arrays:
    if isinstance(value, dict):
        return {name: _copied(each, dtype, uuid) for name, each in value.items()}
    try:
        return np.array(value, dtype)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:  # RuntimeError: tensors
        raise OptionError(
            f"{uuid!r}: a source of observations must return numbers, got {value!r:.80}: {error}"
        ) from None
