"""Backends of proximity probes on the CPU and on the GPU."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch

from sensorium.pipeline import SensorGroup
from sensorium.pipeline.launch import launch


class ProximityBackend(Protocol):
    """Proximity probes of one scene on one engine."""

    def update(self, out: torch.Tensor) -> None:
        """Fill ``out`` (4 * probes, B): of each sensor its distances (m), then its nearest points (m)."""


def _frames(group: SensorGroup[ProximityBackend]) -> np.ndarray:
    """Return position and rotation of each sensor in its link's frame, and whether to use its frame, (sensors, 13)."""
    frames = np.zeros((len(group.sensors), 13))
    for row, sensor in zip(frames, group.sensors, strict=True):
        position, rotation = sensor._frame()
        row[:3], row[3:12], row[12] = position, rotation.ravel(), sensor.options.frame == "sensor"
    return frames


class CpuProximity:
    """Proximity probes on the CPU engine."""

    def __init__(self, group: SensorGroup[ProximityBackend]) -> None:
        from sensorium.sensors.touch import probe_kernels
        from sensorium.sensors.touch.probe_field import ProbeField

        self._kernel, self._array, self._field = probe_kernels.fill_distances, group.array, ProbeField(group)
        bodies = (group.world.bind(name).numpy() for name in ("xpos", "xmat"))
        self._arguments = (self._field.sensors, _frames(group), *bodies, self._field.distance, self._field.point)

    def update(self, out: torch.Tensor) -> None:
        self._field.update()
        launch(self._kernel, *self._arguments, self._array(out))


class GpuProximity:
    """Proximity probes on the GPU engine."""

    def __init__(self, group: SensorGroup[ProximityBackend]) -> None:
        from sensorium.sensors.touch import warp_probe_kernels
        from sensorium.sensors.touch.gpu_probe_field import GpuProbeField

        self._kernel, self._field = warp_probe_kernels.fill_distances, GpuProbeField(group)
        field = self._field
        self._inputs = (field.struct, field.upload(_frames(group)), *field.bodies, field.distance, field.point)

    def update(self, out: torch.Tensor) -> None:
        self._field.update()
        self._field.launch(self._kernel, *self._inputs, out)
