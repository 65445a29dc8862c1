"""Values of the arguments of an entity: numbers, plain values for YAML, and rows of observations."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from sensorium._arguments import as_array
from sensorium.entities.nesting import refuse_observation
from sensorium.errors import OptionError
from sensorium.suites import Arrays

NumberT = TypeVar("NumberT", int, float)


def rows_of(observation: Arrays, rows: np.ndarray) -> Arrays:
    """Return the rows of a nested observation that a mask selects.

    Raises:
        OptionError: it is not a mapping of arrays of that many rows.
    """
    if not isinstance(observation, Mapping):
        refuse_observation("observation", observation)
    return {name: _rows(name, value, rows) for name, value in observation.items()}


def _rows(name: str, value: Arrays, rows: np.ndarray) -> Arrays:
    if isinstance(value, Mapping):
        return {key: _rows(f"{name}.{key}", each, rows) for key, each in value.items()}
    try:
        return value[rows]
    except (TypeError, IndexError) as error:
        raise OptionError(f"the observation {name!r} must be an array of {len(rows)} rows: {error}") from error


def checked_mask(name: str, value: object, rows: int | None = None) -> np.ndarray:
    """Return a flag of each env as an array (B,) of bool.

    Args:
        name: name of the argument, for the message.
        value: what was given.
        rows: B; None for any.

    Raises:
        OptionError: it has another type or shape.
    """
    mask = value if type(value) is np.ndarray else as_array(value)
    if mask.dtype.kind != "b" or mask.ndim != 1 or (rows is not None and len(mask) != rows):
        raise OptionError(f"{name} must be bool of shape ({rows or 'B'},), got {value!r:.80}")
    return mask


def copy_of_rows(actions: np.ndarray, rows: int) -> np.ndarray:
    """Return a copy of the actions of B envs; zeros if the number of envs is another one now."""
    return actions.copy() if len(actions) == rows else np.zeros((rows, *actions.shape[1:]))


def set_rows(actions: np.ndarray, rows: np.ndarray, chosen: object) -> None:
    """Set the actions of the envs that a mask selects.

    Raises:
        OptionError: the brain returned no actions, or actions of another shape.
    """
    try:
        if chosen is None:  # of which NumPy makes NaN
            raise TypeError("no actions")
        actions[rows] = chosen
    except (TypeError, ValueError, RuntimeError) as error:
        wanted = (int(rows.sum()), *actions.shape[1:])
        raise OptionError(
            f"the brain must return actions of shape {wanted}, one for each env that is due, got {chosen!r:.80}"
        ) from error


def check_actions(chosen: object, shape: tuple[int, ...]) -> None:
    """Raise OptionError if a brain returned no actions, or actions of another shape than (B, n)."""
    if tuple(getattr(chosen, "shape", ())) != shape:
        raise OptionError(f"the brain must return actions of shape {shape}, one for each env, got {chosen!r:.80}")


def positive(name: str, value: object, kind: type[NumberT]) -> NumberT | None:
    """Return a number > 0 as an int or a float, or None."""
    wanted = int | np.integer if kind is int else int | float | np.number
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, wanted) or not 0 < value < float("inf"):
        raise OptionError(f"{name} must be {'an integer' if kind is int else 'a number'} > 0, got {value!r}")
    return kind(value)


def plain(value: object) -> Any:
    """Return mappings as dicts, tuples as lists and paths as text, for YAML."""
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return [plain(each) for each in value] if isinstance(value, tuple | list) else value
