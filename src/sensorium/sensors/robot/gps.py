"""GPS: geodetic position and velocity, with correlated errors and lost fixes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import mujoco
import numpy as np
import torch
from pydantic import Field, field_validator

from sensorium.errors import OptionError
from sensorium.pipeline import Imperfections, SensorGroup
from sensorium.pipeline.hold import holds_output
from sensorium.pipeline.launch import replayable
from sensorium.sensors.base import Format, SimpleSensor, add_site
from sensorium.sensors.options import Mounted, SimpleSensorOptions
from sensorium.sensors.robot.gps_backend import RECEPTION as _RECEPTION
from sensorium.sensors.robot.gps_backend import CpuGPS, GPSBackend, GpuGPS
from sensorium.worlds import Names


class GPS(SimpleSensorOptions, Mounted, init=False):
    """Options of a satellite receiver.

    The world's x axis points east, y north, z up. The world's x-y plane is tangent at ``origin`` to the surface that
    is parallel to the WGS84 ellipsoid at the origin's height.
    The generic imperfections act on the position (east, north, up), in m.

    Example:
        >>> gps = scene.add_sensor(sn.GPS(link="body", origin=(47.3769, 8.5417, 408.0), horizontal_error=1.5, rate=10))
        >>> gps.read().latitude
    """

    unavailable = {
        "drift": "set horizontal_error and vertical_error",
        "bias_instability": "set horizontal_error and vertical_error",
        "drift_time": "set error_time_constant",
    }

    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Latitude and longitude (degrees), and height above the ellipsoid (m), of the world's origin."""
    vel: Imperfections = Imperfections()
    """Imperfections of the velocity (east, north, up), m/s."""
    horizontal_error: float = Field(default=0.0, ge=0)
    """Standard deviation of the correlated (Gauss-Markov) error along east and along north, m."""
    vertical_error: float = Field(default=0.0, ge=0)
    """The same along up, m."""
    error_time_constant: float = Field(default=60.0, gt=0)
    """Time constant of the correlated error, s: its correlation falls to 1/e in this time."""
    loss_rate: float = Field(default=0.0, ge=0)
    """Rate at which a fix is lost at random, per second with a fix."""
    reacquire_time: float = Field(default=5.0, ge=0)
    """Time to the next fix after a loss, or after satellites become visible again, s."""
    visible: bool = True
    """Whether satellites are visible at all. ``gps.set(visible=False, envs=...)`` imitates a tunnel."""

    @field_validator("origin")
    @classmethod
    def _origin(cls, value: tuple[float, float, float]) -> tuple[float, float, float]:
        if abs(value[0]) > 90 or abs(value[1]) > 180:
            raise ValueError("latitude must lie in [-90, 90] and longitude in [-180, 180] degrees")
        return value

    @field_validator("interpolate")
    @classmethod
    def _interpolate(cls, value: bool) -> bool:
        if value:
            raise ValueError("must be False: longitudes jump at the date line, and a fix is either 0 or 1")
        return value


class GPSData(NamedTuple):
    """Reading of a receiver, all float64. Without a fix, the values of the last fix are held."""

    latitude: torch.Tensor
    """Geodetic latitude, (B, 1) degrees, north positive."""
    longitude: torch.Tensor
    """Longitude, (B, 1) degrees in [-180, 180], east positive."""
    altitude: torch.Tensor
    """Height above the WGS84 ellipsoid, (B, 1) m."""
    velocity: torch.Tensor
    """Velocity in the world's frame: east, north, up, (B, 3) m/s."""
    fix: torch.Tensor
    """1 with a fix, 0 without one, (B, 1)."""


class GPSSensor(SimpleSensor[GPSData], options=GPS):
    """GPS sensor. See :class:`GPS`. Intermediate columns: position and velocity in the world frame."""

    Data = GPSData
    units = {"latitude": "°", "longitude": "°", "altitude": "m", "velocity": "m/s"}

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        site, site_type = add_site(spec, names, self.options, self.uuid), mujoco.mjtObj.mjOBJ_SITE
        for part, kind in (("pos", mujoco.mjtSensor.mjSENS_FRAMEPOS), ("vel", mujoco.mjtSensor.mjSENS_FRAMELINVEL)):
            spec.add_sensor(name=f"{self.uuid}:{part}", type=kind, objtype=site_type, objname=site)

    def _plotted_names(self, field: str) -> Sequence[str]:
        return ("east", "north", "up")

    def _get_intermediate_format(self) -> Format:
        return {"position": (3,), "velocity": (3,)}

    def _get_return_format(self) -> Format:
        return {"latitude": (1,), "longitude": (1,), "altitude": (1,), "velocity": (3,), "fix": (1,)}

    def _channels(self) -> dict[str, slice]:
        return {"": slice(0, 3), "vel": slice(3, 6)}

    def _extra_parts(self) -> list[slice]:
        return [slice(0, 3), *(part for part in super()._extra_parts() if part.start)]  # horizontal_error needs it

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        return {name: ("custom", slice(0, 1)) for name in _RECEPTION} | {
            "horizontal_error": ("drift", slice(0, 2)),
            "vertical_error": ("drift", slice(2, 3)),
            "error_time_constant": ("drift_time", slice(0, 3)),
        }

    def _translate(self, name: str, value: Any) -> tuple[str, Any]:
        if name == "visible":  # parameters are numbers
            if isinstance(value, torch.Tensor) and value.is_cuda:
                return name, value.double()
            array = value.numpy(force=True) if isinstance(value, torch.Tensor) else np.asarray(value)
            if array.dtype.kind not in "bfiu":
                raise OptionError(f"GPS.visible must be True or False, or one for each env; got {value!r}")
            return name, array.astype(np.float64)
        return name, value

    @classmethod
    def _get_intermediate_dtype(cls) -> torch.dtype:
        return torch.float64  # 1e-6 degrees are 0.1 m, and the ninth digit of a longitude

    @classmethod
    def _get_cache_dtype(cls) -> torch.dtype:
        return torch.float64

    @classmethod
    def _build_group(cls, group: SensorGroup[GPSBackend]) -> GPSBackend:
        return GpuGPS(group) if group.is_gpu else CpuGPS(group)

    @classmethod
    def _reset_group(cls, group: SensorGroup[GPSBackend], mask: torch.Tensor) -> None:
        group.backend.reset(mask)

    @classmethod
    @replayable
    def _update_raw_data(cls, group: SensorGroup[GPSBackend], out: torch.Tensor) -> None:
        group.backend.update(out)

    @classmethod
    @holds_output
    @replayable
    def _post_process(
        cls, group: SensorGroup[GPSBackend], data: torch.Tensor, out: torch.Tensor, is_measured: bool
    ) -> None:
        group.backend.post_process(data, out, is_measured)
