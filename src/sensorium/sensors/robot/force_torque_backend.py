"""Backends of the force/torque sensor on the CPU and on the GPU."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch

from sensorium.pipeline import SensorGroup
from sensorium.pipeline.launch import launch


class ForceTorqueBackend(Protocol):
    """Force/torque sensors of one scene on one engine."""

    def post_process(self, data: torch.Tensor, out: torch.Tensor) -> None:
        """Fill ``out`` (6 * sensors, B) with force (N) and torque (N·m), without the tool's.

        ``data`` (9 * sensors, B) holds force, torque, and the acceleration that the tool's mass feels.
        """


def _tool_terms(group: SensorGroup[ForceTorqueBackend]) -> tuple[np.ndarray, np.ndarray]:
    """Return how to compensate the tool: rows (returns, 3) of ``data``, and weights (returns, 2).

    Each element of the result is one element of the wrench, less at most two elements of the acceleration a of the
    tool: m a for forces, and com x m a for torques.
    """
    gravity = float(np.linalg.norm(group.world.model.opt.gravity))
    rows, weights = [], []
    for sensor, part in zip(group.sensors, group.slices, strict=True):
        options = sensor.options
        mass = options.tool_mass * (1.0 if options.tool_inertia else gravity)
        com = [mass * offset for offset in options.tool_com]
        for axis in range(3):
            rows.append([part.start + axis, part.start + 6 + axis, part.start + 6])
            weights.append([mass, 0.0])
        for axis in range(3):
            after, last = (axis + 1) % 3, (axis + 2) % 3
            rows.append([part.start + 3 + axis, part.start + 6 + last, part.start + 6 + after])
            weights.append([com[after], -com[last]])
    return np.array(rows, np.int64), np.array(weights, np.float32)


class CpuForceTorque:
    """Force/torque sensors on the CPU engine."""

    def __init__(self, group: SensorGroup[ForceTorqueBackend]) -> None:
        from sensorium.sensors.robot import kernels

        self._kernel, self._array, self._tool = kernels.subtract_two, group.array, _tool_terms(group)

    def post_process(self, data: torch.Tensor, out: torch.Tensor) -> None:
        launch(self._kernel, self._array(data), *self._tool, self._array(out))


class GpuForceTorque:
    """Force/torque sensors on the GPU engine."""

    def __init__(self, group: SensorGroup[ForceTorqueBackend]) -> None:
        rows, weights = (torch.from_numpy(values).to(group.device).T for values in _tool_terms(group))
        self._rows, self._weights = rows, weights.unsqueeze(-1)

    def post_process(self, data: torch.Tensor, out: torch.Tensor) -> None:
        wrench, one, other = (data[rows] for rows in self._rows)
        out.copy_(wrench - self._weights[0] * one - self._weights[1] * other)
