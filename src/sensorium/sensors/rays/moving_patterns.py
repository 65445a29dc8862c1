"""Patterns that do not repeat from reading to reading, as of Livox lidars: gaps between the rays fill up over time.

The rays of such a pattern follow a curve, ``point_rate`` of them per second. A reading, or *frame*, has the next
``n_points`` rays. Use ``scan_rate = point_rate / n_points`` to cast each ray at its own time.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field, field_validator

from sensorium.sensors.rays.patterns import Pattern, angles_to_vectors


class _CurvePattern(Pattern):
    """Rays along a curve, ``point_rate`` of them per second."""

    n_points: int = Field(default=10_000, ge=1)
    """Number of rays in a reading."""
    point_rate: float = Field(default=100_000.0, gt=0)
    """Rays per second along the curve."""
    repeat_after: int = Field(default=20, ge=1)
    """Number of readings after which the rays repeat. The rays of all of them are kept in memory: 100 bytes each on the
    CPU, 50 on a GPU."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_points,)

    @property
    def n_frames(self) -> int:
        return self.repeat_after

    def rays(self) -> tuple[np.ndarray, np.ndarray]:
        return self.frame_rays(0)

    def frame_rays(self, frame: int) -> tuple[np.ndarray, np.ndarray]:
        directions = self._curve((frame * self.n_points + np.arange(self.n_points)) / self.point_rate)
        return np.zeros_like(directions), directions

    def _curve(self, times: np.ndarray) -> np.ndarray:
        """Return unit directions at times in seconds, (n, 3)."""
        raise TypeError(f"{type(self).__name__} must define _curve")


class RosettePattern(_CurvePattern):
    """The rosette of two rotating wedge prisms, which does not repeat from reading to reading: a Livox Mid-40.

    Each prism deflects the beam by a quarter of ``fov``, in a direction that turns with it. The deflections add. The
    centre is covered most densely, and the share of the field that was seen grows with every reading.

    Example:
        >>> sn.Lidar(link="base", pattern=sn.RosettePattern(n_points=10_000), scan_rate=10.0)   # (10000,) rays
    """

    fov: float = Field(default=38.4, gt=0, lt=180)
    """Field of view, degrees: the full angle of a cone about x."""
    rates: tuple[float, float] = (7294 / 60, -4664 / 60)
    """Revolutions per second of the prisms; negative for clockwise."""

    def _curve(self, times: np.ndarray) -> np.ndarray:
        turns = np.exp(2j * np.pi * np.multiply.outer(self.rates, times)).sum(axis=0)  # left + up i, at most 2 long
        angle = np.radians(self.fov / 4) * np.abs(turns)
        across = turns / np.maximum(np.abs(turns), 1e-12)
        return np.stack([np.cos(angle), np.sin(angle) * across.real, np.sin(angle) * across.imag], axis=-1)


class WeavePattern(_CurvePattern):
    """Rays all around that sweep up and down while they turn, and do not repeat: similar to a Livox Mid-360.

    Azimuth grows evenly, elevation goes up and down evenly. If the two rates are not multiples of each other, every
    revolution runs between the lines of those before it.

    Example:
        >>> sn.Lidar(link="base", pattern=sn.WeavePattern(n_points=20_000), scan_rate=10.0)     # (20000,) rays
    """

    point_rate: float = Field(default=200_000.0, gt=0)
    """Rays per second along the curve."""
    elevations: tuple[float, float] = (-7.0, 52.0)
    """Lowest and highest elevation, degrees."""
    rates: tuple[float, float] = (10.1, 997.0)
    """Revolutions in azimuth, and periods in elevation, per second."""

    @field_validator("elevations")
    @classmethod
    def _elevations(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not -90 <= value[0] < value[1] <= 90:
            raise ValueError("must be (min, max) in [-90, 90] degrees with min < max")
        return value

    def _curve(self, times: np.ndarray) -> np.ndarray:
        spin, weave = self.rates
        low, high = self.elevations
        share = np.abs(2.0 * ((weave * times) % 1.0) - 1.0)  # from 1 to 0 and back
        return angles_to_vectors(360.0 * ((spin * times) % 1.0) - 180.0, low + share * (high - low))
