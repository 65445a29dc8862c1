"""Raycaster and lidar: distances, points and further fields where the rays of a pattern hit the scene."""

from __future__ import annotations

from collections import namedtuple
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import torch
from pydantic import Field, field_validator

from sensorium.errors import OptionError
from sensorium.pipeline.parameters import Write
from sensorium.sensors.rays.patterns import AnyPattern, SphericalPattern
from sensorium.sensors.rays.ray_backend import DETECTION
from sensorium.sensors.rays.ray_rig import RayRig
from sensorium.sensors.rays.ray_sensor import RayOptions, RaySensor
from sensorium.sensors.rays.receiver import LidarReceiver

RayField = Literal["distances", "points", "normals", "body_ids", "intensity", "times"]
"""Fields that can be read of a ray."""


class Raycaster(RayOptions):
    """Options of a sensor that casts rays into the scene: height scan, range finder, lidar.

    Rays hit all geometry that is not fully transparent, including moving bodies. They pass through the link that
    carries the sensor, and through the links of ``exclude`` and ``exclude_self``. The sensor's frame is x forward, y
    left, z up.

    Example:
        >>> scan = scene.add_sensor(sn.Raycaster(link="base", alignment="yaw", max_range=3.0,
        ...                                      pattern=sn.GridPattern(size=(1.6, 1.0), resolution=0.1)))
        >>> scan.read().distances   # (B, 17, 11) m
    """

    pattern: AnyPattern
    """Origins and directions of the rays in the sensor's frame."""
    returns: tuple[RayField, ...] = ("distances", "points")
    """Fields that are read of each ray. The other fields of the reading are None and take no memory."""
    frame: Literal["sensor", "world"] = "sensor"
    """Frame of points and normals at capture: the sensor's (rotated by ``alignment``), or the world's."""
    alignment: Literal["base", "yaw", "world"] = "base"
    """How the mounting frame rotates with the link; it always follows the link's origin. "base": with the link, "yaw":
    with the heading of the link's x axis only, "world": not at all."""
    divergence: float = Field(default=0.0, ge=0, lt=3.14)
    """Full angle of each beam, rad. A diverging beam is cast as five rays, one in its centre and four on its rim. It
    reads the nearest of their hits, as a lidar that reports the first return."""
    scan_rate: float | None = Field(default=None, gt=0)
    """Revolutions per second of a scanning head, which scans along the pattern's last axis. Column k of n is cast at
    the fraction k / n of each revolution, at the poses of the step in which that time lies, and held until its next
    scan. A reset casts the whole revolution at once. Default: all rays are cast in every step."""

    @field_validator("returns")
    @classmethod
    def _returns(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if "distances" not in value or len(set(value)) < len(value):
            raise ValueError("must contain 'distances', and each field at most once")
        return value


class Lidar(Raycaster, LidarReceiver):
    """Options of a lidar: a :class:`Raycaster` with a spherical pattern, by default of 16 x 360 rays over 30 x 360°.

    Its receiver can lose dark, grazing and far surfaces, report several echoes per beam, and look through fog and rain:
    see :class:`LidarReceiver`.

    Example:
        >>> lidar = scene.add_sensor(sn.Lidar(link="base", pos=(0, 0, 0.3), max_range=20.0, noise=0.01,
        ...                                   pattern=sn.SphericalPattern(fov=(360, 30), n_points=(360, 16))))
        >>> lidar.read().distances  # (B, 16, 360) m: rows are elevations, columns azimuths
        >>> lidar.read().points     # (B, 16, 360, 3) m
        >>> dual = scene.add_sensor(sn.Lidar(link="base", divergence=3e-3, echoes=("strongest", "last"),
        ...                                  threshold=0.1 / 80**2, extinction=sn.units.from_visibility(200),
        ...                                  returns=("distances", "intensity")))
        >>> dual.read().intensity   # (B, 2, 16, 360)
    """

    pattern: AnyPattern = SphericalPattern()
    """Origins and directions of the rays in the sensor's frame."""


class RayData(NamedTuple):
    """Reading of a :class:`Raycaster`, where ``shape`` is that of its pattern.

    Fields that are not in ``returns`` are None, and are not part of the tuple.
    """

    distances: torch.Tensor
    """Distance from each ray's origin to its return, ``(B, *shape)`` m, in [min_range, max_range]; ``no_hit`` without a
    return."""
    points: torch.Tensor
    """Positions of the returns, computed from the distances of the reading, ``(B, *shape, 3)`` m in ``frame``. Without
    a return: at the distance ``no_hit``, or NaN if that is not a distance."""
    normals: torch.Tensor
    """Unit normals of the surfaces, pointing out of the geometry, ``(B, *shape, 3)`` in ``frame``; 0 without a return.
    Imperfections do not change them."""
    body_ids: torch.Tensor
    """The engine's ids of the bodies that were hit, ``(B, *shape)``, integers in float32; -1 without a return."""
    intensity: torch.Tensor
    """Power of the return, ``(B, *shape)``: the surface's reflectivity times the cosine of the incidence angle over the
    square of the true distance in m, and what a lidar's options add to that; 0 without a return. Imperfections do not
    change it."""
    times: torch.Tensor
    """Time at which each ray was cast, relative to the capture of the reading, ``(B, *shape)`` s: 0, or less for older
    columns of a scan."""


@lru_cache
def _data_type(fields: tuple[str, ...]) -> type[RayData]:
    """Return a named tuple of these fields alone, on which the other fields of ``RayData`` are None."""
    given = namedtuple("RayData", fields)  # type: ignore[misc]
    absent = {name: None for name in RayData._fields if name not in fields}

    def reduce(self: RayData) -> tuple[object, ...]:
        return _restore, (fields, tuple(self))  # pickle cannot find the type by name, so _restore makes it again

    members = {"__slots__": (), "__doc__": RayData.__doc__, "__reduce__": reduce, **absent}
    return type("RayData", (given,), members)


def _restore(fields: tuple[str, ...], values: tuple[torch.Tensor, ...]) -> RayData:
    return _data_type(fields)(*values)


def _make_ray_data(**fields: torch.Tensor) -> RayData:
    """Return a reading with these fields."""
    return _data_type(tuple(fields))(**fields)


class RaycasterSensor(RaySensor[RayData], options=Raycaster):
    """Raycaster. See :class:`Raycaster`."""

    Data = staticmethod(_make_ray_data)
    vector_fields = ("points", "normals")
    units = {"distances": "m", "points": "m", "times": "s"}

    def _make_rig(self) -> RayRig:
        options = self.options
        return RayRig(
            pattern=options.pattern,
            pattern_shape=options.pattern.shape,
            alignment=options.alignment,
            divergence=options.divergence,
            scan_rate=options.scan_rate,
            fields=tuple(name for name in RayData._fields if name in options.returns),
            in_world=options.frame == "world",
        )


class LidarSensor(RaycasterSensor, options=Lidar):
    """Lidar. See :class:`Lidar`."""

    def _make_rig(self) -> RayRig:
        return super()._make_rig()._replace(power=self.options.power_model())

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        return super()._custom_parameters() | {name: ("custom", slice(0, 1)) for name in DETECTION}

    def _custom_writes(self, name: str, option: str, value: Any, index: torch.Tensor | None) -> list[Write]:
        is_zero = isinstance(value, int | float) and value == 0
        if name in DETECTION and not is_zero and not self.options.detects_echoes:
            raise OptionError(
                f"Lidar.{name} must be 0 for a lidar that does not detect echoes, got {value!r}; construct it with "
                "echoes=('first',)"
            )
        return super()._custom_writes(name, option, value, index)
