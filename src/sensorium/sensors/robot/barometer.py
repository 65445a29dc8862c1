"""Barometer: air pressure, and the altitude computed from it."""

from __future__ import annotations

from typing import NamedTuple

import mujoco
import torch
from pydantic import Field

from sensorium.pipeline import SensorGroup
from sensorium.pipeline.hold import holds_output
from sensorium.pipeline.launch import replayable
from sensorium.sensors.base import Format, SimpleSensor, add_site
from sensorium.sensors.options import Mounted, SimpleSensorOptions
from sensorium.sensors.robot.atmosphere import STANDARD_PRESSURE, STANDARD_TEMPERATURE
from sensorium.sensors.robot.barometer_backend import BarometerBackend, CpuBarometer, GpuBarometer
from sensorium.worlds import Names


class Barometer(SimpleSensorOptions, Mounted):
    """Options of a barometer in the International Standard Atmosphere (ISO 2533).

    The pressure follows from the geopotential height H = r z / (r + z), where z is the height above sea level and
    r = 6356766 m. H is 16 cm less than z at 1 km, and 3.9 m less at 5 km.

    The generic imperfections act on the pressure, in Pa. Near the ground, 12 Pa correspond to 1 m of altitude.

    Example:
        >>> barometer = scene.add_sensor(sn.Barometer(link="body", origin_altitude=408.0, noise=3.0))
        >>> barometer.read().altitude
    """

    origin_altitude: float = 0.0
    """Height of the world's origin above sea level, m."""
    sea_level_pressure: float = Field(default=STANDARD_PRESSURE, gt=0)
    """True pressure at sea level (the weather), Pa. As in an altimeter, the altitude is computed with the standard
    pressure instead."""
    sea_level_temperature: float = Field(default=STANDARD_TEMPERATURE, gt=150)
    """True temperature at sea level, K. The altitude is computed with the standard temperature instead."""


class BarometerData(NamedTuple):
    """Reading of a barometer."""

    pressure: torch.Tensor
    """Static pressure, (B, 1) Pa."""
    altitude: torch.Tensor
    """Pressure altitude, (B, 1) m: the geopotential height at which the standard atmosphere has this pressure, as
    altimeters report it."""


class BarometerSensor(SimpleSensor[BarometerData], options=Barometer):
    """Barometer sensor. See :class:`Barometer`."""

    Data = BarometerData
    units = {"pressure": "Pa", "altitude": "m"}

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
        return torch.float64  # float32 resolves 0.008 Pa here, which is almost a millimetre

    @classmethod
    def _build_group(cls, group: SensorGroup[BarometerBackend]) -> BarometerBackend:
        return GpuBarometer(group) if group.is_gpu else CpuBarometer(group)

    @classmethod
    @replayable
    def _update_raw_data(cls, group: SensorGroup[BarometerBackend], out: torch.Tensor) -> None:
        group.backend.update(out)

    @classmethod
    @holds_output
    @replayable
    def _post_process(
        cls, group: SensorGroup[BarometerBackend], data: torch.Tensor, out: torch.Tensor, is_measured: bool
    ) -> None:
        group.backend.post_process(data, out)
