"""``OccupancyMap``: free and occupied ground, from a scene or from map files of ROS.

Cells are pixels, as in the image files of ROS: row 0 is at the top and has the largest y, column 0 has the smallest x.
``origin`` is the pose of the lower left corner of the lower left cell in the world frame.
"""

from __future__ import annotations

import copy
import math
import os
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from sensorium._arguments import checked, checked_numbers, is_masked
from sensorium.errors import OptionError
from sensorium.files import made_folder, write_whole
from sensorium.options import checked_integer
from sensorium.scenarios.scanner import SceneScanner

if TYPE_CHECKING:
    from sensorium.worlds import Scene

FREE, OCCUPIED, UNKNOWN = 0, 100, -1
"""Values of cells, as in the messages of ROS."""

_FAR = 2**53
"""Largest row or column of a point outside a map."""
_MAX_POINTS = 10**8
_MAX_SPACING = 0.1
"""Max distance between the heights of horizontal rays, m."""


class OccupancyMap:
    """A grid of cells that are free (0), occupied (100) or unknown (-1).

    Args:
        cells: (rows, columns) of these values, row 0 at the top.
        resolution: size of a cell, m.
        origin: x, y in m and yaw in rad of the lower left corner, world frame.
        occupied_threshold: pixels of a map file that are darker than this, in [0, 1], are occupied.
        free_threshold: pixels of a map file that are lighter than this, in [0, 1], are free.
        negate: whether black and white are swapped in the file.

    Example:
        >>> room = OccupancyMap.from_scene(scene, resolution=0.05)
        >>> room.dilated(robot.radius).is_free([[1.0, 2.0]])
        array([ True])
        >>> room.save("out/map")  # map.yaml and map.png, which ROS reads too
    """

    @checked
    def __init__(
        self,
        cells: np.ndarray,
        resolution: float,
        origin: tuple[float, float, float] = (0.0, 0.0, 0.0),
        occupied_threshold: float = 0.65,
        free_threshold: float = 0.196,
        negate: bool = False,
    ) -> None:
        if is_masked(cells):
            raise OptionError(f"cells must not be masked; give {UNKNOWN} for unknown ones, got {cells!r:.80}")
        self.cells = np.array(cells, dtype=np.int8)
        if self.cells.ndim != 2 or self.cells.size == 0:
            raise OptionError(f"cells must have shape (rows, columns), got {self.cells.shape}")
        if not np.isin(self.cells, (FREE, OCCUPIED, UNKNOWN)).all():
            raise OptionError(f"cells must be {FREE} (free), {OCCUPIED} (occupied) or {UNKNOWN} (unknown)")
        if not math.isfinite(resolution) or resolution <= 0:
            raise OptionError(f"resolution must be > 0, got {resolution!r}")
        place = checked_numbers("origin: x, y and yaw", origin, (3,), finite=True)
        if not 0 <= free_threshold < occupied_threshold <= 1:
            raise OptionError(
                "thresholds must satisfy 0 <= free_threshold < occupied_threshold <= 1, got "
                f"free_threshold={free_threshold!r} with occupied_threshold={occupied_threshold!r}"
            )
        self.resolution = float(resolution)
        self.origin = (float(place[0]), float(place[1]), float(place[2]))
        self.occupied_threshold, self.free_threshold = float(occupied_threshold), float(free_threshold)
        self.negate = bool(negate)

    # -- from a scene -------------------------------------------------------------------------------------------------

    @classmethod
    @checked
    def from_scene(
        cls,
        scene: Scene,
        resolution: float = 0.05,
        heights: tuple[float, float] = (0.05, 0.5),
        bounds: tuple[float, float, float, float] | None = None,
        exclude: tuple[str, ...] | None = None,
        env: int = 0,
    ) -> Self:
        """Create the map of the current state of one env, by ray casting.

        A cell is occupied if there is geometry in it between the two heights. Rays go down and up through its centre,
        and horizontally to its neighbours every 0.1 m of height. A cell is unknown if there is no ground below.
        Geometry that is thinner than a cell in two directions may be missed.

        Args:
            scene: the scene, built.
            resolution: size of a cell, m.
            heights: range of heights that counts, m above z = 0: from what a robot can drive over to its top.
            bounds: left, bottom, right and top of the map, m, world frame. Default: around all geometry but planes.
            exclude: names of entities that are ignored. Default: all robots.
            env: which env.

        Raises:
            OptionError: an argument is out of range, or there are only planes and no bounds.
        """
        low, high = checked_numbers("heights", heights, (2,), finite=True)
        if not 0 <= low < high:
            raise OptionError(f"heights must be (low, high) with 0 <= low < high, got {heights!r}")
        if not math.isfinite(resolution) or resolution <= 0:
            raise OptionError(f"resolution must be > 0, got {resolution!r}")
        if not 0 <= env < scene.n_envs:
            raise OptionError(f"env must be in [0, {scene.n_envs}), got {env!r}")
        scanner = SceneScanner(scene, exclude, env)
        edges = scanner.bounds() if bounds is None else checked_numbers("bounds", bounds, (4,), finite=True)
        left, bottom, right, top = map(float, edges)
        if not (left < right and bottom < top):
            raise OptionError(f"bounds must be (left, bottom, right, top), got {bounds!r}")
        columns, rows = (max(1, math.ceil(extent / resolution - 1e-6)) for extent in (right - left, top - bottom))
        x = left + (np.arange(columns) + 0.5) * resolution
        y = bottom + (np.arange(rows)[::-1] + 0.5) * resolution
        centres = np.stack([*np.meshgrid(x, y), np.zeros((rows, columns))], axis=-1).reshape(-1, 3)

        down, up = np.array([0.0, 0.0, -1.0]), np.array([0.0, 0.0, 1.0])
        from_above, below = scanner.cast(centres + up * high, down)
        from_below, _ = scanner.cast(centres + up * low, up)
        occupied = (from_above <= high - low) | (from_below <= high - low)
        for height in np.linspace(low, high, 2 + math.floor((high - low) / _MAX_SPACING)):
            for right, ahead in ((1, 0), (-1, 0), (0, 1), (0, -1)):
                away, _ = scanner.cast(centres + up * height, np.array([right, ahead, 0.0]))
                hit = np.flatnonzero(away <= resolution)
                # the edge of a cell is half a cell from its centre: a surface on it, or beyond, is the neighbour's
                beyond = away[hit] > resolution * (0.5 - 1e-6)
                column, row = hit % columns + beyond * right, hit // columns - beyond * ahead
                inside = (column >= 0) & (column < columns) & (row >= 0) & (row < rows)
                occupied[row[inside] * columns + column[inside]] = True
        cells = np.where(occupied, OCCUPIED, np.where(below, FREE, UNKNOWN))
        return cls(cells.reshape(rows, columns), resolution, (left, bottom, 0.0))

    # -- files --------------------------------------------------------------------------------------------------------

    @checked
    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``map.yaml`` and ``map.png`` into a folder, in the format of ROS's map server.

        Raises:
            DatasetError: a file cannot be written.
        """
        import yaml
        from PIL import Image

        path = Path(folder)
        pixels = np.empty(self.cells.shape, np.uint8)
        for value, shade in zip((FREE, OCCUPIED, UNKNOWN), self._shades(), strict=True):
            pixels[self.cells == value] = shade
        picture = BytesIO()
        Image.fromarray(pixels).save(picture, "PNG")
        values = {
            "image": "map.png",
            "mode": "trinary",
            "resolution": self.resolution,
            "origin": list(self.origin),
            "negate": int(self.negate),
            "occupied_thresh": self.occupied_threshold,
            "free_thresh": self.free_threshold,
        }
        with made_folder(path):
            write_whole(path / "map.png", picture.getvalue())
            write_whole(path / "map.yaml", yaml.safe_dump(values, sort_keys=False).encode())

    def _shades(self) -> tuple[int, int, int]:
        """Return the grey values of free, occupied and unknown cells: those of ROS if the thresholds allow them."""
        found = []
        for value, usual in ((FREE, 254), (OCCUPIED, 0), (UNKNOWN, 205)):
            usual = 255 - usual if self.negate else usual
            shades = np.flatnonzero(self._meaning(np.arange(256)) == value)
            if not len(shades):
                if (self.cells == value).any():
                    raise OptionError(
                        f"no grey value stands for {value} with free_threshold={self.free_threshold} and "
                        f"occupied_threshold={self.occupied_threshold}; use 0.196 and 0.65"
                    )
                shades = np.array([usual])
            found.append(int(usual if usual in shades else shades[len(shades) // 2]))
        return found[0], found[1], found[2]

    def _meaning(self, pixels: np.ndarray) -> np.ndarray:
        return _meaning(pixels, self.negate, self.occupied_threshold, self.free_threshold)

    @classmethod
    @checked
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a map that :meth:`save` or ROS wrote.

        Args:
            path: the ``.yaml`` file, or the folder of a ``map.yaml``.

        Raises:
            OptionError: the file does not exist or is invalid.
        """
        import yaml
        from PIL import Image

        from sensorium import yaml_files

        file = Path(path)
        file = file / "map.yaml" if file.is_dir() else file
        if not file.is_file():
            raise OptionError(f"there is no map file {os.fspath(file)!r}")
        try:
            values = yaml_files.load(file.read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise OptionError(f"{file} is not valid YAML: {error}") from error
        needed = ("image", "resolution", "origin")
        if not isinstance(values, dict) or any(name not in values for name in needed):
            raise OptionError(f"{file}: a map needs the keys {', '.join(needed)}")
        if values.get("mode", "trinary") != "trinary":
            raise OptionError(f"{file}: mode must be 'trinary', got {values['mode']!r}; save the map in that mode")
        try:
            with Image.open(file.parent / str(values["image"])) as image:
                pixels = np.asarray(image.convert("RGB"), dtype=np.float64).mean(axis=2)
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise OptionError(f"{file}: cannot read its image {values['image']!r}: {error}") from error
        try:
            negate = bool(int(values.get("negate", 0)))
            occupied, free = float(values.get("occupied_thresh", 0.65)), float(values.get("free_thresh", 0.196))
            origin = [float(value) for value in values["origin"]]
            resolution = float(values["resolution"])
        except (TypeError, ValueError) as error:
            raise OptionError(f"{file}: resolution, origin, negate and thresholds must be numbers: {error}") from error
        try:
            cells = _meaning(pixels, negate, occupied, free)
            return cls(cells, resolution, tuple(origin), occupied, free, negate)  # type: ignore[arg-type]
        except OptionError as error:
            raise OptionError(f"{file}: {error}") from error

    # -- queries ------------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return self.cells.shape[0], self.cells.shape[1]

    @property
    def free(self) -> np.ndarray:
        """Whether each cell is free, (rows, columns) bool."""
        return self.cells == FREE

    def to_world(self, pixels: npt.ArrayLike) -> np.ndarray:
        """Return the centres of cells in the world frame, (n, 2) m, given row and column, (n, 2)."""
        place = checked_numbers("pixels", pixels, (..., 2))
        along = (place[..., 1] + 0.5) * self.resolution
        across = (self.shape[0] - 1 - place[..., 0] + 0.5) * self.resolution
        x, y, yaw = self.origin
        return np.stack(
            [
                x + math.cos(yaw) * along - math.sin(yaw) * across,
                y + math.sin(yaw) * along + math.cos(yaw) * across,
            ],
            axis=-1,
        )

    def to_pixels(self, points: npt.ArrayLike) -> np.ndarray:
        """Return row and column (n, 2) of points in the world frame, (n, 2) m; also outside the map."""
        place = checked_numbers("points", points, (..., 2), finite=True)
        x, y, yaw = self.origin
        dx, dy = place[..., 0] - x, place[..., 1] - y
        along = math.cos(yaw) * dx + math.sin(yaw) * dy
        across = math.cos(yaw) * dy - math.sin(yaw) * dx
        steps = np.floor(np.stack([across, along], axis=-1) / self.resolution)
        cells = np.clip(steps, -_FAR, _FAR).astype(np.int64)
        return np.stack([self.shape[0] - 1 - cells[..., 0], cells[..., 1]], axis=-1)

    def is_free(self, points: npt.ArrayLike) -> np.ndarray:
        """Return whether points in the world frame, (n, 2) m, lie in free cells; False outside the map."""
        pixels = self.to_pixels(points)
        rows, columns = self.shape
        row, column = pixels[..., 0], pixels[..., 1]
        inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
        return inside & self.free[np.clip(row, 0, rows - 1), np.clip(column, 0, columns - 1)]

    @checked
    def dilated(self, radius: float) -> Self:
        """Return the map for the centre of a round robot.

        Every cell whose centre lies within ``radius`` metres of the centre of an occupied one becomes occupied.
        """
        if not math.isfinite(radius) or radius < 0:
            raise OptionError(f"radius must be >= 0, got {radius!r}")
        wide = copy.copy(self)
        wide.cells = self.cells.copy()
        wide.cells[self.clearance() <= radius + 1e-9] = OCCUPIED
        return wide

    def clearance(self) -> np.ndarray:
        """Return the distance from each cell to the nearest occupied one, (rows, columns) m; inf without one."""
        from scipy.ndimage import distance_transform_edt

        occupied = self.cells == OCCUPIED
        if not occupied.any():
            return np.full(self.shape, np.inf)
        return np.asarray(distance_transform_edt(~occupied)) * self.resolution

    def sample_free(self, count: int, seed: int = 0) -> np.ndarray:
        """Return uniformly distributed points in free cells, (count, 2) m; the same for the same seed.

        Raises:
            OptionError: ``count`` or ``seed`` is not an integer >= 0, or no cell is free.
        """
        count, seed = checked_integer("count", count, 0, _MAX_POINTS), checked_integer("seed", seed)
        pixels = np.argwhere(self.free)
        if not len(pixels):
            raise OptionError("the map has no free cell")
        rng = np.random.default_rng(seed)
        chosen = pixels[rng.integers(len(pixels), size=count)]
        return self.to_world(chosen + rng.uniform(-0.499, 0.499, (count, 2)))

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"<OccupancyMap {rows} x {columns} cells of {self.resolution:g} m, {self.free.mean():.0%} free>"


def _meaning(pixels: np.ndarray, negate: bool, occupied: float, free: float) -> np.ndarray:
    """Return the values of cells for grey values, as ROS's map server defines them."""
    shade = pixels / 255.0 if negate else (255.0 - pixels) / 255.0
    return np.where(shade > occupied, OCCUPIED, np.where(shade < free, FREE, UNKNOWN))
