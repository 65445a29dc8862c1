"""Raycaster and lidar: distances, points and more where rays of a pattern hit the scene."""

from __future__ import annotations

from collections import namedtuple
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import torch
from pydantic import Field, field_validator

from sensorium.sensors.rays.casting import RayRig
from sensorium.sensors.rays.patterns import AnyPattern, SphericalPattern
from sensorium.sensors.rays.ray_sensor import RayOptions, RaySensor

RayField = Literal["distances", "points", "normals", "body_ids", "intensity"]
"""What can be read of a ray."""


class Raycaster(RayOptions):
    """Options of a sensor that casts rays into the scene: height scan, range finder, lidar.

    Rays meet all geometry that is not fully transparent, moving bodies included, except for the link that carries the
    sensor and what ``exclude`` and ``exclude_self`` say. The sensor's frame is x forward, y left, z up.

    Example:
        >>> scan = scene.add_sensor(sn.Raycaster(link="base", alignment="yaw", max_range=3.0,
        ...                                      pattern=sn.GridPattern(size=(1.6, 1.0), resolution=0.1)))
        >>> scan.read().distances   # (B, 17, 11) m
    """

    pattern: AnyPattern
    """Where the rays start and point, in the sensor's frame."""
    returns: tuple[RayField, ...] = ("distances", "points")
    """What is read of each ray; the other fields of the reading are None, and take no memory."""
    frame: Literal["sensor", "world"] = "sensor"
    """Frame of points and normals: the sensor's (as ``alignment`` turns it), or the world's; as at capture."""
    alignment: Literal["base", "yaw", "world"] = "base"
    """How the mounting pose turns with the link, whose origin it always follows: with all of the link's rotation, with
    its heading alone (that of its x axis), or not at all."""
    divergence: float = Field(default=0.0, ge=0, lt=3.14)
    """Full angle of each beam, rad. A diverging beam is cast as five rays, in its middle and on its rim, and sees the
    nearest of their hits, as a lidar that reports the first return."""
    scan_rate: float | None = Field(default=None, gt=0)
    """Revolutions per second of a scanning head. The pattern's last axis then turns: column k of n is taken k / n of
    the way through each revolution, at the poses of the step in which that lies, and held until it comes again; at
    reset the whole revolution is taken at once. Default: all rays are taken in every step."""

    @field_validator("returns")
    @classmethod
    def _returns(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if "distances" not in value or len(set(value)) < len(value):
            raise ValueError("must hold 'distances', and nothing twice")
        return value


class Lidar(Raycaster):
    """Options of a lidar: a :class:`Raycaster` with a spherical pattern: by default 16 x 360 rays over 30 x 360°.

    Example:
        >>> lidar = scene.add_sensor(sn.Lidar(link="base", pos=(0, 0, 0.3), max_range=20.0, noise=0.01,
        ...                                   pattern=sn.SphericalPattern(fov=(360, 30), n_points=(360, 16))))
        >>> lidar.read().distances  # (B, 16, 360) m: rows are elevations, columns azimuths
        >>> lidar.read().points     # (B, 16, 360, 3) m
    """

    pattern: AnyPattern = SphericalPattern()
    """Where the rays start and point, in the sensor's frame."""


class RayData(NamedTuple):
    """What a :class:`Raycaster` reads; ``shape`` is its pattern's. Fields that ``returns`` did not ask for are None,
    and no part of the tuple."""

    distances: torch.Tensor
    """From each ray's origin to its return, (B, *shape) m, in [min_range, max_range]; ``no_hit`` without one."""
    points: torch.Tensor
    """Where the returns are, by the distances as read, (B, *shape, 3) m in ``frame``. Without a return: at the distance
    that is read, or nan where ``no_hit`` is no distance."""
    normals: torch.Tensor
    """Unit normals of the surfaces, out of the geometry, (B, *shape, 3) in ``frame``; 0 without a return. Exact."""
    body_ids: torch.Tensor
    """The engine's ids of the bodies that were hit, (B, *shape), whole numbers in float32; -1 without a return."""
    intensity: torch.Tensor
    """(B, *shape) in [0, 1]: the cosine of incidence times the surface's reflectivity; 0 without a return. Exact."""


@lru_cache
def _data_type(fields: tuple[str, ...]) -> type[Any]:
    given = namedtuple("RayData", fields)  # type: ignore[misc]
    absent = {name: None for name in RayData._fields if name not in fields}

    def reduce(self: Any) -> tuple[Any, ...]:  # the type is made anew, since it cannot be found by name
        return _restored, (fields, tuple(self))

    members = {"__slots__": (), "__doc__": RayData.__doc__, "__reduce__": reduce, **absent}
    return type("RayData", (given,), members)


def _restored(fields: tuple[str, ...], values: tuple[torch.Tensor, ...]) -> Any:
    return _data_type(fields)(*values)


def _ray_data(**fields: torch.Tensor) -> Any:
    return _data_type(tuple(fields))(**fields)


class RaycasterSensor(RaySensor[RayData], options=Raycaster):
    """See :class:`Raycaster`."""

    Data = staticmethod(_ray_data)
    vector_fields = ("points", "normals")

    def _make_rig(self) -> RayRig:
        options = self.options
        return RayRig(
            pattern=options.pattern,
            shape=options.pattern.shape,
            alignment=options.alignment,
            divergence=options.divergence,
            scan_rate=options.scan_rate,
            fields=tuple(name for name in RayData._fields if name in options.returns),
            in_world=options.frame == "world",
        )


class LidarSensor(RaycasterSensor, options=Lidar):
    """See :class:`Lidar`."""
