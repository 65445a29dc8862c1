"""Backend of proximity probes on the CPU."""

from __future__ import annotations

import numpy as np
import torch

from sensorium.pipeline import SensorGroup
from sensorium.pipeline.launch import launch
from sensorium.sensors.touch import probe_kernels
from sensorium.sensors.touch.probe_field import ProbeField


class CpuProximity:
    """Proximity probes of one scene."""

    def __init__(self, group: SensorGroup[CpuProximity]) -> None:
        self._array, self._field = group.array, ProbeField(group)
        frames = np.zeros((len(group.sensors), 13))  # position and rotation in the link's frame; whether to use it
        for row, sensor in zip(frames, group.sensors, strict=True):
            position, rotation = sensor._frame()
            row[:3], row[3:12], row[12] = position, rotation.ravel(), sensor.options.frame == "sensor"
        bodies = (group.world.bind(name).numpy() for name in ("xpos", "xmat"))
        self._arguments = (self._field.sensors, frames, *bodies, self._field.distance, self._field.point)

    def update(self, out: torch.Tensor) -> None:
        """Fill ``out`` (4 * probes, B): of each sensor its distances (m), then its nearest points (m)."""
        self._field.update()
        launch(probe_kernels.fill_distances, *self._arguments, self._array(out))
