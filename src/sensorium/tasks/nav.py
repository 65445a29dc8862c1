"""NavToObj: drive to one of several things in a room, and face it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
import torch
from pydantic import Field, field_validator, model_validator
from scipy.ndimage import label

from sensorium import poses
from sensorium.errors import OptionError
from sensorium.robots import Robot, SensorRig
from sensorium.scenarios import OccupancyMap
from sensorium.suites import ArraySensor, ObservationSensor
from sensorium.tasks.config import TaskConfig
from sensorium.tasks.floor_plan import CELL, FURNITURE, FloorPlan, approaches
from sensorium.tasks.objects import Thing, find, look_up
from sensorium.tasks.task import Task
from sensorium.worlds import Box, Cylinder, Scene
from sensorium.worlds.primitives import Primitive

MARGIN = 0.08
"""Metres that are kept free around the robot, where it starts and on the way that there must be."""
_STAND = Cylinder(radius=0.12, height=0.2, rgba=(0.75, 0.72, 0.68, 1.0))
_BELOW = -5.0
"""Where furniture waits that is not there, m below the floor."""
_WALL = 0.1
_OWN_PARTS = 6
"""Parts of itself that a robot may look through on the way to an object."""
_LAYOUTS = 60
"""Layouts that are drawn to find one with a way."""


class NavToObjConfig(TaskConfig):
    """Options of :class:`NavToObj`."""

    robot: str = "diffdrive"
    """Which robot: one that drives, as "diffdrive", "holonomic", "mobile_franka"."""
    dt: float = Field(default=0.05, gt=0)
    """Seconds of one step: of control and of observation."""
    substeps: int = Field(default=10, ge=1)
    """Physics steps in one step."""
    max_steps: int = Field(default=800, ge=1)
    """Steps after which an episode is truncated."""
    size: tuple[float, float] = (6.0, 5.0)
    """Of the room, between the walls along x and y, m. Its middle is the origin of the world."""
    furniture: tuple[str, ...] = tuple(FURNITURE)
    """Names of pieces of furniture, of which some are there in each episode; see ``sn.tasks.FURNITURE``."""
    n_furniture: int = Field(default=5, ge=0)
    """How many of them are there."""
    objects: tuple[str, ...] = ("red_cube", "green_block", "yellow_tower", "soda_can", "orange_ball")
    """Names of things, of which some are there in each episode, on the floor or on stands 0.2 m high; see
    ``sn.tasks.THINGS``."""
    n_objects: int = Field(default=3, ge=1)
    """How many of them are there."""
    distance: float = Field(default=0.6, gt=0.2)
    """How near the robot must come, m: on the floor, from the vertical cylinder of ``robot.radius`` around its base to
    the one around the object."""
    angle: float = Field(default=0.35, gt=0)
    """By how much its x axis may point past the object, rad, seen from above."""
    eye: float = Field(default=0.3, gt=0)
    """Height above the origin of its base from which it must see the middle of the object, m."""
    hold_steps: int = Field(default=10, ge=1)
    """For how many steps it must stand so: slower than 0.05 m/s and 0.1 rad/s."""
    start_distance: float = Field(default=2.0, ge=0)
    """Least distance from the object at which it starts, on the floor from middle to middle, m."""
    rig_cameras: bool = False
    """Whether the cameras of the robot's own rig are there, and observed."""

    @field_validator("objects")
    @classmethod
    def _objects(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or len(set(value)) < len(value):
            raise ValueError("name at least one, each once")
        find(value)
        return value

    @field_validator("furniture")
    @classmethod
    def _furniture(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) < len(value):
            raise ValueError("name each once")
        look_up("piece of furniture", value, FURNITURE)
        return value

    @model_validator(mode="after")
    def _counts(self) -> NavToObjConfig:
        for many, names in (("n_objects", self.objects), ("n_furniture", self.furniture)):
            if getattr(self, many) > len(names):
                raise ValueError(f"{many} is {getattr(self, many)}, and {len(names)} are named; name more or lower it")
        if min(self.size) < 2:
            raise ValueError(f"size: a room has at least 2 m along x and y, got {self.size}")
        return self


class NavToObj(Task[NavToObjConfig]):
    """Come near the object that is meant, see it, face it, and stop.

    In each episode furniture, objects and the robot stand anew. There is always a way: what is drawn is looked at on a
    map, and drawn again if the robot could not get to where it sees the object.

    Attributes:
        plans: what stands where in each env, since its episode began.
    """

    name = "nav_to_obj"
    config_type = NavToObjConfig
    robot_type = Robot
    roles = ("target_obj",)

    def _place_robot(self, robot: Robot) -> Robot:
        if not any(group.description.kind == "base" for group in robot.groups.values()):
            raise OptionError(f"the task {self.name!r} needs a robot that drives; {self.config.robot!r} does not")
        if self.config.rig_cameras:
            return robot
        sensors = tuple(sensor for sensor in robot.options.rig.sensors if not sensor.type.endswith("Camera"))
        return type(robot)(robot.options.model_copy(update={"rig": SensorRig(sensors=sensors)}))

    def _add_scene(self, scene: Scene) -> None:
        super()._add_scene(scene)
        width, depth = self.config.size
        for name, x, y in (("east", 1, 0), ("west", -1, 0), ("north", 0, 1), ("south", 0, -1)):
            size = (_WALL, depth + 2 * _WALL, 1.0) if x else (width, _WALL, 1.0)
            pos = (x * (width + _WALL) / 2, y * (depth + _WALL) / 2, 0.5)
            scene.add_terrain(Box(size=size, rgba=(0.8, 0.8, 0.75, 1.0)), name=f"{name}_wall", pos=pos)
        self.things: dict[str, Thing] = find(self.config.objects)
        for number, (name, thing) in enumerate(self.things.items()):
            pos = (-width / 2 - 1, 0.2 * number, thing.half[2])  # behind the west wall
            scene.add_object(thing.shape, name=name, pos=pos, free=True)
        self._movable: dict[str, Primitive] = {name: FURNITURE[name] for name in self.config.furniture}
        self._movable |= {f"stand{number}": _STAND for number in range(self.config.n_objects)}
        for name, shape in self._movable.items():
            scene.add_object(_placeable(shape), name=name, pos=(0, 0, _BELOW))

    def _start(self) -> None:
        if not self.robot.can_be_placed:
            raise OptionError(f"the task {self.name!r} needs a robot that can be placed; its base is fixed")
        model = self.scene.model
        self._names = list(self.things)
        self._bodies = np.array([model.body(name).id for name in self._names])
        self._mocap = {name: int(model.body(f"{name}/body").mocapid[0]) for name in self._movable}
        own = model.body("robot/" + self.robot.options.base).rootid[0]
        self._own_geoms = model.body_rootid[model.geom_bodyid] == own
        self.target = np.zeros(self.n_envs, np.int64)
        """Which of the objects is meant in each env."""
        self.start_pose = np.tile(poses.IDENTITY, (self.n_envs, 1))
        """Where it stood at the start, (B, 7) in the world frame."""
        self.plans = [FloorPlan(self.config.size) for _ in range(self.n_envs)]
        self._under: list[tuple[str, ...]] = [()] * self.n_envs  # the stand of the object that is meant
        self._stood = np.zeros(self.n_envs, np.int64)
        self._sight = (-1, np.zeros(self.n_envs, bool))

    # -- an episode ---------------------------------------------------------------------------------------------------

    def _begin(self, envs: np.ndarray, draws: Sequence[np.random.Generator]) -> None:
        for env, draw in zip(envs.tolist(), draws, strict=True):
            objects = self._choose(self._names, self.config.n_objects, draw)
            furniture = self._choose(list(self.config.furniture), self.config.n_furniture, draw)
            where = draw if self.config.randomize.poses else np.random.default_rng(self.seed)
            plan, raised, start = self._layout(objects, furniture, where)
            self.plans[env] = plan
            self.target[env] = self._names.index(objects[0])
            self._furnish(env, plan, objects, raised)
            self.robot.place(start[:2], start[2], [env])
        self.scene.world.settle()
        self.start_pose[envs] = self.target_pose()[envs]
        self._stood[envs] = 0

    def _choose(self, names: list[str], count: int, draw: np.random.Generator) -> list[str]:
        order = draw.permutation(len(names)) if self.config.randomize.objects else np.arange(len(names))
        return [names[i] for i in order[:count]]

    def _layout(
        self, objects: list[str], furniture: list[str], draw: np.random.Generator
    ) -> tuple[FloorPlan, np.ndarray, np.ndarray]:
        """What stands where, which of the objects stand on stands, and x, y and yaw at which the robot starts."""
        config = self.config
        for _ in range(_LAYOUTS):
            plan = FloorPlan(config.size)
            raised = draw.random(len(objects)) < 0.5
            room = all(plan.add(name, FURNITURE[name], 0.05, draw) for name in furniture)
            for name, high in zip(objects, raised, strict=True):
                radius = _STAND.radius if high else self.things[name].radius
                room = room and plan.add(name, radius, 0.3, draw)
            start = self._start_in(plan, objects[0], draw) if room else None
            if start is not None:
                return plan, raised, start
        raise OptionError(
            f"found no room of {config.size} m with {config.n_furniture} pieces of furniture and {config.n_objects} "
            f"objects in which {config.robot!r} gets from {config.start_distance:g} m away to an object: make size "
            "larger, or n_furniture or start_distance smaller"
        )

    def _start_in(self, plan: FloorPlan, target: str, draw: np.random.Generator) -> np.ndarray | None:
        """x, y and yaw of a start from which there is a way to where the target is seen, if there is one."""
        room = plan.occupancy().dilated(self.robot.radius + MARGIN)
        regions = label(room.free)[0]
        piece = plan.pieces[target]
        there = np.array([piece.x, piece.y])
        goals = approaches(plan.occupancy(without=target), room.free, there, self.reach(target))
        cells = np.argwhere(np.isin(regions, regions[tuple(goals.T)]))
        spots = room.to_world(cells)
        spots = spots[np.hypot(*(spots - there).T) >= self.config.start_distance]
        if not len(spots):
            return None
        return np.append(spots[draw.integers(len(spots))], draw.uniform(-np.pi, np.pi))

    def reach(self, target: str) -> float:
        """Metres from the middle of the robot to that of an object within which it is surely near enough."""
        return self.robot.radius + self.things[target].radius + self.config.distance - 0.2

    def drivable(self, env: int, look: bool = False) -> tuple[OccupancyMap, np.ndarray]:
        """The map of an env for the middle of the robot, and the cells of it, (n, 2) rows and columns, where it is near
        enough to the object and sees it.

        Args:
            env: which.
            look: whether the map is made of what is there now, by the engine's rays, which takes far longer than to
                make it of what was put there when the episode began.
        """
        target = self.target_name(env)
        if look:
            (left, bottom), (right, top) = np.array([[-0.5], [0.5]]) * self.config.size
            bounds = (left - CELL, bottom - CELL, right + CELL, top + CELL)
            gone = ("robot", target, *self._under[env])
            room, rest = (
                OccupancyMap.from_scene(self.scene, CELL, (0.015, 0.5), bounds, exclude=exclude, env=env)
                for exclude in (("robot",), gone)
            )
        else:
            room, rest = self.plans[env].occupancy(), self.plans[env].occupancy(without=target)
        room = room.dilated(self.robot.radius + MARGIN)
        return room, approaches(rest, room.free, self.target_pose()[env, :2], self.reach(target))

    def _furnish(self, env: int, plan: FloorPlan, objects: list[str], raised: np.ndarray) -> None:
        """Put furniture, stands and objects where the plan has them."""
        world = self.scene.world
        pos, quat = world.bind("mocap_pos"), world.bind("mocap_quat")
        placed = {name: piece for name, piece in plan.pieces.items() if name in self._mocap}
        for number, (name, high) in enumerate(zip(objects, raised, strict=True)):
            if high:
                placed[f"stand{number}"] = plan.pieces[name]
        self._under[env] = ("stand0",) if raised[0] else ()
        for name, piece in placed.items():
            at = (piece.x, piece.y, _height(self._movable[name]) / 2)
            pos[env, self._mocap[name]] = torch.tensor(at, dtype=pos.dtype)
            quat[env, self._mocap[name]] = torch.as_tensor(poses.yaw(piece.yaw), dtype=quat.dtype)
        for name, high in zip(objects, raised, strict=True):
            piece = plan.pieces[name]
            height = _STAND.height * bool(high) + self.things[name].half[2] + 0.001
            self.scene[name].set_pose((piece.x, piece.y, height), poses.yaw(piece.yaw), [env])  # type: ignore[operator, attr-defined]
        world.changes.write([env])

    # -- what is where ------------------------------------------------------------------------------------------------

    def target_name(self, env: int) -> str:
        """The object that is meant in an env."""
        return self._names[int(self.target[env])]

    def target_pose(self) -> np.ndarray:
        """Where it is, (B, 7) in the world frame."""
        return self.body_poses(self._bodies[self.target])

    def role_bodies(self) -> np.ndarray:
        return self._bodies[self.target][:, None]

    def distances(self) -> np.ndarray:
        """On the floor, from the cylinder around the robot to that around the object, (B,) m."""
        radii = np.array([thing.radius for thing in self.things.values()])[self.target]
        way = self.target_pose()[:, :2] - self.robot.base_pose()[:, :2]
        return np.hypot(way[:, 0], way[:, 1]) - radii - self.robot.radius

    def angles(self) -> np.ndarray:
        """By how much the robot must turn to face the object, (B,) rad in (-pi, pi], counter-clockwise."""
        there = self.robot.in_base_frame(self.target_pose())
        return np.arctan2(there[:, 1], there[:, 0])

    def in_sight(self) -> np.ndarray:
        """Whether nothing but the robot itself is between its eye and the middle of the object, (B,) bool."""
        version = self.scene.world.changes.version
        if self._sight[0] != version:
            self._sight = (version, self._look())
        return self._sight[1].copy()

    def _look(self) -> np.ndarray:
        world, model = self.scene.world, self.scene.model
        bodies = self._bodies[self.target]
        eye = self.robot.base_pose()[:, :3] + (0, 0, self.config.eye)
        way = self.target_pose()[:, :3] - eye
        way /= np.linalg.norm(way, axis=1, keepdims=True)
        for _ in range(_OWN_PARTS):
            away, geoms = (part.numpy()[:, 0] for part in world.rays(eye[:, None], way[:, None]))
            own = (geoms >= 0) & self._own_geoms[geoms]
            if not own.any():
                break
            eye = eye + way * np.where(own, away + 1e-4, 0.0)[:, None]
        return (geoms >= 0) & (model.geom_bodyid[geoms] == bodies)

    def _judge(self) -> np.ndarray:
        linear, angular = (part.numpy() for part in self.robot.get_velocity())
        there = (self.distances() <= self.config.distance) & (np.abs(self.angles()) <= self.config.angle)
        there &= (np.hypot(linear[:, 0], linear[:, 1]) < 0.05) & (np.abs(angular[:, 2]) < 0.1)
        there &= self.in_sight()
        self._stood = np.where(there, self._stood + 1, 0)
        return self._stood >= self.config.hold_steps

    def describe_env(self, env: int) -> dict[str, Any]:
        name = self.target_name(env)
        return {"instruction": f"go to {self.things[name].text}", "target_obj": name}

    # -- sensors ------------------------------------------------------------------------------------------------------

    def _create_sensor_suite_from_config(self, config: Any) -> list[ObservationSensor]:
        """``object_poses`` (7,) of the object in the frame of the robot's base; ``obj_start_pose`` (7,), where it stood
        at the start, in the world frame; ``nav_state``: distance (1,) m, angle (1,) rad and in_sight (1,), 0 or 1, as
        they are judged."""

        def object_poses() -> dict[str, np.ndarray]:
            return {"target_obj": self.robot.in_base_frame(self.target_pose())}

        def nav_state() -> dict[str, np.ndarray]:
            state = {"distance": self.distances(), "angle": self.angles(), "in_sight": self.in_sight()}
            return {name: value[:, None] for name, value in state.items()}

        return [
            *super()._create_sensor_suite_from_config(config),
            ArraySensor("object_poses", object_poses, {"target_obj": (7,)}),
            ArraySensor("obj_start_pose", lambda: self.start_pose, (7,)),
            ArraySensor("nav_state", nav_state, {"distance": (1,), "angle": (1,), "in_sight": (1,)}),
        ]


def _placeable(shape: Primitive) -> mujoco.MjSpec:
    """A model that stands still wherever it is put, in each env elsewhere."""
    spec = mujoco.MjSpec()
    shape.add_to(spec.worldbody.add_body(name="body", mocap=True), "geom")
    return spec


def _height(shape: Primitive) -> float:
    return float(shape.size[2] if isinstance(shape, Box) else shape.height)  # type: ignore[attr-defined]
