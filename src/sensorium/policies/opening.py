"""Planners that open drawers and doors by their handles."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from sensorium import poses
from sensorium.policies.planner import Plan, Planner, Waypoint

_BEFORE = 0.11
"""How far before the handle the tool stops first, m."""
_BEYOND = 0.08
"""How much further than needed it opens, of the joint's range."""
_STEP = 0.03
"""Way of the handle between waypoints, m."""
_SLANTS = (0.0, 0.3, -0.3, 0.6, -0.6)
"""Angles about the bar at which it is gripped, from straight to the front, rad. Beyond them the hand hits the front."""
_COMING = 8
"""In how many parts the way to the handle is looked at."""
_NEAR = (0.008, 0.05)
"""What may be left to a pose that counts as reached: m, rad."""


class OpeningPlanner(Planner):
    """Grip the handle from the front, pull it along its joint's path, let go, and step back; anew if it slips.

    While a door turns, the tool turns with it as far as the arm can, and for the rest it turns about the bar.

    Args:
        task: what to do.
        max_retries: how often a plan that failed is made anew.
    """

    def __init__(self, task: Any, max_retries: int = 5) -> None:
        super().__init__(task, max_retries)

    def make_plan(self, env: int) -> Plan | None:
        """Open it from where it is now."""
        now, stroke = float(self.task.joint_position()[env]), float(self.task.stroke()[env])
        goal = min(self.task.config.open_fraction + _BEYOND, 0.98) * stroke
        ends = self.task.handle_path(env, np.array([now, goal]))
        apart = max(float(np.linalg.norm(ends[1, :3] - ends[0, :3])), 2 * _STEP)
        handles = self.task.handle_path(env, np.linspace(now, goal, math.ceil(apart / _STEP) + 1))
        best: tuple[float, str, np.ndarray] | None = None
        for name, arm in self.arms.items():
            cost, tools = self._best_way(env, arm, handles)
            if best is None or cost < best[0]:
                best = (cost, name, tools)
        assert best is not None
        _, arm_name, tools = best
        return Plan(arm_name, self._waypoints(env, arm_name, tools), tools[0])

    def _waypoints(self, env: int, arm: str, tools: np.ndarray) -> list[Waypoint]:
        clear = []
        if self.retries[env]:  # whatever went wrong, step back first, with open fingers
            clear = [Waypoint("retreat", _back(self.arms[arm].tcp_pose()[env]), 1.0, speed=0.25)]
        return [
            *clear,
            Waypoint("approach", _back(tools[0]), 1.0, speed=0.5),
            Waypoint("reach", tools[0], 1.0, speed=0.15),
            Waypoint("close", tools[0], 0.0, wait=0.35, check=True),
            *(Waypoint("pull", tool, 0.0, speed=0.2, check=True) for tool in tools[1:]),
            Waypoint("release", tools[-1], 1.0, wait=0.25),
            Waypoint("withdraw", _back(tools[-1]), 1.0, speed=0.2, wait=0.4, check=True),
            Waypoint("done", _back(tools[-1]), 1.0),
        ]

    def _best_way(self, env: int, arm: Any, handles: np.ndarray) -> tuple[float, np.ndarray]:
        """Of all ways to hold the handle along its path (n, 7), the poses (n or fewer, 7) of the tool that the arm follows
        furthest, then with the least motion; and what they cost."""
        turning = float(np.abs(handles[-1, 3:] @ handles[0, 3:])) < 1 - 1e-9
        slants = list(itertools.product(_SLANTS, _SLANTS)) if turning else [(slant, slant) for slant in _SLANTS]
        part = np.linspace(0, 1, len(handles))
        ways = np.stack(
            [_tools(handles, first + part * (last - first), flip) for first, last in slants for flip in (False, True)]
        )
        start = np.tile(arm.target[env], (len(ways), 1))
        envs = np.full(len(ways), env)
        reach = np.full(len(ways), len(handles))
        effort = np.zeros(len(ways))
        now = np.tile(arm.tcp_pose()[env], (len(ways), 1))
        before = np.stack([_back(way[0]) for way in ways])
        coming = []
        for left in range(_COMING, 0, -1):
            now = poses.towards(now, before, *_parts(now, before, left))
            coming.append(now)
        for number, goal in enumerate([*coming, *np.moveaxis(ways, 1, 0)]):
            joints, miss = arm.solve(goal, start=start, iterations=25, envs=envs, restart=False)
            effort = np.maximum(effort, np.abs(joints - start).max(axis=1))
            start = joints
            lost = (miss > _NEAR).any(axis=1) & (number >= len(coming) - 1)
            reach = np.minimum(reach, np.where(lost, max(number - len(coming), 0), reach))
        cost = len(handles) - reach + 0.2 * effort + 0.1 * np.array([abs(a) for a, _ in slants for _ in range(2)])
        best = int(cost.argmin())
        return float(cost[best]), ways[best, : max(int(reach[best]), 2)]

    def succeeded(self, env: int, phase: str) -> bool:
        """Whether the handle is between the fingers, and at the end, whether it is open."""
        if phase == "withdraw":
            return bool(self.task.is_open()[env])
        return bool(self.task.is_held()[env])


def _parts(pose: np.ndarray, target: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Metres and radians of one of ``count`` equal parts of the way."""
    way = np.linalg.norm(target[:, :3] - pose[:, :3], axis=1)
    turn = poses.multiply(target[:, 3:], poses.conjugate(pose[:, 3:]))
    return (way + 1e-9) / count, (np.linalg.norm(poses.rotation_vector(turn), axis=1) + 1e-9) / count


def _tools(handles: np.ndarray, slants: np.ndarray, flip: bool) -> np.ndarray:
    """Poses (n, 7) of a tool that holds handles (n, 7): z into the front, turned by ``slants`` (n,) about the bar, fingers
    to either side of it."""
    side = -1.0 if flip else 1.0
    z, y = np.array([-1.0, 0, 0]), np.array([0, side, 0])
    gripping = poses.from_axes(poses.cross(y, z), y, z)
    return poses.make(handles[:, :3], poses.multiply(poses.multiply(handles[:, 3:], poses.yaw(slants)), gripping[None]))


def _back(tool: np.ndarray) -> np.ndarray:
    """The pose some way before a tool's."""
    return poses.compose(tool, np.array([0, 0, -_BEFORE, 1, 0, 0, 0]))
