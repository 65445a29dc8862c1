"""GPS: geodetic position and velocity, with errors that stay for a while and fixes that get lost."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import mujoco
import numpy as np
import torch
from pydantic import Field, field_validator

from sensorium.errors import OptionError
from sensorium.pipeline import Imperfections, formula
from sensorium.pipeline.launch import launch, replayable
from sensorium.sensors.base import Format, SimpleSensor, add_site
from sensorium.sensors.options import Mounted, SimpleSensorOptions
from sensorium.sensors.robot.wgs84 import cartesian
from sensorium.worlds import Names

_LOSS = 1000  # the element that losses are drawn with; columns are 0, 1, ...
_RECEPTION = ("loss_rate", "reacquire_time", "visible")


class GPS(SimpleSensorOptions, Mounted, init=False):
    """Options of a satellite receiver. The world's x axis points east, y north, z up; the world is the plane that
    touches the WGS84 ellipsoid's parallel surface at ``origin``. The generic imperfections act on the position (east,
    north, up), in m.

    Example:
        >>> gps = scene.add_sensor(sn.GPS(link="body", origin=(47.3769, 8.5417, 408.0), horizontal_error=1.5, rate=10))
        >>> gps.read().latitude
    """

    unavailable = {
        "bias_instability": "set horizontal_error and vertical_error",
        "correlation_time": "set error_time_constant",
    }

    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Latitude and longitude (degrees) and height above the ellipsoid (m) of the world's origin."""
    vel: Imperfections = Imperfections()
    """Imperfections of the velocity (east, north, up), m/s."""
    horizontal_error: float = Field(default=0.0, ge=0)
    """Standard deviation of the correlated (Gauss-Markov) error along east and along north, m."""
    vertical_error: float = Field(default=0.0, ge=0)
    """The same along up, m."""
    error_time_constant: float = Field(default=60.0, gt=0)
    """Seconds in which the correlated error forgets 63% of itself."""
    loss_rate: float = Field(default=0.0, ge=0)
    """Losses of the fix per second of having one, at random."""
    reacquire_time: float = Field(default=5.0, ge=0)
    """Seconds from a loss, or from seeing satellites again, to the next fix."""
    visible: bool = True
    """Whether satellites can be seen at all: ``gps.set(visible=False, envs=...)`` drives into a tunnel."""

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
            raise ValueError(
                "longitudes jump at the date line, and there is nothing between a fix and none; leave it out"
            )
        return value


class GPSData(NamedTuple):
    """What a receiver reads, all float64. While there is no fix, the last one is held."""

    latitude: torch.Tensor
    """Geodetic latitude, (B, 1) degrees, north positive."""
    longitude: torch.Tensor
    """Longitude, (B, 1) degrees in [-180, 180], east positive."""
    altitude: torch.Tensor
    """Height above the WGS84 ellipsoid, (B, 1) m."""
    velocity: torch.Tensor
    """Velocity in the world's frame: east, north, up, (B, 3) m/s."""
    fix: torch.Tensor
    """1 with a fix, 0 without, (B, 1)."""


class GPSSensor(SimpleSensor[GPSData], options=GPS):
    """See :class:`GPS`. Intermediate columns: position and velocity in the world's frame."""

    Data = GPSData

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        site, site_type = add_site(spec, names, self.options, self.uuid), mujoco.mjtObj.mjOBJ_SITE
        for part, kind in (("pos", mujoco.mjtSensor.mjSENS_FRAMEPOS), ("vel", mujoco.mjtSensor.mjSENS_FRAMELINVEL)):
            spec.add_sensor(name=f"{self.uuid}:{part}", type=kind, objtype=site_type, objname=site)

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
            "horizontal_error": ("bias_instability", slice(0, 2)),
            "vertical_error": ("bias_instability", slice(2, 3)),
            "error_time_constant": ("correlation_time", slice(0, 3)),
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
        return torch.float64  # a millionth of a degree is 0.1 m, and the eighth digit of a longitude

    @classmethod
    def _get_cache_dtype(cls) -> torch.dtype:
        return torch.float64

    @classmethod
    def _build_group(cls, group: Any) -> None:
        sensors, model = group.sensors, group.world.model
        group.at = np.array([[model.sensor(f"{s.uuid}:{part}").adr[0] for part in ("pos", "vel")] for s in sensors])
        group.keys = np.array([formula.key(group.seed, sensor.uuid, _LOSS) for sensor in sensors], np.uint32)
        group.origins = np.zeros((len(sensors), 7))
        for row, sensor in zip(group.origins, sensors, strict=True):
            latitude, longitude, _ = sensor.options.origin
            lat, lon = math.radians(latitude), math.radians(longitude)
            row[:4] = math.sin(lat), math.cos(lat), math.sin(lon), math.cos(lon)
            row[4:] = cartesian(*sensor.options.origin)
        group.reception = torch.zeros(len(_RECEPTION), len(sensors), group.n_envs, device=group.device)
        group.parameters |= dict(zip(_RECEPTION, group.reception, strict=True))
        group.outage, group.no_outage = np.zeros((2, len(sensors), group.n_envs))
        group.rows_due = group.due_rows
        group.receive_due = group.due if group.is_gpu else group.due.numpy()
        group.sensed = group.world.bind("sensordata")
        if group.world.is_gpu:
            from sensorium.sensors.robot.gpu import Receiver

            group.at = torch.from_numpy((group.at[..., None] + np.arange(3)).ravel()).to(group.device)
            group.receiver = Receiver(group)
        else:
            from sensorium.sensors.robot import kernels as robot_kernels

            group.kernels = robot_kernels
            group.sensed = group.sensed.numpy()
            group.receive = (group.outage, group.keys, *group.reception.numpy(), group.dt)

    @classmethod
    def _reset_group(cls, group: Any, mask: torch.Tensor) -> None:
        if not group.world.is_gpu:
            group.outage[:, mask.numpy()] = 0.0

    @classmethod
    @replayable
    def _update_raw_data(cls, group: Any, out: torch.Tensor) -> None:
        if group.world.is_gpu:
            out.copy_(group.sensed[:, group.at].T)
        else:
            launch(group.kernels.positions, group.sensed, group.at, group.array(out))

    @classmethod
    @replayable
    def _post_process(cls, group: Any, data: torch.Tensor, out: torch.Tensor, is_measured: bool) -> None:
        if group.world.is_gpu:
            group.receiver.read(data, out, is_measured)
            return
        held, outage = False, group.no_outage
        if is_measured:
            held, outage = group.advancing, group.outage  # at a reset there is nothing to hold
            launch(group.kernels.receive, *group.receive, group.clock, held)
        arrays = group.array(data), group.origins, outage, held, group.receive_due, group.rows_due, group.array(out)
        launch(group.kernels.geodetic, *arrays)
