"""Policies that replay actions, call a function, or run a network."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from sensorium._arguments import as_array
from sensorium.errors import DatasetError, NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.policies.policy import Policy
from sensorium.suites import flatten_reading
from sensorium.tasks.checks import Numbers
from sensorium.tasks.task import Task
from sensorium.worlds import Envs, env_ids


class PlaybackPolicy(Policy):
    """A policy that replays recorded actions. After the last one it repeats that action.

    Args:
        task: the task in which it acts.
        actions: (T, B, n), for example ``task.get_history()["actions"]``, or (T, n) for every env.

    Raises:
        OptionError: the actions have the wrong shape or are not finite.
    """

    def __init__(self, task: Task[Any], actions: ArrayLike) -> None:
        super().__init__(task)
        rows = as_array(actions)
        if rows.dtype.kind not in "fiu":
            raise OptionError(f"actions must be numbers, with rows of equal length at every step, got {actions!r:.80}")
        rows = rows.astype(np.float64)
        if rows.ndim == 2:
            rows = np.repeat(rows[:, None], task.n_envs, axis=1)
        expected = (task.n_envs, task.robot.n_actions)
        if rows.ndim != 3 or rows.shape[1:] != expected or not len(rows) or not np.isfinite(rows).all():
            raise OptionError(
                f"actions must be finite and have shape (T, {expected[0]}, {expected[1]}) or (T, {expected[1]}), got "
                f"shape {np.shape(actions)}"
            )
        self._actions = rows
        self._next = np.zeros(task.n_envs, np.int64)

    def reset(self, envs: Envs = None) -> None:
        """Restart from the first action in envs that start an episode."""
        ids = env_ids(envs, self.task.n_envs)
        self._next[slice(None) if ids is None else ids] = 0

    def get_action(self, observation: dict[str, Any]) -> np.ndarray:
        """Return the next action of each env, (B, n)."""
        now = np.minimum(self._next, len(self._actions) - 1)
        self._next += 1
        return self._actions[now, np.arange(self.task.n_envs)]


class FunctionPolicy(Policy):
    """A policy that calls a function.

    Args:
        task: the task in which it acts.
        function: observation -> action (B, n), an array or a tensor.

    Raises:
        OptionError: ``function`` is not callable.
    """

    def __init__(self, task: Task[Any], function: Callable[[dict[str, Any]], Numbers]) -> None:
        super().__init__(task)
        if not callable(function):
            raise OptionError(f"function must be callable, got {function!r}")
        self._function = function

    def get_action(self, observation: dict[str, Any]) -> np.ndarray:
        """Return the result of the function as an array."""
        action = self._function(observation)
        return np.asarray(action.detach().cpu() if isinstance(action, torch.Tensor) else action)


class CheckpointPolicy(FunctionPolicy):
    """A policy that runs a network.

    The network's input is (B, k) float32, the observations of ``keys`` concatenated. Its output is the action (B, n).

    Args:
        task: the task in which it acts.
        module: the network.
        keys: uuids of array observations, in the order of the input. Nested arrays are ordered by name.
        path: file with the weights, written by ``torch.save(module.state_dict(), path)``. Only tensors are loaded from
            it, never code.

    Raises:
        OptionError: the task has no sensors, a key reads as text, or the weights are those of another network.
            ``get_action`` raises it if the network cannot take the observations, or its output is not an action.
        NameNotFoundError: the suite has no sensor of that uuid.
        DatasetError: the file does not exist, or contains no weights.
    """

    def __init__(
        self, task: Task[Any], module: torch.nn.Module, keys: Sequence[str], path: str | Path | None = None
    ) -> None:
        super().__init__(task, self._infer)
        if not isinstance(module, torch.nn.Module):
            raise OptionError(f"module must be a torch.nn.Module, got {module!r:.80}")
        if isinstance(keys, str) or not all(isinstance(key, str) for key in keys):
            raise OptionError(f"keys must be a sequence of uuids, got {keys!r:.80}")
        if task.suite is None:
            raise OptionError("a network needs observations: make the task with use_sensors=True")
        for key in keys:
            if key not in task.suite:
                hint = did_you_mean(key, task.suite) or f"; there are {shorten(task.suite)}"
                raise NameNotFoundError(f"keys: the suite has no sensor {key!r}{hint}")
            if task.suite[key].is_dict:
                raise OptionError(f"keys: {key!r} is text; name sensors that read as arrays")
        if path is not None:
            module.load_state_dict(_read_weights(Path(path), module))
        self.module = module.eval()
        self.keys = tuple(keys)

    def _infer(self, observation: dict[str, Any]) -> torch.Tensor:
        columns = np.concatenate([flatten_reading(observation[key]) for key in self.keys], axis=1)
        with torch.no_grad():
            try:
                action: torch.Tensor = self.module(torch.from_numpy(columns))
            except RuntimeError as error:
                raise OptionError(f"the network cannot take {columns.shape} of {self.keys}: {error}") from error
        expected = (len(columns), self.task.robot.n_actions)
        if not isinstance(action, torch.Tensor) or tuple(action.shape) != expected:
            got = tuple(action.shape) if isinstance(action, torch.Tensor) else type(action).__name__
            raise OptionError(f"the network must return actions {expected}, got {got}")
        return action


def _read_weights(path: Path, module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the weights of a file, which fit the network."""
    if not os.path.isfile(path):
        raise DatasetError(f"{path} does not exist; give a file that torch.save(module.state_dict(), path) wrote")
    try:
        weights = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of many kinds: torch reads archives, pickles of tensors and files of TorchScript
        raise DatasetError(f"{path} cannot be read as weights: {error}") from error
    own = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    if not isinstance(weights, dict) or not all(isinstance(value, torch.Tensor) for value in weights.values()):
        raise OptionError(f"{path} must contain a dict of tensors, the state_dict() of the network")
    found = {str(name): tuple(value.shape) for name, value in weights.items()}
    if found != own:
        wrong = sorted(name for name in own.keys() | found.keys() if own.get(name) != found.get(name))
        name = wrong[0]
        raise OptionError(
            f"{path} holds weights of another network: {name!r} has the shape {found.get(name)} there and "
            f"{own.get(name)} in the network ({len(wrong)} of {len(own)} differ)"
        )
    return weights
