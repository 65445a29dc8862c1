"""``RandomPolicy``: uniformly distributed actions."""

from __future__ import annotations

from typing import Any

import numpy as np

from sensorium.policies.policy import Policy
from sensorium.tasks.task import Task
from sensorium.worlds import Envs, env_ids

_STREAM = 0x52616E64
"""Separates the random numbers of actions from those of the task."""


class RandomPolicy(Policy):
    """A policy that draws each action uniformly between the robot's limits.

    The actions of an episode depend only on the task's seed, the env and the number of the episode.

    Args:
        task: the task in which it acts.
        hold: number of steps for which an action is held.
    """

    def __init__(self, task: Task[Any], hold: int = 1) -> None:
        super().__init__(task)
        self._hold = hold
        self._rngs = [np.random.default_rng(0)] * task.n_envs
        self._steps = np.zeros(task.n_envs, np.int64)
        self._action = np.zeros((task.n_envs, task.robot.n_actions))

    def reset(self, envs: Envs = None) -> None:
        """Begin the random numbers of the episodes that start in some envs."""
        ids = env_ids(envs, self.task.n_envs)
        for env in range(self.task.n_envs) if ids is None else ids.tolist():
            self._rngs[env] = np.random.default_rng([_STREAM, self.task.seed, env, int(self.task.episode[env])])
            self._steps[env] = 0

    def get_action(self, observation: dict[str, Any]) -> np.ndarray:
        """Return the next action of each env, (B, n)."""
        low, high = self.task.single_action_space.low, self.task.single_action_space.high
        for env in np.flatnonzero(self._steps % self._hold == 0).tolist():
            self._action[env] = self._rngs[env].uniform(low, high)
        self._steps += 1
        return self._action.copy()
