"""``Room``: a room with random obstacles."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import mujoco
import numpy as np
from pydantic import Field, model_validator

from sensorium.errors import OptionError
from sensorium.options import Options
from sensorium.worlds import SceneModule

if TYPE_CHECKING:
    from sensorium.worlds import Scene

_MAX_TRIES = 400
"""Max number of positions that are tried for an obstacle."""


class RoomOptions(Options):
    """Options of a room. Its centre is the origin of the world, its floor is z = 0."""

    seed: int = Field(default=0, ge=0)
    """Seed of the obstacles."""
    size: tuple[float, float] = (10.0, 8.0)
    """Distance between the walls along x and y, m."""
    wall_height: float = Field(default=1.0, gt=0)
    """Height of the walls, m."""
    obstacles: int = Field(default=10, ge=0)
    """Number of boxes and cylinders."""
    obstacle_size: tuple[float, float] = (0.3, 1.0)
    """Min and max width of an obstacle, m."""
    gap: float = Field(default=0.9, gt=0)
    """Min distance between obstacles, and to the walls, m. It must be wide enough for the robot to pass."""
    clear: float = Field(default=0.8, ge=0)
    """Radius of the free circle around the origin, where the robot starts, m."""

    @model_validator(mode="after")
    def _check_sizes(self) -> RoomOptions:
        if min(self.size) <= 2 * self.clear:
            raise ValueError(f"size must be > {2 * self.clear:g} m, the clear circle, got {self.size}")
        if not 0 < self.obstacle_size[0] <= self.obstacle_size[1]:
            raise ValueError(f"obstacle_size must be (min, max) with 0 < min <= max, got {self.obstacle_size}")
        return self


class Room(SceneModule[RoomOptions]):
    """Walls, a floor and random obstacles: ``scene.add_module("room", sn.scenarios.Room(seed=3))``."""

    options_type = RoomOptions

    def __init__(self, options: RoomOptions | None = None, **values: object) -> None:
        super().__init__(options, **values)
        self._spec = _build(self.options)

    def attach(self, scene: Scene, name: str) -> None:
        """Add the room as terrain."""
        scene.add_terrain(self._spec, name=name)


def _build(options: RoomOptions) -> mujoco.MjSpec:
    spec = mujoco.MjSpec()
    spec.modelname = "room"
    plane, box, cylinder = (getattr(mujoco.mjtGeom, f"mjGEOM_{kind}") for kind in ("PLANE", "BOX", "CYLINDER"))
    floor = spec.worldbody.add_body(name="floor")
    floor.add_geom(name="floor", type=plane, size=[0, 0, 0.05], rgba=[0.45, 0.43, 0.4, 1])
    (width, depth), height = options.size, options.wall_height / 2
    walls = {
        "east": (width / 2 + 0.05, 0, 0.05, depth / 2 + 0.1),
        "west": (-width / 2 - 0.05, 0, 0.05, depth / 2 + 0.1),
        "north": (0, depth / 2 + 0.05, width / 2, 0.05),
        "south": (0, -depth / 2 - 0.05, width / 2, 0.05),
    }
    for name, (x, y, half_x, half_y) in walls.items():
        wall = spec.worldbody.add_body(name=f"{name}_wall", pos=[x, y, height])
        wall.add_geom(name=f"{name}_wall", type=box, size=[half_x, half_y, height], rgba=[0.8, 0.8, 0.75, 1])
    rng = np.random.default_rng(options.seed)
    taken: list[tuple[float, float, float]] = []
    for number in range(options.obstacles):
        x, y, radius = _spot(options, rng, taken)
        taken.append((x, y, radius))
        tall = rng.uniform(0.3, 1.2) / 2
        body = spec.worldbody.add_body(name=f"obstacle{number}", pos=[x, y, tall])
        colour = [*rng.uniform(0.2, 0.9, 3), 1]
        if rng.random() < 0.5:
            body.add_geom(name=f"obstacle{number}", type=cylinder, size=[radius, tall, 0], rgba=colour)
        else:
            angle, yaw = rng.uniform(math.radians(25), math.radians(65)), rng.uniform(0, math.pi)
            sides = [radius * math.cos(angle), radius * math.sin(angle), tall]
            body.quat = [math.cos(yaw / 2), 0, 0, math.sin(yaw / 2)]
            body.add_geom(name=f"obstacle{number}", type=box, size=sides, rgba=colour)
    return spec


def _spot(
    options: RoomOptions, rng: np.random.Generator, taken: list[tuple[float, float, float]]
) -> tuple[float, float, float]:
    """Return x and y of the next obstacle, and the radius of a circle around it, m."""
    half = np.array(options.size) / 2
    for _ in range(_MAX_TRIES):
        radius = float(rng.uniform(*options.obstacle_size)) / 2
        x, y = (float(value) for value in rng.uniform(-half, half))
        free = math.hypot(x, y) >= options.clear + radius
        free &= bool((np.abs([x, y]) <= half - radius - options.gap).all())
        free &= all(math.hypot(x - a, y - b) >= radius + r + options.gap for a, b, r in taken)
        if free:
            return x, y, radius
    raise OptionError(
        f"Room: there is no place for obstacle {len(taken) + 1} of {options.obstacles} in {options.size} m with gaps "
        f"of {options.gap:g} m; use fewer or smaller obstacles, or a larger size"
    )
