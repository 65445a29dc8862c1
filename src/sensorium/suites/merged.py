"""Sensors of one uuid, each of some of the envs, as one sensor of all envs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from sensorium.errors import OptionError
from sensorium.suites.observation import ObservationSensor
from sensorium.suites.text import JsonSpace, encode
from sensorium.worlds import Envs, env_ids


class MergedSensor(ObservationSensor):
    """Reads each part for its own envs. Where nobody observes it, arrays are zeros and dicts are empty.

    Parts that read as dicts of arrays may have different keys: all of them are observed.

    Args:
        uuid: its name.
        parts: sensors with their envs, (n,) ids in the order of what they read.
        n_envs: B.
    """

    def __init__(self, uuid: str, parts: Sequence[tuple[ObservationSensor, np.ndarray]], n_envs: int) -> None:
        self._parts, self._n_envs = parts, n_envs
        lacking = sum(len(envs) for _, envs in parts) < n_envs
        super().__init__(
            uuid,
            _union(uuid, [part.space for part, _ in parts], lacking),
            any(part.is_image for part, _ in parts),
        )
        self.is_dict = isinstance(self.space, JsonSpace)
        lengths = [part.str_max_len for part, _ in parts]
        self.str_max_len = None if None in lengths else max(length or 0 for length in lengths)
        self.of_numbers = all(part.of_numbers for part, _ in parts)

    def read(self) -> Any:
        """What the parts read, in the order of the envs."""
        values = [(part.read(), envs) for part, envs in self._parts]
        if not self.is_dict:
            return _gather(self.space, values, self._n_envs)
        dicts: list[dict[str, Any]] = [{} for _ in range(self._n_envs)]
        for value, envs in values:
            for env, each in zip(envs.tolist(), value, strict=True):
                dicts[env] = each
        return tuple(dicts)

    def reset(self, envs: Envs = None) -> None:
        """Some envs begin an episode."""
        ids = env_ids(envs, self._n_envs)
        for part, own in self._parts:
            part.reset(None if ids is None else np.flatnonzero(np.isin(own, ids)))

    def to_disk(self, value: Any) -> Any:
        """As the parts do."""
        return encode(self.uuid, value, self.str_max_len) if self.is_dict else value


def merge(suites: Sequence[tuple[Iterable[ObservationSensor], np.ndarray]], n_envs: int) -> list[MergedSensor]:
    """Suites, each of some envs, as one: every uuid of any of them, in the order in which they are found."""
    parts: dict[str, list[tuple[ObservationSensor, np.ndarray]]] = {}
    for sensors, envs in suites:
        for sensor in sensors:
            parts.setdefault(sensor.uuid, []).append((sensor, envs))
    return [MergedSensor(uuid, each, n_envs) for uuid, each in parts.items()]


def _union(name: str, found: Sequence[spaces.Space[Any]], lacking: bool) -> spaces.Space[Any]:
    """What holds all that lies in any of the spaces; and zeros where some envs lack it."""
    if all(isinstance(each, JsonSpace) for each in found):
        return JsonSpace()
    if all(isinstance(each, spaces.Dict) for each in found):
        keys = dict.fromkeys(key for each in found for key in each)  # type: ignore[attr-defined]
        merged = {}
        for key in keys:
            having = [each[key] for each in found if key in each.spaces]  # type: ignore[index, attr-defined]
            merged[key] = _union(f"{name}.{key}", having, lacking or len(having) < len(found))
        return spaces.Dict(merged)
    if all(isinstance(each, spaces.Box) for each in found) and len({(each.shape, each.dtype) for each in found}) == 1:
        zero = [0] if lacking else []
        low = np.min([*(each.low for each in found), *(np.zeros_like(found[0].low) for _ in zero)], axis=0)  # type: ignore[attr-defined]
        high = np.max([*(each.high for each in found), *(np.zeros_like(found[0].high) for _ in zero)], axis=0)  # type: ignore[attr-defined]
        return spaces.Box(low, high, dtype=found[0].dtype.type)  # type: ignore[union-attr]
    raise OptionError(f"{name!r} cannot be observed together: it is {' and '.join(map(str, found))}")


def _gather(space: spaces.Space[Any], parts: list[tuple[Any, np.ndarray]], n_envs: int) -> Any:
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
