"""Backends of the barometer on the CPU and on the GPU."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import torch

from sensorium.pipeline import SensorGroup
from sensorium.pipeline.launch import launch
from sensorium.sensors.robot.atmosphere import (
    EARTH_RADIUS,
    EXPONENT,
    LAPSE_RATE,
    STANDARD_PRESSURE,
    STANDARD_TEMPERATURE,
    TROPOPAUSE,
)


class BarometerBackend(Protocol):
    """Barometers of one scene on one engine."""

    def update(self, out: torch.Tensor) -> None:
        """Fill ``out`` (sensors, B) with the air pressure at each sensor, Pa."""

    def post_process(self, data: torch.Tensor, out: torch.Tensor) -> None:
        """Fill ``out`` (2 * sensors, B) with pressure (Pa) and altitude (m) from the pressures ``data``."""


class _Air(NamedTuple):
    """Height of each sensor, and the air at sea level; (sensors,) each."""

    height_at: np.ndarray
    """Index in ``sensordata`` of the height above the world's origin."""
    origin: np.ndarray
    """Height of the world's origin above sea level, m."""
    pressure: np.ndarray
    """Pressure at sea level, Pa."""
    temperature: np.ndarray
    """Temperature at sea level, K."""


def _air(group: SensorGroup[BarometerBackend]) -> _Air:
    model = group.world.model
    height_at = [model.sensor(f"{sensor.uuid}:pos").adr[0] + 2 for sensor in group.sensors]
    names = ("origin_altitude", "sea_level_pressure", "sea_level_temperature")
    values = (np.array([getattr(sensor.options, name) for sensor in group.sensors]) for name in names)
    return _Air(np.array(height_at, np.int64), *values)


class CpuBarometer:
    """Barometers on the CPU engine."""

    def __init__(self, group: SensorGroup[BarometerBackend]) -> None:
        from sensorium.sensors.robot import kernels

        self._kernels, self._array = kernels, group.array
        self._sensed, self._air = group.world.bind("sensordata").numpy(), _air(group)

    def update(self, out: torch.Tensor) -> None:
        launch(self._kernels.pressures, self._sensed, *self._air, self._array(out))

    def post_process(self, data: torch.Tensor, out: torch.Tensor) -> None:
        launch(self._kernels.pressure_altitudes, self._array(data), self._array(out))


class GpuBarometer:
    """Barometers on the GPU engine."""

    def __init__(self, group: SensorGroup[BarometerBackend]) -> None:
        self._sensed = group.world.bind("sensordata")
        self._height_at, *air = (torch.from_numpy(values).to(group.device) for values in _air(group))
        self._origin, self._pressure, self._temperature = (values.unsqueeze(-1) for values in air)

    def update(self, out: torch.Tensor) -> None:
        geometric = self._sensed[:, self._height_at].T + self._origin
        height = (EARTH_RADIUS * geometric / (EARTH_RADIUS + geometric)).clamp(max=TROPOPAUSE)
        out.copy_(self._pressure * (1 - LAPSE_RATE * height / self._temperature) ** EXPONENT)

    def post_process(self, data: torch.Tensor, out: torch.Tensor) -> None:
        out[0::2] = data
        ratio = data.clamp(min=1.0) / STANDARD_PRESSURE
        out[1::2] = STANDARD_TEMPERATURE / LAPSE_RATE * (1 - ratio ** (1 / EXPONENT))
