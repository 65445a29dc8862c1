"""Planners that open drawers and doors by their handles."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sensorium import poses
from sensorium.policies.clearance import Clearance
from sensorium.policies.driving import drive, heading
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
"""At how many places the way to the handle is looked at."""
_TRIED = 12
"""How many of the ways that the arm can follow are looked at for what it would bump into."""
_NEAR = (0.008, 0.05)
"""What may be left to a pose that counts as reached: m, rad."""
_SLIPPED = 0.03
"""Distance between tool and handle from which it was lost, m."""


@dataclass(frozen=True)
class _Way:
    """One way to open.

    Attributes:
        arm: with which arm.
        tools: poses (n, 7) of its tool, in the world frame.
        bases: poses (n, 7) of the robot's base meanwhile.
        joints: of the arm, (k,), before it reaches for the handle.
        cost: 1 for each place that cannot be reached, and a little for effort.
    """

    arm: str
    tools: np.ndarray
    bases: np.ndarray
    joints: np.ndarray
    cost: float


class OpeningPlanner(Planner):
    """Grip the handle from the front, pull it along its joint's path, let go, and step back; anew if it slips.

    While a door turns, the tool turns with it as far as the arm can, and for the rest it turns about the bar. Where the
    arm cannot follow, a robot that drives goes along with the door.

    Args:
        task: what to do.
        max_retries: how often a plan that failed is made anew.
    """

    task: Any

    def __init__(self, task: Any, max_retries: int = 5) -> None:
        super().__init__(task, max_retries)
        self._clearance = Clearance(task, task.handles)
        self._base = next((group for group in self.robot.groups.values() if group.description.kind == "base"), None)
        self._bases: list[np.ndarray] = [np.zeros((0, 3))] * task.n_envs  # x, y, heading at each waypoint

    def make_plan(self, env: int) -> Plan | None:
        """Open it from where it is now."""
        now, stroke = float(self.task.joint_position()[env]), float(self.task.stroke()[env])
        goal = min(self.task.config.open_fraction + _BEYOND, 0.98) * stroke
        ends = self.task.handle_path(env, np.array([now, goal]))
        apart = max(float(np.linalg.norm(ends[1, :3] - ends[0, :3])), 2 * _STEP)
        positions = np.linspace(now, goal, math.ceil(apart / _STEP) + 1)
        way = min((self._best_way(env, arm, positions, False) for arm in self.arms), key=lambda each: each.cost)
        if way.cost >= 1 and self._base is not None:
            driving = (self._best_way(env, arm, positions, True) for arm in self.arms)
            way = min([way, *driving], key=lambda each: each.cost)
        waypoints = self._waypoints(env, way)
        stands = np.column_stack([way.bases[:, :2], heading(way.bases)])
        pulls = [waypoint.phase for waypoint in waypoints].index("pull")
        after = len(waypoints) - pulls - len(way.tools) + 1
        self._bases[env] = np.repeat(stands, [pulls, *[1] * (len(way.tools) - 2), 1 + after], axis=0)
        return Plan(way.arm, waypoints, way.tools[0])

    def _waypoints(self, env: int, way: _Way) -> list[Waypoint]:
        tools, clear = way.tools, []
        if self.retries[env]:  # whatever went wrong, step back first, with open fingers
            clear = [Waypoint("retreat", _back(self.arms[way.arm].tcp_pose()[env]), 1.0, speed=0.25)]
        return [
            *clear,
            Waypoint("approach", _back(tools[0]), 1.0, turn=1.5, joints=way.joints),
            Waypoint("reach", tools[0], 1.0, speed=0.15),
            Waypoint("close", tools[0], 0.0, wait=0.35, check=True),
            *(Waypoint("pull", tool, 0.0, speed=0.2, check=True) for tool in tools[1:]),
            Waypoint("release", tools[-1], 1.0, wait=0.25),
            Waypoint("withdraw", _back(tools[-1]), 1.0, speed=0.2, wait=0.4, check=True),
            Waypoint("done", _back(tools[-1]), 1.0),
        ]

    # -- which way ----------------------------------------------------------------------------------------------------

    def _best_way(self, env: int, name: str, positions: np.ndarray, driving: bool) -> _Way:
        """Of all ways to hold the handle while its joint goes through ``positions`` (n,), the one that an arm follows
        furthest, then with the least effort; with a base that stands still, or that goes along with the handle."""
        arm = self.arms[name]
        handles = self.task.handle_path(env, positions)
        base = self.robot.base_pose()[env]
        bases = np.tile(base, (len(handles), 1))
        if driving:
            bases = poses.compose(handles, poses.relative(handles[0], base)[None])
        turning = abs(float(handles[-1, 3:] @ handles[0, 3:])) < 1 - 1e-9
        slants = np.array(list(itertools.product(_SLANTS, _SLANTS)) if turning else [(each,) * 2 for each in _SLANTS])
        turns = np.linspace(slants[:, 0], slants[:, 1], len(handles))
        ways = np.concatenate([_tools(handles, turns, side) for side in (-1, 1)], axis=1)
        joints, reach = self._follow(env, arm, poses.compose(base, poses.relative(bases[:, None], ways)))
        now = arm.target[env]
        effort = np.abs(joints[0] - now).max(axis=1) + np.abs(np.diff(joints, axis=0)).max(axis=(0, 2))
        cost = len(handles) - reach + 0.2 * effort + 0.3 * np.tile(np.abs(slants).max(axis=1), 2)
        best, least, count = 0, math.inf, 2
        for way in np.argsort(cost)[:_TRIED].tolist():
            if cost[way] >= least:
                break  # as all that follow
            path = np.concatenate([np.linspace(now, joints[0, way], _COMING), joints[1:, way]])
            free = min(self._free(env, arm, path, bases, positions), int(reach[way]))
            if cost[way] + reach[way] - free < least:
                best, least, count = way, float(cost[way] + reach[way] - free), max(free, 2)
        return _Way(name, ways[:count, best], bases[:count], joints[0, best], least)

    def _follow(self, env: int, arm: Any, ways: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How an arm gets to a place before each way (n, m, 7) of its tool, and along it, with its base where it is.

        Returns:
            Joint positions (1 + n, m, k), the first of them before the way, and how many poses of each it reaches (m,).
        """
        n, m = ways.shape[:2]
        envs = np.full(m, env)
        joints, miss = arm.solve(_back(ways[0]), start=np.tile(arm.target[env], (m, 1)), iterations=60, envs=envs)
        path = [joints]
        reach = np.where((miss > _NEAR).any(axis=1), 0, n)
        for number, tools in enumerate(ways):
            joints, miss = arm.solve(tools, start=joints, iterations=25, envs=envs, restart=False)
            reach = np.where((miss > _NEAR).any(axis=1), np.minimum(reach, number), reach)
            path.append(joints)
        return np.stack(path), reach

    def _free(self, env: int, arm: Any, path: np.ndarray, bases: np.ndarray, positions: np.ndarray) -> int:
        """At how many of the ``positions`` (n,) of the handle's joint, counted from the first, the arm bumps into
        nothing, nor on its way there: ``path`` (parts + n, k) are its joints, ``bases`` (n, 7) where the base is."""

        def whole(values: np.ndarray) -> np.ndarray:
            return np.concatenate([np.repeat(values[:1], len(path) - len(values)), values])

        joints = {f"robot/{name}": path[:, i] for i, name in enumerate(arm.description.joints)}
        if self._base is not None:
            away = poses.relative(poses.make(self.robot.options.pos, poses.yaw(self.robot.options.yaw)), bases)
            for name, values in zip(
                self._base.description.joints, (away[:, 0], away[:, 1], heading(away)), strict=True
            ):
                joints[f"robot/{name}"] = whole(values)
        joints[self.task.joint_name(env)] = whole(positions)
        return max(self._clearance.first_bump(env, joints) - _COMING, 0)

    # -- doing it -----------------------------------------------------------------------------------------------------

    def succeeded(self, env: int, phase: str) -> bool:
        """Whether the handle is between the fingers, has not slipped from them, and at the end, whether it is open."""
        if phase == "withdraw":
            return bool(self.task.is_open()[env])
        if phase == "close":
            return bool(self.task.is_held()[env])
        plan = self._plans[env]
        assert plan is not None
        tool, handle = self.arms[plan.arm].tcp_pose()[env], self.task.handle_pose()[env]
        off = poses.relative(handle, tool)[:2]  # along the bar it may slide
        return bool(np.linalg.norm(off) < _SLIPPED)

    def _action(self) -> np.ndarray:
        action = super()._action()
        if self._base is not None:
            goals = np.stack([stands[number] for stands, number in zip(self._bases, self._at, strict=True)])
            part = self.robot.action_slices[self._base.description.name]
            action[:, part] = drive(self.robot, self._base, goals, self.task.config.dt)
        return action


def _tools(handles: np.ndarray, slants: np.ndarray, side: int) -> np.ndarray:
    """Poses (n, m, 7) of a tool that holds handles (n, 7): z into the front, turned by ``slants`` (n, m) about the bar,
    fingers to either ``side`` of it."""
    y, z = np.array([0.0, side, 0]), np.array([-1.0, 0, 0])
    gripping = poses.from_axes(poses.cross(y, z), y, z)
    turned = poses.multiply(handles[:, None, 3:], poses.yaw(slants))
    return poses.make(handles[:, None, :3], poses.multiply(turned, gripping))


def _back(tool: np.ndarray) -> np.ndarray:
    """The pose some way before a tool's."""
    return poses.compose(tool, np.array([0, 0, -_BEFORE, 1, 0, 0, 0]))
