"""``Policy``: the base of all policies of tasks."""

from __future__ import annotations

from typing import Any

import numpy as np

from sensorium.suites import ObservationSensor
from sensorium.tasks.task import Task
from sensorium.worlds import Envs


class Policy:
    """The base of policies. Derive from it and define :meth:`get_action`.

    Args:
        task: the task in which it acts. ``task.register_policy(policy)`` connects the two.

    Example:
        >>> class Still(sn.policies.Policy):
        ...     def get_action(self, observation):
        ...         return np.zeros((self.task.n_envs, self.task.robot.n_actions))
    """

    task: Task[Any]

    def __init__(self, task: Task[Any]) -> None:
        self.task = task

    def get_action(self, observation: dict[str, Any]) -> np.ndarray:
        """Return the next action, (B, n). Rows of envs that are done are ignored.

        Args:
            observation: the observation of the suite.
        """
        raise TypeError(f"{type(self).__name__} must define get_action(observation)")

    def reset(self, envs: Envs = None) -> None:
        """Handle the start of an episode in some envs. Does nothing by default."""

    def create_policy_sensors(self) -> list[ObservationSensor]:
        """Return the sensors that the policy contributes to the suite. ``task.register_policy`` calls it once."""
        return []
