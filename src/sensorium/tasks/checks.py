"""Checks of what tasks are handed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sensorium.errors import OptionError, did_you_mean, shorten
from sensorium.worlds import Envs


def checked_action(
    action: Any, parts: Mapping[str, slice], n_actions: int, counts: np.ndarray, whose: str = "an action"
) -> np.ndarray:
    """An action of all envs as (B, n) float64.

    Args:
        action: (B, n) numbers, or a dict of move group -> numbers.
        parts: move group -> which of the n are its own.
        n_actions: n.
        counts: (B,) bool, in which envs it counts: there it must be finite.
        whose: what to call it in messages.
    """
    n_envs = len(counts)
    if isinstance(action, Mapping):
        unknown = [name for name in action if name not in parts]
        if unknown or len(action) < len(parts):
            raise OptionError(
                f"{whose} has the move groups {shorten(parts)}; got {shorten(action)}"
                f"{did_you_mean(unknown[0], parts) if unknown else ''}"
            )
        rows = {name: _numbers(action[name], whose) for name in parts}
        for name, part in parts.items():
            expected = (n_envs, part.stop - part.start)
            if rows[name].shape != expected:
                raise OptionError(f"the action of {name!r} must have shape {expected}, got {rows[name].shape}")
        action = np.concatenate(list(rows.values()), axis=1)
    told = _numbers(action, whose)
    if told.dtype.kind not in "fiu":
        raise OptionError(f"{whose} must be numbers, got dtype {told.dtype}")
    if told.shape != (n_envs, n_actions):
        widths = ", ".join(f"{name}: {part.stop - part.start}" for name, part in parts.items())
        raise OptionError(
            f"{whose} must have shape {(n_envs, n_actions)}{f' ({widths})' if widths else ''}, got {told.shape}"
        )
    bad = counts & ~np.isfinite(told).all(axis=1)
    if bad.any():
        raise OptionError(f"{whose} must be finite; that of env {int(bad.argmax())} has NaN or infinity")
    return told.astype(np.float64)


def checked_seed(seed: Any) -> int:
    """A seed as an int; an OptionError says what is wrong with it."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise OptionError(f"seed must be an integer of 0 or more, got {seed!r}")
    return int(seed)


def sorted_numbers(numbers: Sequence[int], envs: Envs, count: int) -> list[int]:
    """Numbers of episodes in the order of ascending envs, checked."""
    if len(numbers) != count or not all(isinstance(each, int | np.integer) and each >= 0 for each in numbers):
        raise OptionError(f"numbers must be integers, one for each of {count} envs, not negative; got {list(numbers)}")
    given = None if envs is None else np.asarray(envs)
    order = np.arange(count) if given is None or given.dtype == bool else np.argsort(given, kind="stable")
    return [int(numbers[place]) for place in order]


def _numbers(value: Any, whose: str) -> np.ndarray:
    """An action as an array, of whatever kind."""
    try:
        return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    except ValueError:
        raise OptionError(f"{whose} must be an array of numbers, and this one is ragged") from None
