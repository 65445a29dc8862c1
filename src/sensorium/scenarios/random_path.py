"""``RandomPath``: drive to random free points, around obstacles."""

from __future__ import annotations

import math

import numpy as np
import torch
from pydantic import Field

from sensorium._arguments import checked
from sensorium.errors import OptionError
from sensorium.options import Options
from sensorium.robots import Robot
from sensorium.scenarios import kernels
from sensorium.scenarios.occupancy import OccupancyMap
from sensorium.scenarios.planning import PathPlanner
from sensorium.scenarios.scenario import Scenario
from sensorium.worlds import Scene

_MAX_CORNERS = 32
"""Max number of corners of a stored path; a longer one is driven in parts."""
_MAX_TRIES = 16
"""Max number of draws for a goal that is far enough away."""


class RandomPathOptions(Options):
    """Options of the scenario "random-path"."""

    map: str | None = None
    """An occupancy map in ROS's format: its yaml file, or the folder of its map.yaml. Default: made from the scene."""
    resolution: float = Field(default=0.05, gt=0)
    """Cell size of a map made from the scene, m."""
    margin: float = Field(default=0.1, ge=0)
    """Min distance to obstacles beyond the radius of the robot, m."""
    speed: float | None = Field(default=None, gt=0)
    """Cruising speed, m/s. Default: 0.7 of the max speed of the robot."""
    acceleration: float = Field(default=1.0, gt=0)
    """Max acceleration, m/s²."""
    turn_acceleration: float = Field(default=4.0, gt=0)
    """Max yaw acceleration, rad/s²."""
    lookahead: float = Field(default=0.4, gt=0)
    """Distance along the path to the target point of pure pursuit, m."""
    min_distance: float = Field(default=1.5, ge=0)
    """Min distance to a new goal, if the map allows it, m."""
    patience: float = Field(default=2.0, gt=0)
    """Seconds without moving after which the robot backs up and chooses another goal."""
    goals: int | None = Field(default=None, ge=1)
    """Number of goals after which an env is done. Default: never done."""
    random_start: bool | None = None
    """Whether each episode begins at a random free point. Default: True if the base of the robot moves freely."""


class RandomPath(Scenario[RandomPathOptions]):
    """Plans a path on the map to a random free point, follows it, and chooses the next goal on arrival.

    The map shows env 0 at the time when the scenario is created, and is used for all envs. It does not contain later
    changes.

    Buffers: ``goal`` (B, 2) m; ``path`` (B, 32, 2) m, of which ``corners`` (B,) are in use and ``leg`` (B,) is driven;
    ``command`` (B, 3), forward, left and turn; ``reached`` (B,), the number of reached goals; ``draws`` (B,), the
    number of random draws; and the detection of stuck robots, ``anchor`` (B, 3), ``still``, ``backing`` and ``side``
    (B,).

    Attributes:
        map: the occupancy map.
        planner: plans on the map, dilated by the radius of the robot and the margin.
    """

    name = "random-path"
    options_type = RandomPathOptions

    @checked
    def __init__(self, scene: Scene, robot: Robot, seed: int, options: RandomPathOptions) -> None:
        super().__init__(scene, robot, seed, options)
        self._need("forward", "turn")
        if options.random_start and not robot.can_be_placed:
            raise OptionError(f"random_start: {robot.name!r} has a fixed base, so it cannot be placed")
        self._starts = robot.can_be_placed if options.random_start is None else options.random_start
        if options.map is None:
            self.map = OccupancyMap.from_scene(scene, options.resolution)
        else:
            self.map = OccupancyMap.load(options.map)
        self.planner = PathPlanner(self.map.dilated(robot.radius + options.margin))
        limits = np.abs(self._limits).min(axis=1)
        self._speed = options.speed or 0.7 * float(limits[self._moves["forward"]])
        self._turn = float(limits[self._moves["turn"]])
        self.goal, self._goal = self._buffer(2)
        self.path, self._path = self._buffer(_MAX_CORNERS, 2)
        self.corners, self._corners = self._buffer(dtype=np.int64)
        self.leg, self._leg = self._buffer(dtype=np.int64)
        self.command, self._command = self._buffer(3)
        self.reached, self._reached = self._buffer(dtype=np.int64)
        self.draws, self._draws = self._buffer(dtype=np.int64)
        self.anchor, self._anchor = self._buffer(3)
        self.still, self._still = self._buffer()
        self.backing, self._backing = self._buffer()
        self.side, self._side = self._buffer()
        self._state = np.zeros(scene.n_envs, np.int64)
        self._random = self._keys(2)
        self._cells: dict[int, np.ndarray] = {}
        self._side[:] = 1.0
        self.reset()

    def _begin(self, ids: np.ndarray) -> None:
        for array in (self._goal, self._path, self._corners, self._leg, self._command, self._reached, self._still):
            array[ids] = 0
        self._backing[ids], self._side[ids] = 0.0, 1.0
        if self._starts:
            pose = self._pose()
            spots = np.array([self._draw_point(int(env), pose[env, :2], 0.0) for env in ids])
            yaws = [2 * math.pi * kernels.uniform(self._random, 1, int(env), self._draws[env]) for env in ids]
            self._robot.place(spots, yaws, envs=ids)
            self._scene.forward(envs=ids)
        self._anchor[ids] = self._pose()[ids]

    def _decide(self) -> torch.Tensor:
        pose, options = self._pose(), self.options
        kernels.follow(
            pose,
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
            options.acceleration,
            options.turn_acceleration,
            options.lookahead,
            0.25 * options.lookahead,
            0.5 * options.lookahead,
            options.patience,
            "left" in self._moves,
            self._scene.dt,
        )
        for env in np.flatnonzero(self._state):
            self._next(int(env), pose[env, :2])
        return self._all_actions(self._command)

    def _done(self) -> np.ndarray:
        if self.options.goals is None:
            return super()._done()
        return self._reached >= self.options.goals

    def _next(self, env: int, here: np.ndarray) -> None:
        """Choose the next goal and plan a path to it; keep the goal if the path covered only a part of the way."""
        arrived = self._state[env] == kernels.ARRIVED and self._corners[env] >= 2
        on_the_way = arrived and bool((self._path[env, self._corners[env] - 1] != self._goal[env]).any())
        way = self.planner.plan(here, self._goal[env]) if on_the_way else None
        if way is None:
            self._reached[env] += arrived and not on_the_way
            self._goal[env] = self._draw_point(env, here, self.options.min_distance)
            way = self.planner.plan(here, self._goal[env])
        assert way is not None  # goals are drawn from cells that the robot can reach
        way[0], way[-1] = here, self._goal[env]
        count = min(len(way), _MAX_CORNERS)
        self._path[env, :count], self._corners[env], self._leg[env] = way[:count], count, 0

    def _draw_point(self, env: int, here: np.ndarray, away: float) -> np.ndarray:
        """Return the centre of a random free cell that can be reached, at least ``away`` metres away if possible."""
        region = int(self.planner.regions[self.planner.cell(here)])
        if region not in self._cells:
            self._cells[region] = np.argwhere(self.planner.regions == region)
        cells = self._cells[region]
        point = here
        for _ in range(_MAX_TRIES):
            number = int(kernels.uniform(self._random, 0, env, self._draws[env]) * len(cells))
            self._draws[env] += 1
            point = self.planner.room.to_world(cells[number])
            if math.hypot(*(point - here)) >= away:
                break
        return point
