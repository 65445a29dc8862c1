"""The observations of a Gymnasium or PettingZoo view of a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from sensorium.errors import OptionError
from sensorium.suites import SensorSuite, flatten_reading
from sensorium.suites.observation import PRIVILEGED
from sensorium.tasks.checks import check_names

Space = spaces.Space[Any]
RENDER_MODES = ("rgb_array",)
"""Render modes of the views: images of (480, 640, 3) uint8."""


def checked_render_mode(mode: str | None) -> str | None:
    """Return a valid render mode.

    Raises:
        OptionError: the mode is neither "rgb_array" nor None.
    """
    if mode is not None and mode not in RENDER_MODES:
        raise OptionError(f"render_mode must be 'rgb_array' or None, got {mode!r}")
    return mode


def check_no_options(options: dict[str, Any] | None) -> None:
    """Raise OptionError if ``reset`` of a view is given options: it takes none."""
    if options is not None and not (isinstance(options, dict) and not options):
        raise OptionError(f"reset takes no options, got {options!r:.80}")


def batched_space(space: Space, n_envs: int) -> Space:
    """Return the space of the observations of all envs, in the order of the keys."""
    if isinstance(space, spaces.Dict):  # key by key, since Gymnasium sorts the keys of a Dict that it batches
        return spaces.Dict([(uuid, batch_space(each, n_envs)) for uuid, each in space.items()])  # type: ignore[arg-type]
    return batch_space(space, n_envs)


class ObservationView:
    """A selection of a suite's observations, optionally flattened to one array.

    Args:
        suite: the suite of a task.
        keys: uuids to select, in order. Default: all that read as arrays, except "privileged/..." of entities, which
            policies must not observe; if ``flatten``, without images.
        flatten: whether to concatenate the arrays to one float32 array.

    Attributes:
        space: space of one env's observation.

    Raises:
        OptionError: there is no suite, or the keys cannot be used.
        NameNotFoundError: a key is not in the suite.
    """

    def __init__(self, suite: SensorSuite | None, keys: Sequence[str] | None, flatten: bool) -> None:
        if suite is None:
            raise OptionError("a view needs observations: make the task with use_sensors=True")
        if keys is None:
            keys = [
                uuid
                for uuid, sensor in suite.items()
                if not (uuid.startswith(PRIVILEGED) or sensor.is_dict or (flatten and sensor.is_image))
                and _boxes(sensor.space)
            ]
        check_names("sensor", keys, suite)
        text = [uuid for uuid in keys if suite[uuid].is_dict]
        if flatten and text:
            raise OptionError(f"keys: {text[0]!r} is text, which cannot be flattened; remove it from keys")
        if not keys or len(set(keys)) < len(keys):
            raise OptionError(f"keys must name at least one sensor, each only once; got {tuple(keys)}")
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

    def select(self, observation: dict[str, Any]) -> dict[str, Any] | np.ndarray:
        """Return the selected observations of all envs: a dict by uuid, or (B, k) float32 if flattened."""
        if self._flatten:
            return np.concatenate([flatten_reading(observation[uuid]) for uuid in self._keys], axis=1)
        return {uuid: observation[uuid] for uuid in self._keys}


def _boxes(space: Space) -> list[spaces.Box]:
    """Return the boxes of a space, in the order in which :func:`flatten_reading` concatenates them."""
    if isinstance(space, spaces.Dict):
        return [box for name in sorted(space) for box in _boxes(space[name])]
    return [space] if isinstance(space, spaces.Box) else []
