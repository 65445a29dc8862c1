"""``SceneRobot``: the interface of the robots that ``scene.add_robot`` returns."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, TypeAlias, TypedDict, TypeVar, cast

import mujoco

from sensorium.errors import NotBuiltError
from sensorium.tree import Buffer, Module
from sensorium.worlds.compose import Position, Quaternion
from sensorium.worlds.entity import Entity
from sensorium.worlds.initial_pose import JointPositions
from sensorium.worlds.scene_module import OptionsT, SceneModule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import torch

    from sensorium.worlds.world import ArrayLike, Envs

RobotModel: TypeAlias = str | os.PathLike[str] | mujoco.MjSpec
"""A robot that is not created yet: a catalogue name, an MJCF or URDF file or text, or an MjSpec."""


class Placement(TypedDict, total=False):
    """Initial pose of a robot: arguments of ``scene.add_robot``."""

    pos: Position
    quat: Quaternion
    euler: Position
    free: bool
    joint_positions: JointPositions
    keyframe: str


class SceneRobot(SceneModule[OptionsT]):
    """A robot of a scene: one entity, with sensors and actions. ``sn.robots.Robot`` implements it.

    The methods for joints, controls and the root link are those of :attr:`entity`.

    Attributes:
        name: the name in the scene; empty before ``scene.add_robot``.
        rig: the sensors, each a child under its name.
        action: buffer of the last commanded action, (B, n_actions). Exists after ``scene.build()``.
    """

    name: str
    rig: Module
    action: Buffer
    base_buffers: tuple[Buffer, ...] = ()
    """Buffers of the base link. The physics state determines them, as it does those of the entity."""
    _entity: Entity | None = None

    # -- what a robot defines -----------------------------------------------------------------------------------------

    def default_name(self) -> str:
        """Return the name that the robot gets in a scene if none is given."""
        raise NotImplementedError

    @property
    def plain_model(self) -> RobotModel | None:
        """The model if it describes the robot completely, apart from the placement; otherwise None."""
        return None

    @property
    def placement(self) -> Placement:
        """The arguments pos, quat, euler, free, joint_positions and keyframe of ``scene.add_robot`` that are set."""
        raise NotImplementedError

    def set_placement(
        self,
        pos: Position | None = None,
        quat: Quaternion | None = None,
        euler: Position | None = None,
        free: bool | None = None,
        joint_positions: JointPositions | None = None,
        keyframe: str | None = None,
    ) -> None:
        """Set where and in which pose the robot starts, before it is added to a scene. None keeps the options.

        Args:
            pos: position in metres in the world frame.
            quat: orientation (w, x, y, z) in the world frame; or
            euler: roll, pitch, yaw in radians.
            free: whether the root link moves freely.
            joint_positions: initial positions by joint; see :meth:`Scene.add_robot`.
            keyframe: a keyframe of the model.
        """
        raise NotImplementedError

    @property
    def n_actions(self) -> int:
        """Number of values in an action."""
        raise NotImplementedError

    @property
    def action_names(self) -> list[str]:
        """Names of the values in an action."""
        raise NotImplementedError

    @property
    def action_limits(self) -> torch.Tensor:
        """Lower and upper bounds of an action, (n_actions, 2)."""
        raise NotImplementedError

    def act(self, action: ArrayLike | Mapping[str, ArrayLike], envs: Envs = None) -> None:
        """Set the action that the robot applies from the next step on."""
        raise NotImplementedError

    def get_pose(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return position (B, 3) in m and orientation (B, 4) as (w, x, y, z) of the base link, world frame."""
        raise NotImplementedError

    def get_velocity(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return linear (B, 3) m/s and angular velocity (B, 3) rad/s of the base link, world frame."""
        raise NotImplementedError

    # -- the entity ---------------------------------------------------------------------------------------------------

    @property
    def entity(self) -> Entity:
        """The links, joints and actuators of the robot in its scene."""
        if self._entity is None:
            raise NotBuiltError(f"{self!r} is not in a scene; add it with scene.add_robot(robot)")
        return self._entity

    @property
    def kind(self) -> str:
        """Kind of the entity: "robot"."""
        return self.entity.kind

    @property
    def joint_names(self) -> list[str]:
        """Names of the hinges and slides, in the order of the model. Empty before ``scene.build()``."""
        return self.entity.joint_names

    @property
    def actuator_names(self) -> list[str]:
        """Names of the actuators, in the order of the model. Empty before ``scene.build()``."""
        return self.entity.actuator_names

    def get_joint_positions(self, joints: Iterable[str] | None = None) -> torch.Tensor:
        """Return positions (B, n) of the named joints (default: all), rad or m, float32."""
        return self.entity.get_joint_positions(joints)

    def get_joint_velocities(self, joints: Iterable[str] | None = None) -> torch.Tensor:
        """Return velocities (B, n) of the named joints (default: all), rad/s or m/s, float32."""
        return self.entity.get_joint_velocities(joints)

    def set_joint_positions(self, values: ArrayLike, joints: Iterable[str] | None = None, envs: Envs = None) -> None:
        """Set joint positions; see :meth:`Entity.set_joint_positions`."""
        self.entity.set_joint_positions(values, joints, envs)

    def set_joint_velocities(self, values: ArrayLike, joints: Iterable[str] | None = None, envs: Envs = None) -> None:
        """Set joint velocities; see :meth:`Entity.set_joint_velocities`."""
        self.entity.set_joint_velocities(values, joints, envs)

    def set_ctrl(self, values: ArrayLike, actuators: Iterable[str] | None = None, envs: Envs = None) -> None:
        """Set controls in the units of the actuators; see :meth:`Entity.set_ctrl`. ``action`` does not change."""
        self.entity.set_ctrl(values, actuators, envs)

    def set_pose(self, pos: ArrayLike | None = None, quat: ArrayLike | None = None, envs: Envs = None) -> None:
        """Set the pose of a free root link in the world frame; see :meth:`Entity.set_pose`."""
        self.entity.set_pose(pos, quat, envs)


SceneRobotT = TypeVar("SceneRobotT", bound=SceneRobot)


def make_robot(model: RobotModel, **options: object) -> SceneRobot:
    """Create the robot that ``scene.add_robot(model, **options)`` adds.

    ``sensorium.robots`` creates it. That package lies above this one, so it is named by text and imported here.
    """
    robots = importlib.import_module("sensorium.robots.catalogue")
    return cast("SceneRobot", robots.make_for_scene(model, **options))
