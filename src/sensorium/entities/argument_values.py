"""Values of the arguments of an entity: numbers, plain values for YAML, and rows of observations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from sensorium.errors import OptionError
from sensorium.suites import Arrays

NumberT = TypeVar("NumberT", int, float)


def rows_of(observation: Arrays, rows: np.ndarray) -> Arrays:
    """Return some rows of a nested observation."""
    if isinstance(observation, Mapping):
        return {name: rows_of(value, rows) for name, value in observation.items()}
    return observation[rows]


def positive(name: str, value: object, kind: type[NumberT]) -> NumberT | None:
    """Return a number > 0 as an int or a float, or None."""
    wanted = int | np.integer if kind is int else int | float | np.number
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, wanted) or not 0 < value < float("inf"):
        raise OptionError(f"{name} must be {'an integer' if kind is int else 'a number'} > 0, got {value!r}")
    return kind(value)


def plain(value: object) -> Any:
    """Return mappings as dicts and tuples as lists, for YAML."""
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, tuple | list) else value
