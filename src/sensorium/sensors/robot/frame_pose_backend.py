"""Backends of the pose sensor on the CPU and on the GPU."""

from __future__ import annotations

from typing import Protocol

import torch

from sensorium.pipeline import SensorGroup
from sensorium.pipeline.launch import launch


class FramePoseBackend(Protocol):
    """Pose sensors of one scene on one engine."""

    def post_process(self, data: torch.Tensor, out: torch.Tensor) -> None:
        """Copy ``data`` (13 * sensors, B) to ``out`` with quaternions normalised."""


class CpuFramePose:
    """Pose sensors on the CPU engine."""

    def __init__(self, group: SensorGroup[FramePoseBackend]) -> None:
        from sensorium.sensors.robot import kernels

        self._kernel, self._array = kernels.normalise, group.array

    def post_process(self, data: torch.Tensor, out: torch.Tensor) -> None:
        launch(self._kernel, self._array(data), self._array(out))


class GpuFramePose:
    """Pose sensors on the GPU engine."""

    def __init__(self, group: SensorGroup[FramePoseBackend]) -> None:
        self._shape = (len(group.sensors), 13, group.n_envs)

    def post_process(self, data: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(data)
        quat = out.view(self._shape)[:, 3:7]
        w, x, y, z = quat.unbind(1)
        # not torch.norm, whose bits depend on the batch size; in float64, because torch does not round the root of a
        # float32 correctly on all CPUs
        norm = (w * w + x * x + y * y + z * z).double().sqrt().float()
        quat /= norm.unsqueeze(1)
