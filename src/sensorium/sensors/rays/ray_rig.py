"""Rig of a ray-casting sensor: the rays that it casts, the fields that it reads of them, and its mounting."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sensorium.errors import OptionError
from sensorium.pipeline.layout import n_columns
from sensorium.sensors.rays import kernels
from sensorium.sensors.rays.patterns import Pattern

COLUMNS = {
    "distances": kernels.DISTANCES,
    "normals": kernels.NORMALS,
    "body_ids": kernels.BODY_IDS,
    "intensity": kernels.INTENSITY,
    "poses": kernels.POSES,
}
"""Kind of intermediate columns -> where the table holds the first of them."""


class RayRig(NamedTuple):
    """The rays that a sensor casts, and the fields that it reads of each."""

    pattern: Pattern
    shape: tuple[int, ...]
    """Shape of the pattern."""
    alignment: str = "base"
    divergence: float = 0.0
    scan_rate: float | None = None
    fields: tuple[str, ...] = ("distances",)
    """Fields of a reading; distances come first."""
    in_world: bool = False
    """Whether points and normals are in the world frame."""
    is_depth: bool = False
    """Whether distances are measured along the sensor's x axis."""

    @property
    def n_beams(self) -> int:
        """Number of beams."""
        return math.prod(self.shape)

    @property
    def n_slots(self) -> int:
        """Positions of the scanning head in one revolution."""
        return 1 if self.scan_rate is None else self.shape[-1]

    @property
    def widths(self) -> dict[str, int]:
        """Field -> numbers per beam."""
        return {name: 3 if name in ("points", "normals") else 1 for name in self.fields}

    @property
    def return_format(self) -> dict[str, tuple[int, ...]]:
        """Field -> shape of a reading."""
        return {name: self.shape if width == 1 else (*self.shape, width) for name, width in self.widths.items()}

    @property
    def intermediate_format(self) -> dict[str, tuple[int, ...]]:
        """Kind of intermediate columns -> shape; poses at capture only for points in the world frame."""
        columns: dict[str, tuple[int, ...]] = {
            name: (self.n_beams, width) for name, width in self.widths.items() if name in COLUMNS
        }
        if "points" in self.fields and self.in_world:
            columns["poses"] = (self.n_slots, kernels.POSE)
        return columns

    def first_columns(self, start: int) -> dict[int, int]:
        """Return kind of signal -> its first column, for a sensor whose columns begin at ``start``."""
        places = {}
        for name, shape in self.intermediate_format.items():
            places[COLUMNS[name]] = start
            start += n_columns(shape)
        return places


class RayMount(NamedTuple):
    """Mounting pose of a sensor, and the bodies that its rays pass through."""

    body: str
    """Name of the link that carries the sensor."""
    pos: np.ndarray
    """Position (3,) in the link's frame, as the rig's alignment turns it."""
    matrix: np.ndarray
    """Rotation matrix (3, 3) in the same frame."""
    excluded: tuple[str, ...]
    """Names of further bodies that rays pass through."""
    exclude_tree: bool
    """Whether rays pass through all bodies of the link's kinematic tree."""
    limits: tuple[float, float]
    """Minimum and maximum range, m."""


def checked_rays(pattern: Pattern) -> tuple[np.ndarray, np.ndarray]:
    """Return origins and directions of a pattern, (n, 3) float64 each.

    Raises:
        OptionError: they do not have the pattern's shape, are not finite, or directions are not unit vectors.
    """
    origins, directions = (np.ascontiguousarray(rays, np.float64) for rays in pattern.rays())
    expected, name = (math.prod(pattern.shape), 3), type(pattern).__name__
    if expected[0] < 1:
        raise OptionError(f"{name}.shape must hold at least one ray, got {pattern.shape}")
    for what, rays in (("origins", origins), ("directions", directions)):
        if rays.shape != expected:
            raise OptionError(f"{name}.rays(): {what} must have shape {expected} to match its shape, got {rays.shape}")
        if not np.isfinite(rays).all():
            raise OptionError(f"{name}.rays(): {what} must be finite")
    if np.abs(np.linalg.norm(directions, axis=1) - 1).max() > 1e-6:
        raise OptionError(f"{name}.rays(): directions must be unit vectors")
    return origins, directions
