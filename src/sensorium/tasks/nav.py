"""NavToObj: drive to one of several objects in a room, and face it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
import torch
from pydantic import Field, field_validator, model_validator
from scipy.ndimage import label

from sensorium import poses
from sensorium._arguments import checked_flag
from sensorium.errors import OptionError
from sensorium.options import checked_integer
from sensorium.robots import Robot
from sensorium.scenarios import OccupancyMap
from sensorium.suites import ArraySensor, ObservationSensor
from sensorium.tasks.checks import check_names
from sensorium.tasks.config import TaskConfig
from sensorium.tasks.floor_plan import CELL, FURNITURE, FloorPlan, approaches
from sensorium.tasks.objects import TaskObject, check_object_names, find_objects
from sensorium.tasks.task import Task
from sensorium.worlds import Box, Cylinder, Scene
from sensorium.worlds.primitives import Primitive

MARGIN = 0.08
"""Free space around the robot at its start and along the path that must exist, m."""
_STAND = Cylinder(radius=0.12, height=0.2, rgba=(0.75, 0.72, 0.68, 1.0))
_PARKED_Z = -5.0
"""Height at which furniture is kept that is absent from an episode, m."""
_WALL = 0.1
"""Thickness of the walls, m."""
_MAX_OWN_PARTS = 6
"""How many parts of the robot itself the line of sight may pass through."""
_MAX_LAYOUTS = 60
"""How many layouts are drawn to find one with a path."""
_MAX_SPEED, _MAX_TURN_RATE = 0.05, 0.1
"""Speeds below which the robot counts as stopped, m/s and rad/s."""


class NavToObjConfig(TaskConfig):
    """Options of :class:`NavToObj`."""

    robot: str = "diffdrive"
    """Name of the robot. It must drive: "diffdrive", "holonomic", "mobile_franka"."""
    dt: float = Field(default=0.05, gt=0)
    """Duration of one step of control and observation, s."""
    substeps: int = Field(default=10, ge=1)
    """Physics steps per step."""
    max_steps: int = Field(default=800, ge=1)
    """Steps after which an episode is truncated."""
    size: tuple[float, float] = (6.0, 5.0)
    """Extents of the room between the walls along x and y, m. Its centre is the origin of the world frame."""
    furniture: tuple[str, ...] = tuple(FURNITURE)
    """Names of the furniture from which each episode draws some; see ``sn.tasks.FURNITURE``."""
    n_furniture: int = Field(default=5, ge=0)
    """Number of pieces of furniture that are present."""
    objects: tuple[str, ...] = ("red_cube", "green_block", "yellow_tower", "soda_can", "orange_ball")
    """Names of the objects from which each episode draws some; see ``sn.tasks.OBJECTS``. They stand on the floor or on
    stands 0.2 m high."""
    n_objects: int = Field(default=3, ge=1)
    """Number of objects that are present."""
    distance: float = Field(default=0.6, gt=0.2)
    """Maximum distance to the target for success, m: on the floor, from the vertical cylinder of ``robot.radius``
    around the base to the bounding cylinder of the object."""
    angle: float = Field(default=0.35, gt=0)
    """Maximum angle between the robot's x axis and the direction to the target, seen from above, rad."""
    eye: float = Field(default=0.3, gt=0)
    """Height above the base's origin from which the target's centre must be in line of sight, m."""
    hold_steps: int = Field(default=10, ge=1)
    """For how many consecutive steps all conditions must hold, with the robot slower than 0.05 m/s and 0.1 rad/s."""
    start_distance: float = Field(default=2.0, ge=0)
    """Minimum distance from the target at the start, on the floor between the centres, m."""

    @field_validator("objects")
    @classmethod
    def _check_objects(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return check_object_names(value)

    @field_validator("furniture")
    @classmethod
    def _check_furniture(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) < len(value):
            raise ValueError(f"must name each piece only once; got {value}")
        check_names("piece of furniture", value, FURNITURE)
        return value

    @model_validator(mode="after")
    def _check_counts(self) -> NavToObjConfig:
        for count, option, names in (
            ("n_objects", "objects", self.objects),
            ("n_furniture", "furniture", self.furniture),
        ):
            if getattr(self, count) > len(names):
                raise ValueError(
                    f"{count} is {getattr(self, count)}, but {option} names only {len(names)}; name more, or lower "
                    f"{count}"
                )
        if min(self.size) < 2:
            raise ValueError(f"size must be at least 2 m along x and y, got {self.size}")
        return self


class NavToObj(Task[NavToObjConfig]):
    """Drive near the target object, see it, face it, and stop.

    Each episode draws the places of furniture, objects and robot. There is always a path: a layout in which the robot
    cannot reach a place from which it sees the target is drawn again.

    Attributes:
        objects: all objects of the scene, by name.
        target: (B,) index of the target among them.
        start_pose: (B, 7) pose of the target at the start of the episode, in the world frame.
        plans: layout of each env at the start of its episode.
    """

    name = "nav_to_obj"
    config_type = NavToObjConfig
    robot_type = Robot
    roles = ("target_obj",)

    def place_robot(self, robot: Robot) -> Robot:
        if not any(group.description.kind == "base" for group in robot.groups.values()):
            raise OptionError(f"the task {self.name!r} needs a robot that drives; {self.config.robot!r} does not")
        return robot

    def add_scene(self, scene: Scene) -> None:
        super().add_scene(scene)
        width, depth = self.config.size
        for name, x, y in (("east", 1, 0), ("west", -1, 0), ("north", 0, 1), ("south", 0, -1)):
            size = (_WALL, depth + 2 * _WALL, 1.0) if x else (width, _WALL, 1.0)
            pos = (x * (width + _WALL) / 2, y * (depth + _WALL) / 2, 0.5)
            scene.add_terrain(Box(size=size, rgba=(0.8, 0.8, 0.75, 1.0)), name=f"{name}_wall", pos=pos)
        self.objects: dict[str, TaskObject] = find_objects(self.config.objects)
        for number, (name, each) in enumerate(self.objects.items()):
            pos = (-width / 2 - 1, 0.2 * number, each.half[2])  # behind the west wall
            scene.add_object(each.shape, name=name, pos=pos, free=True)
        self._movable: dict[str, Primitive] = {name: FURNITURE[name] for name in self.config.furniture}
        self._movable |= {f"stand{number}": _STAND for number in range(self.config.n_objects)}
        for name, shape in self._movable.items():
            scene.add_object(_mocap_model(shape), name=name, pos=(0, 0, _PARKED_Z))

    def on_build(self) -> None:
        if not self.robot.can_be_placed:
            raise OptionError(f"the task {self.name!r} needs a robot that can be placed; its base is fixed")
        model = self.scene.model
        self._names = list(self.objects)
        self._bodies = np.array([model.body(name).id for name in self._names])
        self._mocap = {name: int(model.body(f"{name}/body").mocapid[0]) for name in self._movable}
        root = model.body(f"robot/{self.robot.options.base}").rootid[0]
        self._own_geoms = model.body_rootid[model.geom_bodyid] == root
        self.target = np.zeros(self.n_envs, np.int64)
        self.start_pose = np.tile(poses.IDENTITY, (self.n_envs, 1))
        self.plans = [FloorPlan(self.config.size) for _ in range(self.n_envs)]
        self._target_stand: list[tuple[str, ...]] = [()] * self.n_envs  # the stand below the target, if any
        self._held_steps = np.zeros(self.n_envs, np.int64)
        self._sight_cache = (-1, np.zeros(self.n_envs, bool))

    # -- an episode ---------------------------------------------------------------------------------------------------

    def begin_episodes(self, envs: np.ndarray, rngs: Sequence[np.random.Generator]) -> None:
        for env, rng in zip(envs.tolist(), rngs, strict=True):
            objects = self._choose(self._names, self.config.n_objects, rng)
            furniture = self._choose(list(self.config.furniture), self.config.n_furniture, rng)
            pose_rng = rng if self.config.randomize.poses else np.random.default_rng(self.seed)
            plan, raised, start = self._draw_layout(objects, furniture, pose_rng)
            self.plans[env] = plan
            self.target[env] = self._names.index(objects[0])
            self._furnish(env, plan, objects, raised)
            self.robot.place(start[:2], start[2], [env])
        self.scene.world.settle()
        self.start_pose[envs] = self.target_pose()[envs]
        self._held_steps[envs] = 0

    def _choose(self, names: list[str], count: int, rng: np.random.Generator) -> list[str]:
        order = rng.permutation(len(names)) if self.config.randomize.objects else np.arange(len(names))
        return [names[i] for i in order[:count]]

    def _draw_layout(
        self, objects: list[str], furniture: list[str], rng: np.random.Generator
    ) -> tuple[FloorPlan, np.ndarray, np.ndarray]:
        """Return a layout, which of the objects stand on stands, and x, y (m) and yaw (rad) of the robot's start."""
        config = self.config
        for _ in range(_MAX_LAYOUTS):
            plan = FloorPlan(config.size)
            raised = rng.random(len(objects)) < 0.5
            fits = all(plan.add(name, FURNITURE[name], 0.05, rng) for name in furniture)
            for name, high in zip(objects, raised, strict=True):
                radius = _STAND.radius if high else self.objects[name].radius
                fits = fits and plan.add(name, radius, 0.3, rng)
            start = self._draw_start(plan, objects[0], rng) if fits else None
            if start is not None:
                return plan, raised, start
        raise OptionError(
            f"found no layout of a room of {config.size} m with {config.n_furniture} pieces of furniture and "
            f"{config.n_objects} objects in which {config.robot!r} can reach the target from a start "
            f"{config.start_distance:g} m away; raise size, or lower n_furniture or start_distance"
        )

    def _draw_start(self, plan: FloorPlan, target: str, rng: np.random.Generator) -> np.ndarray | None:
        """Return x, y (m) and yaw (rad) of a start with a path to a place that sees the target, or None."""
        room = plan.occupancy().dilated(self.robot.radius + MARGIN)
        regions = label(room.free)[0]
        piece = plan.pieces[target]
        point = np.array([piece.x, piece.y])
        goals = approaches(plan.occupancy(without=target), room.free, point, self.reach(target))
        cells = np.argwhere(np.isin(regions, regions[tuple(goals.T)]))
        spots = room.to_world(cells)
        spots = spots[np.hypot(*(spots - point).T) >= self.config.start_distance]
        if not len(spots):
            return None
        return np.append(spots[rng.integers(len(spots))], rng.uniform(-np.pi, np.pi))

    def reach(self, target: str) -> float:
        """Return the distance between the centres of robot and object at which the robot is near enough, m."""
        check_names("object", [target], self.objects)
        return self.robot.radius + self.objects[target].radius + self.config.distance - 0.2

    def drivable(self, env: int, use_rays: bool = False) -> tuple[OccupancyMap, np.ndarray]:
        """Return the map of an env for the robot's centre, and its goal cells.

        Args:
            env: the env.
            use_rays: whether to make the map from the current state by casting rays. This takes far longer than the
                map of the layout at the start of the episode.

        Returns:
            The occupancy map, dilated by the robot's radius; and the cells, (n, 2) rows and columns, from which the
            target is near enough and in line of sight.
        """
        target = self.target_name(env)
        if checked_flag("use_rays", use_rays):
            (left, bottom), (right, top) = np.array([[-0.5], [0.5]]) * self.config.size
            bounds = (left - CELL, bottom - CELL, right + CELL, top + CELL)
            without_target = ("robot", target, *self._target_stand[env])
            room, rest = (
                OccupancyMap.from_scene(self.scene, CELL, (0.015, 0.5), bounds, exclude=exclude, env=env)
                for exclude in (("robot",), without_target)
            )
        else:
            room, rest = self.plans[env].occupancy(), self.plans[env].occupancy(without=target)
        room = room.dilated(self.robot.radius + MARGIN)
        return room, approaches(rest, room.free, self.target_pose()[env, :2], self.reach(target))

    def _furnish(self, env: int, plan: FloorPlan, objects: list[str], raised: np.ndarray) -> None:
        """Place furniture, stands and objects according to a layout."""
        world = self.scene.world
        pos, quat = world.bind("mocap_pos"), world.bind("mocap_quat")
        placed = {name: piece for name, piece in plan.pieces.items() if name in self._mocap}
        for number, (name, high) in enumerate(zip(objects, raised, strict=True)):
            if high:
                placed[f"stand{number}"] = plan.pieces[name]
        self._target_stand[env] = ("stand0",) if raised[0] else ()
        for name, piece in placed.items():
            centre = (piece.x, piece.y, _height(self._movable[name]) / 2)
            pos[env, self._mocap[name]] = torch.tensor(centre, dtype=pos.dtype)
            quat[env, self._mocap[name]] = torch.as_tensor(poses.yaw(piece.yaw), dtype=quat.dtype)
        for name, high in zip(objects, raised, strict=True):
            piece = plan.pieces[name]
            height = _STAND.height * bool(high) + self.objects[name].half[2] + 0.001
            self.scene.entities[name].set_pose((piece.x, piece.y, height), poses.yaw(piece.yaw), [env])
        world.changes.write([env])

    # -- state --------------------------------------------------------------------------------------------------------

    def target_name(self, env: int) -> str:
        """Return the name of the target in an env."""
        return self._names[int(self.target[checked_integer("env", env, 0, self.n_envs - 1)])]

    def target_pose(self) -> np.ndarray:
        """Return the pose of the target, (B, 7) in the world frame."""
        return self.body_poses(self._bodies[self.target])

    def role_bodies(self) -> np.ndarray:
        return self._bodies[self.target][:, None]

    def distances(self) -> np.ndarray:
        """Return the distance on the floor between the bounding cylinders of robot and target, (B,) m."""
        radii = np.array([each.radius for each in self.objects.values()])[self.target]
        offset = self.target_pose()[:, :2] - self.robot.base_pose()[:, :2]
        return np.hypot(offset[:, 0], offset[:, 1]) - radii - self.robot.radius

    def angles(self) -> np.ndarray:
        """Return the counter-clockwise angle by which the robot must turn to face the target, (B,) rad in (-pi, pi]."""
        local = self.robot.in_base_frame(self.target_pose())
        return np.arctan2(local[:, 1], local[:, 0])

    def in_sight(self) -> np.ndarray:
        """Return whether the target's centre is in line of sight of the robot's eye, (B,) bool.

        Parts of the robot itself do not hide it.
        """
        version = self.scene.world.changes.version
        if self._sight_cache[0] != version:
            self._sight_cache = (version, self._cast_sight())
        return self._sight_cache[1].copy()

    def _cast_sight(self) -> np.ndarray:
        world, model = self.scene.world, self.scene.model
        bodies = self._bodies[self.target]
        eye = self.robot.base_pose()[:, :3] + (0, 0, self.config.eye)
        ray = self.target_pose()[:, :3] - eye
        ray /= np.linalg.norm(ray, axis=1, keepdims=True)
        for _ in range(_MAX_OWN_PARTS):
            distance, geoms = (part.numpy()[:, 0] for part in world.rays(eye[:, None], ray[:, None]))
            own = (geoms >= 0) & self._own_geoms[geoms]
            if not own.any():
                break
            eye = eye + ray * np.where(own, distance + 1e-4, 0.0)[:, None]
        return (geoms >= 0) & (model.geom_bodyid[geoms] == bodies)

    def judge(self) -> np.ndarray:
        linear, angular = (part.numpy() for part in self.robot.get_velocity())
        good = (self.distances() <= self.config.distance) & (np.abs(self.angles()) <= self.config.angle)
        good &= np.hypot(linear[:, 0], linear[:, 1]) < _MAX_SPEED
        good &= np.abs(angular[:, 2]) < _MAX_TURN_RATE
        good &= self.in_sight()
        self._held_steps = np.where(good, self._held_steps + 1, 0)
        return self._held_steps >= self.config.hold_steps

    def describe_env(self, env: int) -> dict[str, Any]:
        name = self.target_name(env)
        return {"instruction": f"go to {self.objects[name].text}", "target_obj": name}

    # -- sensors ------------------------------------------------------------------------------------------------------

    def create_task_sensors(self, config: NavToObjConfig) -> list[ObservationSensor]:
        """Return the core sensors and those of the target.

        ``object_poses`` (7,) of the target in the frame of the robot's base; ``obj_start_pose`` (7,), its pose at the
        start of the episode in the world frame; ``nav_state``: distance (1,) m, angle (1,) rad and in_sight (1,), 0 or
        1, as success is judged.
        """

        def object_poses() -> dict[str, np.ndarray]:
            return {"target_obj": self.robot.in_base_frame(self.target_pose())}

        def nav_state() -> dict[str, np.ndarray]:
            state = {"distance": self.distances(), "angle": self.angles(), "in_sight": self.in_sight()}
            return {name: value[:, None] for name, value in state.items()}

        return [
            *super().create_task_sensors(config),
            ArraySensor("object_poses", object_poses, {"target_obj": (7,)}),
            ArraySensor("obj_start_pose", lambda: self.start_pose, (7,)),
            ArraySensor("nav_state", nav_state, {"distance": (1,), "angle": (1,), "in_sight": (1,)}),
        ]


def _mocap_model(shape: Primitive) -> mujoco.MjSpec:
    """Return a model of a mocap body, which stays where it is placed and can be placed differently in each env."""
    spec = mujoco.MjSpec()
    shape.add_to(spec.worldbody.add_body(name="body", mocap=True), "geom")
    return spec


def _height(shape: Primitive) -> float:
    return float(shape.size[2] if isinstance(shape, Box) else shape.height)  # type: ignore[attr-defined]
