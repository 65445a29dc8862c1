"""What to tell a base so that it gets somewhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from sensorium import poses

_SPEED, _TURN = 0.4, 0.6
"""Greatest speeds, m/s and rad/s."""


def heading(pose: np.ndarray) -> np.ndarray:
    """In which direction the x axes of poses (..., 7) point, seen from above, rad."""
    forward = poses.rotate(pose[..., 3:], (1.0, 0.0, 0.0))
    return np.asarray(np.arctan2(forward[..., 1], forward[..., 0]))


def drive(robot: Any, base: Any, goals: np.ndarray, dt: float) -> np.ndarray:
    """Velocities (B, 3) forward and left in m/s, and turn in rad/s, for one step towards goals.

    Args:
        robot: whose base it is.
        base: its move group, with the controller "base_velocity".
        goals: (B, 3) x and y in metres and heading in radians, in the world frame.
        dt: seconds of one step.
    """
    # the controller moves its target, a place seen from where the robot started, exactly by what it is told
    start = poses.make(robot.options.pos, poses.yaw(robot.options.yaw))
    target = base.target
    away = goals[:, :2] - start[:2]
    away = poses.rotate(poses.conjugate(start[3:]), np.column_stack([away, np.zeros(len(away))]))[:, :2] - target[:, :2]
    angle = goals[:, 2] - robot.options.yaw - target[:, 2]
    turn = np.clip((angle + np.pi) % (2 * np.pi) - np.pi, -_TURN * dt, _TURN * dt)
    length = np.linalg.norm(away, axis=1, keepdims=True)
    away = away * np.minimum(_SPEED * dt / np.maximum(length, 1e-12), 1)
    ahead = target[:, 2] + turn / 2
    cosine, sine = np.cos(ahead), np.sin(ahead)
    forward, left = cosine * away[:, 0] + sine * away[:, 1], cosine * away[:, 1] - sine * away[:, 0]
    return np.column_stack([forward, left, turn]) / dt
