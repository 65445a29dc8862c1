"""The planner that drives to objects."""

from __future__ import annotations

from typing import Any

import numpy as np

from sensorium._arguments import checked
from sensorium.errors import OptionError
from sensorium.options import checked_integer
from sensorium.policies.commands import arm_command
from sensorium.policies.policy import Policy
from sensorium.robots.drive import MOVES
from sensorium.scenarios import PathPlanner, kernels
from sensorium.suites import ArraySensor, ObservationSensor
from sensorium.tasks.nav import NavToObj
from sensorium.worlds import Envs, env_ids

PHASES = ("plan", "drive", "turn", "stop")
"""Phases of the planner."""
_PLAN, _DRIVE, _TURN, _STOP = range(4)
_MAX_CORNERS = 32
"""Corners of a path that are stored. A longer path is driven in parts."""
_ACCELERATION, _TURN_ACCELERATION = 1.0, 4.0
"""m/s² and rad/s²."""
_LOOKAHEAD, _NEAR, _ARRIVAL = 0.35, 0.1, 0.1
"""Distance along the path to the point that the robot heads for, and distances at which a corner and the end count as
reached, m."""
_PATIENCE = 2.0
"""Seconds without motion after which the robot backs up and plans again, and seconds that it waits for success."""
_MIN_PROGRESS = 0.05
"""If the rest of the path gets shorter by less than this within 2 * _PATIENCE, the robot backs up too, m."""
_FACING_GAIN = 2.0
"""Yaw rate per angle to the target, 1/s."""
_FACING_TOLERANCE = 0.05
"""Angle to the target at which the robot faces it, rad."""


class NavPlanner(Policy):
    """A planner that drives to a place from which the target is near and seen, turns to the target and stops.

    It knows the true state of the world: the layout at the start of the episode, and the poses of the robot and the
    target. If the robot gets stuck, it maps the current state with rays and plans again. Its sensors are
    ``policy_phase`` ("plan", "drive", "turn", "stop") and ``policy_num_retries``. It grips nothing, so it has no
    ``grasp_pose``. Arms do not move.

    Args:
        task: the task.
        max_retries: how many new paths are planned after failures in an episode.
        speed: cruising speed, m/s. Default: 0.7 of the robot's maximum.

    Attributes:
        retries: (B,) number of new paths in the current episode.

    Raises:
        OptionError: the robot's base does not have the actions "forward" and "turn".
    """

    task: NavToObj
    phases = PHASES

    @checked
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
            raise OptionError(
                f"the planner needs a base with the actions 'forward' and 'turn'; that of {robot.name!r} has {names}"
            )
        limits = np.abs(robot.action_limits.double().numpy()).min(axis=1)
        self._speed = speed or 0.7 * float(limits[self._columns["forward"]])
        self._turn = float(limits[self._columns["turn"]])
        self.retries = np.zeros(n, np.int64)
        self._phase, self._corners, self._leg, self._state = np.zeros((4, n), np.int64)
        self._since, self._still, self._backing = np.zeros((3, n))
        self._path, self._command, self._anchor = np.zeros((n, _MAX_CORNERS, 2)), np.zeros((n, 3)), np.zeros((n, 3))
        self._to_end = np.zeros((n, _MAX_CORNERS))  # path length from each corner to the end, m
        self._min_left = np.zeros(n)  # shortest rest of the path so far, m
        self._side = np.ones(n)
        self._pose, self._up = np.zeros((n, 3)), np.zeros(n)

    def reset(self, envs: Envs = None) -> None:
        """Plan from rest in envs that start an episode."""
        ids = env_ids(envs, self.task.n_envs)
        rows: slice | np.ndarray = slice(None) if ids is None else ids
        for array in (self.retries, self._phase, self._corners, self._since, self._still, self._backing, self._command):
            array[rows] = 0
        self._side[rows] = 1.0

    # -- acting -------------------------------------------------------------------------------------------------------

    def get_action(self, observation: dict[str, Any]) -> np.ndarray:
        """Return the action of one step along the paths, (B, n)."""
        dt, base = self.task.config.dt, self.robot.base_pose()
        running = ~self.task.is_done()
        kernels.headings(base[:, :3], base[:, 3:], self._pose, self._up)
        for env in np.flatnonzero(running & (self._phase == _PLAN)):
            self._plan(int(env))
        turn_rate = self._command[:, 2].copy()
        self._follow(dt)
        angles = self.task.angles()
        driving = running & (self._phase == _DRIVE)
        self._enter(driving & (self._state == kernels.ARRIVED), _TURN)
        self._retry(driving & (self._state == kernels.STUCK))
        turning = running & (self._phase == _TURN)
        wanted = np.clip(_FACING_GAIN * angles, -self._turn, self._turn)
        max_change = _TURN_ACCELERATION * dt
        self._command[turning, 2] = np.clip(wanted, turn_rate - max_change, turn_rate + max_change)[turning]
        self._enter(turning & (np.abs(angles) < _FACING_TOLERANCE) & (np.abs(turn_rate) < 0.2), _STOP)
        self._track_progress(driving)
        self._since[running] += dt
        self._retry(running & (self._phase == _STOP) & (self._since > _PATIENCE))
        self._retry(turning & (self._since > 2 * _PATIENCE))
        stuck = driving & (self._since > 2 * _PATIENCE) & (self.retries < self.max_retries)
        self._backing[stuck], self._since[stuck], self._command[stuck] = 1.0, 0.0, 0.0
        return self._action()

    def _follow(self, dt: float) -> None:
        """Update the velocity commands along the paths. Robots without a path come to rest."""
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

    def _track_progress(self, driving: np.ndarray) -> None:
        """Restart the timer of robots that came closer to the end of their path."""
        rows, ahead = np.arange(len(driving)), np.minimum(self._leg + 1, _MAX_CORNERS - 1)
        offset = self._path[rows, ahead] - self._pose[:, :2]
        left = np.hypot(offset[:, 0], offset[:, 1]) + self._to_end[rows, ahead]
        nearer = driving & (left < self._min_left - _MIN_PROGRESS)
        self._min_left[nearer], self._since[nearer] = left[nearer], 0.0

    def _plan(self, env: int) -> None:
        """Plan a path to the nearest place from which the target is near and seen."""
        here = self._pose[env, :2]
        room, cells = self.task.drivable(env, use_rays=bool(self.retries[env]))
        planner = PathPlanner(room)
        lengths = planner.lengths(here)
        cells = cells[np.isfinite(lengths[tuple(cells.T)])]
        self._phase[env], self._since[env], self._still[env], self._anchor[env] = _DRIVE, 0.0, 0.0, self._pose[env]
        if not len(cells):
            self._corners[env] = 0
            return
        goal = room.to_world(cells[lengths[tuple(cells.T)].argmin()])
        path = planner.plan(here, goal)
        assert path is not None  # its length is finite
        path[0] = here
        count = min(len(path), _MAX_CORNERS)
        self._path[env, :count], self._corners[env], self._leg[env] = path[:count], count, 0
        legs = np.hypot(*np.diff(self._path[env, :count], axis=0).T)
        self._to_end[env, :count] = np.append(np.cumsum(legs[::-1])[::-1], 0.0)
        self._min_left[env] = self._to_end[env, 0] + 2 * _MIN_PROGRESS

    def _enter(self, envs: np.ndarray, phase: int) -> None:
        """Enter a phase in the envs of a mask."""
        self._phase[envs], self._since[envs], self._corners[envs] = phase, 0.0, 0

    def _retry(self, envs: np.ndarray) -> None:
        """Plan again in the envs of a mask that have retries left."""
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
                action[:, part] = arm_command(robot, group, target, group.forward(target), self.task.config.dt)
            elif group.description.kind == "gripper":
                action[:, part] = 1.0
        for column, move in enumerate(MOVES):
            if move in self._columns:
                action[:, self._columns[move]] = self._command[:, column]
        return action

    # -- sensors ------------------------------------------------------------------------------------------------------

    def phase(self, env: int) -> str:
        """Return the current phase in an env."""
        return PHASES[int(self._phase[checked_integer("env", env, 0, self.task.n_envs - 1)])]

    def create_policy_sensors(self) -> list[ObservationSensor]:
        """Return ``policy_phase``, dicts ``{"phase": name, "index": int}``, and ``policy_num_retries`` (1,) int32."""
        return [
            self._phase_sensor(),
            ArraySensor("policy_num_retries", lambda: self.retries[:, None], (1,), np.int32, low=0),
        ]
