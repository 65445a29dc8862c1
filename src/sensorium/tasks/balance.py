"""Balance: keep a wheeled inverted pendulum upright, and about where it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from sensorium import poses
from sensorium.robots import Robot
from sensorium.tasks.config import TaskConfig
from sensorium.tasks.task import Task


class BalanceConfig(TaskConfig):
    """Options of :class:`Balance`."""

    robot: str = "balancer"
    """Which robot: one that stands on wheels, with its torso as base."""
    dt: float = Field(default=0.02, gt=0)
    """Seconds of one step."""
    substeps: int = Field(default=4, ge=1)
    """Physics steps in one step."""
    max_steps: int = Field(default=500, ge=1)
    """Steps of an episode."""
    tilt: float = Field(default=0.12, ge=0)
    """Most by which the torso leans at the start, rad."""
    fall: float = Field(default=0.6, gt=0)
    """Lean at which it has fallen, rad."""
    range: float = Field(default=1.5, gt=0)
    """How far it may roll from where it began, m."""
    near: float = Field(default=0.75, gt=0)
    """Distance from there at which the reward of a step has fallen to a half, m."""


class Balance(Task[BalanceConfig]):
    """Stay upright until the time is up, at the start's place and heading, with little effort.

    The reward of a step is 1 there, a half at the distance ``near``, and less by up to 0.2 for leaning (when it falls),
    0.05 for having turned (half round), and 0.05 for effort (all that the motors have).
    """

    name = "balance"
    config_type = BalanceConfig
    robot_type: ClassVar[type[Robot]] = Robot
    needs_groups = False
    shareable = True
    ends_on_success = False

    def _begin(self, envs: np.ndarray, draws: Sequence[np.random.Generator]) -> None:
        tilt, heading = (np.array([draw.uniform(-1, 1) for draw in draws]) * most for most in (self.config.tilt, np.pi))
        half = np.column_stack([np.cos(tilt / 2), np.zeros_like(tilt), np.sin(tilt / 2), np.zeros_like(tilt)])
        quat = poses.multiply(poses.yaw(heading), half)
        start = np.tile([*self.origin, 0.081], (len(envs), 1))
        self.robot._entity.set_pose(start, quat, envs)
        self._left[envs] = np.column_stack([-np.sin(heading), np.cos(heading)])

    def _start(self) -> None:
        self._left = np.zeros((self.n_envs, 2))  # where its left was at the start, along the ground
        model, own = self.scene.model, f"{self.robot.name}/"
        self._motors = [each for each in range(model.nu) if model.actuator(each).name.startswith(own)]

    def _where(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Lean (B,) rad, distance from the start (B,) m, and by how much it has turned (B,) rad, 0 to pi."""
        pose = self.robot.base_pose()
        up, left = (poses.rotate(pose[:, 3:], axis) for axis in ((0.0, 0.0, 1.0), (0.0, 1.0, 0.0)))
        flat = np.linalg.norm(left[:, :2], axis=1) + 1e-9
        turned = np.arccos(np.clip((left[:, :2] * self._left).sum(axis=1) / flat, -1, 1))
        return np.arccos(np.clip(up[:, 2], -1, 1)), np.linalg.norm(pose[:, :2] - self.origin, axis=1), turned

    def _is_lost(self) -> np.ndarray:
        lean, away, _ = self._where()
        return (lean > self.config.fall) | (away > self.config.range)

    def _judge(self) -> np.ndarray:
        return (self.step_count >= self.config.max_steps) & ~self._is_lost()

    def _reward(self) -> np.ndarray:
        lean, away, turned = self._where()
        effort = (self.scene.world.bind("ctrl").numpy()[:, self._motors] ** 2).mean(axis=1)
        kept = 1 / (1 + (away / self.config.near) ** 2)
        kept -= 0.2 * (lean / self.config.fall) ** 2 + 0.05 * turned / np.pi + 0.05 * effort
        return np.where(self._is_lost(), 0.0, kept.clip(0.0)).astype(np.float32)

    @property
    def max_return(self) -> float:
        """One a step, which takes standing upright as it began all the time."""
        return float(self.config.max_steps)

    def describe_env(self, env: int) -> dict[str, Any]:
        return {"instruction": "stay upright"}
