"""Reach: move an arm's tool to a target and keep it there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from sensorium.options import checked_integer
from sensorium.robots import Manipulator
from sensorium.tasks.config import TaskConfig
from sensorium.tasks.task import Task
from sensorium.worlds import Scene

TARGET = "target"
"""Name of the target in the scene."""
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
"""Model of the target. It floats where it is placed, and does not collide."""


class ReachConfig(TaskConfig):
    """Options of :class:`Reach`."""

    dt: float = Field(default=0.04, gt=0)
    """Duration of one step, s."""
    substeps: int = Field(default=10, ge=1)
    """Physics steps per step."""
    max_steps: int = Field(default=75, ge=1)
    """Steps of an episode."""
    low: tuple[float, float, float] = (0.3, -0.35, 0.15)
    """Minimum x, y and z of targets in the world frame, m. The robot stands at the origin and faces along x."""
    high: tuple[float, float, float] = (0.65, 0.35, 0.6)
    """Maximum x, y and z of targets, m."""
    tolerance: float = Field(default=0.05, gt=0)
    """Distance to the target at which it counts as reached, m."""
    near: float = Field(default=0.1, gt=0)
    """Distance to the target at which the reward of a step is 0.5, m."""

    @field_validator("high")
    @classmethod
    def _check_high(cls, value: tuple[float, float, float], info: ValidationInfo) -> tuple[float, float, float]:
        low = info.data.get("low", value)
        if any(a > b for a, b in zip(low, value, strict=True)):
            raise ValueError(f"must be >= low {low} along each axis, got {value}")
        return value


class Reach(Task[ReachConfig]):
    """Move the tool of the robot's first arm to the target, and keep it there for the rest of the episode.

    Each episode draws the target position. The reward of a step is 1 / (1 + (distance / near)^2): 1 at the target, 0.5
    at the distance ``near``.

    Attributes:
        target: (B, 3) position of the target in the world frame, m.
    """

    name = "reach"
    config_type = ReachConfig
    ends_on_success = False
    robot: Manipulator

    def add_scene(self, scene: Scene) -> None:
        super().add_scene(scene)
        self._marker = scene.add_object(_MARKER, name=TARGET, pos=self.config.high)

    def on_build(self) -> None:
        self._arm = next(each for each in self.robot.groups.values() if each.description.kind == "arm")
        self.target = np.zeros((self.n_envs, 3))

    def begin_episodes(self, envs: np.ndarray, rngs: Sequence[np.random.Generator]) -> None:
        for env, rng in zip(envs.tolist(), rngs, strict=True):
            self.target[env] = rng.uniform(self.config.low, self.config.high)
        self._marker.set_pose(self.target[envs], envs=envs)

    def _distance(self) -> np.ndarray:
        """Return the distance from the tool to the target, (B,) m."""
        return np.linalg.norm(self._arm.tcp_pose()[:, :3] - self.target, axis=1)

    def judge(self) -> np.ndarray:
        return self._distance() <= self.config.tolerance

    def rewards(self) -> dict[str, np.ndarray]:
        return {"near": 1.0 / (1.0 + (self._distance() / self.config.near) ** 2)}

    @property
    def max_return(self) -> float:
        """The upper bound of the return of an episode: 1 per step. The tool starts away from the target."""
        return float(self.config.max_steps)

    def describe_env(self, env: int) -> dict[str, Any]:
        target = self.target[checked_integer("env", env, 0, self.n_envs - 1)]
        return {"instruction": "reach the target", "target": target.tolist()}
