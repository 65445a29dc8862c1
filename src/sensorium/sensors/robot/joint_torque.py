"""Joint torque: the generalised forces that act in hinge and slide joints."""

from __future__ import annotations

from typing import Any, Literal

import mujoco
import numpy as np
import torch
from pydantic import model_validator

from sensorium.pipeline.launch import launch, replayable
from sensorium.sensors.base import Format, SimpleSensor
from sensorium.sensors.options import SimpleSensorOptions
from sensorium.sensors.robot.joint_encoder import resolve_joints
from sensorium.worlds import Names

_FIELDS = ("qfrc_actuator", "qfrc_passive", "qfrc_constraint")
_SHARES = {"actuator": (1, 0, 0), "passive": (0, 1, 0), "constraint": (0, 0, 1), "total": (1, 1, 1)}


class JointTorque(SimpleSensorOptions):
    """Options of torque sensors in joints (forces in slides).

    Example:
        >>> torque = scene.add_sensor(sn.JointTorque(robot="arm", noise=0.02))
        >>> torque.read()   # (B, n) N·m
    """

    robot: str | None = None
    """The entity whose joints are meant. Default: any; needed only where several have joints of the same name."""
    joints: tuple[str | int, ...] | None = None
    """Names of hinge or slide joints, or their numbers among those of ``robot`` (default: of the scene), in the order
    in which they are read. Default: all of them."""
    which: Literal["actuator", "passive", "constraint", "total"] = "actuator"
    """Whose torque: of the actuators, of passive elements (springs, damping), of constraints (contacts, joint limits,
    dry friction, equalities), or the sum of all three."""

    @model_validator(mode="after")
    def _check_joints(self) -> JointTorque:
        if self.joints == ():
            raise ValueError("joints must not be empty; leave it out for all joints")
        return self


class JointTorqueSensor(SimpleSensor[torch.Tensor], options=JointTorque):
    """See :class:`JointTorque`. Reads (B, n) N·m (N for slides), positive about the joint's axis; of actuators and
    constraints, those of the substep that ended now."""

    kind = "joint_torque"

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        self.joint_names = resolve_joints(spec, names, self.options, f"JointTorque(uuid={self.uuid!r})")

    def _get_return_format(self) -> Format:
        return (len(self.joint_names),)

    @classmethod
    def _build_group(cls, group: Any) -> None:
        model = group.world.model
        joints = [(sensor, name) for sensor in group.sensors for name in sensor.joint_names]
        group.dofs = np.array([model.joint(name).dofadr[0] for _, name in joints], np.int64)
        group.shares = np.array([_SHARES[sensor.options.which] for sensor, _ in joints], np.float64)
        group.fields = [group.world.bind(field) for field in _FIELDS]
        if not group.world.is_gpu:
            from sensorium.sensors.robot import kernels as robot_kernels

            group.kernel, group.fields = robot_kernels.joint_torques, [field.numpy() for field in group.fields]
        else:
            group.dofs = torch.from_numpy(group.dofs).to(group.device)
            group.shares = torch.from_numpy(group.shares).float().to(group.device).T.unsqueeze(-1)

    @classmethod
    @replayable
    def _update_raw_data(cls, group: Any, out: torch.Tensor) -> None:
        if not group.world.is_gpu:
            launch(group.kernel, *group.fields, group.dofs, group.shares, group.array(out))
        else:
            out.copy_(
                sum(share * field[:, group.dofs].T for share, field in zip(group.shares, group.fields, strict=True))
            )
