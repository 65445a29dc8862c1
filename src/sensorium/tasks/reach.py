"""Reach: bring an arm's tool to a target, and keep it there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import Field, field_validator

from sensorium.tasks.config import TaskConfig
from sensorium.tasks.task import Task
from sensorium.worlds import Scene

TARGET = "target"
"""What the target is called in the scene."""
_MARKER = """
<mujoco model="target">
  <worldbody>
    <body name="target" gravcomp="1">
      <freejoint/>
      <geom type="sphere" size="0.02" mass="0.05" contype="0" conaffinity="0" rgba="0.85 0.2 0.15 1"/>
    </body>
  </worldbody>
</mujoco>
"""
"""It floats where it is put, and nothing bumps into it."""


class ReachConfig(TaskConfig):
    """Options of :class:`Reach`."""

    dt: float = Field(default=0.04, gt=0)
    """Seconds of one step."""
    substeps: int = Field(default=10, ge=1)
    """Physics steps in one step."""
    max_steps: int = Field(default=75, ge=1)
    """Steps of an episode."""
    low: tuple[float, float, float] = (0.3, -0.35, 0.15)
    """Least x, y and z of targets in the world, m. The robot stands at its origin and looks along x."""
    high: tuple[float, float, float] = (0.65, 0.35, 0.6)
    """Greatest x, y and z."""
    tolerance: float = Field(default=0.05, gt=0)
    """Distance from the target at which it is reached, m."""
    near: float = Field(default=0.1, gt=0)
    """Distance at which the reward of a step has fallen to a half, m."""

    @field_validator("high")
    @classmethod
    def _ordered(cls, value: tuple[float, float, float], info: Any) -> tuple[float, float, float]:
        low = info.data.get("low", value)
        if any(a > b for a, b in zip(low, value, strict=True)):
            raise ValueError(f"must not be below low, {low}")
        return value


class Reach(Task[ReachConfig]):
    """Bring the tool of the robot's first arm to a target that is elsewhere in each episode, and keep it there until
    the time is up. The reward of a step is 1 at the target and less farther away: a half at ``near``."""

    name = "reach"
    config_type = ReachConfig
    ends_on_success = False

    def _add_scene(self, scene: Scene) -> None:
        super()._add_scene(scene)
        self._target = scene.add_object(_MARKER, name=TARGET, pos=self.config.high)

    def _start(self) -> None:
        self._arm = next(each for each in self.robot.groups.values() if each.description.kind == "arm")
        self.target = np.zeros((self.n_envs, 3))
        """Where the target is in each env, (B, 3) m in the world."""

    def _begin(self, envs: np.ndarray, draws: Sequence[np.random.Generator]) -> None:
        for env, draw in zip(envs.tolist(), draws, strict=True):
            self.target[env] = draw.uniform(self.config.low, self.config.high)
        self._target.set_pose(self.target[envs], envs=envs)

    def _distance(self) -> np.ndarray:
        """From the tool to the target, (B,) m."""
        return np.linalg.norm(self._arm.tcp_pose()[:, :3] - self.target, axis=1)

    def _judge(self) -> np.ndarray:
        return self._distance() <= self.config.tolerance

    def _reward(self) -> np.ndarray:
        return (1.0 / (1.0 + (self._distance() / self.config.near) ** 2)).astype(np.float32)

    @property
    def max_return(self) -> float:
        """One a step, which nobody gets: the tool begins elsewhere."""
        return float(self.config.max_steps)

    def describe_env(self, env: int) -> dict[str, Any]:
        return {"instruction": "reach the target", "target": self.target[env].tolist()}
