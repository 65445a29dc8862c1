"""Pick: lift one thing off the table."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field

from sensorium.tasks.table import TableConfig, TableTask


class PickConfig(TableConfig):
    """Options of :class:`Pick`."""

    lift: float = Field(default=0.1, gt=0)
    """How far the thing must be lifted, m."""
    hold_steps: int = Field(default=10, ge=1)
    """For how many steps it must be held there."""


class Pick(TableTask[PickConfig]):
    """Lift the thing that is meant, and hold it for a moment."""

    name = "pick"
    config_type = PickConfig

    def _start(self) -> None:
        super()._start()
        self._held_steps = np.zeros(self.n_envs, np.int64)

    def _begin(self, envs: np.ndarray, draws: Any) -> None:
        super()._begin(envs, draws)
        self._held_steps[envs] = 0

    def _goal(self) -> np.ndarray:
        goal = self.start_pose.copy()
        goal[:, 2] += self.config.lift
        return goal

    def _judge(self) -> np.ndarray:
        up = self.pickup_pose()[:, 2] - self.start_pose[:, 2] >= self.config.lift
        self._held_steps = np.where(up & self.is_held(), self._held_steps + 1, 0)
        return self._held_steps >= self.config.hold_steps

    def describe_env(self, env: int) -> dict[str, Any]:
        name = self.pickup_name(env)
        return {"instruction": f"pick up {self.things[name].text}", "pickup_obj": name}
