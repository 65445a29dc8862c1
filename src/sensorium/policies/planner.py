"""``Planner``: a policy that moves tools from waypoint to waypoint, with phases, checks and retries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sensorium import poses
from sensorium._arguments import checked
from sensorium.errors import OptionError
from sensorium.options import checked_integer
from sensorium.policies.commands import arm_command
from sensorium.policies.policy import Policy
from sensorium.robots import GroupHandle
from sensorium.suites import ArraySensor, ObservationSensor
from sensorium.tasks.task import Task
from sensorium.worlds import Envs, env_ids

NO_PLAN = "no_plan"
"""Phase of an env for which there is no plan."""
_REACHED = (0.01, 0.06)
"""Distance (m) and angle (rad) at which a tool has reached its waypoint."""
_PATIENCE = 1.5
"""Seconds after which a waypoint counts as reached although the tool is not there."""
_SETTLING = 0.07
"""Seconds that a tool needs to follow its command to a waypoint, for the estimated duration of a plan."""
_MAX_PACE = 4.0
"""How many times as fast as its waypoints say a tool moves at most, to finish in time."""


@dataclass(frozen=True)
class Waypoint:
    """A pose of the tool on the way to the goal.

    Attributes:
        phase: its name.
        pose: pose of the tool centre point, (7,) in the world frame.
        opening: opening of the gripper, from 0 (closed) to 1 (open).
        speed: m/s.
        turn: rad/s.
        wait: seconds to stay there.
        check: whether ``succeeded`` of the planner is called when the waypoint is done. If it returns False, a new plan
            is made.
        joints: joint positions of the arm, (n,), at which the tool has this pose. If given, all joints move straight to
            them, the fastest at ``turn``. Default: the tool moves straight to the pose, and the joints follow.
    """

    phase: str
    pose: np.ndarray
    opening: float
    speed: float = 0.35
    turn: float = 2.0
    wait: float = 0.0
    check: bool = False
    joints: np.ndarray | None = None


@dataclass(frozen=True)
class Plan:
    """The arm that acts, its waypoints, and its grip (7,) in the world frame."""

    arm: str
    waypoints: list[Waypoint]
    grip: np.ndarray


class Planner(Policy):
    """A policy that moves one arm per env along a plan.

    Derive from it, define :meth:`make_plan` and :meth:`succeeded`, and name the phases of the plans in ``phases``,
    ``NO_PLAN`` first. A planner knows the true state of the world. Its sensors are ``policy_phase``,
    ``policy_num_retries`` and ``grasp_pose`` (in the frame of the robot's base).

    A plan that would take longer than what is left of ``max_steps`` is executed faster, at most four times as fast.

    Args:
        task: the task.
        max_retries: how many new plans are made after failures in an episode.

    Attributes:
        arms: the arms of the robot by name.
        retries: (B,) number of new plans in the current episode.

    Raises:
        OptionError: ``max_retries`` is negative.
    """

    @checked
    def __init__(self, task: Task[Any], max_retries: int = 3) -> None:
        super().__init__(task)
        robot, n = task.robot, task.n_envs
        self.robot = robot
        if max_retries < 0:
            raise OptionError(f"max_retries must be >= 0, got {max_retries}")
        self.max_retries = max_retries
        self._is_reset = False
        self.arms: dict[str, GroupHandle] = {
            name: group for name, group in robot.groups.items() if group.description.kind == "arm"
        }
        self.retries = np.zeros(n, np.int64)
        self._plans: list[Plan | None] = [None] * n
        self._waypoint = np.zeros(n, np.int64)
        self._dwell = np.zeros(n)  # seconds for which the command has been at the waypoint
        # What the arms are commanded: tool poses in the world frame, joint positions, and gripper openings.
        self._pose = {name: np.tile(poses.IDENTITY, (n, 1)) for name in self.arms}
        self._joints = {name: group.target.copy() for name, group in self.arms.items()}
        self._opening = np.ones(n)
        # The current waypoint of each env.
        self._target = np.tile(poses.IDENTITY, (n, 1))
        self._speed, self._turn = np.full((2, n), 1e-9)
        self._pace = np.ones(n)  # of the current plan
        self._by_joints = np.zeros(n, bool)  # whether the waypoint has joint positions
        self._target_joints = {name: joints.copy() for name, joints in self._joints.items()}
        self._active = {name: np.zeros(n, bool) for name in self.arms}

    # -- hooks --------------------------------------------------------------------------------------------------------

    def make_plan(self, env: int) -> Plan | None:
        """Return a plan for the current state of an env, or None if there is none."""
        raise TypeError(f"{type(self).__name__} must define make_plan(env)")

    def succeeded(self, env: int, phase: str) -> bool:
        """Return whether a waypoint with ``check=True`` had the wanted effect."""
        return True

    # -- acting -------------------------------------------------------------------------------------------------------

    def reset(self, envs: Envs = None) -> None:
        """Make a plan for each env that starts an episode."""
        ids = env_ids(envs, self.task.n_envs)
        self._is_reset = True
        for env in range(self.task.n_envs) if ids is None else ids.tolist():
            self.retries[env] = 0
            for name, group in self.arms.items():
                self._joints[name][env] = group.target[env]
                self._pose[name][env] = group.tcp_pose()[env]
            self._start_plan(env)

    def _start_plan(self, env: int) -> None:
        plan = self.make_plan(env)
        self._plans[env] = plan
        for name, active in self._active.items():
            active[env] = plan is not None and plan.arm == name
        if plan is not None:
            self._pace[env] = self._pace_of(env, plan)
            self._go_to(env, 0)

    def _pace_of(self, env: int, plan: Plan) -> float:
        """Return how many times as fast as its waypoints say a plan must be executed to end within the episode."""
        config = self.task.config
        pose, joints = self._pose[plan.arm][env], self._joints[plan.arm][env]
        moving = still = 0.0
        for waypoint in plan.waypoints:
            if waypoint.joints is None:
                distance, angle = np.linalg.norm(waypoint.pose[:3] - pose[:3]), _angle(pose[None], waypoint.pose[None])
                moving += max(float(distance) / waypoint.speed, float(angle[0]) / waypoint.turn)
            else:
                moving += float(np.abs(waypoint.joints - joints).max()) / waypoint.turn
                joints = waypoint.joints
            still += waypoint.wait + _SETTLING
            pose = waypoint.pose
        left = (config.max_steps - self.task.step_count[env]) * config.dt - still
        return float(np.clip(moving / max(left, 1e-9), 1.0, _MAX_PACE))

    def _go_to(self, env: int, number: int) -> None:
        """Make waypoint ``number`` the current one."""
        plan = self._plans[env]
        assert plan is not None
        waypoint = plan.waypoints[number]
        self._waypoint[env], self._dwell[env] = number, 0.0
        self._target[env], self._opening[env] = waypoint.pose, waypoint.opening
        pace = self._pace[env]
        self._speed[env], self._turn[env] = waypoint.speed * pace, waypoint.turn * pace
        self._by_joints[env] = waypoint.joints is not None
        if waypoint.joints is not None:
            self._target_joints[plan.arm][env] = waypoint.joints

    def get_action(self, observation: dict[str, Any]) -> np.ndarray:
        """Return the action of one step along the plans, (B, n).

        If the policy is not registered with the task, the plans are made at the first call.
        """
        if not self._is_reset:
            self.reset()
        dt = self.task.config.dt
        running = ~self.task.is_done()
        for name, group in self.arms.items():
            moving = self._active[name] & running
            envs = np.flatnonzero(moving)
            if not len(envs):
                continue
            self._advance(name, group, envs, dt)
            self._check_arrivals(name, envs, group.tcp_pose()[envs], dt)
        return self._action()

    def _advance(self, name: str, group: GroupHandle, envs: np.ndarray, dt: float) -> None:
        """Move the commands of an arm one step towards the waypoints of some envs."""
        joints, pose = self._joints[name], self._pose[name]
        turn = self._turn[envs] * dt
        by_joints = self._by_joints[envs]
        if not by_joints.all():
            some = envs[~by_joints]
            pose[some] = poses.towards(pose[some], self._target[some], self._speed[some] * dt, turn[~by_joints])
            joints[some] = group.solve(pose[some], start=joints[some], iterations=4, envs=some, restart=False)[0]
        if by_joints.any():
            some = envs[by_joints]
            offset = self._target_joints[name][some] - joints[some]
            joints[some] += offset / np.maximum(np.abs(offset).max(axis=1) / turn[by_joints], 1)[:, None]
            pose[some] = group.forward(joints)[some]

    def _check_arrivals(self, name: str, envs: np.ndarray, tool: np.ndarray, dt: float) -> None:
        """Continue to the next waypoint in the envs whose tool has reached the current one."""
        target, pose = self._target[envs], self._pose[name][envs]
        commanded = np.linalg.norm(pose[:, :3] - target[:, :3], axis=1) < 1e-6
        commanded &= _angle(pose, target) < 1e-6
        by_joints = self._by_joints[envs]
        offset = np.abs(self._target_joints[name] - self._joints[name])[envs[by_joints]]
        commanded[by_joints] = offset.max(axis=1) < 1e-9
        near = (np.linalg.norm(tool[:, :3] - target[:, :3], axis=1) < _REACHED[0]) & (
            _angle(tool, target) < _REACHED[1]
        )
        self._dwell[envs] += np.where(commanded, dt, 0.0)
        for env in envs[commanded & (near | (self._dwell[envs] > _PATIENCE))].tolist():
            self._finish_waypoint(env)

    def _finish_waypoint(self, env: int) -> None:
        plan = self._plans[env]
        assert plan is not None
        number = int(self._waypoint[env])
        waypoint = plan.waypoints[number]
        if self._dwell[env] < waypoint.wait:
            return
        if waypoint.check and not self.succeeded(env, waypoint.phase):
            if self.retries[env] < self.max_retries:
                self.retries[env] += 1
                self._start_plan(env)
        elif number + 1 < len(plan.waypoints):
            self._go_to(env, number + 1)

    def _action(self) -> np.ndarray:
        robot = self.robot
        action = np.zeros((self.task.n_envs, robot.n_actions))
        for name, group in robot.groups.items():
            part = robot.action_slices[name]
            if name in self.arms:
                action[:, part] = arm_command(robot, group, self._joints[name], self._pose[name], self.task.config.dt)
            elif group.description.kind == "gripper":
                action[:, part] = self._gripper(name)[:, None]
        return action

    def _gripper(self, name: str) -> np.ndarray:
        """Return the commanded opening of a gripper, (B,): that of its arm's plan, or open."""
        for arm, group in self.arms.items():
            if group.description.gripper == name:
                return np.where(self._active[arm], self._opening, 1.0)
        return np.ones(self.task.n_envs)

    # -- sensors ------------------------------------------------------------------------------------------------------

    def phase(self, env: int) -> str:
        """Return the phase of the current waypoint in an env, or ``NO_PLAN``."""
        plan = self._plans[checked_integer("env", env, 0, self.task.n_envs - 1)]
        return NO_PLAN if plan is None else plan.waypoints[int(self._waypoint[env])].phase

    def create_policy_sensors(self) -> list[ObservationSensor]:
        """Return the sensors of the planner.

        ``policy_phase``: dicts ``{"phase": name, "index": int}``, with the index of :meth:`get_all_phases`;
        ``policy_num_retries`` (1,) int32; ``grasp_pose`` (7,), the grip of the plan in the frame of the robot's base.
        """

        def grips() -> np.ndarray:
            rows = np.stack([poses.IDENTITY if plan is None else plan.grip for plan in self._plans])
            return self.robot.in_base_frame(rows)

        return [
            self._phase_sensor(),
            ArraySensor("policy_num_retries", lambda: self.retries[:, None], (1,), np.int32, low=0),
            ArraySensor("grasp_pose", grips, (7,)),
        ]


def _angle(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.linalg.norm(poses.rotation_vector(poses.multiply(a[:, 3:], poses.conjugate(b[:, 3:]))), axis=1)
