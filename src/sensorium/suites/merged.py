"""One observation sensor for all envs, made of sensors that each cover some of the envs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from sensorium._arguments import checked
from sensorium.errors import OptionError
from sensorium.suites.observation import Arrays, ObservationSensor, Reading, SensorDescription, Stored
from sensorium.suites.text import JsonSpace, encode
from sensorium.worlds import Envs, env_ids


class MergedSensor(ObservationSensor):
    """A sensor that reads each of its parts for the envs of that part.

    Envs that no part covers read zeros, or empty dicts. Parts that read as dicts of arrays may have different keys: the
    merged sensor has all of them.

    Args:
        uuid: name of the merged sensor.
        parts: sensors with their envs, (n,) ids in the order of the rows that the sensor reads.
        n_envs: number of envs, B.

    Raises:
        OptionError: the parts have different shapes or types.
    """

    @checked
    def __init__(self, uuid: str, parts: Sequence[tuple[ObservationSensor, np.ndarray]], n_envs: int) -> None:
        self._parts, self._n_envs = parts, n_envs
        partial = sum(len(envs) for _, envs in parts) < n_envs
        super().__init__(
            uuid,
            _union(uuid, [part.space for part, _ in parts], partial),
            any(part.is_image for part, _ in parts),
            parts[0][0].purpose,
        )
        self.is_dict = isinstance(self.space, JsonSpace)
        lengths = [part.str_max_len for part, _ in parts]
        self.str_max_len = None if None in lengths else max(length or 0 for length in lengths)
        self.of_numbers = all(part.of_numbers for part, _ in parts)

    def read(self) -> Reading:
        """Return the readings of all parts in the order of the envs."""
        readings = [(part.read(), envs) for part, envs in self._parts]
        if not self.is_dict:
            return _gather(self.space, readings, self._n_envs)
        dicts: list[dict[str, Any]] = [{} for _ in range(self._n_envs)]
        for reading, envs in readings:
            for env, each in zip(envs.tolist(), reading, strict=True):
                dicts[env] = each
        return tuple(dicts)

    def reset(self, envs: Envs = None) -> None:
        """Reset the parts for envs that start an episode."""
        ids = env_ids(envs, self._n_envs)
        for part, own in self._parts:
            part.reset(None if ids is None else np.flatnonzero(np.isin(own, ids)))

    def to_disk(self, value: Reading) -> Stored:
        """Return a reading in the form that is written to files."""
        return encode(self.uuid, value, self.str_max_len) if self.is_dict else value  # type: ignore[arg-type]

    def describe(self) -> SensorDescription | None:
        """Return the sensor of the scene that the parts read, if it is the same in all."""
        found = [part.describe() for part, _ in self._parts]
        return found[0] if all(each == found[0] for each in found) else None


@checked
def merge(suites: Sequence[tuple[Iterable[ObservationSensor], np.ndarray]], n_envs: int) -> list[MergedSensor]:
    """Return one merged sensor for each uuid that occurs in any of the suites, in order of first occurrence.

    Args:
        suites: the sensors of each suite with its envs, (n,) ids.
        n_envs: number of envs, B.
    """
    parts: dict[str, list[tuple[ObservationSensor, np.ndarray]]] = {}
    for sensors, envs in suites:
        for sensor in sensors:
            parts.setdefault(sensor.uuid, []).append((sensor, envs))
    return [MergedSensor(uuid, each, n_envs) for uuid, each in parts.items()]


def _union(name: str, found: Sequence[spaces.Space[Any]], partial: bool) -> spaces.Space[Any]:
    """Return a space that contains the values of all spaces, and zeros if some envs lack the value (``partial``)."""
    if all(isinstance(each, JsonSpace) for each in found):
        return JsonSpace()
    dicts = [each for each in found if isinstance(each, spaces.Dict)]
    if len(dicts) == len(found):
        merged = {}
        for key in dict.fromkeys(key for each in dicts for key in each):
            inner = [each[key] for each in dicts if key in each.spaces]
            merged[key] = _union(f"{name}.{key}", inner, partial or len(inner) < len(found))
        return spaces.Dict(merged)
    boxes = [each for each in found if isinstance(each, spaces.Box)]
    if len(boxes) == len(found) and len({(each.shape, each.dtype) for each in boxes}) == 1:
        zeros = [np.zeros_like(boxes[0].low)] if partial else []
        low = np.min([*(each.low for each in boxes), *zeros], axis=0)
        high = np.max([*(each.high for each in boxes), *zeros], axis=0)
        return spaces.Box(low, high, dtype=boxes[0].dtype.type)  # type: ignore[arg-type]
    raise OptionError(
        f"{name!r} cannot be merged: its spaces are {' and '.join(map(str, found))}; they must have the same shape and "
        "dtype in all tasks"
    )


def _gather(space: spaces.Space[Any], parts: list[tuple[Any, np.ndarray]], n_envs: int) -> Arrays:
    if isinstance(space, spaces.Dict):
        return {
            key: _gather(each, [(value[key], envs) for value, envs in parts if key in value], n_envs)
            for key, each in space.items()
        }
    assert space.shape is not None
    out = np.zeros((n_envs, *space.shape), space.dtype)
    for value, envs in parts:
        out[envs] = value
    return out
