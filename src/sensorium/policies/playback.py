"""Policies that play back actions, or ask somebody else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sensorium.errors import NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.policies.policy import Policy
from sensorium.suites import flat
from sensorium.worlds import Envs, env_ids


class PlaybackPolicy(Policy):
    """Tells again what was told before; the last action again when there are no more.

    Args:
        task: in which to act.
        actions: (T, B, n) as ``task.get_history()["actions"]``, or (T, n) for every env.
    """

    def __init__(self, task: Any, actions: Any) -> None:
        super().__init__(task)
        try:
            rows = np.asarray(actions, np.float64)
        except (ValueError, TypeError) as error:
            raise OptionError(f"actions must be numbers, as many at every step: {error}") from error
        if rows.ndim == 2:
            rows = np.repeat(rows[:, None], task.n_envs, axis=1)
        expected = (task.n_envs, task.robot.n_actions)
        if rows.ndim != 3 or rows.shape[1:] != expected or not len(rows) or not np.isfinite(rows).all():
            raise OptionError(f"actions must be finite, (T, {expected[0]}, {expected[1]}), got {np.shape(actions)}")
        self._actions = rows
        self._next = np.zeros(task.n_envs, np.int64)

    def reset(self, envs: Envs = None) -> None:
        """From the first action on."""
        ids = env_ids(envs, self.task.n_envs)
        self._next[slice(None) if ids is None else ids] = 0

    def get_action(self, observation: dict[str, Any]) -> np.ndarray:
        """The next action of each env."""
        now = np.minimum(self._next, len(self._actions) - 1)
        self._next += 1
        return self._actions[now, np.arange(self.task.n_envs)]


class FunctionPolicy(Policy):
    """Asks a function of your own.

    Args:
        task: in which to act.
        function: observation -> (B, n) numbers or tensor.
    """

    def __init__(self, task: Any, function: Callable[[dict[str, Any]], Any]) -> None:
        super().__init__(task)
        if not callable(function):
            raise OptionError(f"function must be callable, got {function!r}")
        self._function = function

    def get_action(self, observation: dict[str, Any]) -> np.ndarray:
        """What the function says."""
        said = self._function(observation)
        return np.asarray(said.detach().cpu() if isinstance(said, torch.Tensor) else said)


class CheckpointPolicy(FunctionPolicy):
    """Asks a network: observations of some uuids, side by side as (B, k) float32, go in; (B, n) comes out.

    Args:
        task: in which to act.
        module: the network.
        keys: uuids of array observations, in the order in which they go in; those of nested ones are sorted by name.
        path: a checkpoint with its weights, as ``torch.save(module.state_dict(), path)`` wrote it. Only tensors are
            read from it, no code.
    """

    def __init__(self, task: Any, module: torch.nn.Module, keys: Sequence[str], path: str | Path | None = None) -> None:
        if task.suite is None:
            raise OptionError("a network needs observations: make the task with use_sensors=True")
        for key in keys:
            if key not in task.suite:
                hint = did_you_mean(key, task.suite) or f"; there are {shorten(task.suite)}"
                raise NameNotFoundError(f"keys: the suite has no sensor {key!r}{hint}")
            if task.suite[key].is_dict:
                raise OptionError(f"keys: {key!r} is text; name sensors that read as arrays")
        if path is not None:
            module.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        self.module = module.eval()
        self.keys = tuple(keys)
        super().__init__(task, self._ask)

    def _ask(self, observation: dict[str, Any]) -> torch.Tensor:
        columns = np.concatenate([flat(observation[key]) for key in self.keys], axis=1)
        with torch.no_grad():
            said: torch.Tensor = self.module(torch.from_numpy(columns))
        return said
