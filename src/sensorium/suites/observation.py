"""What a suite holds: things that can be read for all envs at once, each with a space."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from sensorium.errors import OptionError
from sensorium.sensors import Sensor
from sensorium.suites.text import JsonSpace, encode
from sensorium.worlds import Envs

PRIVILEGED = "privileged/"
"""What the names of ground truth in a suite begin with, so that it shows in spaces and files."""


class ObservationSensor:
    """One entry of a suite. Derive from it, or use :class:`ArraySensor` and :class:`DictSensor`.

    Args:
        uuid: its name in observations and files; may have slashes ("actions/ee_pose").
        space: what one env's observation lies in.
        is_image: whether it is an image, which histories leave out unless asked to keep them.
    """

    is_dict = False
    """Whether it reads as one JSON-able dict per env."""
    privileged = False
    """Whether it shows ground truth that a robot could not know."""
    str_max_len: int | None = None
    """Of dicts: how many bytes of UTF-8 one takes on disk; None for strings of any length."""
    of_numbers = False
    """Of dicts: whether they hold nothing but lists of floats by text."""

    def __init__(self, uuid: str, space: spaces.Space[Any], is_image: bool = False) -> None:
        if not uuid:
            raise OptionError("uuid must not be empty")
        self.uuid = uuid
        self.space = space
        self.is_image = is_image

    def read(self) -> Any:
        """The observation of all envs: (B, ...) arrays, a dict of them, or a tuple of B dicts. Values, not views."""
        raise TypeError(f"{type(self).__name__} must define read()")

    def reset(self, envs: Envs = None) -> None:
        """Some envs begin an episode."""

    def to_disk(self, value: Any) -> Any:
        """What :meth:`read` gave, as arrays (or strings) for a file."""
        return value

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.uuid!r}>"


class ArraySensor(ObservationSensor):
    """Arrays from a function.

    Example:
        >>> up = ArraySensor("height", lambda: robot.get_pose()[0][:, 2:].numpy(), shape=(1,))

    Args:
        source: gives (B, *shape), or a dict of such arrays.
        shape: of one env; or a dict of shapes. Nested dicts may nest further.
        dtype: of the array.
        low, high: bounds.
    """

    def __init__(
        self,
        uuid: str,
        source: Callable[[], Any],
        shape: Any,
        dtype: Any = np.float32,
        low: float = -np.inf,
        high: float = np.inf,
        is_image: bool = False,
    ) -> None:
        super().__init__(uuid, _boxes(shape, np.dtype(dtype), low, high), is_image)
        self._source = source
        self._dtype = np.dtype(dtype)

    def read(self) -> Any:
        """The arrays, as copies."""
        return _copied(self._source(), self._dtype)


class DictSensor(ObservationSensor):
    """Nested JSON-able dicts from a function, one per env.

    Args:
        source: gives B dicts.
        str_max_len: how many bytes one takes on disk at most; None for strings of any length.
        of_numbers: whether they hold nothing but lists of floats by text. This is not checked, so they are written
            faster; that the floats are finite is.
    """

    is_dict = True

    def __init__(
        self,
        uuid: str,
        source: Callable[[], Sequence[dict[str, Any]]],
        str_max_len: int | None = None,
        of_numbers: bool = False,
    ) -> None:
        super().__init__(uuid, JsonSpace())
        if str_max_len is not None and str_max_len < 2:
            raise OptionError(f"{uuid!r}: str_max_len must be 2 or more ('{{}}' has 2 bytes), got {str_max_len}")
        self.str_max_len = str_max_len
        self.of_numbers = of_numbers
        self._source = source

    def read(self) -> tuple[dict[str, Any], ...]:
        """One dict per env."""
        return tuple(self._source())

    def to_disk(self, value: Any) -> Any:
        """(B, str_max_len) uint8, or B strings."""
        return encode(self.uuid, value, self.str_max_len)


class PipelineSensor(ObservationSensor):
    """A sensor of the scene (IMU, lidar, camera, ...) as an entry of a suite: what its ``read()`` gives.

    A reading of one tensor is an array; one of several is a dict of those that are there.

    Args:
        sensor: of a scene that was built.
        uuid: its name in the suite. Default: its own.
        privileged: whether it shows ground truth, under "privileged/UUID"; it takes a suite that is privileged, too.
    """

    def __init__(self, sensor: Sensor[Any], uuid: str | None = None, privileged: bool = False) -> None:
        self._read = sensor.read_ground_truth if privileged else sensor.read
        reading = _fields(self._read())
        images = isinstance(reading, dict) and "rgb" in reading
        name = uuid or sensor.uuid
        super().__init__(f"{PRIVILEGED}{name}" if privileged else name, _space_of(reading), images)
        self.privileged = privileged

    def read(self) -> Any:
        """The reading as NumPy arrays, copied."""
        reading = _fields(self._read())
        if isinstance(reading, dict):
            return {name: value.cpu().numpy().copy() for name, value in reading.items()}
        return reading.cpu().numpy().copy()


def box(shape: tuple[int, ...], dtype: Any = np.float32, low: float = -np.inf, high: float = np.inf) -> spaces.Box:
    """A box with the bounds of its type where none are given."""
    dtype = np.dtype(dtype)
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
    """A box of what a sensor reads, where NaN is a reading too: of a ray that hit nothing, say."""

    def contains(self, x: Any) -> bool:
        """Whether it could have been read."""
        if isinstance(x, np.ndarray) and x.dtype.kind == "f" and np.isnan(x).any():
            x = np.where(np.isnan(x), np.zeros((), x.dtype), x)
        return super().contains(x)


@batch_space.register(SensedBox)
def _(space: SensedBox, n: int = 1) -> SensedBox:
    low, high = (np.broadcast_to(bound, (n, *space.shape)).copy() for bound in (space.low, space.high))
    return SensedBox(low, high, dtype=space.dtype.type)  # type: ignore[union-attr]


def _boxes(shape: Any, dtype: np.dtype[Any], low: float, high: float) -> spaces.Space[Any]:
    if isinstance(shape, dict):
        return spaces.Dict({name: _boxes(each, dtype, low, high) for name, each in shape.items()})
    return box(tuple(shape), dtype, low, high)


def _space_of(reading: Any) -> spaces.Space[Any]:
    if isinstance(reading, dict):
        return spaces.Dict({name: _space_of(each) for name, each in reading.items()})
    array = reading.cpu().numpy()
    if array.dtype.kind == "f":
        return SensedBox(-np.inf, np.inf, array.shape[1:], array.dtype.type)
    return box(array.shape[1:], array.dtype)


def _fields(reading: Any) -> dict[str, torch.Tensor] | torch.Tensor:
    if isinstance(reading, torch.Tensor):
        return reading
    return {name: value for name, value in reading._asdict().items() if value is not None}


def _copied(value: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, dict):
        return {name: _copied(each, dtype) for name, each in value.items()}
    return np.array(value, dtype)
