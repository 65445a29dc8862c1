"""``Policy``: what tells a robot what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sensorium.suites import ObservationSensor
from sensorium.worlds import Envs

if TYPE_CHECKING:
    from sensorium.tasks import Task


class Policy:
    """Derive from it and define :meth:`get_action`.

    Args:
        task: what it acts in; ``task.register_policy(policy)`` makes the task tell it of resets.
    """

    def __init__(self, task: Task[Any]) -> None:
        self.task = task

    def get_action(self, observation: dict[str, Any]) -> np.ndarray:
        """What to do next, (B, n), given what the suite read. Rows of envs that are done do not count."""
        raise TypeError(f"{type(self).__name__} must define get_action(observation)")

    def reset(self, envs: Envs = None) -> None:
        """Some envs have begun an episode."""

    def create_policy_sensors(self) -> list[ObservationSensor]:
        """What the policy contributes to the suite; asked for once, by ``task.register_policy``."""
        return []
