"""``JointGroup``: all joints and actions of a robot as one move group, for robots that declare none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import mujoco
import numpy as np

if TYPE_CHECKING:
    from sensorium.robots.robot import Robot

NAME = "body"
"""Name of the group."""


@dataclass(frozen=True)
class JointGroupDescription:
    """The fixed properties of a :class:`JointGroup`."""

    joints: tuple[str, ...]
    """Names of its hinges and slides."""
    name: str = NAME
    kind: str = "joints"


def joint_groups(robot: Robot) -> dict[str, JointGroup]:
    """Return the implicit move group of a robot by name; empty if the robot has neither joints nor actions."""
    scalar = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
    joints = any(joint.type in scalar for joint in robot._spec.joints)
    return {NAME: JointGroup(robot)} if joints or robot.options.actions else {}


class JointGroup:
    """The move group "body" of a robot with actions of its own. Arrays are float64, (B, n), in the order of the joints.

    Args:
        robot: the robot.
    """

    def __init__(self, robot: Robot) -> None:
        self._robot = robot
        self._servos: tuple[np.ndarray, ...] | None = None

    @property
    def description(self) -> JointGroupDescription:
        """Joints of the group; none before the scene is built."""
        robot = self._robot
        return JointGroupDescription(tuple(robot.entity.joint_names) if robot._world is not None else ())

    @property
    def qpos(self) -> np.ndarray:
        """Joint positions, rad or m."""
        robot = self._robot
        return robot._field("qpos").numpy(force=True)[:, robot.entity._qpos.numpy(force=True)].astype(np.float64)

    @property
    def qvel(self) -> np.ndarray:
        """Joint velocities, rad/s or m/s."""
        robot = self._robot
        return robot._field("qvel").numpy(force=True)[:, robot.entity._dofs.numpy(force=True)].astype(np.float64)

    @property
    def target(self) -> np.ndarray:
        """Joint positions that the current action leads to, rad or m.

        A position servo has its set point, a velocity servo the position after one step at its set point. Joints that
        are driven by a torque, or by no actuator, have no target: theirs is the current position.
        """
        if self._servos is None:
            self._servos = self._find_servos()
        target = self.qpos
        joints, actuators, position, velocity = self._servos
        ctrl = self._robot._field("ctrl").numpy(force=True)[:, actuators]
        is_position = position != 0
        moved = target[:, joints] + ctrl * velocity * self._robot._dt
        target[:, joints] = np.where(is_position, ctrl * position, moved)
        return target

    def _find_servos(self) -> tuple[np.ndarray, ...]:
        """Return the joint (column), the actuator, and the factors from its control to a position and to a velocity."""
        robot = self._robot
        model, prefix = robot._built("target").model, f"{robot.name}/"
        columns = {f"{prefix}{name}": number for number, name in enumerate(robot.entity.joint_names)}
        rows = []
        for actuator in range(model.nu):
            joint = int(model.actuator_trnid[actuator, 0])
            if model.actuator_trntype[actuator] != mujoco.mjtTrn.mjTRN_JOINT or model.joint(joint).name not in columns:
                continue
            gear, gain = float(model.actuator_gear[actuator, 0]), float(model.actuator_gainprm[actuator, 0])
            _, stiffness, damping = -model.actuator_biasprm[actuator, :3]
            # force = gain * ctrl - stiffness * gear * q - damping * gear * dq
            position = gain / (stiffness * gear) if stiffness and gear else 0.0
            velocity = gain / (damping * gear) if damping and gear and not stiffness else 0.0
            rows.append((columns[model.joint(joint).name], actuator, position, velocity))
        table = np.array(rows).reshape(len(rows), 4)
        return table[:, 0].astype(np.intp), table[:, 1].astype(np.intp), table[:, 2], table[:, 3]

    def __repr__(self) -> str:
        return f"<JointGroup of {len(self.description.joints)} joints>"
