"""The planner that opens drawers and doors by their handles."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sensorium import poses
from sensorium._arguments import checked
from sensorium.options import checked_integer
from sensorium.policies.collision_checker import CollisionChecker
from sensorium.policies.driving import drive_command, heading
from sensorium.policies.planner import NO_PLAN, Plan, Planner, Waypoint
from sensorium.robots import GroupHandle
from sensorium.tasks.opening import OpenPartTask

_STANDOFF = 0.11
"""Distance in front of the handle at which the tool stops first, m."""
_OVERSHOOT = 0.08
"""How much further than needed it opens, as a fraction of the joint's range."""
_STEP = 0.03
"""Distance of the handle between waypoints, m."""
_SLANTS = (0.0, 0.3, -0.3, 0.6, -0.6)
"""Angles about the bar at which it is gripped, relative to straight from the front, rad. At larger angles the hand hits
the front."""
_N_APPROACH = 8
"""Number of positions at which the motion to the handle is tested for collisions."""
_MAX_TESTED = 12
"""How many of the ways that the arm can follow are tested for collisions."""
_MAX_MISS = (0.008, 0.05)
"""Maximum error of inverse kinematics for a pose that counts as reached: m, rad."""
_MAX_SLIP = 0.03
"""Distance between tool and handle at which the grip is lost, m."""


@dataclass(frozen=True)
class _Way:
    """One way to open.

    Attributes:
        arm: name of the arm.
        tools: (n, 7) poses of its tool, in the world frame.
        bases: (n, 7) poses of the robot's base at the same time.
        joints: (k,) joint positions of the arm in front of the handle.
        cost: 1 for each pose that cannot be reached, plus a small cost of effort.
    """

    arm: str
    tools: np.ndarray
    bases: np.ndarray
    joints: np.ndarray
    cost: float


class OpeningPlanner(Planner):
    """A planner that grips the handle from the front, pulls it along its path, releases it and steps back.

    It makes a new plan if the handle slips. While a door turns, the tool turns with it as far as the arm can; the rest
    of the rotation is about the bar. If the arm cannot follow, a robot with a base drives along with the door.

    Args:
        task: the task.
        max_retries: how many new plans are made after failures in an episode.
    """

    task: OpenPartTask[Any]
    phases = (NO_PLAN, "retreat", "approach", "reach", "close", "pull", "release", "withdraw", "done")

    @checked
    def __init__(self, task: OpenPartTask[Any], max_retries: int = 5) -> None:
        super().__init__(task, max_retries)
        self._collisions = CollisionChecker(task, task.handles)
        self._base: GroupHandle | None = next(
            (group for group in self.robot.groups.values() if group.description.kind == "base"), None
        )
        self._bases: list[np.ndarray] = [np.zeros((0, 3))] * task.n_envs  # x, y, heading at each waypoint

    def make_plan(self, env: int) -> Plan | None:
        """Return a plan that opens the target from its current position."""
        env = checked_integer("env", env, 0, self.task.n_envs - 1)
        now, stroke = float(self.task.joint_position()[env]), float(self.task.stroke()[env])
        goal = min(self.task.config.open_fraction + _OVERSHOOT, 0.98) * stroke
        ends = self.task.handle_path(env, np.array([now, goal]))
        distance = max(float(np.linalg.norm(ends[1, :3] - ends[0, :3])), 2 * _STEP)
        positions = np.linspace(now, goal, math.ceil(distance / _STEP) + 1)
        way = min((self._best_way(env, arm, positions, False) for arm in self.arms), key=lambda each: each.cost)
        if way.cost >= 1 and self._base is not None:
            driving = (self._best_way(env, arm, positions, True) for arm in self.arms)
            way = min([way, *driving], key=lambda each: each.cost)
        waypoints = self._waypoints(env, way)
        stands = np.column_stack([way.bases[:, :2], heading(way.bases)])
        first_pull = [waypoint.phase for waypoint in waypoints].index("pull")
        after = len(waypoints) - first_pull - len(way.tools) + 1
        self._bases[env] = np.repeat(stands, [first_pull, *[1] * (len(way.tools) - 2), 1 + after], axis=0)
        return Plan(way.arm, waypoints, way.tools[0])

    def _waypoints(self, env: int, way: _Way) -> list[Waypoint]:
        tools, clear = way.tools, []
        if self.retries[env]:  # after a failure, step back with open fingers first
            clear = [Waypoint("retreat", _in_front(self.arms[way.arm].tcp_pose()[env]), 1.0, speed=0.25)]
        return [
            *clear,
            Waypoint("approach", _in_front(tools[0]), 1.0, turn=1.5, joints=way.joints),
            Waypoint("reach", tools[0], 1.0, speed=0.15),
            Waypoint("close", tools[0], 0.0, wait=0.35, check=True),
            *(Waypoint("pull", tool, 0.0, speed=0.2, check=True) for tool in tools[1:]),
            Waypoint("release", tools[-1], 1.0, wait=0.25),
            Waypoint("withdraw", _in_front(tools[-1]), 1.0, speed=0.2, wait=0.4, check=True),
            Waypoint("done", _in_front(tools[-1]), 1.0),
        ]

    # -- search -------------------------------------------------------------------------------------------------------

    def _best_way(self, env: int, name: str, positions: np.ndarray, driving: bool) -> _Way:
        """Return the way to hold the handle that an arm follows furthest, and then with the least effort.

        Args:
            env: the env.
            name: name of the arm.
            positions: (n,) positions of the target's joint.
            driving: whether the base drives along with the handle, or stands still.
        """
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
        best, best_cost, count = 0, math.inf, 2
        for way in np.argsort(cost)[:_MAX_TESTED].tolist():
            if cost[way] >= best_cost:
                break  # so do all that follow
            path = np.concatenate([np.linspace(now, joints[0, way], _N_APPROACH), joints[1:, way]])
            free = min(self._count_free(env, arm, path, bases, positions), int(reach[way]))
            if cost[way] + reach[way] - free < best_cost:
                best, best_cost, count = way, float(cost[way] + reach[way] - free), max(free, 2)
        return _Way(name, ways[:count, best], bases[:count], joints[0, best], best_cost)

    def _follow(self, env: int, arm: GroupHandle, ways: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Solve for the joint positions along m ways of the tool, with the base where it is.

        Args:
            env: the env.
            arm: the arm.
            ways: (n, m, 7) tool poses.

        Returns:
            Joint positions (1 + n, m, k), the first in front of the handle; and how many poses of each way the arm
            reaches, (m,).
        """
        n, m = ways.shape[:2]
        envs = np.full(m, env)
        joints, miss = arm.solve(_in_front(ways[0]), start=np.tile(arm.target[env], (m, 1)), iterations=60, envs=envs)
        path = [joints]
        reach = np.where((miss > _MAX_MISS).any(axis=1), 0, n)
        for number, tools in enumerate(ways):
            joints, miss = arm.solve(tools, start=joints, iterations=25, envs=envs, restart=False)
            reach = np.where((miss > _MAX_MISS).any(axis=1), np.minimum(reach, number), reach)
            path.append(joints)
        return np.stack(path), reach

    def _count_free(
        self, env: int, arm: GroupHandle, path: np.ndarray, bases: np.ndarray, positions: np.ndarray
    ) -> int:
        """Return at how many positions of the target's joint, counted from the first, the arm does not collide.

        Args:
            env: the env.
            arm: the arm.
            path: (_N_APPROACH + n, k) joint positions of the arm, including the motion to the handle.
            bases: (n, 7) poses of the base.
            positions: (n,) positions of the target's joint.
        """

        def padded(values: np.ndarray) -> np.ndarray:
            return np.concatenate([np.repeat(values[:1], len(path) - len(values)), values])

        joints = {f"robot/{name}": path[:, i] for i, name in enumerate(arm.description.joints)}
        if self._base is not None:
            away = poses.relative(poses.make(self.robot.options.pos, poses.yaw(self.robot.options.yaw)), bases)
            for name, values in zip(
                self._base.description.joints, (away[:, 0], away[:, 1], heading(away)), strict=True
            ):
                joints[f"robot/{name}"] = padded(values)
        joints[self.task.joint_name(env)] = padded(positions)
        return max(self._collisions.first_collision(env, joints) - _N_APPROACH, 0)

    # -- acting -------------------------------------------------------------------------------------------------------

    def succeeded(self, env: int, phase: str) -> bool:
        """Return whether the handle is held and has not slipped, or, after "withdraw", whether the target is open."""
        env = checked_integer("env", env, 0, self.task.n_envs - 1)
        if phase == "withdraw":
            return bool(self.task.is_open()[env])
        if phase == "close":
            return bool(self.task.is_held()[env])
        plan = self._plans[env]
        assert plan is not None
        tool, handle = self.arms[plan.arm].tcp_pose()[env], self.task.handle_pose()[env]
        offset = poses.relative(handle, tool)[:2]  # the tool may slide along the bar
        return bool(np.linalg.norm(offset) < _MAX_SLIP)

    def _action(self) -> np.ndarray:
        action = super()._action()
        if self._base is not None:
            goals = np.stack([stands[number] for stands, number in zip(self._bases, self._waypoint, strict=True)])
            part = self.robot.action_slices[self._base.description.name]
            action[:, part] = drive_command(self.robot, self._base, goals, self.task.config.dt)
        return action


def _tools(handles: np.ndarray, slants: np.ndarray, side: int) -> np.ndarray:
    """Return the poses (n, m, 7) of a tool that holds handles (n, 7).

    The tool's z axis points into the front, turned by ``slants`` (n, m) about the bar. The fingers are on both sides of
    the bar; ``side``, 1 or -1, is the direction of the tool's y axis.
    """
    y, z = np.array([0.0, side, 0]), np.array([-1.0, 0, 0])
    gripping = poses.from_axes(poses.cross(y, z), y, z)
    turned = poses.multiply(handles[:, None, 3:], poses.yaw(slants))
    return poses.make(handles[:, None, :3], poses.multiply(turned, gripping))


def _in_front(tool: np.ndarray) -> np.ndarray:
    """Return the tool pose that is _STANDOFF back along the tool's z axis."""
    return poses.compose(tool, np.array([0, 0, -_STANDOFF, 1, 0, 0, 0]))
