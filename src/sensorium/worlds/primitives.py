"""Primitive shapes, which can be added to a scene without a model file."""

from __future__ import annotations

from typing import Annotated

import mujoco
import numpy as np
from pydantic import AfterValidator, Field, field_validator

from sensorium.options import Options


def _check_friction(value: tuple[float, float, float]) -> tuple[float, float, float]:
    if min(value) < 0:
        raise ValueError("must be >= 0")
    return value


def _check_rgba(value: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    if min(value) < 0 or max(value) > 1:
        raise ValueError("must be in [0, 1]")
    return value


Friction = Annotated[tuple[float, float, float], AfterValidator(_check_friction)]
"""Sliding, torsional and rolling friction coefficients, as MuJoCo's ``geom/friction``."""
RgbaColor = Annotated[tuple[float, float, float, float], AfterValidator(_check_rgba)]
"""Colour: red, green, blue, alpha in [0, 1]."""


class Primitive(Options):
    """Options that all shapes share. Lengths are full extents in metres; the frame is at the centre of the shape."""

    mass: float | None = Field(default=None, gt=0)
    """Mass in kg. Default: volume times ``density``."""
    density: float = Field(default=1000.0, gt=0)
    """Density in kg/m³, used when ``mass`` is not given."""
    friction: Friction = (1.0, 0.005, 0.0001)
    """Sliding, torsional and rolling friction coefficients, as MuJoCo's ``geom/friction``."""
    rgba: RgbaColor = (0.6, 0.65, 0.7, 1.0)
    """Colour: red, green, blue, alpha in [0, 1]."""
    collide: bool = True
    """Whether the shape takes part in collisions."""

    def _geom(self) -> tuple[mujoco.mjtGeom, list[float]]:
        """Return MuJoCo's geom type and size."""
        raise TypeError(f"{type(self).__name__} is abstract: use Box, Sphere, Cylinder, Capsule or Plane")

    def add_to(self, body: mujoco.MjsBody, name: str) -> None:
        """Add this shape as a geom of ``body``."""
        kind, size = self._geom()
        geom = body.add_geom(name=name, type=kind, size=size, rgba=self.rgba, friction=self.friction)
        geom.density = self.density
        if self.mass is not None:
            geom.mass = self.mass
        if not self.collide:
            geom.contype = geom.conaffinity = 0


class Box(Primitive):
    """A box: ``sn.Box(size=(0.2, 0.2, 0.1), mass=1.0)``."""

    size: tuple[float, float, float] = (0.1, 0.1, 0.1)
    """Full extent along x, y and z in metres."""

    @field_validator("size")
    @classmethod
    def _size(cls, value: tuple[float, float, float]) -> tuple[float, float, float]:
        if min(value) <= 0:
            raise ValueError("every extent must be > 0")
        return value

    def _geom(self) -> tuple[mujoco.mjtGeom, list[float]]:
        return mujoco.mjtGeom.mjGEOM_BOX, [extent / 2 for extent in self.size]


class Sphere(Primitive):
    """A sphere: ``sn.Sphere(radius=0.05)``."""

    radius: float = Field(default=0.05, gt=0)
    """Radius in metres."""

    def _geom(self) -> tuple[mujoco.mjtGeom, list[float]]:
        return mujoco.mjtGeom.mjGEOM_SPHERE, [self.radius, 0, 0]


class Cylinder(Primitive):
    """A cylinder along its z axis: ``sn.Cylinder(radius=0.05, height=0.2)``."""

    radius: float = Field(default=0.05, gt=0)
    """Radius in metres."""
    height: float = Field(default=0.1, gt=0)
    """Full height along z in metres."""

    def _geom(self) -> tuple[mujoco.mjtGeom, list[float]]:
        return mujoco.mjtGeom.mjGEOM_CYLINDER, [self.radius, self.height / 2, 0]


class Capsule(Primitive):
    """A capsule along its z axis: ``sn.Capsule(radius=0.05, length=0.2)``."""

    radius: float = Field(default=0.05, gt=0)
    """Radius in metres."""
    length: float = Field(default=0.1, gt=0)
    """Length in metres of the cylindrical part; the caps add one radius at each end."""

    def _geom(self) -> tuple[mujoco.mjtGeom, list[float]]:
        return mujoco.mjtGeom.mjGEOM_CAPSULE, [self.radius, self.length / 2, 0]


class Plane(Primitive):
    """A fixed ground plane whose normal is its z axis; the space below is solid: ``sn.Plane()``."""

    size: tuple[float, float] | None = None
    """Full extent along x and y in metres, for rendering only; None renders it unbounded. Collisions are unbounded."""
    rgba: RgbaColor = (0.35, 0.37, 0.4, 1.0)
    """Colour: red, green, blue, alpha in [0, 1]."""

    @field_validator("size")
    @classmethod
    def _size(cls, value: tuple[float, float] | None) -> tuple[float, float] | None:
        if value is not None and min(value) <= 0:
            raise ValueError("every extent must be > 0")
        return value

    def _geom(self) -> tuple[mujoco.mjtGeom, list[float]]:
        x, y = (0.0, 0.0) if self.size is None else (self.size[0] / 2, self.size[1] / 2)
        return mujoco.mjtGeom.mjGEOM_PLANE, [x, y, 0.05]


def quaternion(euler: tuple[float, float, float]) -> np.ndarray:
    """Return the quaternion (w, x, y, z) of roll, pitch, yaw in radians: rotations about fixed x, then y, then z."""
    quat = np.zeros(4)
    mujoco.mju_euler2Quat(quat, np.asarray(euler, dtype=np.float64), "XYZ")
    return quat
