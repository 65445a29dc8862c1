"""Nested spaces and observations by dotted names: ``{"imu": {"ang_vel": ...}}`` is ``{"imu.ang_vel": ...}``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, TypeAlias

import numpy as np
from gymnasium import spaces
from torch import Tensor

from sensorium._arguments import is_masked
from sensorium._tensors import host_array
from sensorium.errors import OptionError

Rows = Tensor | np.ndarray
"""An array or tensor whose first axis is the env or the transition."""
NestedRows: TypeAlias = "Mapping[str, Rows | NestedRows]"
"""Arrays or tensors by key, which may nest."""


def flat_space(space: spaces.Space[Any], name: str = "") -> dict[str, spaces.Box]:
    """Return the boxes of a nested space, by dotted names.

    Raises:
        OptionError: a space is neither a Dict nor a Box.
    """
    if isinstance(space, spaces.Dict):
        result: dict[str, spaces.Box] = {}
        for key, inner in space.spaces.items():
            result |= flat_space(inner, f"{name}.{key}" if name else key)
        return result
    if not isinstance(space, spaces.Box):
        raise OptionError(f"observation_space must be a Dict of Boxes that may nest, and {name or 'it'} is {space}")
    return {name: space}


def same_shapes(one: spaces.Dict, other: spaces.Dict) -> bool:
    """Return whether two spaces have boxes of the same names and shapes, in the same order."""
    first, second = ([(name, box.shape) for name, box in flat_space(space).items()] for space in (one, other))
    return first == second


def flat_values(observation: Mapping[str, Any], name: str = "") -> dict[str, Any]:
    """Return the values of a nested observation, by the names of :func:`flat_space`.

    Raises:
        OptionError: it is not a mapping.
    """
    result: dict[str, Any] = {}
    try:
        items = observation.items()
    except AttributeError:
        refuse_observation("observation", observation)
    for key, inner in items:
        path = f"{name}.{key}" if name else key
        result |= flat_values(inner, path) if isinstance(inner, Mapping) else {path: inner}
    return result


def flat_observation(observation: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the values of a nested observation as arrays, by the names of :func:`flat_space`.

    Raises:
        OptionError: it is not a mapping, or one of its values cannot be an array.
    """
    flat = flat_values(observation)
    return {name: value if type(value) is np.ndarray else _array(name, value) for name, value in flat.items()}


def flat_rows_of(observation: Mapping[str, Any]) -> dict[str, Rows]:
    """Return what :func:`flat_observation` returns, but tensors stay tensors."""
    flat = flat_values(observation)
    return {
        name: value if type(value) is np.ndarray or isinstance(value, Tensor) else _array(name, value)
        for name, value in flat.items()
    }


def refuse_observation(name: str, value: object) -> NoReturn:
    """Raise OptionError for an argument that is not an observation."""
    raise OptionError(f"{name} must be a mapping of key -> (B, ...) values, got {value!r:.80}")


def _array(name: str, value: object) -> np.ndarray:
    if isinstance(value, Tensor):
        return host_array(f"the observation {name!r}", value)
    if is_masked(value):
        raise OptionError(f"the observation {name!r} must be an array of numbers, got {value!r:.80}")
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: a list of tensors that require gradients
        raise OptionError(f"the observation {name!r} must be an array of numbers: {error}") from error
