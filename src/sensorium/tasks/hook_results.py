"""Checks of what the hooks of a task class return, so that a wrong result raises an error that names the hook.

The checks that run in each step take about 2 us per hook. An exception that a hook raises passes through unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any, Protocol

import numpy as np

from sensorium._arguments import as_array
from sensorium.errors import OptionError
from sensorium.robots import Robot


class _Hooks(Protocol):
    """The hooks of array tasks that are checked in each step."""

    n_envs: int
    step_count: np.ndarray

    def judge(self) -> np.ndarray: ...
    def failures(self) -> dict[str, np.ndarray]: ...
    def rewards(self) -> dict[str, np.ndarray]: ...


class _Describing(Protocol):
    def describe_env(self, env: int) -> dict[str, Any]:
        """Return the task-specific description of an env."""


class _WithRoles(Protocol):
    @property
    def n_envs(self) -> int:
        """Number of envs, B."""

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles of objects in the task."""

    def role_bodies(self) -> np.ndarray:
        """Return the ids of the root links that play the roles, (B, len(roles))."""


class _WithMaxReturn(Protocol):
    @property
    def max_return(self) -> float | None:
        """The maximum return of an episode."""


def reward_terms(task: _Hooks) -> dict[str, np.ndarray]:
    """Return what ``rewards`` returns, names to (B,) numbers."""
    found = _named(task, "rewards", task.rewards(), "fiub", "numbers")
    if not found:
        raise _wrong(task, "rewards", "at least one term", found)
    return found


def check_finite(task: _Hooks, reward: np.ndarray, terms: Mapping[str, np.ndarray]) -> None:
    """Check the rewards of the envs that made a step, the sum of some terms.

    Raises:
        OptionError: one is NaN or infinite. The message names the term, the env and the step.
    """
    if not np.isfinite(reward).all():
        env = int(np.argmin(np.isfinite(reward)))
        bad = {name: value[env] for name, value in terms.items() if not np.isfinite(np.float32(value[env]))}
        name, value = next(iter(bad.items()), ("the sum", reward[env]))
        raise OptionError(
            f"{type(task).__name__}.rewards must return finite numbers of float32, got {value} for {name!r} in env "
            f"{env} at step {task.step_count[env]} of its episode"
        )


def goal_mask(task: _Hooks) -> np.ndarray:
    """Return what ``judge`` returns, (B,) bool."""
    value: object = task.judge()
    if type(value) is np.ndarray and value.shape == (task.n_envs,) and value.dtype == bool:
        return value
    return _rows(task, "judge", value, "biu", "booleans").astype(bool)


def failure_mask(task: _Hooks) -> np.ndarray:
    """Return where any of what ``failures`` returns holds, (B,) bool."""
    failed = np.zeros(task.n_envs, bool)
    for value in _named(task, "failures", task.failures(), "b", "booleans").values():
        failed |= value
    return failed


def description_of(task: _Describing, env: int) -> Mapping[str, Any]:
    """Return what ``describe_env`` returns for an env."""
    value: object = task.describe_env(env)
    if not isinstance(value, Mapping):
        raise _wrong(task, "describe_env", "a mapping of names to JSON values", value)
    return value


def max_return_of(task: _WithMaxReturn) -> float | None:
    """Return ``max_return`` of a task."""
    value: object = task.max_return
    if value is not None and (not isinstance(value, Real) or isinstance(value, bool) or not math.isfinite(value)):
        raise _wrong(task, "max_return", "a finite number or None", value)
    return None if value is None else float(value)


def checked_scene_options(task: object, hook: str, value: object) -> dict[str, Any]:
    """Return what the hook of the options of the scene returned."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise _wrong(task, hook, "a dict of options of sn.Scene by name", value)
    taken = [name for name in ("dt", "substeps") if name in value]
    if taken:
        raise _wrong(task, hook, f"options of sn.Scene besides {taken[0]}, which is an option of the task", value)
    return dict(value)


def checked_robot(task: object, hook: str, value: object) -> Robot:
    """Return what the hook that places the robot returned."""
    if not isinstance(value, Robot):
        raise _wrong(task, hook, "a Robot: the one that it is given, or a copy with other options", value)
    return value


def checked_bodies(task: _WithRoles) -> np.ndarray:
    """Return what ``role_bodies`` returns, (B, len(roles)) ids."""
    value = as_array(found := task.role_bodies())
    shape = (task.n_envs, len(task.roles))
    if value.shape != shape or value.dtype.kind not in "iu":
        raise _wrong(task, "role_bodies", f"integers of shape {shape}, (B, len(roles))", found)
    return value


def _named(task: _Hooks, hook: str, value: object, kinds: str, what: str) -> dict[str, np.ndarray]:
    """Return rows of numbers by name."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise _wrong(task, hook, f"a dict of names to {what} of shape {(task.n_envs,)}", value)
    found = {}
    for name, rows in value.items():
        fits = type(rows) is np.ndarray and rows.shape == (task.n_envs,) and rows.dtype.kind in kinds
        found[name] = rows if fits else _rows(task, hook, rows, kinds, what, f" for {name!r}")
    return found


def _rows(task: _Hooks, hook: str, value: object, kinds: str, what: str, place: str = "") -> np.ndarray:
    """Return numbers of one row per env, from a list or a tensor; a single one is that of all envs."""
    array = as_array(value)
    if array.shape not in ((), (task.n_envs,)) or array.dtype.kind not in kinds:
        raise _wrong(task, hook, f"{what} of shape {(task.n_envs,)}, one per env,{place}".rstrip(","), value)
    return np.broadcast_to(array, task.n_envs)


def _wrong(task: object, hook: str, wanted: str, value: object) -> OptionError:
    return OptionError(f"{type(task).__name__}.{hook} must return {wanted}; got {described(value)}")


def described(value: object) -> str:
    """Return the type of a value, with its shape and dtype if it has them, otherwise with the value itself."""
    shape = None if getattr(value, "is_nested", False) else getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"{type(value).__name__} of shape {tuple(shape)} and dtype {getattr(value, 'dtype', '?')}"
    return f"{value!r:.80}" if value is None else f"{type(value).__name__} {value!r:.80}"
