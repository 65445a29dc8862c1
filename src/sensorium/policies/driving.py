"""Velocity commands that drive a base to a goal."""

from __future__ import annotations

import numpy as np

from sensorium import poses
from sensorium.robots import GroupHandle, Robot

_MAX_SPEED, _MAX_TURN = 0.4, 0.6
"""Maximum speeds, m/s and rad/s."""


def heading(pose: np.ndarray) -> np.ndarray:
    """Return the direction of the x axes of poses (..., 7), seen from above, rad."""
    forward = poses.rotate(pose[..., 3:], (1.0, 0.0, 0.0))
    return np.asarray(np.arctan2(forward[..., 1], forward[..., 0]))


def drive_command(robot: Robot, base: GroupHandle, goals: np.ndarray, dt: float) -> np.ndarray:
    """Return the velocities (B, 3) for one step towards goals: forward and left in m/s, and turn in rad/s.

    Args:
        robot: the robot.
        base: its base, with the controller "base_velocity".
        goals: (B, 3) x and y in metres and heading in radians, in the world frame.
        dt: duration of one step, s.
    """
    # The controller moves its target, which is relative to the robot's start pose, exactly by the command.
    start = poses.make(robot.options.pos, poses.yaw(robot.options.yaw))
    target = base.target
    away = goals[:, :2] - start[:2]
    away = poses.rotate(poses.conjugate(start[3:]), np.column_stack([away, np.zeros(len(away))]))[:, :2] - target[:, :2]
    angle = goals[:, 2] - robot.options.yaw - target[:, 2]
    turn = np.clip((angle + np.pi) % (2 * np.pi) - np.pi, -_MAX_TURN * dt, _MAX_TURN * dt)
    length = np.linalg.norm(away, axis=1, keepdims=True)
    away = away * np.minimum(_MAX_SPEED * dt / np.maximum(length, 1e-12), 1)
    ahead = target[:, 2] + turn / 2
    cosine, sine = np.cos(ahead), np.sin(ahead)
    forward, left = cosine * away[:, 0] + sine * away[:, 1], cosine * away[:, 1] - sine * away[:, 0]
    return np.column_stack([forward, left, turn]) / dt
