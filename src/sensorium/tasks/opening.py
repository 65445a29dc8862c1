"""Opening: pull a drawer or a cabinet door open, and release its handle. Also the base of all such tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, TypeVar

import mujoco
import numpy as np
from gymnasium import spaces
from pydantic import Field, model_validator

from sensorium import poses
from sensorium._arguments import checked_numbers
from sensorium.errors import OptionError
from sensorium.options import checked_integer
from sensorium.robots import Manipulator, Robot
from sensorium.suites import ObservationSensor, box_space
from sensorium.tasks.config import TaskConfig
from sensorium.tasks.core_sensors import target_poses
from sensorium.tasks.furniture import OPENABLE_PARTS, PIECES, OpenablePart
from sensorium.tasks.grasp_detector import GraspDetector
from sensorium.tasks.task import Task
from sensorium.worlds import Box, Scene

_PARKED = (-3.0, -1.0)
"""Where pieces are kept that are absent from an episode: x, and y of the first, m."""
_ON_PEDESTAL = ("franka", "bimanual")
"""Robots that stand on a pedestal."""


class OpenPartConfig(TaskConfig):
    """Options of tasks in which a drawer or door is opened."""

    open_fraction: float = Field(default=0.5, gt=0, le=0.95)
    """How far it must be open, as a fraction of the joint's range (drawers 0.25 m, doors 90 degrees)."""
    start_fraction: float = Field(default=0.05, ge=0, lt=1)
    """Maximum opening at the start, as a fraction of the joint's range."""
    friction: tuple[float, float] = (0.5, 1.5)
    """(min, max) factor on the default friction and damping of the joint."""
    rest_steps: int = Field(default=10, ge=1)
    """For how many consecutive steps it must stay open without a finger on the handle."""
    max_steps: int = Field(default=900, ge=1)
    """Steps after which an episode is truncated."""

    @model_validator(mode="after")
    def _check(self) -> OpenPartConfig:
        if self.start_fraction >= self.open_fraction:
            raise ValueError(
                f"start_fraction must be < open_fraction, which is {self.open_fraction:g}; got {self.start_fraction:g}"
            )
        if not 0 <= self.friction[0] <= self.friction[1]:
            raise ValueError(f"friction must be (min, max) factors with 0 <= min <= max, got {self.friction}")
        return self


OpenPartT = TypeVar("OpenPartT", bound=OpenPartConfig)


class OpenPartTask(Task[OpenPartT]):
    """A robot in front of furniture. Each episode draws the drawer or door to open.

    The roles are "door", the part that opens (also for a drawer), and "handle". The robot stands at the origin and
    faces along x.

    Attributes:
        parts: all drawers and doors of the scene.
        part: (B,) index of the target among them.
        handles: names of the links of their handles.
        start_pose: (B, 7) pose of the target at the start of the episode, in the world frame.
        end_pose: (B, 7) its pose when it is open by ``open_fraction``, in the world frame.
    """

    config_type = OpenPartConfig
    roles = ("door", "handle")
    robot: Manipulator
    pedestal: ClassVar[float] = 0.4
    """Height of the pedestal of an arm without a base of its own, m."""

    def _openable_parts(self) -> tuple[OpenablePart, ...]:
        """Return the drawers and doors of the scene."""
        raise TypeError(f"{type(self).__name__} must define _openable_parts()")

    def place_robot(self, robot: Robot) -> Robot:
        if self.config.robot not in _ON_PEDESTAL or robot.options.pos != (0.0, 0.0, 0.0):
            return robot
        return type(robot)(robot.options.model_copy(update={"pos": (0.0, 0.0, self.pedestal)}))

    def add_scene(self, scene: Scene) -> None:
        super().add_scene(scene)
        self.parts = self._openable_parts()
        x, y, height = self.robot.options.pos
        if height > 0.05:
            pedestal = Box(size=(0.24, 0.24, height), rgba=(0.25, 0.25, 0.27, 1.0))
            scene.add_terrain(pedestal, name="pedestal", pos=(x, y, height / 2))
        for number, piece in enumerate(dict.fromkeys(part.piece for part in self.parts)):
            scene.add_object(PIECES[piece](), name=piece, pos=(_PARKED[0], _PARKED[1] + 2 * number, 0))

    def add_sensors(self, scene: Scene) -> None:
        self.handles = [f"{part.piece}/{part.link}_handle" for part in self.parts]
        self._grasps = GraspDetector(scene, self.robot, self.handles)

    def on_build(self) -> None:
        model, world = self.scene.model, self.scene.world
        names = [f"{part.piece}/{part.link}" for part in self.parts]
        self._joints = np.array([model.joint(f"{name}_joint").id for name in names])
        self._bodies = np.array([[model.body(name).id, model.body(f"{name}_handle").id] for name in names])
        self._mocap = np.array([model.body_mocapid[model.body_rootid[body]] for body, _ in self._bodies])
        self._extents = np.array([part.extents for part in self.parts])
        self._qpos, self._mocap_pos, self._mocap_quat, self._anchor, self._axis = (
            world.bind(field).numpy() for field in ("qpos", "mocap_pos", "mocap_quat", "xanchor", "xaxis")
        )
        self._friction, self._damping = (world.expand(f"dof_{field}").numpy() for field in ("frictionloss", "damping"))
        arms = [group for group in self.robot.options.move_groups if group.kind == "arm"]
        mounts = [self._anchor[0, model.joint(f"robot/{arm.joints[0]}").id] for arm in arms]
        self._mount = np.mean(mounts, axis=0)[:2]  # handles are placed relative to the mount of the arms
        self.part = np.zeros(self.n_envs, np.int64)
        self._rest_steps = np.zeros(self.n_envs, np.int64)
        self.start_pose = np.tile(poses.IDENTITY, (self.n_envs, 1))
        self.end_pose = self.start_pose.copy()

    # -- an episode ---------------------------------------------------------------------------------------------------

    def begin_episodes(self, envs: np.ndarray, rngs: Sequence[np.random.Generator]) -> None:
        model = self.scene.model
        dofs = model.jnt_dofadr[self._joints]
        for fields, default in ((self._friction, model.dof_frictionloss), (self._damping, model.dof_damping)):
            fields[np.ix_(envs, dofs)] = default[dofs]  # the last episode may have changed another joint
        for env, rng in zip(envs.tolist(), rngs, strict=True):
            number = int(rng.integers(len(self.parts)))
            number = number if self.config.randomize.objects else 0
            pose = self._draw_pose(self.parts[number], rng)
            self.part[env] = number
            self._mocap_pos[env, self._mocap[number]], self._mocap_quat[env, self._mocap[number]] = pose[:3], pose[3:]
            joint = self._joints[number]
            start = rng.uniform(0, self.config.start_fraction) if self.config.randomize.poses else 0.0
            self._qpos[env, model.jnt_qposadr[joint]] = start * model.jnt_range[joint, 1]
            dof = model.jnt_dofadr[joint]
            factor = rng.uniform(*self.config.friction)
            self._friction[env, dof] = model.dof_frictionloss[dof] * factor
            self._damping[env, dof] = model.dof_damping[dof] * factor
        self._rest_steps[envs] = 0
        self.scene.world.changes.write(envs)
        self.scene.world.settle()
        now, goal = self.body_poses(self._bodies[self.part, 0]), self.config.open_fraction * self.stroke()
        for env in envs.tolist():
            self.start_pose[env] = now[env]
            self.end_pose[env] = self._along_joint(env, now[env], goal[[env]])[0]

    def _draw_pose(self, part: OpenablePart, rng: np.random.Generator) -> np.ndarray:
        """Return a random pose (7,) of the piece that brings the handle within reach of the arm."""
        offset = rng.uniform(-1, 1, 4) if self.config.randomize.poses else np.zeros(4)
        quat = poses.yaw(math.pi + offset[0] * part.turn)
        handle = [
            (low + high) / 2 + fraction * (high - low) / 2
            for (low, high), fraction in zip((part.distance, part.lateral), offset[1:3], strict=True)
        ]
        target = np.array([*(self._mount + handle), part.handle[2] + offset[3] * part.height])
        return poses.make(target - poses.rotate(quat, part.handle), quat)

    def judge(self) -> np.ndarray:
        touched = np.any([grip[:, 0] for grip in self.handle_grips().values()], axis=0)
        self._rest_steps = np.where(self.is_open() & ~touched, self._rest_steps + 1, 0)
        return self._rest_steps >= self.config.rest_steps

    # -- state --------------------------------------------------------------------------------------------------------

    def joint_position(self) -> np.ndarray:
        """Return the opening of the target, (B,): m for a drawer, rad for a door."""
        addresses = self.scene.model.jnt_qposadr[self._joints[self.part]]
        return self._qpos[np.arange(self.n_envs), addresses]

    def joint_name(self, env: int) -> str:
        """Return the name of the target's joint in the scene."""
        env = checked_integer("env", env, 0, self.n_envs - 1)
        return str(self.scene.model.joint(self._joints[self.part[env]]).name)

    def stroke(self) -> np.ndarray:
        """Return the maximum opening of the target, (B,) m or rad."""
        return np.asarray(self.scene.model.jnt_range[self._joints[self.part], 1])

    def fraction(self) -> np.ndarray:
        """Return the opening of the target as a fraction of its range, (B,): 0 is closed, 1 fully open."""
        return np.asarray(self.joint_position() / self.stroke())

    def is_open(self) -> np.ndarray:
        """Return whether the target is open by at least ``open_fraction``, (B,) bool."""
        return np.asarray(self.fraction() >= self.config.open_fraction)

    def handle_pose(self) -> np.ndarray:
        """Return the pose of the handle's bar, (B, 7) in the world frame: x out of the front, z along the bar."""
        return self.body_poses(self._bodies[self.part, 1])

    def handle_path(self, env: int, positions: np.ndarray) -> np.ndarray:
        """Return the poses of the handle in one env at given joint positions.

        Args:
            env: the env.
            positions: (n,) positions of the target's joint, m or rad.

        Returns:
            (n, 7) in the world frame.
        """
        env = checked_integer("env", env, 0, self.n_envs - 1)
        places = np.atleast_1d(checked_numbers("positions", positions))
        if places.ndim != 1 or not np.isfinite(places).all():
            raise OptionError(f"positions must be finite numbers (n,), got {positions!r:.80}")
        return self._along_joint(env, self.handle_pose()[env], places)

    def _along_joint(self, env: int, now: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Return the poses (n, 7) of a frame on the target at positions (n,) of its joint, given its pose ``now``."""
        joint = int(self._joints[self.part[env]])
        offset = np.asarray(positions) - self.joint_position()[env]
        axis, anchor = self._axis[env, joint], self._anchor[env, joint]
        if self.scene.model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE:
            return poses.make(now[:3] + offset[:, None] * axis, now[3:])
        turn = poses.from_rotation_vector(offset[:, None] * axis)
        return poses.make(anchor + poses.rotate(turn, now[:3] - anchor), poses.multiply(turn, now[None, 3:]))

    def handle_grips(self) -> dict[str, np.ndarray]:
        """Return the grasp state of the handle; see :meth:`GraspDetector.read`."""
        return self._grasps.read([self.handles[number] for number in self.part])

    def is_held(self) -> np.ndarray:
        """Return whether a gripper holds the handle, (B,) bool."""
        return np.any([grip[:, 1] for grip in self.handle_grips().values()], axis=0)

    def role_bodies(self) -> np.ndarray:
        return self._bodies[self.part]

    def describe_env(self, env: int) -> dict[str, Any]:
        part = self.parts[int(self.part[checked_integer("env", env, 0, self.n_envs - 1)])]
        return {"instruction": f"open {part.text}", "piece": part.piece, "part": part.link}

    # -- sensors ------------------------------------------------------------------------------------------------------

    def create_task_sensors(self, config: OpenPartT) -> list[ObservationSensor]:
        """Return the core sensors and those of the target.

        ``object_poses`` (7,) by role, in the frame of the robot's base; ``obj_start_pose`` and ``obj_end_pose`` (7,) of
        the door or drawer, in the world frame, where the latter is open by ``open_fraction``; ``door_state``, see
        :class:`DoorState`; ``grasp_state_handle`` by gripper, ``touched`` and ``held`` (1,) bool.
        """
        return [
            *super().create_task_sensors(config),
            *target_poses(self, lambda: self.start_pose, lambda: self.end_pose),
            DoorState(self),
            self._grasps.sensor("grasp_state_handle", self.handle_grips),
        ]


class DoorState(ObservationSensor):
    """The sensor ``door_state``: the opening of the target drawer or door, and the pose of its handle.

    It reads ``angle`` (1,), rad for a door and m for a drawer; ``fraction`` (1,) of the joint's range; ``handle_pose``
    (7,) in the world frame, x out of the front, z along the bar; ``handle_extents`` (3,), full extents of the bar along
    the handle's axes, m; and ``is_open`` (1,) bool, whether it is open far enough for success.

    Args:
        task: the task.
    """

    def __init__(self, task: OpenPartTask[Any]) -> None:
        sizes = {"angle": 1, "fraction": 1, "handle_pose": 7, "handle_extents": 3}
        space: dict[str, spaces.Space[Any]] = {name: box_space((size,)) for name, size in sizes.items()}
        super().__init__("door_state", spaces.Dict(space | {"is_open": box_space((1,), np.bool_)}))
        self._task = task

    def read(self) -> dict[str, np.ndarray]:
        """Return the state of all envs."""
        task = self._task
        numbers = {
            "angle": task.joint_position()[:, None],
            "fraction": task.fraction()[:, None],
            "handle_pose": task.handle_pose(),
            "handle_extents": task._extents[task.part],
        }
        return {name: value.astype(np.float32) for name, value in numbers.items()} | {
            "is_open": task.is_open()[:, None]
        }


class OpeningConfig(OpenPartConfig):
    """Options of :class:`Opening`."""

    furniture: Literal["drawer", "cabinet", "any"] = "any"
    """What stands in front of the robot: a chest with two drawers, a cabinet with a door, or either, drawn for each
    episode."""


class Opening(OpenPartTask[OpeningConfig]):
    """Open the target drawer or cabinet door, and release its handle.

    Example:
        >>> task = sn.tasks.make("opening", furniture="drawer", n_envs=4)
    """

    name = "opening"
    config_type = OpeningConfig

    def _openable_parts(self) -> tuple[OpenablePart, ...]:
        kind = self.config.furniture
        return OPENABLE_PARTS["drawer"] + OPENABLE_PARTS["cabinet"] if kind == "any" else OPENABLE_PARTS[kind]
