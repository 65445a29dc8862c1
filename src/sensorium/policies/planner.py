"""``Planner``: does a task by moving tools from waypoint to waypoint, with phases, checks and retries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sensorium import poses
from sensorium.errors import OptionError
from sensorium.policies.commands import command
from sensorium.policies.policy import Policy
from sensorium.suites import ArraySensor, DictSensor, ObservationSensor
from sensorium.worlds import Envs, env_ids

_REACHED = (0.01, 0.06)
"""Distance in metres and angle in radians at which a tool has arrived."""
_PATIENCE = 1.5
"""Seconds after which a tool that does not arrive is taken to have."""


@dataclass(frozen=True)
class Waypoint:
    """Where the tool goes next.

    Attributes:
        phase: what this is called.
        pose: of the tool centre point, (7,) in the world frame.
        opening: of the gripper, from 0 (closed) to 1 (open).
        speed: m/s.
        turn: rad/s.
        wait: seconds to stay there.
        joints: of the arm, (n,), at which the tool is there. Given, all joints go straight to them, the fastest by
            ``turn``. Default: the tool goes straight to the pose, and the joints follow.
        check: whether the plan's ``succeeded`` is asked when this is done, and a new plan made if it did not.
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
    """Which arm does it, by which way, and with which grip (7,) in the world frame."""

    arm: str
    waypoints: list[Waypoint]
    grip: np.ndarray


class Planner(Policy):
    """Moves one arm in each env along a plan. Derive from it and define :meth:`make_plan` and :meth:`succeeded`.

    It knows the true state of the world. ``policy_phase``, ``policy_num_retries`` and ``grasp_pose`` (in the frame of
    the robot's base) are its sensors.

    Args:
        task: what to do.
        max_retries: how often a plan that failed is made anew.
    """

    def __init__(self, task: Any, max_retries: int = 3) -> None:
        super().__init__(task)
        robot, n = task.robot, task.n_envs
        self.robot = robot
        if max_retries < 0:
            raise OptionError(f"max_retries must not be negative, got {max_retries}")
        self.max_retries = max_retries
        self._begun = False
        self.arms = {name: group for name, group in robot.groups.items() if group.description.kind == "arm"}
        self.retries = np.zeros(n, np.int64)
        self._plans: list[Plan | None] = [None] * n
        self._at = np.zeros(n, np.int64)
        self._since = np.zeros(n)  # seconds for which the command has been at the waypoint
        self._pose = {name: np.tile(poses.IDENTITY, (n, 1)) for name in self.arms}
        self._joints = {name: group.target.copy() for name, group in self.arms.items()}
        self._opening = np.ones(n)
        self._target = np.tile(poses.IDENTITY, (n, 1))
        self._speed, self._turn = np.full((2, n), 1e-9)
        self._bent = np.zeros(n, bool)  # whether the waypoint is one of joints
        self._bent_to = {name: joints.copy() for name, joints in self._joints.items()}
        self._active = {name: np.zeros(n, bool) for name in self.arms}

    # -- hooks --------------------------------------------------------------------------------------------------------

    def make_plan(self, env: int) -> Plan | None:
        """A plan for an env as it is now; None if there is none."""
        raise TypeError(f"{type(self).__name__} must define make_plan(env)")

    def succeeded(self, env: int, phase: str) -> bool:
        """Whether what a checked waypoint was to bring about is so."""
        return True

    # -- what it does -------------------------------------------------------------------------------------------------

    def reset(self, envs: Envs = None) -> None:
        """Make a plan for each env."""
        ids = env_ids(envs, self.task.n_envs)
        self._begun = True
        for env in range(self.task.n_envs) if ids is None else ids.tolist():
            self.retries[env] = 0
            for name, group in self.arms.items():
                self._joints[name][env] = group.target[env]
                self._pose[name][env] = group.tcp_pose()[env]
            self._begin(env)

    def _begin(self, env: int) -> None:
        plan = self.make_plan(env)
        self._plans[env] = plan
        for name, active in self._active.items():
            active[env] = plan is not None and plan.arm == name
        if plan is not None:
            self._go(env, 0)

    def _go(self, env: int, number: int) -> None:
        plan = self._plans[env]
        assert plan is not None
        waypoint = plan.waypoints[number]
        self._at[env], self._since[env] = number, 0.0
        self._target[env], self._opening[env] = waypoint.pose, waypoint.opening
        self._speed[env], self._turn[env] = waypoint.speed, waypoint.turn
        self._bent[env] = waypoint.joints is not None
        if waypoint.joints is not None:
            self._bent_to[plan.arm][env] = waypoint.joints

    def get_action(self, observation: dict[str, Any]) -> np.ndarray:
        """One step along the plans, which are made now where the task did not tell of its reset."""
        if not self._begun:
            self.reset()
        dt = self.task.config.dt
        running = ~self.task.is_done()
        for name, group in self.arms.items():
            moving = self._active[name] & running
            envs = np.flatnonzero(moving)
            if not len(envs):
                continue
            self._advance(name, group, envs, dt)
            self._watch(name, envs, group.tcp_pose()[envs], dt)
        return self._action()

    def _advance(self, name: str, group: Any, envs: np.ndarray, dt: float) -> None:
        """Move what an arm is told one step towards the waypoints of some envs."""
        joints, poses_said = self._joints[name], self._pose[name]
        turn = self._turn[envs] * dt
        bent = self._bent[envs]
        if not bent.all():
            some = envs[~bent]
            poses_said[some] = poses.towards(poses_said[some], self._target[some], self._speed[some] * dt, turn[~bent])
            joints[some] = group.solve(poses_said[some], start=joints[some], iterations=4, envs=some, restart=False)[0]
        if bent.any():
            some = envs[bent]
            way = self._bent_to[name][some] - joints[some]
            joints[some] += way / np.maximum(np.abs(way).max(axis=1) / turn[bent], 1)[:, None]
            poses_said[some] = group.forward(joints)[some]

    def _watch(self, name: str, envs: np.ndarray, tool: np.ndarray, dt: float) -> None:
        """Go on to the next waypoint in the envs whose tool has arrived."""
        target, pose = self._target[envs], self._pose[name][envs]
        said = np.linalg.norm(pose[:, :3] - target[:, :3], axis=1) < 1e-6
        said &= _angle(pose, target) < 1e-6
        bent = self._bent[envs]
        said[bent] = np.abs(self._bent_to[name] - self._joints[name])[envs[bent]].max(axis=1) < 1e-9
        near = (np.linalg.norm(tool[:, :3] - target[:, :3], axis=1) < _REACHED[0]) & (
            _angle(tool, target) < _REACHED[1]
        )
        self._since[envs] += np.where(said, dt, 0.0)
        for env in envs[said & (near | (self._since[envs] > _PATIENCE))].tolist():
            self._arrived(env)

    def _arrived(self, env: int) -> None:
        plan = self._plans[env]
        assert plan is not None
        number = int(self._at[env])
        waypoint = plan.waypoints[number]
        if self._since[env] < waypoint.wait:
            return
        if waypoint.check and not self.succeeded(env, waypoint.phase):
            if self.retries[env] < self.max_retries:
                self.retries[env] += 1
                self._begin(env)
        elif number + 1 < len(plan.waypoints):
            self._go(env, number + 1)

    def _action(self) -> np.ndarray:
        robot = self.robot
        action = np.zeros((self.task.n_envs, robot.n_actions))
        for name, group in robot.groups.items():
            part = robot.action_slices[name]
            if name in self.arms:
                action[:, part] = command(robot, group, self._joints[name], self._pose[name], self.task.config.dt)
            elif group.description.kind == "gripper":
                action[:, part] = self._gripper(name)[:, None]
        return action

    def _gripper(self, name: str) -> np.ndarray:
        """Openings of a gripper, (B,): as the plan of its arm says, else open."""
        for arm, group in self.arms.items():
            if group.description.gripper == name:
                return np.where(self._active[arm], self._opening, 1.0)
        return np.ones(self.task.n_envs)

    # -- what it tells ------------------------------------------------------------------------------------------------

    def phase(self, env: int) -> str:
        """What it is doing in an env."""
        plan = self._plans[env]
        return "no_plan" if plan is None else plan.waypoints[int(self._at[env])].phase

    def create_policy_sensors(self) -> list[ObservationSensor]:
        """``policy_phase``: dicts ``{"phase": ...}``; ``policy_num_retries`` (1,) int32; ``grasp_pose`` (7,), where it
        grips or means to, in the frame of the robot's base."""

        def grips() -> np.ndarray:
            rows = np.stack([poses.IDENTITY if plan is None else plan.grip for plan in self._plans])
            return self.robot.in_base_frame(rows)  # type: ignore[no-any-return]

        def phases() -> list[dict[str, Any]]:
            return [{"phase": self.phase(env)} for env in range(self.task.n_envs)]

        return [
            DictSensor("policy_phase", phases, self.task.config.str_max_len),
            ArraySensor("policy_num_retries", lambda: self.retries[:, None], (1,), np.int32, low=0),
            ArraySensor("grasp_pose", grips, (7,)),
        ]


def _angle(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.linalg.norm(poses.rotation_vector(poses.multiply(a[:, 3:], poses.conjugate(b[:, 3:]))), axis=1)
