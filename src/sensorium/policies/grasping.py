"""How to grip a thing that stands on a table, from above."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sensorium import poses
from sensorium.tasks.objects import Thing

_PALM = 0.035
"""How far the tool centre point may be below the top of a thing, before the palm touches it, m."""
_CLEAR = 0.014
"""How far it stays above the table, m."""


def grips_from_above(thing: Thing, pose: np.ndarray, table: float) -> np.ndarray:
    """Poses (n, 7) of a tool that grips a thing at ``pose`` (7,), in the world frame: z down, closing along y."""
    heading = math.atan2(*poses.rotate(pose[3:], (1.0, 0.0, 0.0))[1::-1])
    turns = np.array(thing.turns or np.linspace(0, 2 * math.pi, 12, endpoint=False))
    angle = heading + math.pi / 2 + turns  # of the direction in which the fingers close
    zero = np.zeros_like(angle)
    y = np.stack([np.cos(angle), np.sin(angle), zero], axis=1)
    z = np.broadcast_to([0.0, 0.0, -1.0], y.shape)
    height = max(pose[2], pose[2] + thing.half[2] - _PALM, table + _CLEAR)
    at = np.array([pose[0], pose[1], height])
    return poses.make(at, poses.from_axes(poses.cross(y, z), y, z))


def best_grip(arms: dict[str, Any], candidates: np.ndarray, env: int, over: float) -> tuple[str, np.ndarray] | None:
    """Which arm, and which of the poses (n, 7): one that it reaches, as well as ``over`` metres above, moving least."""
    best: tuple[str, np.ndarray] | None = None
    least = math.inf
    envs = np.full(len(candidates), env)
    above = candidates + np.array([0, 0, over, 0, 0, 0, 0])
    for name, arm in arms.items():
        home = np.tile(arm.target[env], (len(candidates), 1))
        up, miss_up = arm.solve(above, start=home, iterations=60, envs=envs)
        down, miss = arm.solve(candidates, start=up, iterations=40, envs=envs)
        reached = (np.maximum(miss, miss_up) < (0.005, 0.03)).all(axis=1)
        cost = np.where(reached, np.abs(down - home).max(axis=1), math.inf)
        if cost.min() < least:
            least, best = float(cost.min()), (name, candidates[int(cost.argmin())])
    return best
