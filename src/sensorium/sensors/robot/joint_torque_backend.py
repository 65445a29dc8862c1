"""Backends of the joint torque sensor on the CPU and on the GPU."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch

from sensorium.pipeline import SensorGroup
from sensorium.pipeline.launch import launch

_FIELDS = ("qfrc_actuator", "qfrc_passive", "qfrc_constraint")
_SHARES = {"actuator": (1, 0, 0), "passive": (0, 1, 0), "constraint": (0, 0, 1), "total": (1, 1, 1)}
"""Option ``which`` -> whether each of the fields counts."""


class JointTorqueBackend(Protocol):
    """Joint torque sensors of one scene on one engine."""

    def update(self, out: torch.Tensor) -> None:
        """Fill ``out`` (joints of all sensors, B) with torques in N·m, or forces in N."""


def _joints(group: SensorGroup[JointTorqueBackend]) -> tuple[np.ndarray, np.ndarray]:
    """Return the degrees of freedom (joints,) and the share of each field (joints, 3) of all sensors."""
    joints = [(sensor, name) for sensor in group.sensors for name in sensor.joint_names]
    dofs = np.array([group.world.model.joint(name).dofadr[0] for _, name in joints], np.int64)
    return dofs, np.array([_SHARES[sensor.options.which] for sensor, _ in joints], np.float64)


class CpuJointTorque:
    """Joint torque sensors on the CPU engine."""

    def __init__(self, group: SensorGroup[JointTorqueBackend]) -> None:
        from sensorium.sensors.robot import kernels

        self._kernel, self._array, self._joints = kernels.joint_torques, group.array, _joints(group)
        self._fields = [group.world.bind(field).numpy() for field in _FIELDS]

    def update(self, out: torch.Tensor) -> None:
        launch(self._kernel, *self._fields, *self._joints, self._array(out))


class GpuJointTorque:
    """Joint torque sensors on the GPU engine."""

    def __init__(self, group: SensorGroup[JointTorqueBackend]) -> None:
        dofs, shares = (torch.from_numpy(values).to(group.device) for values in _joints(group))
        self._dofs, self._shares = dofs, shares.float().T.unsqueeze(-1)
        self._fields = [group.world.bind(field) for field in _FIELDS]

    def update(self, out: torch.Tensor) -> None:
        one, other, third = (
            share * field[:, self._dofs].T for share, field in zip(self._shares, self._fields, strict=True)
        )
        out.copy_(one + other + third)
