"""Tasks at a table: a robot, a table, and objects on it, one of which is the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

import numpy as np
from pydantic import Field, field_validator

from sensorium import poses
from sensorium.errors import OptionError
from sensorium.options import checked_integer
from sensorium.robots import Manipulator, Robot
from sensorium.suites import ObservationSensor
from sensorium.tasks.config import TaskConfig
from sensorium.tasks.core_sensors import target_poses
from sensorium.tasks.grasp_detector import GraspDetector
from sensorium.tasks.objects import TaskObject, check_object_names, find_objects
from sensorium.tasks.task import Task
from sensorium.worlds import Box, Scene

HEIGHT = 0.4
"""Height of the table top, m."""
_TABLE = Box(size=(0.8, 1.4, HEIGHT), rgba=(0.55, 0.4, 0.28, 1.0))
_TABLE_POS = (0.68, 0.0, HEIGHT / 2)
_AREA = ((0.38, 0.62), (-0.28, 0.28))
"""Default bounds of the objects' positions: x and y, m."""
_TOP = ((0.32, 1.02), (-0.64, 0.64))
"""Bounds of the table top within which objects may stand: x and y, m."""
_PARKED = (-20.0, 0.0)
"""Where objects are kept that are absent from an episode: x, and y of the first, m."""
_MIN_GAP = 0.035
"""Minimum distance between objects, m."""
_MAX_DRAWS = 100
_ROBOT_POS = {
    "franka": (0.0, 0.0, HEIGHT),
    "bimanual": (0.0, 0.0, HEIGHT),
    "yam": (0.2, 0.0, HEIGHT + 0.15),
}
"""Positions of the robots that stand on a pedestal."""


class TableConfig(TaskConfig):
    """Options of tasks at a table."""

    objects: tuple[str, ...] = ("red_cube", "green_block", "yellow_tower", "soda_can", "puck")
    """Names of the objects from which each episode draws some; see ``sn.tasks.OBJECTS``."""
    n_objects: int = Field(default=3, ge=1)
    """Number of objects that are present."""
    area: tuple[tuple[float, float], tuple[float, float]] = _AREA
    """Bounds of their positions: (min, max) of x and of y, m. The robot is at the world's origin and faces along x."""

    @field_validator("objects")
    @classmethod
    def _check_objects(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return check_object_names(value)

    @field_validator("area")
    @classmethod
    def _check_area(cls, value: tuple[tuple[float, float], tuple[float, float]]) -> tuple[tuple[float, float], ...]:
        for (low, high), (lower, upper), axis in zip(value, _TOP, "xy", strict=True):
            if not lower <= low < high <= upper:
                raise ValueError(
                    f"{axis} must be (min, max) on the table, within {lower} to {upper}; got {(low, high)}"
                )
        return value


TableT = TypeVar("TableT", bound=TableConfig)


class TableTask(Task[TableT]):
    """A robot at a table with objects on it. Each episode draws the object to pick up.

    Attributes:
        objects: all objects of the scene, by name.
        pickup: (B,) index of the target among them.
        start_pose: (B, 7) pose of the target at the start of the episode, in the world frame.
        end_pose: (B, 7) goal pose of the target, in the world frame.
    """

    config_type = TableConfig
    roles: ClassVar[tuple[str, ...]] = ("pickup_obj",)
    robot: Manipulator

    def place_robot(self, robot: Robot) -> Robot:
        pos = _ROBOT_POS.get(robot.options.kind)
        if pos is None or robot.options.pos != (0.0, 0.0, 0.0):
            return robot
        return type(robot)(robot.options.model_copy(update={"pos": pos}))

    def add_scene(self, scene: Scene) -> None:
        super().add_scene(scene)
        self.objects: dict[str, TaskObject] = find_objects(self.config.objects)
        if not any(group.kind == "gripper" for group in self.robot.options.move_groups):
            raise OptionError(f"the task {self.name!r} needs a robot with a gripper; its move groups have none")
        if self.config.n_objects > len(self.objects):
            raise OptionError(
                f"n_objects is {self.config.n_objects}, but objects names only {len(self.objects)}; name more, or "
                "lower n_objects"
            )
        scene.add_terrain(_TABLE, name="table", pos=_TABLE_POS)
        base = self.robot.options.pos
        if base[2] > 0.05:
            scene.add_terrain(
                Box(size=(0.24, 0.24, base[2]), rgba=(0.25, 0.25, 0.27, 1.0)),
                name="pedestal",
                pos=(base[0], base[1], base[2] / 2),
            )
        for number, (name, each) in enumerate(self.objects.items()):
            pos = (_PARKED[0], _PARKED[1] + 0.2 * number, each.half[2])
            scene.add_object(each.shape, name=name, pos=pos, free=True)

    def add_sensors(self, scene: Scene) -> None:
        self._grasps = GraspDetector(scene, self.robot, self.grippable())

    def grippable(self) -> list[str]:
        """Return the names of the entities whose grasp state is sensed."""
        return list(self.objects)

    def on_build(self) -> None:
        model = self.scene.model
        self._names = list(self.objects)
        self._bodies = np.array([model.body(name).id for name in self._names])
        self.pickup = np.zeros(self.n_envs, np.int64)
        self._grip_cache: dict[str, np.ndarray] = {}
        self._grip_cache_key: tuple[int, bytes] | None = None
        self.start_pose = np.tile(poses.IDENTITY, (self.n_envs, 1))
        self.end_pose = self.start_pose.copy()

    # -- an episode ---------------------------------------------------------------------------------------------------

    def begin_episodes(self, envs: np.ndarray, rngs: Sequence[np.random.Generator]) -> None:
        for env, rng in zip(envs.tolist(), rngs, strict=True):
            names = self._choose(rng)
            pose_rng = rng if self.config.randomize.poses else np.random.default_rng(0)
            others = self._other_radii()
            spots = self._arrange([*others, *(self.objects[name].radius for name in names)], pose_rng)
            self._place_others(env, spots[: len(others)])
            for name, spot in zip(names, spots[len(others) :], strict=True):
                height = HEIGHT + self.objects[name].half[2] + 0.001
                yaw = poses.yaw(pose_rng.uniform(-np.pi, np.pi))
                self.scene.entities[name].set_pose((*spot, height), yaw, [env])
            self.pickup[env] = self._names.index(names[0])
        self.scene.world.settle()
        here = self.pickup_pose()
        self.start_pose[envs] = here[envs]
        self.end_pose[envs] = self._goal()[envs]

    def _choose(self, rng: np.random.Generator) -> list[str]:
        """Return the names of the objects that are present, the target first."""
        order = rng.permutation(len(self._names)) if self.config.randomize.objects else np.arange(len(self._names))
        return [self._names[i] for i in order[: self.config.n_objects]]

    def _other_radii(self) -> list[float]:
        """Return the radii of what stands on the table besides the objects, m."""
        return []

    def _place_others(self, env: int, spots: Sequence[tuple[float, float]]) -> None:
        """Place what stands on the table besides the objects, at x and y in metres."""

    def _arrange(self, radii: Sequence[float], rng: np.random.Generator) -> list[tuple[float, float]]:
        """Return random positions on the table for circles of these radii, so that they do not overlap."""
        (x0, x1), (y0, y1) = self.config.area
        for _ in range(_MAX_DRAWS):
            spots = np.column_stack([rng.uniform(x0, x1, len(radii)), rng.uniform(y0, y1, len(radii))])
            for number, radius in enumerate(radii):
                for _ in range(_MAX_DRAWS):
                    gaps = np.linalg.norm(spots[:number] - spots[number], axis=1) - radius - radii[:number]
                    if (gaps > _MIN_GAP).all():
                        break
                    spots[number] = rng.uniform(x0, x1), rng.uniform(y0, y1)
                else:
                    break
            else:
                return [(float(x), float(y)) for x, y in spots]
        raise OptionError(
            f"area: x {x0} to {x1}, y {y0} to {y1} has no room for {len(radii)} objects {_MIN_GAP} m apart; enlarge "
            "area, or lower n_objects"
        )

    def _goal(self) -> np.ndarray:
        """Return the goal pose of the target, (B, 7) in the world frame."""
        raise TypeError(f"{type(self).__name__} must define _goal()")

    # -- state --------------------------------------------------------------------------------------------------------

    def pickup_name(self, env: int) -> str:
        """Return the name of the target in an env."""
        return self._names[int(self.pickup[checked_integer("env", env, 0, self.n_envs - 1)])]

    def pickup_pose(self) -> np.ndarray:
        """Return the pose of the target, (B, 7) in the world frame."""
        return self.body_poses(self._bodies[self.pickup])

    def role_bodies(self) -> np.ndarray:
        return self._bodies[self.pickup][:, None]

    def grips(self, names: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the grasp state of one object per env; see :meth:`GraspDetector.read`."""
        return self._grasps.read(names)

    def pickup_grips(self) -> dict[str, np.ndarray]:
        """Return :meth:`grips` of the target.

        Judging, the sensors and the planner all need it in the same step, so the result is cached per step. Call it
        only after the contact sensors of the step are updated.
        """
        key = self.scene.world.changes.version, self.pickup.tobytes()
        if self._grip_cache_key != key:
            self._grip_cache = self.grips([self.pickup_name(env) for env in range(self.n_envs)])
            self._grip_cache_key = key
        return self._grip_cache

    def is_held(self) -> np.ndarray:
        """Return whether a gripper holds the target, (B,) bool."""
        return np.any([grip[:, 1] for grip in self.pickup_grips().values()], axis=0)

    # -- sensors ------------------------------------------------------------------------------------------------------

    def create_task_sensors(self, config: TableT) -> list[ObservationSensor]:
        """Return the core sensors and those of the target.

        ``object_poses`` (7,) by role, in the frame of the robot's base; ``obj_start_pose`` and ``obj_end_pose`` (7,) of
        the target, in the world frame; ``grasp_state_pickup_obj`` by gripper, ``touched`` and ``held`` (1,) bool.
        """
        return [
            *super().create_task_sensors(config),
            *target_poses(self, lambda: self.start_pose, lambda: self.end_pose),
            self._grasps.sensor("grasp_state_pickup_obj", self.pickup_grips),
        ]
