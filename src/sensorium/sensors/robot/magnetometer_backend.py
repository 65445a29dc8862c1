"""Backends of the magnetometer on the CPU and on the GPU."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch

from sensorium.pipeline import SensorGroup
from sensorium.pipeline.launch import launch


class MagnetometerBackend(Protocol):
    """Magnetometers of one scene on one engine."""

    def post_process(self, data: torch.Tensor, out: torch.Tensor) -> None:
        """Fill ``out`` (4 * sensors, B) with field (T) and heading (rad).

        ``data`` (6 * sensors, B) holds the field and the direction of up, both in the sensor's frame.
        """


def _is_levelled(group: SensorGroup[MagnetometerBackend]) -> np.ndarray:
    """Return whether each sensor compensates its tilt, (sensors,) bool."""
    return np.array([sensor.options.tilt_compensation for sensor in group.sensors])


def _declination(group: SensorGroup[MagnetometerBackend]) -> torch.Tensor:
    """Allocate the parameter ``declination`` (sensors, B), which ``sensor.set`` writes."""
    declination = torch.zeros(len(group.sensors), group.n_envs, device=group.device)
    group.parameters["declination"] = declination
    return declination


class CpuMagnetometer:
    """Magnetometers on the CPU engine."""

    def __init__(self, group: SensorGroup[MagnetometerBackend]) -> None:
        from sensorium.sensors.robot import kernels

        self._kernel, self._array = kernels.headings, group.array
        self._is_levelled, self._declination = _is_levelled(group), _declination(group).numpy()

    def post_process(self, data: torch.Tensor, out: torch.Tensor) -> None:
        launch(self._kernel, self._array(data), self._is_levelled, self._declination, self._array(out))


class GpuMagnetometer:
    """Magnetometers on the GPU engine."""

    def __init__(self, group: SensorGroup[MagnetometerBackend]) -> None:
        self._n_envs, self._declination = group.n_envs, _declination(group)
        self._is_levelled = torch.from_numpy(_is_levelled(group)).to(group.device).view(-1, 1, 1)
        self._level = torch.tensor([0.0, 0.0, 1.0], device=group.device).view(1, 3, 1)

    def post_process(self, data: torch.Tensor, out: torch.Tensor) -> None:
        field, up = data.view(-1, 2, 3, self._n_envs).unbind(1)
        up = torch.where(self._is_levelled, up, self._level)
        east = up[:, 2] * field[:, 1] - up[:, 1] * field[:, 2]
        north = field[:, 0] - up[:, 0] * (field * up).sum(1)
        angle = torch.atan2(east, north) + self._declination
        rows = out.view(-1, 4, self._n_envs)
        rows[:, :3], rows[:, 3] = field, torch.atan2(angle.sin(), angle.cos())
