"""What views of a task show of its observations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from sensorium.errors import OptionError
from sensorium.suites import SensorSuite, flat
from sensorium.tasks.objects import look_up

Space = spaces.Space[Any]
RENDER_MODES = ("rgb_array",)
"""How views of tasks are rendered: as (480, 640, 3) uint8."""


def checked_render_mode(mode: str | None) -> str | None:
    """A mode that there is."""
    if mode is not None and mode not in RENDER_MODES:
        raise OptionError(f"render_mode must be 'rgb_array' or None, got {mode!r}")
    return mode


class Shown:
    """Which part of a suite's observations is shown, and in which form.

    Args:
        suite: of a task.
        keys: uuids of what is shown, in order. Default: all that reads as arrays.
        flatten: whether it is one float32 array.

    Attributes:
        space: of one env.
    """

    def __init__(self, suite: SensorSuite | None, keys: Sequence[str] | None, flatten: bool) -> None:
        if suite is None:
            raise OptionError("an environment needs observations: make the task with use_sensors=True")
        if isinstance(keys, str):
            raise OptionError(f"keys must be a sequence of uuids, got {keys!r}; write ({keys!r},)")
        if keys is None:
            keys = [
                uuid
                for uuid, sensor in suite.items()
                if not sensor.is_dict and not (flatten and sensor.is_image) and _boxes(sensor.space)
            ]
        look_up("sensor", keys, suite)
        text = [uuid for uuid in keys if suite[uuid].is_dict]
        if flatten and text:
            raise OptionError(f"keys: {text[0]!r} is text, which cannot be flattened; leave it out")
        if not keys or len(set(keys)) < len(keys):
            raise OptionError(f"keys must name at least one sensor, each once; got {tuple(keys)}")
        self._keys, self._flatten = tuple(keys), flatten
        if flatten:
            boxes = [box for uuid in keys for box in _boxes(suite[uuid].space)]
            low, high = (
                np.concatenate([getattr(box, side).ravel().astype(np.float32) for box in boxes])
                for side in ("low", "high")
            )
            self.space: Space = spaces.Box(low, high, dtype=np.float32)
        else:
            self.space = spaces.Dict([(uuid, suite[uuid].space) for uuid in keys])  # type: ignore[arg-type]

    def of_all(self, observation: dict[str, Any]) -> Any:
        """What all envs see."""
        if self._flatten:
            return np.concatenate([flat(observation[uuid]) for uuid in self._keys], axis=1)
        return {uuid: observation[uuid] for uuid in self._keys}


def _boxes(space: Space) -> list[spaces.Box]:
    """The arrays of a space, in the order in which :func:`flat` puts them side by side."""
    if isinstance(space, spaces.Dict):
        return [box for name in sorted(space) for box in _boxes(space[name])]
    return [space] if isinstance(space, spaces.Box) else []
