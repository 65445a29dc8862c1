"""Joint torque: generalised forces in hinge and slide joints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import mujoco
import torch
from pydantic import model_validator

from sensorium.pipeline import SensorGroup
from sensorium.pipeline.launch import replayable
from sensorium.sensors.base import Format, SimpleSensor
from sensorium.sensors.options import SimpleSensorOptions
from sensorium.sensors.robot.joint_encoder import joint_unit, resolve_joints
from sensorium.sensors.robot.joint_torque_backend import CpuJointTorque, GpuJointTorque, JointTorqueBackend
from sensorium.worlds import Names


class JointTorque(SimpleSensorOptions):
    """Options of torque sensors in hinge joints, and of force sensors in slide joints.

    Example:
        >>> torque = scene.add_sensor(sn.JointTorque(robot="arm", noise=0.02))
        >>> torque.read()   # (B, n) N·m
    """

    robot: str | None = None
    """Entity that has the joints. Default: any; set it if several entities have joints of the same name."""
    joints: tuple[str | int, ...] | None = None
    """Names of hinge or slide joints, or their indices among those of ``robot`` (default: of the scene), in the order
    of the reading. Default: all of them."""
    which: Literal["actuator", "passive", "constraint", "total"] = "actuator"
    """Source of the torque: actuators, passive elements (springs, damping), constraints (contacts, joint limits, dry
    friction, equalities), or the sum of all three."""

    @model_validator(mode="after")
    def _check_joints(self) -> JointTorque:
        if self.joints == ():
            raise ValueError("joints must name at least one joint; omit it to read all joints")
        return self


class JointTorqueSensor(SimpleSensor[torch.Tensor], options=JointTorque):
    """Joint torque sensor. See :class:`JointTorque`.

    Reads (B, n) N·m (N for slide joints), positive about the joint's axis. Torques of actuators and constraints are
    those of the substep that ended at the reading.
    """

    kind = "joint_torque"
    units = {"value": "N·m"}

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        self.joint_names = resolve_joints(spec, names, self.options, f"JointTorque(uuid={self.uuid!r})")
        self._turns = [spec.joint(name).type == mujoco.mjtJoint.mjJNT_HINGE for name in self.joint_names]

    def _plotted_names(self, field: str) -> Sequence[str]:
        return self.joint_names

    def _plotted_unit(self, field: str) -> str:
        return joint_unit(self.units[field], self._turns)

    def _get_return_format(self) -> Format:
        return (len(self.joint_names),)

    @classmethod
    def _build_group(cls, group: SensorGroup[JointTorqueBackend]) -> JointTorqueBackend:
        return GpuJointTorque(group) if group.is_gpu else CpuJointTorque(group)

    @classmethod
    @replayable
    def _update_raw_data(cls, group: SensorGroup[JointTorqueBackend], out: torch.Tensor) -> None:
        group.backend.update(out)
