"""Tasks at a table: a robot, a table, and things on it, some of which are meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from pydantic import Field, field_validator

from sensorium import poses
from sensorium.errors import OptionError
from sensorium.robots import Manipulator
from sensorium.suites import ArraySensor, ObservationSensor
from sensorium.tasks.config import TaskConfig
from sensorium.tasks.grasps import Grasps
from sensorium.tasks.objects import Thing, find
from sensorium.tasks.task import Task
from sensorium.worlds import Box, Scene

HEIGHT = 0.4
"""Of the table's top, m."""
_TABLE = Box(size=(0.8, 1.4, HEIGHT), rgba=(0.55, 0.4, 0.28, 1.0))
_TABLE_AT = (0.68, 0.0, HEIGHT / 2)
_AREA = ((0.38, 0.62), (-0.28, 0.28))
"""Where things stand: x and y, m."""
_TOP = ((0.32, 1.02), (-0.64, 0.64))
"""Where they may stand at all, m."""
_PARKED = (-20.0, 0.0)
"""Where those wait that are not there."""
_GAP = 0.035
"""Least distance between things, m."""


class TableConfig(TaskConfig):
    """Options of tasks at a table."""

    objects: tuple[str, ...] = ("red_cube", "green_block", "yellow_tower", "soda_can", "puck")
    """Names of things, of which some are there in each episode; see ``sn.tasks.THINGS``."""
    n_objects: int = Field(default=3, ge=1)
    """How many of them are there."""
    area: tuple[tuple[float, float], tuple[float, float]] = _AREA
    """Where they stand: least and greatest x and y, m. The robot is at the origin of the world and looks along x."""

    @field_validator("objects")
    @classmethod
    def _objects(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or len(set(value)) < len(value):
            raise ValueError("name at least one, each once")
        find(value)
        return value

    @field_validator("area")
    @classmethod
    def _area(cls, value: tuple[tuple[float, float], tuple[float, float]]) -> tuple[tuple[float, float], ...]:
        for (low, high), (least, most), axis in zip(value, _TOP, "xy", strict=True):
            if not least <= low < high <= most:
                raise ValueError(f"{axis} must be (min, max) on the table, within {least} to {most}; got {(low, high)}")
        return value


TableT = TypeVar("TableT", bound=TableConfig)


class TableTask(Task[TableT]):
    """A robot at a table with things on it, one of which, drawn for each episode, is to be picked up."""

    config_type = TableConfig
    roles: ClassVar[tuple[str, ...]] = ("pickup_obj",)

    def _place_robot(self, robot: Manipulator) -> Manipulator:
        place = _ROBOTS.get(robot.options.kind)
        if place is None or robot.options.pos != (0.0, 0.0, 0.0):
            return robot
        return type(robot)(robot.options.model_copy(update={"pos": place}))

    def _add_scene(self, scene: Scene) -> None:
        super()._add_scene(scene)
        self.things: dict[str, Thing] = find(self.config.objects)
        if not any(group.kind == "gripper" for group in self.robot.options.move_groups):
            raise OptionError(f"the task {self.name!r} needs a robot with a gripper; its move groups have none")
        if self.config.n_objects > len(self.things):
            raise OptionError(
                f"n_objects is {self.config.n_objects}, and objects names {len(self.things)}; name more or lower it"
            )
        scene.add_terrain(_TABLE, name="table", pos=_TABLE_AT)
        base = self.robot.options.pos
        if base[2] > 0.05:
            scene.add_terrain(
                Box(size=(0.24, 0.24, base[2]), rgba=(0.25, 0.25, 0.27, 1.0)),
                name="pedestal",
                pos=(base[0], base[1], base[2] / 2),
            )
        for number, (name, thing) in enumerate(self.things.items()):
            pos = (_PARKED[0], _PARKED[1] + 0.2 * number, thing.half[2])
            scene.add_object(thing.shape, name=name, pos=pos, free=True)

    def _add_sensors(self, scene: Scene) -> None:
        self._grasps = Grasps(scene, self.robot, self.touchable())

    def touchable(self) -> list[str]:
        """Entities of which it is known whether a gripper holds them."""
        return list(self.things)

    def _start(self) -> None:
        model = self.scene.model
        self._names = list(self.things)
        self._bodies = np.array([model.body(name).id for name in self._names])
        self.pickup = np.zeros(self.n_envs, np.int64)
        """Which of the objects is meant in each env."""
        self._gripped: dict[str, np.ndarray] = {}
        self._gripped_at: tuple[int, bytes] | None = None
        self.start_pose = np.tile(poses.IDENTITY, (self.n_envs, 1))
        self.end_pose = self.start_pose.copy()

    # -- an episode ---------------------------------------------------------------------------------------------------

    def _begin(self, envs: np.ndarray, draws: Sequence[np.random.Generator]) -> None:
        for env, draw in zip(envs.tolist(), draws, strict=True):
            names = self._choose(env, draw)
            places = draw if self.config.randomize.poses else np.random.default_rng(0)
            others = self._other_radii()
            spots = self._arrange([*others, *(self.things[name].radius for name in names)], places)
            self._put_others(env, spots[: len(others)])
            for name, spot in zip(names, spots[len(others) :], strict=True):
                height = HEIGHT + self.things[name].half[2] + 0.001
                entity: Any = self.scene[name]
                entity.set_pose((*spot, height), poses.yaw(places.uniform(-np.pi, np.pi)), [env])
            self.pickup[env] = self._names.index(names[0])
        self.scene.world.settle()
        here = self.pickup_pose()
        self.start_pose[envs] = here[envs]
        self.end_pose[envs] = self._goal()[envs]

    def _choose(self, env: int, draw: np.random.Generator) -> list[str]:
        """Names of the things that are there, the one that is meant first."""
        order = draw.permutation(len(self._names)) if self.config.randomize.objects else np.arange(len(self._names))
        return [self._names[i] for i in order[: self.config.n_objects]]

    def _other_radii(self) -> list[float]:
        """Radii of what stands on the table besides the things, m."""
        return []

    def _put_others(self, env: int, spots: Sequence[tuple[float, float]]) -> None:
        """Put those where they are to stand."""

    def _arrange(self, radii: Sequence[float], draw: np.random.Generator) -> list[tuple[float, float]]:
        """Places on the table for round things, so that all stand apart."""
        (x0, x1), (y0, y1) = self.config.area
        for _ in range(100):
            spots = np.column_stack([draw.uniform(x0, x1, len(radii)), draw.uniform(y0, y1, len(radii))])
            for number, radius in enumerate(radii):
                for _ in range(100):
                    gaps = np.linalg.norm(spots[:number] - spots[number], axis=1) - radius - radii[:number]
                    if (gaps > _GAP).all():
                        break
                    spots[number] = draw.uniform(x0, x1), draw.uniform(y0, y1)
                else:
                    break
            else:
                return [(float(x), float(y)) for x, y in spots]
        raise OptionError(
            f"area: there is no room for {len(radii)} things {_GAP} m apart in x {x0} to {x1}, y {y0} to {y1}; make it "
            "larger, or lower n_objects"
        )

    def _goal(self) -> np.ndarray:
        """Where the thing is to be at the end, (B, 7)."""
        raise TypeError(f"{type(self).__name__} must define _goal()")

    # -- what is where ------------------------------------------------------------------------------------------------

    def pickup_name(self, env: int) -> str:
        """The thing that is meant in an env."""
        return self._names[int(self.pickup[env])]

    def pickup_pose(self) -> np.ndarray:
        """Where it is, (B, 7) in the world frame."""
        return self.body_poses(self._bodies[self.pickup])

    def role_bodies(self) -> np.ndarray:
        return self._bodies[self.pickup][:, None]

    def grips(self, names: Sequence[str]) -> dict[str, np.ndarray]:
        """Gripper -> (B, 2) bool: whether one of its fingers touches the thing named for each env, and whether it is
        held between them."""
        return self._grasps.read(names)

    def pickup_grips(self) -> dict[str, np.ndarray]:
        """:meth:`grips` on the thing that is meant. It is judged, sensed and watched for after one and the same step,
        so it is looked at once for all of them; not before the sensors of that step have sensed."""
        now = self.scene.world.changes.version, self.pickup.tobytes()
        if self._gripped_at != now:
            self._gripped = self.grips([self.pickup_name(env) for env in range(self.n_envs)])
            self._gripped_at = now
        return self._gripped

    def is_held(self) -> np.ndarray:
        """Whether any gripper holds the thing that is meant, (B,) bool."""
        return np.any([grip[:, 1] for grip in self.pickup_grips().values()], axis=0)

    # -- sensors ------------------------------------------------------------------------------------------------------

    def _create_sensor_suite_from_config(self, config: Any) -> list[ObservationSensor]:
        """Adds ``object_poses`` (7,) by role, in the frame of the robot's base; ``obj_start_pose`` and ``obj_end_pose``
        (7,) in the world frame, where the thing was and where it is to be; ``grasp_state_pickup_obj`` by gripper, (2,)
        bool: touching, held."""
        grippers = {group.name: (2,) for group in self.robot.options.move_groups if group.kind == "gripper"}

        def object_poses() -> dict[str, np.ndarray]:
            bodies = self.role_bodies()
            return {role: self.robot.in_base_frame(self.body_poses(bodies[:, i])) for i, role in enumerate(self.roles)}

        return [
            *super()._create_sensor_suite_from_config(config),
            ArraySensor("object_poses", object_poses, dict.fromkeys(self.roles, (7,))),
            ArraySensor("obj_start_pose", lambda: self.start_pose, (7,)),
            ArraySensor("obj_end_pose", lambda: self.end_pose, (7,)),
            ArraySensor("grasp_state_pickup_obj", self.pickup_grips, grippers, np.bool_),
        ]


_ROBOTS = {
    "franka": (0.0, 0.0, HEIGHT),
    "bimanual": (0.0, 0.0, HEIGHT),
}
"""Where robots stand that do not stand on the floor."""
