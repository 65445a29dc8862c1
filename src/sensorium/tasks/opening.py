"""Opening: pull a drawer or a cabinet's door open, and let go of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import mujoco
import numpy as np
from gymnasium import spaces
from pydantic import Field, model_validator

from sensorium import poses
from sensorium.robots import Manipulator
from sensorium.suites import ArraySensor, ObservationSensor, box
from sensorium.tasks.config import TaskConfig
from sensorium.tasks.furniture import LEAVES, PIECES, Leaf
from sensorium.tasks.grasps import Grasps
from sensorium.tasks.task import Task
from sensorium.worlds import Box, Scene

_PARKED = (-3.0, -1.0)
"""Where pieces wait that are not there: x, and y of the first, m."""


class LeafConfig(TaskConfig):
    """Options of tasks in which something is opened."""

    open_fraction: float = Field(default=0.5, gt=0, le=0.95)
    """How far it must be open, of the range of its joint (drawers 0.25 m, doors 90 degrees)."""
    start_fraction: float = Field(default=0.05, ge=0, lt=1)
    """Most by which it stands open at the start, of the same."""
    friction: tuple[float, float] = (0.5, 1.5)
    """Least and greatest factor by which friction and damping of the joint differ from what is usual for it."""
    rest_steps: int = Field(default=10, ge=1)
    """For how many steps it must stay open, let go."""
    max_steps: int = Field(default=900, ge=1)
    """Steps after which an episode is truncated."""

    @model_validator(mode="after")
    def _check(self) -> LeafConfig:
        if self.start_fraction >= self.open_fraction:
            raise ValueError(
                f"start_fraction must be less than open_fraction, which is {self.open_fraction:g}, "
                f"got {self.start_fraction:g}"
            )
        if not 0 <= self.friction[0] <= self.friction[1]:
            raise ValueError(
                f"friction must be the least and the greatest factor, neither negative, got {self.friction}"
            )
        return self


LeafT = TypeVar("LeafT", bound=LeafConfig)


class LeafTask(Task[LeafT]):
    """A robot in front of furniture, of which one drawer or door, drawn for each episode, is to be opened.

    The roles are "door", the part that opens (be it a drawer), and "handle". The robot stands at the origin and looks
    along x.

    Attributes:
        leaves: all that can be opened in the scene.
        leaf: which of them is meant in each env, (B,).
        handles: names of the links of their handles.
    """

    config_type = LeafConfig
    roles = ("door", "handle")
    pedestal = 0.4
    """Height on which an arm without a base of its own stands, m."""

    def _leaves(self) -> tuple[Leaf, ...]:
        """What can be opened."""
        raise TypeError(f"{type(self).__name__} must define _leaves()")

    def _place_robot(self, robot: Manipulator) -> Manipulator:
        if self.config.robot not in _ON_PEDESTAL or robot.options.pos != (0.0, 0.0, 0.0):
            return robot
        return type(robot)(robot.options.model_copy(update={"pos": (0.0, 0.0, self.pedestal)}))

    def _add_scene(self, scene: Scene) -> None:
        super()._add_scene(scene)
        self.leaves = self._leaves()
        x, y, height = self.robot.options.pos
        if height > 0.05:
            pedestal = Box(size=(0.24, 0.24, height), rgba=(0.25, 0.25, 0.27, 1.0))
            scene.add_terrain(pedestal, name="pedestal", pos=(x, y, height / 2))
        for number, piece in enumerate(dict.fromkeys(leaf.piece for leaf in self.leaves)):
            scene.add_object(PIECES[piece](), name=piece, pos=(_PARKED[0], _PARKED[1] + 2 * number, 0))

    def _add_sensors(self, scene: Scene) -> None:
        self.handles = [f"{leaf.piece}/{leaf.part}_handle" for leaf in self.leaves]
        self._grasps = Grasps(scene, self.robot, self.handles)

    def _start(self) -> None:
        model, world = self.scene.model, self.scene.world
        names = [f"{leaf.piece}/{leaf.part}" for leaf in self.leaves]
        self._joints = np.array([model.joint(f"{name}_joint").id for name in names])
        self._bodies = np.array([[model.body(name).id, model.body(f"{name}_handle").id] for name in names])
        self._mocap = np.array([model.body_mocapid[model.body_rootid[body]] for body, _ in self._bodies])
        self._extents = np.array([leaf.extents for leaf in self.leaves])
        self._qpos, self._mocap_pos, self._mocap_quat, self._anchor, self._axis = (
            world.bind(field).numpy() for field in ("qpos", "mocap_pos", "mocap_quat", "xanchor", "xaxis")
        )
        self._friction, self._damping = (world.expand(f"dof_{field}").numpy() for field in ("frictionloss", "damping"))
        arms = [group for group in self.robot.options.move_groups if group.kind == "arm"]
        mounts = [self._anchor[0, model.joint(f"robot/{arm.joints[0]}").id] for arm in arms]
        self._mount = np.mean(mounts, axis=0)[:2]  # where the arms begin: handles are placed as seen from there
        self.leaf = np.zeros(self.n_envs, np.int64)
        self._rested = np.zeros(self.n_envs, np.int64)

    # -- an episode ---------------------------------------------------------------------------------------------------

    def _begin(self, envs: np.ndarray, draws: Sequence[np.random.Generator]) -> None:
        model = self.scene.model
        dofs = model.jnt_dofadr[self._joints]
        for fields, usual in ((self._friction, model.dof_frictionloss), (self._damping, model.dof_damping)):
            fields[np.ix_(envs, dofs)] = usual[dofs]  # an earlier episode may have been about another one
        for env, draw in zip(envs.tolist(), draws, strict=True):
            number = int(draw.integers(len(self.leaves)))
            number = number if self.config.randomize.objects else 0
            pose = self._place(self.leaves[number], draw)
            self.leaf[env] = number
            self._mocap_pos[env, self._mocap[number]], self._mocap_quat[env, self._mocap[number]] = pose[:3], pose[3:]
            joint = self._joints[number]
            start = draw.uniform(0, self.config.start_fraction) if self.config.randomize.poses else 0.0
            self._qpos[env, model.jnt_qposadr[joint]] = start * model.jnt_range[joint, 1]
            dof = model.jnt_dofadr[joint]
            factor = draw.uniform(*self.config.friction)
            self._friction[env, dof] = model.dof_frictionloss[dof] * factor
            self._damping[env, dof] = model.dof_damping[dof] * factor
        self._rested[envs] = 0
        self.scene.world.changes.write(envs)
        self.scene.world.settle()

    def _place(self, leaf: Leaf, draw: np.random.Generator) -> np.ndarray:
        """A pose (7,) of the piece that brings the handle within reach."""
        off = draw.uniform(-1, 1, 4) if self.config.randomize.poses else np.zeros(4)
        quat = poses.yaw(math.pi + off[0] * leaf.turn)
        handle = [
            (low + high) / 2 + part * (high - low) / 2
            for (low, high), part in zip((leaf.distance, leaf.lateral), off[1:3], strict=True)
        ]
        at = np.array([*(self._mount + handle), leaf.handle[2] + off[3] * leaf.height])
        return poses.make(at - poses.rotate(quat, leaf.handle), quat)

    def _judge(self) -> np.ndarray:
        touched = np.any([grip[:, 0] for grip in self.handle_grips().values()], axis=0)
        self._rested = np.where(self.is_open() & ~touched, self._rested + 1, 0)
        return self._rested >= self.config.rest_steps

    # -- what is where ------------------------------------------------------------------------------------------------

    def joint_position(self) -> np.ndarray:
        """How far it is open, (B,): m of a drawer, rad of a door."""
        rows = self.scene.model.jnt_qposadr[self._joints[self.leaf]]
        return self._qpos[np.arange(self.n_envs), rows]

    def joint_name(self, env: int) -> str:
        """The joint of what is meant in an env, in the scene."""
        return str(self.scene.model.joint(self._joints[self.leaf[env]]).name)

    def stroke(self) -> np.ndarray:
        """How far it can be opened, (B,) m or rad."""
        return np.asarray(self.scene.model.jnt_range[self._joints[self.leaf], 1])

    def fraction(self) -> np.ndarray:
        """How far it is open, (B,), from 0 (closed) to 1."""
        return np.asarray(self.joint_position() / self.stroke())

    def is_open(self) -> np.ndarray:
        """Whether it is open as far as it must be, (B,) bool."""
        return np.asarray(self.fraction() >= self.config.open_fraction)

    def handle_pose(self) -> np.ndarray:
        """Where the middle of the handle's bar is, (B, 7) in the world frame: x out of the front, z along the bar."""
        return self.body_poses(self._bodies[self.leaf, 1])

    def handle_path(self, env: int, positions: np.ndarray) -> np.ndarray:
        """Poses (n, 7) of the handle in the world frame when the joint is at ``positions`` (n,), in one env."""
        joint = int(self._joints[self.leaf[env]])
        now = self.handle_pose()[env]
        off = np.asarray(positions) - self.joint_position()[env]
        axis, anchor = self._axis[env, joint], self._anchor[env, joint]
        if self.scene.model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE:
            return poses.make(now[:3] + off[:, None] * axis, now[3:])
        turn = poses.from_rotation_vector(off[:, None] * axis)
        return poses.make(anchor + poses.rotate(turn, now[:3] - anchor), poses.multiply(turn, now[None, 3:]))

    def handle_grips(self) -> dict[str, np.ndarray]:
        """Gripper -> (B, 2) bool: whether a finger of it touches the handle, and whether both do."""
        return self._grasps.read([self.handles[number] for number in self.leaf])

    def is_held(self) -> np.ndarray:
        """Whether any gripper holds the handle, (B,) bool."""
        return np.any([grip[:, 1] for grip in self.handle_grips().values()], axis=0)

    def role_bodies(self) -> np.ndarray:
        return self._bodies[self.leaf]

    def describe_env(self, env: int) -> dict[str, Any]:
        leaf = self.leaves[int(self.leaf[env])]
        return {"instruction": f"open {leaf.text}", "piece": leaf.piece, "part": leaf.part}

    # -- sensors ------------------------------------------------------------------------------------------------------

    def _create_sensor_suite_from_config(self, config: Any) -> list[ObservationSensor]:
        """Adds :class:`DoorState`, and ``grasp_state_handle`` by gripper, (2,) bool: touching, held."""
        return [
            *super()._create_sensor_suite_from_config(config),
            DoorState(self),
            ArraySensor("grasp_state_handle", self.handle_grips, self._grasps.shape, np.bool_),
        ]


class DoorState(ObservationSensor):
    """``door_state``: how far the drawer or door that is meant is open, and where its handle is.

    ``angle`` (1,) rad, of a drawer the way in m; ``fraction`` (1,) of the joint's range; ``handle_pose`` (7,) in the
    world frame, x out of the front, z along the bar; ``handle_extents`` (3,) full extents of the bar along the handle's
    own axes, m; ``is_open`` (1,) bool, whether that is as far as the task wants it.
    """

    def __init__(self, task: LeafTask[Any]) -> None:
        sizes = {"angle": 1, "fraction": 1, "handle_pose": 7, "handle_extents": 3}
        space: dict[str, spaces.Space[Any]] = {name: box((size,)) for name, size in sizes.items()}
        super().__init__("door_state", spaces.Dict(space | {"is_open": box((1,), np.bool_)}))
        self._task = task

    def read(self) -> dict[str, np.ndarray]:
        """The state of all envs."""
        task = self._task
        numbers = {
            "angle": task.joint_position()[:, None],
            "fraction": task.fraction()[:, None],
            "handle_pose": task.handle_pose(),
            "handle_extents": task._extents[task.leaf],
        }
        return {name: value.astype(np.float32) for name, value in numbers.items()} | {
            "is_open": task.is_open()[:, None]
        }


class OpeningConfig(LeafConfig):
    """Options of :class:`Opening`."""

    furniture: Literal["drawer", "cabinet", "any"] = "any"
    """What stands there: a chest with two drawers, a cabinet with a door, or either, drawn for each episode."""


class Opening(LeafTask[OpeningConfig]):
    """Open the drawer or the cabinet that is meant, and let go of its handle.

    Example:
        >>> task = sn.tasks.make("opening", furniture="drawer", n_envs=4)
    """

    name = "opening"
    config_type = OpeningConfig

    def _leaves(self) -> tuple[Leaf, ...]:
        kind = self.config.furniture
        return LEAVES["drawer"] + LEAVES["cabinet"] if kind == "any" else LEAVES[kind]


_ON_PEDESTAL = ("franka", "bimanual")
