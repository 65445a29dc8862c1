"""Ray patterns: origins and directions of the rays of a ray-casting sensor.

A pattern is a frozen set of options that defines origins and unit directions in the sensor's frame (x forward, y left,
z up), and the shape of the readings. Angles are in degrees: azimuth from x towards y (counter-clockwise seen from
above), elevation from the x-y plane upwards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated

import numpy as np
from pydantic import BeforeValidator, Field, PlainSerializer, field_validator, model_validator

from sensorium._arguments import as_array
from sensorium.errors import did_you_mean
from sensorium.options import Options
from sensorium.sensors.field_of_view import check_names, focal_lengths

Angles = tuple[float, ...]
Extent = float | tuple[float, float]
"""A field of view along one axis, degrees: its width, centred on 0, or (min, max)."""
_ROUNDING = 1e-9


class Pattern(Options):
    """Base of all patterns. Derive from it for a pattern of your own, or use :class:`ArrayPattern`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the readings, without B. A scanning head scans along the last axis."""
        raise TypeError(f"{type(self).__name__} must define shape")

    def rays(self) -> tuple[np.ndarray, np.ndarray]:
        """Return origins (m) and unit directions in the sensor's frame, (n, 3) each, in the order of the flattened
        shape."""
        raise TypeError(f"{type(self).__name__} must define rays")

    @property
    def n_frames(self) -> int:
        """Number of readings after which the pattern repeats. It is 1 for a pattern that is always the same."""
        return 1

    def frame_rays(self, frame: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rays of one of ``n_frames`` readings, as :meth:`rays` does, which returns those of the first."""
        return self.rays()


def load_pattern(value: object) -> object:
    """Return the pattern that :func:`dump_pattern` has dumped, and any other value unchanged.

    Raises:
        ValueError: the dump names no known kind of pattern.
    """
    if not isinstance(value, Mapping):
        return value
    known = {cls.__name__: cls for cls in _subclasses(Pattern) if not cls.__name__.startswith("_")}
    kind = value.get("kind")
    if kind not in known:
        raise ValueError(
            f"pattern.kind must be one of {', '.join(known)}, got {kind!r}{did_you_mean(str(kind), known)}"
        )
    return known[kind](**{name: given for name, given in value.items() if name != "kind"})


def dump_pattern(pattern: Pattern) -> dict[str, object]:
    """Return a pattern as plain values: its options, and the name of its class as ``kind``."""
    return {"kind": type(pattern).__name__, **pattern.model_dump()}


def _subclasses(cls: type[Pattern]) -> list[type[Pattern]]:
    return [found for sub in cls.__subclasses__() for found in (sub, *_subclasses(sub))]


AnyPattern = Annotated[Pattern, BeforeValidator(load_pattern), PlainSerializer(dump_pattern)]
"""A pattern as an option. It is saved with its kind, and loaded by it."""


class GridPattern(Pattern):
    """Parallel rays over a rectangle, as of a height scan.

    Element [i, j] starts at x = (i - (rows - 1) / 2) * resolution, y = (j - (columns - 1) / 2) * resolution, z = 0.
    Rows run forward, columns to the left, and the grid is centred. A size of (1.6, 1.0) at a resolution of 0.1 gives
    (17, 11) rays.

    Example:
        >>> sn.Raycaster(link="base", alignment="yaw", pattern=sn.GridPattern(size=(1.6, 1.0), resolution=0.1))
    """

    size: tuple[float, float]
    """Extent along x and y, m, with rays on the edges."""
    resolution: float = Field(gt=0)
    """Distance between neighbouring rays, m."""
    direction: tuple[float, float, float] = (0.0, 0.0, -1.0)
    """Direction of all rays; it is normalised. Default: down."""

    @field_validator("size")
    @classmethod
    def _size(cls, value: tuple[float, float]) -> tuple[float, float]:
        if min(value) < 0:
            raise ValueError("must be >= 0")
        return value

    @field_validator("direction")
    @classmethod
    def _direction(cls, value: tuple[float, float, float]) -> tuple[float, float, float]:
        if math.hypot(*value) < 1e-9:
            raise ValueError("must not be zero")
        return value

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(math.floor(extent / self.resolution + _ROUNDING) + 1 for extent in self.size)

    def rays(self) -> tuple[np.ndarray, np.ndarray]:
        x, y = ((np.arange(count) - (count - 1) / 2) * self.resolution for count in self.shape)
        grid = np.stack([*np.meshgrid(x, y, indexing="ij"), np.zeros(self.shape)], axis=-1)
        direction = np.array(self.direction) / np.linalg.norm(self.direction)
        return grid.reshape(-1, 3), np.tile(direction, (grid[..., 0].size, 1))


class SphericalPattern(Pattern):
    """Rays from one point over azimuth and elevation, as of a lidar. Rows are elevations, columns azimuths.

    Angles increase: row 0 is the lowest, column 0 the rightmost. A field of view below 360 degrees has a ray on both of
    its edges. A full circle starts at -180 degrees (or at its min) and omits +180 (its max), so that no column is
    duplicated.

    Example:
        >>> sn.SphericalPattern(fov=(360, 30), n_points=(360, 16))      # (16, 360) rays, 1 degree and 2 degrees apart
        >>> sn.SphericalPattern(fov=(360, 30), resolution=(0.2, 2.0))   # (16, 1800)
        >>> sn.SphericalPattern(fov=(360, (-25, 15)), n_points=(360, 41))   # from 25 degrees below to 15 above
        >>> sn.SphericalPattern(elevations=(-25, -8, -4, -2, 0, 5))     # (6, 360), with the elevations of a device
    """

    fov: tuple[Extent, Extent] = (360.0, 30.0)
    """Horizontal and vertical field of view, degrees. Each is a width, centred on x, or a pair (min, max): ``(90, 30)``
    is 90 wide and 30 high, ``((-20, 70), (-25, 5))`` has the same size off the axis."""
    hfov: Extent | None = None
    """Horizontal field of view, degrees, instead of the first entry of ``fov``."""
    vfov: Extent | None = None
    """Vertical field of view, degrees, instead of the second entry of ``fov``."""
    n_points: tuple[int, int] | None = None
    """Number of azimuths and of elevations. Default: (360, 16), unless ``resolution`` is given."""
    resolution: tuple[float, float] | None = None
    """Alternative to ``n_points``: angle between neighbouring azimuths and elevations, degrees. A full circle is
    divided into the nearest integer number of steps."""
    azimuths: Angles | None = None
    """Explicit azimuths, degrees, in the order of the columns."""
    elevations: Angles | None = None
    """Explicit elevations, degrees, in the order of the rows."""

    @model_validator(mode="after")
    def _check(self) -> SphericalPattern:
        (left, right), (low, high) = map(_ends, self._extents())
        if not 0 <= right - left <= 360 or max(abs(left), abs(right)) > 360 or not -90 <= low <= high <= 90:
            names = "fov" if self.hfov is None and self.vfov is None else "hfov and vfov"
            raise ValueError(
                f"{names} must lie in [0, 360] and [0, 180] degrees, or be (min, max) with at most 360 degrees between "
                f"them and in [-90, 90] degrees, got {self._extents()}"
            )
        _check_short_fov(self, "(hfov, vfov)")
        if self.n_points is not None and self.resolution is not None:
            raise ValueError("give n_points or resolution, not both")
        if self.n_points is not None and min(self.n_points) < 1:
            raise ValueError(f"n_points must be >= 1 each, got {self.n_points}")
        if self.resolution is not None and min(self.resolution) <= 0:
            raise ValueError(f"resolution must be > 0, got {self.resolution}")
        for name in ("azimuths", "elevations"):
            if getattr(self, name) == ():
                raise ValueError(f"{name} must hold at least one angle")
        if self.elevations is not None and max(map(abs, self.elevations)) > 90:
            raise ValueError(f"elevations must lie in [-90, 90] degrees, got {self.elevations}")
        for name, angles in (("hfov", "azimuths"), ("vfov", "elevations")):
            if getattr(self, name) is not None and getattr(self, angles) is not None:
                raise ValueError(f"{name} has no effect together with {angles}; omit it")
        if self.azimuths is not None and self.elevations is not None:
            for name in ("n_points", "resolution"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} has no effect together with azimuths and elevations; omit it")
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        azimuths, elevations = self._angles()
        return len(elevations), len(azimuths)

    def rays(self) -> tuple[np.ndarray, np.ndarray]:
        azimuths, elevations = self._angles()
        directions = angles_to_vectors(azimuths[None, :], elevations[:, None]).reshape(-1, 3)
        return np.zeros_like(directions), directions

    def _extents(self) -> tuple[Extent, Extent]:
        """Return the horizontal and the vertical field of view."""
        return self.fov[0] if self.hfov is None else self.hfov, self.fov[1] if self.vfov is None else self.vfov

    def _angles(self) -> tuple[np.ndarray, np.ndarray]:
        counts: tuple[int | None, int | None] = (360, 16)
        if self.n_points is not None:
            counts = self.n_points
        elif self.resolution is not None:
            counts = None, None
        steps = self.resolution or (1.0, 1.0)
        across, upright = self._extents()
        return (
            _spread(across, counts[0], steps[0]) if self.azimuths is None else np.array(self.azimuths),
            _spread(upright, counts[1], steps[1]) if self.elevations is None else np.array(self.elevations),
        )


class RingPattern(Pattern):
    """Rays from one point in one plane, as of a 2D laser scanner. Azimuths increase as in :class:`SphericalPattern`.

    Example:
        >>> sn.RingPattern(n_points=1081, fov=270)     # (1081,) rays, a quarter of a degree apart
    """

    n_points: int = Field(default=360, ge=1)
    """Number of rays."""
    fov: float = Field(default=360.0, ge=0, le=360)
    """Horizontal field of view, degrees."""
    hfov: float | None = Field(default=None, ge=0, le=360)
    """The same as ``fov``."""
    elevation: float = Field(default=0.0, ge=-90, le=90)
    """Elevation of all rays, degrees. If it is not 0, they lie on a cone."""

    @model_validator(mode="after")
    def _check(self) -> RingPattern:
        _check_short_fov(self, "hfov")
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_points,)

    def rays(self) -> tuple[np.ndarray, np.ndarray]:
        azimuths = _spread(self.fov if self.hfov is None else self.hfov, self.n_points)
        directions = angles_to_vectors(azimuths, np.array(self.elevation))
        return np.zeros_like(directions), directions


class PinholePattern(Pattern):
    """Rays through the pixel centres of an ideal camera that looks along x. Rows from the top, columns from the left.

    The ray of the pixel in column u and row v (counted from 0) points along (1, (cx - u - 1/2) / fx, (cy - v - 1/2) /
    fy). Depth along the optical axis is the distance times the first component of the unit direction.

    Example:
        >>> sn.PinholePattern(width=64, height=48, hfov=87)
    """

    width: int = Field(ge=1)
    """Number of pixel columns."""
    height: int = Field(ge=1)
    """Number of pixel rows."""
    fov: float | None = Field(default=None, gt=0, lt=180)
    """The same as ``hfov``."""
    hfov: float | None = Field(default=None, gt=0, lt=180)
    """Horizontal field of view from the left to the right edge of the image, degrees; pixels are square. Default: 90,
    unless ``vfov`` is set."""
    vfov: float | None = Field(default=None, gt=0, lt=180)
    """Vertical field of view from the top to the bottom edge of the image, degrees; pixels are square. ``hfov`` may be
    set too, if both fit the aspect ratio within 5%."""
    intrinsics: tuple[float, float, float, float] | None = None
    """Instead of angles: (fx, fy, cx, cy) of a calibration, in pixels; (0, 0) is the image's upper left corner."""

    @model_validator(mode="after")
    def _check(self) -> PinholePattern:
        angles = {name: getattr(self, name) is not None for name in ("fov", "hfov", "vfov")}
        check_names("horizontal", angles, "intrinsics", self.intrinsics is not None)
        if self.intrinsics is not None and min(self.intrinsics[:2]) <= 0:
            raise ValueError(f"fx and fy must be > 0, got {self.intrinsics[:2]}")
        self.calibration()
        return self

    def calibration(self) -> tuple[float, float, float, float]:
        """Return focal lengths and principal point (fx, fy, cx, cy) in pixels."""
        if self.intrinsics is not None:
            return self.intrinsics
        size = (self.width, self.height)
        hfov = 90.0 if self.fov is None and self.vfov is None and self.hfov is None else self.hfov
        given = focal_lengths("horizontal", size, self.fov, hfov, self.vfov, "intrinsics=(fx, fy, cx, cy)")
        assert given is not None
        fx, fy = given
        return fx, fy, self.width / 2, self.height / 2

    @property
    def shape(self) -> tuple[int, ...]:
        return self.height, self.width

    def rays(self) -> tuple[np.ndarray, np.ndarray]:
        fx, fy, cx, cy = self.calibration()
        left = (cx - np.arange(self.width) - 0.5) / fx
        up = (cy - np.arange(self.height) - 0.5) / fy
        vectors = np.ones((*self.shape, 3))
        vectors[..., 1] = left
        vectors[..., 2] = up[:, None]
        vectors = vectors.reshape(-1, 3)
        return np.zeros_like(vectors), vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _nested(values: object) -> object:
    """Return an array as nested tuples, so that options can be compared and are immutable."""
    if hasattr(values, "tolist"):
        array = as_array(values)
        if array.dtype.kind not in "fiu":
            raise ValueError(f"must be numbers, got {values!r:.80}")
        values = array.tolist()
    return tuple(_nested(value) for value in values) if isinstance(values, list | tuple) else values


Vectors = Annotated[tuple[object, ...], BeforeValidator(_nested)]
"""An array (..., 3), or nested sequences of numbers."""


class ArrayPattern(Pattern):
    """Rays from arrays.

    Example:
        >>> sn.ArrayPattern(directions=np.eye(3))                      # (3,) rays along x, y and z
        >>> sn.ArrayPattern(origins=corners, directions=(0, 0, -1))    # down from each point
    """

    directions: Vectors
    """Directions in the sensor's frame, (..., 3). They are normalised."""
    origins: Vectors = (0.0, 0.0, 0.0)
    """Origins in the sensor's frame, (..., 3) m. Origins and directions are broadcast to one shape."""

    @model_validator(mode="after")
    def _check(self) -> ArrayPattern:
        arrays = {}
        for name in ("origins", "directions"):
            try:
                array = np.asarray(getattr(self, name), dtype=np.float64)
            except (ValueError, TypeError) as error:
                raise ValueError(f"{name} must be an array of numbers, (..., 3)") from error
            if array.ndim == 0 or array.shape[-1] != 3 or array.size == 0:
                raise ValueError(f"{name} must have shape (..., 3), got {array.shape}")
            if not np.isfinite(array).all():
                raise ValueError(f"{name} must be finite")
            arrays[name] = array
        if (np.linalg.norm(arrays["directions"], axis=-1) < _ROUNDING).any():
            raise ValueError("directions must not be zero")
        try:
            np.broadcast_shapes(*(array.shape for array in arrays.values()))
        except ValueError as error:
            shapes = " and ".join(str(array.shape) for array in arrays.values())
            raise ValueError(f"origins and directions must broadcast to one shape, got {shapes}") from error
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        shapes = (np.asarray(vectors, float).shape for vectors in (self.origins, self.directions))
        return np.broadcast_shapes(*shapes)[:-1] or (1,)

    def rays(self) -> tuple[np.ndarray, np.ndarray]:
        origins, vectors = np.broadcast_arrays(np.array(self.origins, float), np.array(self.directions, float))
        origins, vectors = origins.reshape(-1, 3).copy(), vectors.reshape(-1, 3)
        return origins, vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _check_short_fov(pattern: SphericalPattern | RingPattern, same: str) -> None:
    """Raise ValueError if ``fov`` is set together with the options that it stands for, which ``same`` names."""
    given = [name for name in ("hfov", "vfov") if getattr(pattern, name, None) is not None]
    if given and "fov" in pattern.model_fields_set:
        raise ValueError(f"fov, which is {same}, contradicts {' and '.join(given)}; set only one of them")


def _ends(fov: Extent) -> tuple[float, float]:
    """Return min and max of a field of view, degrees."""
    return fov if isinstance(fov, tuple) else (-fov / 2, fov / 2)


def _spread(fov: Extent, count: int | None, step: float = 1.0) -> np.ndarray:
    """Return increasing angles over a field of view: ``count`` of them, or ``step`` apart; degrees."""
    low, high = _ends(fov)
    if high - low == 360.0:
        count = count or max(1, round(360.0 / step))
        return low + np.arange(count) * (360.0 / count)
    middle = (low + high) / 2
    if count is None:
        count = math.floor((high - low) / step + _ROUNDING) + 1
        return middle + (np.arange(count) - (count - 1) / 2) * step
    return np.full(1, middle) if count == 1 else np.linspace(low, high, count)


def angles_to_vectors(azimuths: np.ndarray, elevations: np.ndarray) -> np.ndarray:
    """Return unit vectors of broadcast angles in degrees, (..., 3)."""
    azimuth, elevation = np.broadcast_arrays(np.radians(azimuths), np.radians(elevations))
    level = np.cos(elevation)
    return np.stack([level * np.cos(azimuth), level * np.sin(azimuth), np.sin(elevation)], axis=-1)
