"""The planner of several tasks."""

from __future__ import annotations

from typing import Any

import numpy as np

from sensorium.policies.policy import Policy
from sensorium.suites import ObservationSensor, merge
from sensorium.worlds import Envs, env_ids


class MultiPlanner(Policy):
    """Lets the planner of each task act in its envs. What the planners contribute is put together as observations are.

    Planners know the true state: they are not shown what is observed.

    Args:
        task: a :class:`~sensorium.tasks.MultiTask`.
        **options: of every planner, as ``max_retries``.
    """

    def __init__(self, task: Any, **options: Any) -> None:
        from sensorium.policies import make  # which makes this planner too

        super().__init__(task)
        self.planners = [make("planner", each, **options) for each in task.tasks]
        self._envs: list[np.ndarray] = task.envs_of

    def get_action(self, observation: dict[str, Any]) -> np.ndarray:
        """What the planners say."""
        action = np.zeros((self.task.n_envs, self.task.robot.n_actions))
        for planner, envs in zip(self.planners, self._envs, strict=True):
            action[envs] = planner.get_action({})
        return action

    def reset(self, envs: Envs = None) -> None:
        """Some envs have begun an episode."""
        ids = env_ids(envs, self.task.n_envs)
        for planner, own in zip(self.planners, self._envs, strict=True):
            mine = None if ids is None else np.flatnonzero(np.isin(own, ids)).astype(np.int32)
            planner.reset(mine)

    def create_policy_sensors(self) -> list[ObservationSensor]:
        """Those of all planners."""
        parts = [
            (planner.create_policy_sensors(), envs) for planner, envs in zip(self.planners, self._envs, strict=True)
        ]
        return [*merge(parts, self.task.n_envs)]
