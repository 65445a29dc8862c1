"""Balance: keep a wheeled inverted pendulum upright and near its start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from sensorium import poses
from sensorium.robots import Robot
from sensorium.tasks.config import TaskConfig
from sensorium.tasks.task import Task

_TORSO_HEIGHT = 0.081
"""Height of the torso's origin when the robot stands on its wheels, m."""


class BalanceConfig(TaskConfig):
    """Options of :class:`Balance`."""

    robot: str = "balancer"
    """Name of the robot. It must stand on wheels and have its torso as base."""
    dt: float = Field(default=0.02, gt=0)
    """Duration of one step, s."""
    substeps: int = Field(default=4, ge=1)
    """Physics steps per step."""
    max_steps: int = Field(default=500, ge=1)
    """Steps of an episode."""
    tilt: float = Field(default=0.12, ge=0)
    """Maximum lean of the torso at the start, rad."""
    fall: float = Field(default=0.6, gt=0)
    """Lean at which the robot has fallen, rad."""
    range: float = Field(default=1.5, gt=0)
    """Maximum distance from the start, m."""
    near: float = Field(default=0.75, gt=0)
    """Distance from the start at which the reward of a step is 0.5, m."""


class Balance(Task[BalanceConfig]):
    """Stay upright for the whole episode, at the position and heading of the start, with little effort.

    The reward of a step is 1 / (1 + (distance / near)^2), minus at most 0.2 for leaning (at the angle of a fall), 0.05
    for a change of heading (by half a turn) and 0.05 for effort (at full torque). It is never negative. The episode
    terminates with reward 0 when the robot falls or is out of ``range``.
    """

    name = "balance"
    config_type = BalanceConfig
    robot_type: ClassVar[type[Robot]] = Robot
    needs_groups = False
    shareable = True
    ends_on_success = False

    def begin_episodes(self, envs: np.ndarray, rngs: Sequence[np.random.Generator]) -> None:
        bounds = (self.config.tilt, np.pi)
        tilt, heading = (np.array([rng.uniform(-1, 1) for rng in rngs]) * bound for bound in bounds)
        lean = np.column_stack([np.cos(tilt / 2), np.zeros_like(tilt), np.sin(tilt / 2), np.zeros_like(tilt)])
        quat = poses.multiply(poses.yaw(heading), lean)
        start = np.tile([*self.origin, _TORSO_HEIGHT], (len(envs), 1))
        self.robot.entity.set_pose(start, quat, envs)
        self._start_left[envs] = np.column_stack([-np.sin(heading), np.cos(heading)])

    def on_build(self) -> None:
        self._start_left = np.zeros((self.n_envs, 2))  # horizontal direction of the robot's y axis at the start
        model, prefix = self.scene.model, f"{self.robot.name}/"
        self._motors = [each for each in range(model.nu) if model.actuator(each).name.startswith(prefix)]

    def _state(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the lean (B,) rad, the distance from the start (B,) m, and the change of heading (B,) rad, 0 to pi."""
        pose = self.robot.base_pose()
        up, left = (poses.rotate(pose[:, 3:], axis) for axis in ((0.0, 0.0, 1.0), (0.0, 1.0, 0.0)))
        horizontal = np.linalg.norm(left[:, :2], axis=1) + 1e-9
        turned = np.arccos(np.clip((left[:, :2] * self._start_left).sum(axis=1) / horizontal, -1, 1))
        return np.arccos(np.clip(up[:, 2], -1, 1)), np.linalg.norm(pose[:, :2] - self.origin, axis=1), turned

    def failures(self) -> dict[str, np.ndarray]:
        lean, distance, _ = self._state()
        return {"fall": lean > self.config.fall, "range": distance > self.config.range}

    def judge(self) -> np.ndarray:
        return (self.step_count >= self.config.max_steps) & ~self._has_failed()

    def _has_failed(self) -> np.ndarray:
        return np.any(list(self.failures().values()), axis=0)

    def rewards(self) -> dict[str, np.ndarray]:
        lean, distance, turned = self._state()
        effort = (self.scene.world.bind("ctrl").numpy()[:, self._motors] ** 2).mean(axis=1)
        reward = 1 / (1 + (distance / self.config.near) ** 2)
        reward -= 0.2 * (lean / self.config.fall) ** 2 + 0.05 * turned / np.pi + 0.05 * effort
        return {"balance": np.where(self._has_failed(), 0.0, reward.clip(0.0))}

    @property
    def max_return(self) -> float:
        """The maximum return of an episode: 1 per step, for a robot that stands upright at its start all the time."""
        return float(self.config.max_steps)

    def describe_env(self, env: int) -> dict[str, Any]:
        return {"instruction": "stay upright"}
