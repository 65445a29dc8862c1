"""Grips of an object on a table, from above."""

from __future__ import annotations

import math

import numpy as np

from sensorium import poses
from sensorium.robots import GroupHandle
from sensorium.tasks.objects import TaskObject

_PALM = 0.035
"""Distance of the tool centre point below the top of an object at which the palm touches the object, m."""
_CLEARANCE = 0.014
"""Minimum height of the tool centre point above the table, m."""
_MAX_MISS = (0.005, 0.03)
"""Maximum error of inverse kinematics for a pose that counts as reached: m, rad."""


def grips_from_above(target: TaskObject, pose: np.ndarray, table: float) -> np.ndarray:
    """Return the tool poses that grip an object from above.

    Args:
        target: the object.
        pose: (7,) its pose in the world frame.
        table: height of the table, m.

    Returns:
        (n, 7) in the world frame: the tool's z axis points down, and the fingers close along its y axis.
    """
    heading = math.atan2(*poses.rotate(pose[3:], (1.0, 0.0, 0.0))[1::-1])
    turns = np.array(target.turns or np.linspace(0, 2 * math.pi, 12, endpoint=False))
    angle = heading + math.pi / 2 + turns  # direction in which the fingers close
    zero = np.zeros_like(angle)
    y = np.stack([np.cos(angle), np.sin(angle), zero], axis=1)
    z = np.broadcast_to([0.0, 0.0, -1.0], y.shape)
    height = max(pose[2], pose[2] + target.half[2] - _PALM, table + _CLEARANCE)
    pos = np.array([pose[0], pose[1], height])
    return poses.make(pos, poses.from_axes(poses.cross(y, z), y, z))


def best_grip(
    arms: dict[str, GroupHandle], candidates: np.ndarray, env: int, over: float
) -> tuple[str, np.ndarray] | None:
    """Return the arm and the grip that need the smallest joint motion.

    Args:
        arms: the arms by name.
        candidates: (n, 7) tool poses in the world frame.
        env: the env.
        over: the arm must also reach the pose this far above, m.

    Returns:
        The name of the arm and its grip (7,), or None if no arm reaches any candidate.
    """
    best: tuple[str, np.ndarray] | None = None
    best_cost = math.inf
    envs = np.full(len(candidates), env)
    above = candidates + np.array([0, 0, over, 0, 0, 0, 0])
    for name, arm in arms.items():
        home = np.tile(arm.target[env], (len(candidates), 1))
        up, miss_up = arm.solve(above, start=home, iterations=60, envs=envs)
        down, miss = arm.solve(candidates, start=up, iterations=40, envs=envs)
        reached = (np.maximum(miss, miss_up) < _MAX_MISS).all(axis=1)
        cost = np.where(reached, np.abs(down - home).max(axis=1), math.inf)
        if cost.min() < best_cost:
            best_cost, best = float(cost.min()), (name, candidates[int(cost.argmin())])
    return best
