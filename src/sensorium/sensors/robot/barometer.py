"""Barometer: air pressure, and the altitude that it means."""

from __future__ import annotations

from typing import Any, NamedTuple

import mujoco
import numpy as np
import torch
from pydantic import Field

from sensorium.pipeline.launch import launch, replayable
from sensorium.sensors.base import Format, SimpleSensor, add_site
from sensorium.sensors.options import Mounted, SimpleSensorOptions
from sensorium.sensors.robot.atmosphere import EXPONENT, LAPSE_RATE, STANDARD_PRESSURE, STANDARD_TEMPERATURE, TROPOPAUSE
from sensorium.worlds import Names


class Barometer(SimpleSensorOptions, Mounted):
    """Options of a barometer in the International Standard Atmosphere. The generic imperfections are about pressure, in
    Pa: 12 Pa are a metre near the ground.

    Example:
        >>> barometer = scene.add_sensor(sn.Barometer(link="body", origin_altitude=408.0, noise=3.0))
        >>> barometer.read().altitude
    """

    origin_altitude: float = 0.0
    """Height of the world's origin above sea level, m."""
    sea_level_pressure: float = Field(default=STANDARD_PRESSURE, gt=0)
    """Pressure at sea level, Pa: today's weather. The altitude is computed for the standard one, as altimeters do."""
    sea_level_temperature: float = Field(default=STANDARD_TEMPERATURE, gt=150)
    """Temperature at sea level, K, likewise."""


class BarometerData(NamedTuple):
    """What a barometer reads."""

    pressure: torch.Tensor
    """Static pressure, (B, 1) Pa."""
    altitude: torch.Tensor
    """Height above sea level that goes with that pressure in the standard atmosphere, (B, 1) m."""


class BarometerSensor(SimpleSensor[BarometerData], options=Barometer):
    """See :class:`Barometer`."""

    Data = BarometerData

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        site = add_site(spec, names, self.options, self.uuid)
        kind, site_type = mujoco.mjtSensor.mjSENS_FRAMEPOS, mujoco.mjtObj.mjOBJ_SITE
        spec.add_sensor(name=f"{self.uuid}:pos", type=kind, objtype=site_type, objname=site)

    def _get_intermediate_format(self) -> Format:
        return (1,)

    def _get_return_format(self) -> Format:
        return {"pressure": (1,), "altitude": (1,)}

    @classmethod
    def _get_intermediate_dtype(cls) -> torch.dtype:
        return torch.float64  # float32 has steps of 0.008 Pa here, which is most of a millimetre

    @classmethod
    def _build_group(cls, group: Any) -> None:
        model = group.world.model
        group.at = np.array([model.sensor(f"{sensor.uuid}:pos").adr[0] + 2 for sensor in group.sensors], np.int64)
        names = ("origin_altitude", "sea_level_pressure", "sea_level_temperature")
        group.air = [np.array([getattr(sensor.options, name) for sensor in group.sensors]) for name in names]
        group.sensed = group.world.bind("sensordata")
        if not group.world.is_gpu:
            from sensorium.sensors.robot import kernels as robot_kernels

            group.kernels, group.sensed = robot_kernels, group.sensed.numpy()
        else:
            group.at = torch.from_numpy(group.at).to(group.device)
            group.air = [torch.from_numpy(values).to(group.device).unsqueeze(-1) for values in group.air]

    @classmethod
    @replayable
    def _update_raw_data(cls, group: Any, out: torch.Tensor) -> None:
        if not group.world.is_gpu:
            launch(group.kernels.pressures, group.sensed, group.at, *group.air, group.array(out))
        else:
            origin, pressure, temperature = group.air
            height = (group.sensed[:, group.at].T + origin).clamp(max=TROPOPAUSE)
            out.copy_(pressure * (1 - LAPSE_RATE * height / temperature) ** EXPONENT)

    @classmethod
    @replayable
    def _post_process(cls, group: Any, data: torch.Tensor, out: torch.Tensor, is_measured: bool) -> None:
        if not group.world.is_gpu:
            launch(group.kernels.pressure_altitudes, group.array(data), group.array(out))
        else:
            out[0::2] = data
            ratio = data.clamp(min=1.0) / STANDARD_PRESSURE
            out[1::2] = STANDARD_TEMPERATURE / LAPSE_RATE * (1 - ratio ** (1 / EXPONENT))
