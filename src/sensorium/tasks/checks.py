"""Validation of the arguments of tasks: actions, seeds, episode numbers and names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike

from sensorium._arguments import as_array
from sensorium.errors import NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.worlds import Envs

_MAX_EPISODE = 2**31 - 1
"""Largest number of an episode, that of the sensors."""
TaskT = TypeVar("TaskT")
Numbers: TypeAlias = ArrayLike | torch.Tensor
"""Numbers in any container that NumPy or torch accepts."""
ActionLike: TypeAlias = Numbers | Mapping[str, Numbers]
"""An action of all envs, (B, n), or a dict of move group -> (B, n)."""


def checked_action(
    action: ActionLike, parts: Mapping[str, slice], n_actions: int, used: np.ndarray, label: str = "action"
) -> np.ndarray:
    """Return an action of all envs as (B, n) float64.

    Args:
        action: (B, n) numbers, or a dict of move group -> (B, k) numbers.
        parts: move group -> its columns of the action.
        n_actions: number of columns, n.
        used: (B,) bool, the envs whose rows are used and must therefore be finite.
        label: name of the action in error messages.

    Raises:
        OptionError: the action has the wrong shape, type or move groups, or is not finite.
    """
    n_envs = len(used)
    if isinstance(action, Mapping):
        unknown = [name for name in action if name not in parts]
        if unknown or len(action) < len(parts):
            raise OptionError(
                f"{label} must have the move groups {shorten(parts)}, got {shorten(action)}"
                f"{did_you_mean(unknown[0], parts) if unknown else ''}"
            )
        rows = {name: _array(action[name], label) for name in parts}
        for name, part in parts.items():
            expected = (n_envs, part.stop - part.start)
            if rows[name].shape != expected:
                raise OptionError(f"{label} of {name!r} must have shape {expected}, got {rows[name].shape}")
        action = np.concatenate(list(rows.values()), axis=1)
    command = _array(action, label)
    if command.dtype.kind not in "fiu":
        raise OptionError(f"{label} must be numbers, got dtype {command.dtype}")
    if command.shape != (n_envs, n_actions):
        widths = ", ".join(f"{name}: {part.stop - part.start}" for name, part in parts.items())
        raise OptionError(
            f"{label} must have shape {(n_envs, n_actions)}{f' ({widths})' if widths else ''}, got {command.shape}"
        )
    bad = used & ~np.isfinite(command).all(axis=1)
    if bad.any():
        raise OptionError(f"{label} must be finite; the row of env {int(bad.argmax())} has NaN or infinity")
    return command.astype(np.float64)


def checked_seed(seed: object) -> int:
    """Return a seed as an int.

    Raises:
        OptionError: the seed is not an integer >= 0.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise OptionError(f"seed must be an integer >= 0, got {seed!r}")
    return int(seed)


def sorted_numbers(numbers: Sequence[int], envs: Envs, count: int) -> list[int]:
    """Return episode numbers in ascending order of their envs.

    Args:
        numbers: one number for each of ``envs``, in the same order.
        envs: the envs; None for all.
        count: the number of envs.

    Raises:
        OptionError: a number is not an integer in [0, 2^31 - 1], or there are too many or too few.
    """
    found = as_array(numbers)
    fits = found.shape == (count,) and (found.dtype.kind in "iu" or not count)
    if not fits or (found < 0).any() or (found > _MAX_EPISODE).any():
        raise OptionError(
            f"numbers must be integers in [0, {_MAX_EPISODE}], one for each of {count} envs; got {numbers!r:.80}"
        )
    given = None if envs is None else np.asarray(envs)
    order = np.arange(count) if given is None or given.dtype == bool else np.argsort(given, kind="stable")
    return [int(found[place]) for place in order]


def check_names(kind: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Check that all names are known.

    Args:
        kind: what the names denote, for the message: "task", "object", ...
        names: the names.
        known: the names that exist.

    Raises:
        NameNotFoundError: a name is unknown. The message suggests a similar one, or lists those that exist.
    """
    known = list(known)
    for name in names:
        if not isinstance(name, str):
            raise OptionError(f"names of {kind}s must be text, got {name!r:.80}")
        if name not in known:
            raise NameNotFoundError(
                f"there is no {kind} {name!r}{did_you_mean(name, known) or f'; there are {shorten(known)}'}"
            )


def checked_class(catalogue: str, name: str, cls: object, base: type[TaskT]) -> type[TaskT]:
    """Return a class of a catalogue of tasks.

    Args:
        catalogue: name of the catalogue, for messages.
        name: its key.
        cls: its value.
        base: the class from which it must be derived.

    Raises:
        OptionError: the value is no such class, or has another name than its key.
    """
    if not isinstance(cls, type) or not issubclass(cls, base):
        raise OptionError(f"{catalogue}[{name!r}] must be a class derived from {base.__name__}, got {cls!r:.80}")
    own = getattr(cls, "name", "")
    if own != name:
        raise OptionError(
            f"{catalogue}[{name!r}] must be a class with the name {name!r}, got {cls.__name__} with the name {own!r}; "
            f"set name = {name!r} in the class, or enter it as {catalogue}[{own!r}]"
        )
    return cls


def _array(value: Numbers, label: str) -> np.ndarray:
    """Return numbers as an array of any dtype."""
    try:
        return np.asarray(value.detach().cpu() if isinstance(value, torch.Tensor) else value)
    except ValueError:
        raise OptionError(
            f"{label} must be an array of numbers with rows of equal length; this one is ragged"
        ) from None
    except (TypeError, RuntimeError) as error:  # tensors with a gradient in a list, or of a type that NumPy lacks
        raise OptionError(f"{label} must be numbers that NumPy can hold: {error}") from error
