"""Pick: lift an object off the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import Field

from sensorium.tasks.table import TableConfig, TableTask


class PickConfig(TableConfig):
    """Options of :class:`Pick`."""

    lift: float = Field(default=0.1, gt=0)
    """How far the target must be lifted, m."""
    hold_steps: int = Field(default=10, ge=1)
    """For how many consecutive steps it must be held at that height."""


class Pick(TableTask[PickConfig]):
    """Lift the target and hold it for ``hold_steps`` steps.

    Example:
        >>> task = sn.tasks.make("pick", robot="franka", n_envs=4, lift=0.15)
    """

    name = "pick"
    config_type = PickConfig

    def on_build(self) -> None:
        super().on_build()
        self._held_steps = np.zeros(self.n_envs, np.int64)

    def begin_episodes(self, envs: np.ndarray, rngs: Sequence[np.random.Generator]) -> None:
        super().begin_episodes(envs, rngs)
        self._held_steps[envs] = 0

    def _goal(self) -> np.ndarray:
        goal = self.start_pose.copy()
        goal[:, 2] += self.config.lift
        return goal

    def judge(self) -> np.ndarray:
        lifted = self.pickup_pose()[:, 2] - self.start_pose[:, 2] >= self.config.lift
        self._held_steps = np.where(lifted & self.is_held(), self._held_steps + 1, 0)
        return self._held_steps >= self.config.hold_steps

    def describe_env(self, env: int) -> dict[str, Any]:
        name = self.pickup_name(env)
        return {"instruction": f"pick up {self.objects[name].text}", "pickup_obj": name}
