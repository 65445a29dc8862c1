"""The planner of :class:`sensorium.tasks.MultiTask`."""

from __future__ import annotations

from typing import Any

import numpy as np

from sensorium._arguments import checked
from sensorium.policies.policy import Policy
from sensorium.suites import ObservationSensor, merge
from sensorium.tasks.multi import MultiTask
from sensorium.worlds import Envs, env_ids


class MultiPlanner(Policy):
    """A planner that runs the planner of each task in the envs of that task.

    The sensors of the planners are merged as the observations of the tasks are. Planners know the true state: they do
    not use the observation.

    Args:
        task: the task.
        **options: options of every planner, for example ``max_retries``.
    """

    task: MultiTask

    @checked
    def __init__(self, task: MultiTask, **options: Any) -> None:
        from sensorium.policies import make  # the package imports this module

        super().__init__(task)
        self.planners = [make("planner", each, **options) for each in task.tasks]
        names = dict.fromkeys(name for planner in self.planners for name in planner.phases)
        self._phase_index = {name: number for number, name in enumerate(names)}
        for planner in self.planners:
            planner.use_phase_index(self._phase_index)
        self._envs: list[np.ndarray] = task.envs_of

    def get_action(self, observation: dict[str, Any]) -> np.ndarray:
        """Return the actions of the planners, (B, n)."""
        action = np.zeros((self.task.n_envs, self.task.robot.n_actions))
        for planner, envs in zip(self.planners, self._envs, strict=True):
            action[envs] = planner.get_action({})
        return action

    def reset(self, envs: Envs = None) -> None:
        """Make new plans for envs that start an episode."""
        ids = env_ids(envs, self.task.n_envs)
        for planner, own in zip(self.planners, self._envs, strict=True):
            planner.reset(None if ids is None else np.flatnonzero(np.isin(own, ids)).astype(np.int32))

    def create_policy_sensors(self) -> list[ObservationSensor]:
        """Return the merged sensors of all planners."""
        parts = [
            (planner.create_policy_sensors(), envs) for planner, envs in zip(self.planners, self._envs, strict=True)
        ]
        return [*merge(parts, self.task.n_envs)]
