"""Ray patterns: where the rays of a ray-casting sensor start and where they point.

A pattern is a frozen set of options that gives origins and unit directions in the sensor's frame (x forward, y left,
z up) and the shape in which readings come. Angles are degrees: azimuth counts from x towards y (counter-clockwise seen
from above), elevation from the x-y plane upwards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field, PlainSerializer, field_validator, model_validator

from sensorium.errors import did_you_mean
from sensorium.options import Options

Angles = tuple[float, ...]
_ROUNDING = 1e-9


class Pattern(Options):
    """What all patterns share; derive from it for one of your own, or use :class:`ArrayPattern`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the readings, without B. In scanning mode the last axis is the one that turns."""
        raise TypeError(f"{type(self).__name__} must define shape")

    def rays(self) -> tuple[np.ndarray, np.ndarray]:
        """Origins in m and unit directions in the sensor's frame, (n, 3) each, in the order of the flattened shape."""
        raise TypeError(f"{type(self).__name__} must define rays")


def load_pattern(value: Any) -> Any:
    """A pattern from what :func:`dump_pattern` made of it; anything else as it is."""
    if not isinstance(value, Mapping):
        return value
    known = {cls.__name__: cls for cls in _subclasses(Pattern)}
    kind = value.get("kind")
    if kind not in known:
        raise ValueError(
            f"pattern needs a kind{did_you_mean(str(kind), known)}: one of {', '.join(known)}; got {kind!r}"
        )
    return known[kind](**{name: given for name, given in value.items() if name != "kind"})


def dump_pattern(pattern: Pattern) -> dict[str, Any]:
    """A pattern as plain values: its options, and the name of its class as ``kind``."""
    return {"kind": type(pattern).__name__, **pattern.model_dump()}


def _subclasses(cls: type[Pattern]) -> list[type[Pattern]]:
    return [found for sub in cls.__subclasses__() for found in (sub, *_subclasses(sub))]


AnyPattern = Annotated[Pattern, BeforeValidator(load_pattern), PlainSerializer(dump_pattern)]
"""A pattern in options; saved with its kind, and loaded by it."""


class GridPattern(Pattern):
    """Parallel rays over a rectangle: a height scan.

    Element [i, j] starts at x = (i - (rows - 1) / 2) * resolution, y = (j - (columns - 1) / 2) * resolution, z = 0:
    rows go forward, columns to the left, and the grid is centred. A size of (1.6, 1.0) at 0.1 gives (17, 11) rays.

    Example:
        >>> sn.Raycaster(link="base", alignment="yaw", pattern=sn.GridPattern(size=(1.6, 1.0), resolution=0.1))
    """

    size: tuple[float, float]
    """Extent along x and y, m; rays lie on its edges too."""
    resolution: float = Field(gt=0)
    """Distance between neighbouring rays, m."""
    direction: tuple[float, float, float] = (0.0, 0.0, -1.0)
    """Where all rays point; normalised. Default: down."""

    @field_validator("size")
    @classmethod
    def _size(cls, value: tuple[float, float]) -> tuple[float, float]:
        if min(value) < 0:
            raise ValueError("extents must not be negative")
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
    """Rays from one point over azimuth and elevation: a lidar. Rows are elevations, columns azimuths.

    Angles ascend: row 0 is the lowest, column 0 the rightmost, and both are centred on x. A field of view below 360
    degrees has a ray on each of its two edges; one of 360 begins at -180 and leaves its end out, so that no column
    comes twice.

    Example:
        >>> sn.SphericalPattern(fov=(360, 30), n_points=(360, 16))      # (16, 360) rays, 1 degree and 2 degrees apart
        >>> sn.SphericalPattern(fov=(360, 30), resolution=(0.2, 2.0))   # (16, 1800)
        >>> sn.SphericalPattern(elevations=(-25, -8, -4, -2, 0, 5))     # (6, 360), the rows of a device's own
    """

    fov: tuple[float, float] = (360.0, 30.0)
    """Horizontal and vertical field of view, degrees."""
    n_points: tuple[int, int] | None = None
    """Number of azimuths and of elevations. Default: (360, 16), unless ``resolution`` is given."""
    resolution: tuple[float, float] | None = None
    """Instead: degrees between neighbouring azimuths and elevations. A full circle is divided into the nearest whole
    number of them."""
    azimuths: Angles | None = None
    """Instead: the azimuths themselves, degrees, in the order of the columns."""
    elevations: Angles | None = None
    """Instead: the elevations themselves, degrees, in the order of the rows."""

    @model_validator(mode="after")
    def _check(self) -> SphericalPattern:
        if not 0 <= self.fov[0] <= 360 or not 0 <= self.fov[1] <= 180:
            raise ValueError(f"fov must lie in [0, 360] and [0, 180] degrees, got {self.fov}")
        if self.n_points is not None and self.resolution is not None:
            raise ValueError("give n_points or resolution, not both")
        if self.n_points is not None and min(self.n_points) < 1:
            raise ValueError(f"n_points must be at least 1 each, got {self.n_points}")
        if self.resolution is not None and min(self.resolution) <= 0:
            raise ValueError(f"resolution must be greater than 0, got {self.resolution}")
        for name in ("azimuths", "elevations"):
            if getattr(self, name) == ():
                raise ValueError(f"{name} must hold at least one angle")
        if self.elevations is not None and max(map(abs, self.elevations)) > 90:
            raise ValueError(f"elevations must lie in [-90, 90] degrees, got {self.elevations}")
        if self.azimuths is not None and self.elevations is not None:
            for name in ("n_points", "resolution"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} has no effect when azimuths and elevations are given; leave it out")
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        azimuths, elevations = self._angles()
        return len(elevations), len(azimuths)

    def rays(self) -> tuple[np.ndarray, np.ndarray]:
        azimuths, elevations = self._angles()
        directions = _directions(azimuths[None, :], elevations[:, None]).reshape(-1, 3)
        return np.zeros_like(directions), directions

    def _angles(self) -> tuple[np.ndarray, np.ndarray]:
        counts: tuple[int | None, int | None] = (360, 16)
        if self.n_points is not None:
            counts = self.n_points
        elif self.resolution is not None:
            counts = None, None
        steps = self.resolution or (1.0, 1.0)
        return (
            _spread(self.fov[0], counts[0], steps[0]) if self.azimuths is None else np.array(self.azimuths),
            _spread(self.fov[1], counts[1], steps[1]) if self.elevations is None else np.array(self.elevations),
        )


class RingPattern(Pattern):
    """Rays from one point in one plane: a 2D laser scanner. Azimuths ascend as in :class:`SphericalPattern`.

    Example:
        >>> sn.RingPattern(n_points=1081, fov=270)     # (1081,) rays, a quarter of a degree apart
    """

    n_points: int = Field(default=360, ge=1)
    """Number of rays."""
    fov: float = Field(default=360.0, ge=0, le=360)
    """Field of view, degrees."""
    elevation: float = Field(default=0.0, ge=-90, le=90)
    """Elevation of all rays, degrees: other than 0, they lie on a cone."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_points,)

    def rays(self) -> tuple[np.ndarray, np.ndarray]:
        directions = _directions(_spread(self.fov, self.n_points), np.array(self.elevation))
        return np.zeros_like(directions), directions


class PinholePattern(Pattern):
    """Rays through the pixel centres of an ideal camera that looks along x. Rows from the top, columns from the left.

    The ray of a pixel at column u, row v (counted from 0) points along (1, (cx - u - 1/2) / fx, (cy - v - 1/2) / fy);
    depth along the optical axis is distance times the direction's first component.

    Example:
        >>> sn.PinholePattern(width=64, height=48, fov=87)
    """

    width: int = Field(ge=1)
    """Columns."""
    height: int = Field(ge=1)
    """Rows."""
    fov: float | None = Field(default=None, gt=0, lt=180)
    """Horizontal field of view from the left edge of the image to the right one, degrees; pixels are square.
    Default: 90."""
    intrinsics: tuple[float, float, float, float] | None = None
    """Instead: (fx, fy, cx, cy) in pixels, as a calibration gives them; (0, 0) is the image's upper left corner."""

    @model_validator(mode="after")
    def _check(self) -> PinholePattern:
        if self.intrinsics is not None:
            if self.fov is not None:
                raise ValueError("give fov or intrinsics, not both")
            if min(self.intrinsics[:2]) <= 0:
                raise ValueError(f"fx and fy must be greater than 0, got {self.intrinsics[:2]}")
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        return self.height, self.width

    def rays(self) -> tuple[np.ndarray, np.ndarray]:
        focal = self.width / 2 / math.tan(math.radians(self.fov or 90.0) / 2)
        fx, fy, cx, cy = self.intrinsics or (focal, focal, self.width / 2, self.height / 2)
        left = (cx - np.arange(self.width) - 0.5) / fx
        up = (cy - np.arange(self.height) - 0.5) / fy
        vectors = np.ones((*self.shape, 3))
        vectors[..., 1] = left
        vectors[..., 2] = up[:, None]
        vectors = vectors.reshape(-1, 3)
        return np.zeros_like(vectors), vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _nested(values: Any) -> Any:
    """An array as nested tuples: options can be compared, and nobody can change them afterwards."""
    if isinstance(values, int | float):
        return values
    if hasattr(values, "tolist"):
        values = values.tolist()
    return tuple(_nested(value) for value in values) if isinstance(values, list | tuple) else values


Vectors = Annotated[tuple[Any, ...], BeforeValidator(_nested)]
"""An array (..., 3), or nested sequences."""


class ArrayPattern(Pattern):
    """Your own rays.

    Example:
        >>> sn.ArrayPattern(directions=np.eye(3))                                       # (3,) rays along x, y and z
        >>> sn.ArrayPattern(origins=corners, directions=(0, 0, -1))                     # down from each of your points
    """

    directions: Vectors
    """Directions in the sensor's frame, (..., 3); normalised."""
    origins: Vectors = (0.0, 0.0, 0.0)
    """Where the rays start in the sensor's frame, m, (..., 3); both are broadcast to one shape."""

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
        return np.broadcast_shapes(np.shape(self.origins), np.shape(self.directions))[:-1] or (1,)

    def rays(self) -> tuple[np.ndarray, np.ndarray]:
        origins, vectors = np.broadcast_arrays(np.array(self.origins, float), np.array(self.directions, float))
        origins, vectors = origins.reshape(-1, 3).copy(), vectors.reshape(-1, 3)
        return origins, vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _spread(fov: float, count: int | None, step: float = 1.0) -> np.ndarray:
    """Ascending angles over a field of view centred on 0: ``count`` of them, or ``step`` apart."""
    if fov == 360.0:
        count = count or max(1, round(360.0 / step))
        return -180.0 + np.arange(count) * (360.0 / count)
    if count is None:
        count = math.floor(fov / step + _ROUNDING) + 1
        return (np.arange(count) - (count - 1) / 2) * step
    return np.zeros(1) if count == 1 else np.linspace(-fov / 2, fov / 2, count)


def _directions(azimuths: np.ndarray, elevations: np.ndarray) -> np.ndarray:
    azimuth, elevation = np.broadcast_arrays(np.radians(azimuths), np.radians(elevations))
    level = np.cos(elevation)
    return np.stack([level * np.cos(azimuth), level * np.sin(azimuth), np.sin(elevation)], axis=-1)
