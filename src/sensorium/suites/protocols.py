"""The interface of a robot that its observation sensors use.

``sensorium.robots`` imports this package, so the suites cannot import the robot classes themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np


class GroupDescription(Protocol):
    """The fixed properties of a move group."""

    @property
    def kind(self) -> str:
        """ "arm", "gripper" or "base"."""

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of its joints."""


class MoveGroupLike(Protocol):
    """A move group of a robot in a built scene; see :class:`sensorium.robots.GroupHandle`."""

    @property
    def description(self) -> GroupDescription:
        """Its fixed properties."""

    @property
    def qpos(self) -> np.ndarray:
        """Joint positions (B, n), rad or m."""

    @property
    def qvel(self) -> np.ndarray:
        """Joint velocities (B, n), rad/s or m/s."""

    @property
    def target(self) -> np.ndarray:
        """Joint targets (B, n) of its controller, rad or m."""

    def tcp_pose(self) -> np.ndarray:
        """Return the pose (B, 7) of an arm's tool centre point in the world frame."""

    def forward(self, joints: np.ndarray) -> np.ndarray:
        """Return the pose (B, 7) of the tool centre point in the world frame at joint positions (B, n)."""


class RobotLike(Protocol):
    """A robot in a built scene; see :class:`sensorium.robots.Robot`."""

    @property
    def groups(self) -> Mapping[str, MoveGroupLike]:
        """Move groups by name."""

    @property
    def action_slices(self) -> Mapping[str, slice]:
        """Move group -> the columns of an action that belong to it."""

    def base_pose(self) -> np.ndarray:
        """Return the pose (B, 7) of the base link in the world frame."""

    def in_base_frame(self, pose: np.ndarray) -> np.ndarray:
        """Return world-frame poses (B, 7) in the frame of the base link."""

    def way_in_base_frame(self, start: np.ndarray, goal: np.ndarray, dt: float) -> tuple[np.ndarray, np.ndarray]:
        """Return world-frame goals (B, 7) in the base frame, and twists (B, 6) from ``start`` to them in ``dt`` s."""
