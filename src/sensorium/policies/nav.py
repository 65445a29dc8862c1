"""The planner that drives to objects."""

from __future__ import annotations

from typing import Any

import numpy as np

from sensorium.errors import OptionError
from sensorium.policies.commands import command
from sensorium.policies.policy import Policy
from sensorium.robots.drive import MOVES
from sensorium.scenarios import PathPlanner, kernels
from sensorium.suites import ArraySensor, DictSensor, ObservationSensor
from sensorium.tasks.nav import NavToObj
from sensorium.worlds import Envs, env_ids

PHASES = ("plan", "drive", "turn", "stop")
_PLAN, _DRIVE, _TURN, _STOP = range(4)
_CORNERS = 32
"""Corners of a path that are kept; a longer one is driven in parts."""
_ACCELERATION, _TURN_ACCELERATION = 1.0, 4.0
_LOOKAHEAD, _NEAR, _ARRIVAL = 0.35, 0.1, 0.1
"""Metres along the path to the point that the robot heads for, and at which a corner and the end count as reached."""
_PATIENCE = 2.0
"""Seconds without moving after which a robot backs up, and plans anew; and for which it waits to have succeeded."""
_PROGRESS = 0.05
"""Metres by which a way must get shorter in twice as many seconds, or the robot backs up too."""
_FACING = 2.0
"""1/s: yaw rate by the angle to the object."""
_FACED = 0.05
"""rad within which a robot faces the object."""


class NavPlanner(Policy):
    """Plans a way to where the object is near and seen, drives it, turns to the object and stops; anew if it got stuck.

    It knows the true state of the world: where things were put when the episode began, and where the robot and the
    object are; when it got stuck, it looks at what is there now. ``policy_phase`` ("plan", "drive", "turn", "stop") and
    ``policy_num_retries`` are its sensors; there is no ``grasp_pose``, for it grips nothing. Arms keep still.

    Args:
        task: a :class:`~sensorium.tasks.NavToObj`.
        max_retries: how often a way that failed is planned anew.
        speed: cruising speed, m/s. Default: 0.7 of what the robot can.
    """

    task: NavToObj

    def __init__(self, task: NavToObj, max_retries: int = 5, speed: float | None = None) -> None:
        super().__init__(task)
        self.robot = robot = task.robot
        self.max_retries = max_retries
        n = task.n_envs
        base = next(name for name, group in robot.groups.items() if group.description.kind == "base")
        part = robot.action_slices[base]
        names = [name.removeprefix(f"{base}.") for name in robot.action_names[part]]
        self._columns = {move: part.start + names.index(move) for move in MOVES if move in names}
        if not {"forward", "turn"} <= set(self._columns):
            raise OptionError(f"the planner drives by forward and turn, and the base of {robot.name!r} has {names}")
        limits = np.abs(robot.action_limits.double().numpy()).min(axis=1)
        self._speed = speed or 0.7 * float(limits[self._columns["forward"]])
        self._turn = float(limits[self._columns["turn"]])
        self.retries = np.zeros(n, np.int64)
        self._phase, self._corners, self._leg, self._state = np.zeros((4, n), np.int64)
        self._since, self._still, self._backing = np.zeros((3, n))
        self._path, self._command, self._anchor = np.zeros((n, _CORNERS, 2)), np.zeros((n, 3)), np.zeros((n, 3))
        self._to_end, self._least = np.zeros((n, _CORNERS)), np.zeros(n)  # m, from each corner; and so far
        self._side = np.ones(n)
        self._pose, self._up = np.zeros((n, 3)), np.zeros(n)

    def reset(self, envs: Envs = None) -> None:
        """Plan anew, from rest."""
        ids = env_ids(envs, self.task.n_envs)
        rows: Any = slice(None) if ids is None else ids
        for array in (self.retries, self._phase, self._corners, self._since, self._still, self._backing, self._command):
            array[rows] = 0
        self._side[rows] = 1.0

    # -- what it does -------------------------------------------------------------------------------------------------

    def get_action(self, observation: dict[str, Any]) -> np.ndarray:
        """One step along the ways."""
        dt, base = self.task.config.dt, self.robot.base_pose()
        running = ~self.task.is_done()
        kernels.headings(base[:, :3], base[:, 3:], self._pose, self._up)
        for env in np.flatnonzero(running & (self._phase == _PLAN)):
            self._plan(int(env))
        turned = self._command[:, 2].copy()
        self._follow(dt)
        angles = self.task.angles()
        driving = running & (self._phase == _DRIVE)
        self._go_on(driving & (self._state == kernels.ARRIVED), _TURN)
        self._retry(driving & (self._state == kernels.STUCK))
        turning = running & (self._phase == _TURN)
        rate = np.clip(_FACING * angles, -self._turn, self._turn)
        step = _TURN_ACCELERATION * dt
        self._command[turning, 2] = np.clip(rate, turned - step, turned + step)[turning]
        self._go_on(turning & (np.abs(angles) < _FACED) & (np.abs(turned) < 0.2), _STOP)
        self._watch(driving)
        self._since[running] += dt
        self._retry(running & (self._phase == _STOP) & (self._since > _PATIENCE))
        self._retry(turning & (self._since > 2 * _PATIENCE))
        wedged = driving & (self._since > 2 * _PATIENCE) & (self.retries < self.max_retries)
        self._backing[wedged], self._since[wedged], self._command[wedged] = 1.0, 0.0, 0.0
        return self._action()

    def _follow(self, dt: float) -> None:
        """Drive along the ways; whoever has none comes to rest."""
        kernels.follow(
            self._pose,
            self._path,
            self._corners,
            self._leg,
            self._command,
            self._anchor,
            self._still,
            self._backing,
            self._side,
            self._state,
            self._speed,
            self._turn,
            _ACCELERATION,
            _TURN_ACCELERATION,
            _LOOKAHEAD,
            _NEAR,
            _ARRIVAL,
            _PATIENCE,
            "left" in self._columns,
            dt,
        )

    def _watch(self, driving: np.ndarray) -> None:
        """Note which robots have come nearer to the end of their way."""
        rows, ahead = np.arange(len(driving)), np.minimum(self._leg + 1, _CORNERS - 1)
        away = self._path[rows, ahead] - self._pose[:, :2]
        left = np.hypot(away[:, 0], away[:, 1]) + self._to_end[rows, ahead]
        nearer = driving & (left < self._least - _PROGRESS)
        self._least[nearer], self._since[nearer] = left[nearer], 0.0

    def _plan(self, env: int) -> None:
        """Find a way to the nearest place from which the object is near and seen."""
        here = self._pose[env, :2]
        room, cells = self.task.drivable(env, look=bool(self.retries[env]))
        planner = PathPlanner(room)
        lengths = planner.lengths(here)
        cells = cells[np.isfinite(lengths[tuple(cells.T)])]
        self._phase[env], self._since[env], self._still[env], self._anchor[env] = _DRIVE, 0.0, 0.0, self._pose[env]
        if not len(cells):
            self._corners[env] = 0
            return
        goal = room.to_world(cells[lengths[tuple(cells.T)].argmin()])
        way = planner.plan(here, goal)
        assert way is not None  # its length is finite
        way[0] = here
        count = min(len(way), _CORNERS)
        self._path[env, :count], self._corners[env], self._leg[env] = way[:count], count, 0
        legs = np.hypot(*np.diff(self._path[env, :count], axis=0).T)
        self._to_end[env, :count] = np.append(np.cumsum(legs[::-1])[::-1], 0.0)
        self._least[env] = self._to_end[env, 0] + 2 * _PROGRESS

    def _go_on(self, envs: np.ndarray, phase: int) -> None:
        self._phase[envs], self._since[envs], self._corners[envs] = phase, 0.0, 0

    def _retry(self, envs: np.ndarray) -> None:
        """Plan anew in the envs of a mask, where that was not done too often."""
        again = envs & (self.retries < self.max_retries)
        self.retries[again] += 1
        self._phase[again] = _PLAN

    def _action(self) -> np.ndarray:
        robot = self.robot
        action = np.zeros((self.task.n_envs, robot.n_actions))
        for name, group in robot.groups.items():
            part = robot.action_slices[name]
            if group.description.kind == "arm":
                target = group.target
                action[:, part] = command(robot, group, target, group.forward(target), self.task.config.dt)
            elif group.description.kind == "gripper":
                action[:, part] = 1.0
        for column, move in enumerate(MOVES):
            if move in self._columns:
                action[:, self._columns[move]] = self._command[:, column]
        return action

    # -- what it tells ------------------------------------------------------------------------------------------------

    def phase(self, env: int) -> str:
        """What it is doing in an env."""
        return PHASES[int(self._phase[env])]

    def create_policy_sensors(self) -> list[ObservationSensor]:
        """``policy_phase``: dicts ``{"phase": ...}``; ``policy_num_retries`` (1,) int32."""

        def phases() -> list[dict[str, Any]]:
            return [{"phase": self.phase(env)} for env in range(self.task.n_envs)]

        return [
            DictSensor("policy_phase", phases, self.task.config.str_max_len),
            ArraySensor("policy_num_retries", lambda: self.retries[:, None], (1,), np.int32, low=0),
        ]
