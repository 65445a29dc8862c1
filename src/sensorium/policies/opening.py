"""Planners that open drawers and doors by their handles."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from sensorium import poses
from sensorium.policies.clearance import Clearance
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
_TRIED = 12
"""How many of the ways that the arm can follow are looked at for what it would bump into."""
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
        self._clearance = Clearance(task, task.handles)

    def make_plan(self, env: int) -> Plan | None:
        """Open it from where it is now."""
        now, stroke = float(self.task.joint_position()[env]), float(self.task.stroke()[env])
        goal = min(self.task.config.open_fraction + _BEYOND, 0.98) * stroke
        ends = self.task.handle_path(env, np.array([now, goal]))
        apart = max(float(np.linalg.norm(ends[1, :3] - ends[0, :3])), 2 * _STEP)
        positions = np.linspace(now, goal, math.ceil(apart / _STEP) + 1)
        best: tuple[float, str, np.ndarray, np.ndarray] | None = None
        for name, arm in self.arms.items():
            cost, tools, joints = self._best_way(env, arm, positions)
            if best is None or cost < best[0]:
                best = (cost, name, tools, joints)
        assert best is not None
        _, name, tools, joints = best
        return Plan(name, self._waypoints(env, name, tools, joints), tools[0])

    def _waypoints(self, env: int, arm: str, tools: np.ndarray, joints: np.ndarray) -> list[Waypoint]:
        clear = []
        if self.retries[env]:  # whatever went wrong, step back first, with open fingers
            clear = [Waypoint("retreat", _back(self.arms[arm].tcp_pose()[env]), 1.0, speed=0.25)]
        return [
            *clear,
            Waypoint("approach", _back(tools[0]), 1.0, turn=1.5, joints=joints),
            Waypoint("reach", tools[0], 1.0, speed=0.15),
            Waypoint("close", tools[0], 0.0, wait=0.35, check=True),
            *(Waypoint("pull", tool, 0.0, speed=0.2, check=True) for tool in tools[1:]),
            Waypoint("release", tools[-1], 1.0, wait=0.25),
            Waypoint("withdraw", _back(tools[-1]), 1.0, speed=0.2, wait=0.4, check=True),
            Waypoint("done", _back(tools[-1]), 1.0),
        ]

    def _best_way(self, env: int, arm: Any, positions: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Of all ways to hold the handle while its joint goes through ``positions`` (n,), the poses (n or fewer, 7) of the
        tool that the arm follows furthest, then with the least motion; and what they cost."""
        handles = self.task.handle_path(env, positions)
        turning = float(np.abs(handles[-1, 3:] @ handles[0, 3:])) < 1 - 1e-9
        slants = list(itertools.product(_SLANTS, _SLANTS)) if turning else [(slant, slant) for slant in _SLANTS]
        part = np.linspace(0, 1, len(handles))
        ways = np.stack(
            [_tools(handles, first + part * (last - first), flip) for first, last in slants for flip in (False, True)]
        )
        joints, reach = self._follow(env, arm, ways)
        now = arm.target[env]
        effort = np.abs(joints[:, 0] - now).max(axis=1) + np.abs(np.diff(joints, axis=1)).max(axis=(1, 2))
        slant = np.array([max(abs(first), abs(last)) for first, last in slants]).repeat(2)
        cost = len(handles) - reach + 0.2 * effort + 0.3 * slant
        order = np.argsort(cost)
        stands = np.concatenate([np.full(_COMING, positions[0]), positions])
        for way in order[:_TRIED]:
            path = np.concatenate([np.linspace(now, joints[way, 0], _COMING), joints[way, 1:]])
            free = self._clearance.first_bump(env, arm, path, self.task.joint_id(env), stands) - _COMING
            cost[way] += max(reach[way] - max(free, 0), 0)
            reach[way] = min(reach[way], free)
        cost[order[_TRIED:]] += len(handles)
        best = int(cost.argmin())
        return float(cost[best]), ways[best, : max(int(reach[best]), 2)], joints[best, 0]

    def _follow(self, env: int, arm: Any, ways: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How the arm gets to a place before each way (m, n, 7) of its tool, and along it.

        Returns:
            Joint positions (m, 1 + n, k), the first of them before the way, and how many poses of each it reaches, (m,).
        """
        m, n = ways.shape[:2]
        envs = np.full(m, env)
        joints, miss = arm.solve(_back(ways[:, 0]), start=np.tile(arm.target[env], (m, 1)), iterations=60, envs=envs)
        path = [joints]
        reach = np.where((miss > _NEAR).any(axis=1), 0, n)
        for number in range(n):
            joints, miss = arm.solve(ways[:, number], start=joints, iterations=25, envs=envs, restart=False)
            reach = np.where((miss > _NEAR).any(axis=1), np.minimum(reach, number), reach)
            path.append(joints)
        return np.stack(path, axis=1), reach

    def succeeded(self, env: int, phase: str) -> bool:
        """Whether the handle is between the fingers, and at the end, whether it is open."""
        if phase == "withdraw":
            return bool(self.task.is_open()[env])
        return bool(self.task.is_held()[env])


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
