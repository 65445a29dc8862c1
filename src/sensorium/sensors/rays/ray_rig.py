"""Rig of a ray-casting sensor: the rays that it casts, the fields that it reads of them, and its mounting."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
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
    "times": kernels.TIMES,
    "turns": kernels.TURNS,
}
"""Kind of intermediate columns -> where the table holds the first of them."""


class PowerModel(NamedTuple):
    """How the power of a return follows from the surface, and which returns are detected."""

    near_range: float = 0.0
    """Distance within which the lens receives less than the share 1 / r², m."""
    reflectivity: Mapping[str, float] = MappingProxyType({})
    """Entity, link or geom -> reflectivity in place of its colour's."""
    retro_reflectors: Mapping[str, float] = MappingProxyType({})
    """Entity, link or geom -> gain of its retro-reflecting surface."""
    echoes: tuple[str, ...] = ()
    """Echoes that are detected by their power; none for the nearest hit."""
    separation: float = 0.0
    """Distance from which two hits are two echoes, m."""
    rays_per_beam: int = 1
    """Rays of a diverging beam of which echoes are detected."""


class RayRig(NamedTuple):
    """The rays that a sensor casts, and the fields that it reads of each."""

    pattern: Pattern
    pattern_shape: tuple[int, ...]
    """Shape of the pattern, kept since patterns compute it."""
    alignment: str = "base"
    divergence: float = 0.0
    scan_rate: float | None = None
    fields: tuple[str, ...] = ("distances",)
    """Fields of a reading; distances come first."""
    in_world: bool = False
    """Whether points and normals are in the world frame."""
    is_depth: bool = False
    """Whether distances are measured along the sensor's x axis."""
    power: PowerModel = PowerModel()

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a reading: that of the pattern, after the number of echoes if there are several."""
        echoes = len(self.power.echoes)
        return (echoes, *self.pattern_shape) if echoes > 1 else self.pattern_shape

    @property
    def n_bundles(self) -> int:
        """Number of bundles of rays that one frame casts."""
        return math.prod(self.pattern_shape)

    @property
    def n_beams(self) -> int:
        """Number of beams: elements of a reading."""
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
            name: (self.n_slots if name == "times" else self.n_beams, width)
            for name, width in self.widths.items()
            if name in COLUMNS
        }
        if "points" in self.fields and self.in_world:
            columns["poses"] = (self.n_slots, kernels.POSE)
        if self.pattern.n_frames > 1:
            columns["turns"] = (self.n_slots, 1)
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
    """Return origins and directions of all frames of a pattern, (frames * n, 3) float64 each.

    Raises:
        OptionError: they do not have the pattern's shape, are not finite, or directions are not unit vectors.
    """
    expected, name = (math.prod(pattern.shape), 3), type(pattern).__name__
    if expected[0] < 1 or pattern.n_frames < 1:
        raise OptionError(
            f"{name} must have at least one ray and one frame, got shape={pattern.shape} and "
            f"n_frames={pattern.n_frames}"
        )
    frames = [pattern.rays()] if pattern.n_frames == 1 else map(pattern.frame_rays, range(pattern.n_frames))
    arrays: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for frame in frames:
        for found, what, rays in zip(arrays, ("origins", "directions"), frame, strict=True):
            found.append(np.ascontiguousarray(rays, np.float64))
            if found[-1].shape != expected:
                raise OptionError(
                    f"{name}.rays(): {what} must have shape {expected} to match its shape, got {found[-1].shape}"
                )
            if not np.isfinite(found[-1]).all():
                raise OptionError(f"{name}.rays(): {what} must be finite")
    origins, directions = map(np.concatenate, arrays)
    if np.abs(np.linalg.norm(directions, axis=1) - 1).max() > 1e-6:
        raise OptionError(f"{name}.rays(): directions must be unit vectors")
    return origins, directions
