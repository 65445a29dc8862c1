"""``OccupancyMap``: what is free and what is not on the ground, from a scene or from ROS's map files.

Cells are pixels: row 0 is at the top, which is the greatest y, as in the image that ROS keeps; column 0 is the least x.
``origin`` is where the lower left corner of the lower left cell lies in the world, and how the map is turned there.
"""

from __future__ import annotations

import copy
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import mujoco
import numpy as np
from mujoco.batch import Batch

from sensorium.errors import OptionError

if TYPE_CHECKING:
    from sensorium.worlds import Scene

FREE, OCCUPIED, UNKNOWN = 0, 100, -1
"""Values of cells, as in ROS's messages."""

_PROBES = 0.1
"""Metres between the heights at which a map looks sideways, at most."""
_HIDDEN = 5
"""The geom group into which rays do not look."""


class OccupancyMap:
    """A grid of cells that are free (0), occupied (100) or unknown (-1).

    Args:
        cells: (rows, columns) of these values, row 0 at the top.
        resolution: metres of a cell.
        origin: x, y in metres and yaw in rad of the lower left corner.
        occupied_threshold: of ROS's files: a pixel that is darker than this is occupied.
        free_threshold: a pixel that is lighter than this is free.
        negate: whether black and white change places in the file.

    Example:
        >>> room = OccupancyMap.from_scene(scene, resolution=0.05)
        >>> room.dilated(robot.radius).is_free([[1.0, 2.0]])
        array([ True])
        >>> room.save("out/map")  # map.yaml and map.png, which ROS reads too
    """

    def __init__(
        self,
        cells: np.ndarray,
        resolution: float,
        origin: tuple[float, float, float] = (0.0, 0.0, 0.0),
        occupied_threshold: float = 0.65,
        free_threshold: float = 0.196,
        negate: bool = False,
    ) -> None:
        self.cells = np.array(cells, dtype=np.int8)
        if self.cells.ndim != 2 or self.cells.size == 0:
            raise OptionError(f"cells must have shape (rows, columns), got {self.cells.shape}")
        if not np.isin(self.cells, (FREE, OCCUPIED, UNKNOWN)).all():
            raise OptionError(f"cells must be {FREE} (free), {OCCUPIED} (occupied) or {UNKNOWN} (unknown)")
        if not math.isfinite(resolution) or resolution <= 0:
            raise OptionError(f"resolution must be greater than 0, got {resolution!r}")
        if len(origin) != 3 or not np.isfinite(origin).all():
            raise OptionError(f"origin must be x, y and yaw, got {origin!r}")
        if not 0 <= free_threshold < occupied_threshold <= 1:
            raise OptionError(
                "thresholds must satisfy 0 <= free_threshold < occupied_threshold <= 1, got "
                f"free_threshold={free_threshold!r} with occupied_threshold={occupied_threshold!r}"
            )
        self.resolution = float(resolution)
        self.origin = (float(origin[0]), float(origin[1]), float(origin[2]))
        self.occupied_threshold, self.free_threshold = float(occupied_threshold), float(free_threshold)
        self.negate = bool(negate)

    # -- from a scene -------------------------------------------------------------------------------------------------

    @classmethod
    def from_scene(
        cls,
        scene: Scene,
        resolution: float = 0.05,
        heights: tuple[float, float] = (0.05, 0.5),
        bounds: tuple[float, float, float, float] | None = None,
        exclude: tuple[str, ...] | None = None,
        env: int = 0,
    ) -> Self:
        """Look at one env of a running scene, as it is now, by the engine's rays.

        A cell is occupied if anything lies in it between the two heights: rays go down and up through its middle, and
        sideways to its neighbours every 0.1 m of height. It is unknown if there is no ground below. What is thinner
        than a cell in two directions at once may be missed.

        Args:
            scene: the scene, built.
            resolution: metres of a cell.
            heights: from where to where things count, metres above z = 0: above what a robot drives over, up to its
                top.
            bounds: x and y of the lower left corner, then of the upper right, metres. Default: around all geometry but
                planes.
            exclude: names of entities that are not there. Default: all that were added as robots.
            env: which env.
        """
        low, high = heights
        if not 0 <= low < high:
            raise OptionError(f"heights must be (low, high) with 0 <= low < high, got {heights!r}")
        if not math.isfinite(resolution) or resolution <= 0:
            raise OptionError(f"resolution must be greater than 0, got {resolution!r}")
        if not 0 <= env < scene.n_envs:
            raise OptionError(f"env must lie in [0, {scene.n_envs}), got {env!r}")
        eye = _Eye(scene, exclude, env)
        left, bottom, right, top = bounds or eye.bounds()
        if not (left < right and bottom < top):
            raise OptionError(f"bounds must be (left, bottom, right, top), got {bounds!r}")
        columns, rows = (max(1, math.ceil(extent / resolution - 1e-6)) for extent in (right - left, top - bottom))
        x = left + (np.arange(columns) + 0.5) * resolution
        y = bottom + (np.arange(rows)[::-1] + 0.5) * resolution
        middles = np.stack([*np.meshgrid(x, y), np.zeros((rows, columns))], axis=-1).reshape(-1, 3)

        down, up = np.array([0.0, 0.0, -1.0]), np.array([0.0, 0.0, 1.0])
        from_above, below = eye.look(middles + up * high, down)
        from_below, _ = eye.look(middles + up * low, up)
        occupied = (from_above <= high - low) | (from_below <= high - low)
        for height in np.linspace(low, high, 2 + math.floor((high - low) / _PROBES)):
            for right, ahead in ((1, 0), (-1, 0), (0, 1), (0, -1)):
                away, _ = eye.look(middles + up * height, np.array([right, ahead, 0.0]))
                hit = np.flatnonzero(away <= resolution)
                # a cell's edge is half a cell from its middle: a surface on it, or beyond, is the neighbour's
                beyond = away[hit] > resolution * (0.5 - 1e-6)
                column, row = hit % columns + beyond * right, hit // columns - beyond * ahead
                inside = (column >= 0) & (column < columns) & (row >= 0) & (row < rows)
                occupied[row[inside] * columns + column[inside]] = True
        cells = np.where(occupied, OCCUPIED, np.where(below, FREE, UNKNOWN))
        return cls(cells.reshape(rows, columns), resolution, (left, bottom, 0.0))

    # -- files --------------------------------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``map.yaml`` and ``map.png`` into a folder, as ROS's map server reads them."""
        import yaml
        from PIL import Image

        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        pixels = np.empty(self.cells.shape, np.uint8)
        for value, shade in zip((FREE, OCCUPIED, UNKNOWN), self._shades(), strict=True):
            pixels[self.cells == value] = shade
        Image.fromarray(pixels).save(path / "map.png")
        values = {
            "image": "map.png",
            "mode": "trinary",
            "resolution": self.resolution,
            "origin": list(self.origin),
            "negate": int(self.negate),
            "occupied_thresh": self.occupied_threshold,
            "free_thresh": self.free_threshold,
        }
        (path / "map.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")

    def _shades(self) -> tuple[int, int, int]:
        """Grey values that mean free, occupied and unknown by the thresholds: ROS's own where they fit."""
        found = []
        for value, usual in ((FREE, 254), (OCCUPIED, 0), (UNKNOWN, 205)):
            usual = 255 - usual if self.negate else usual
            shades = np.flatnonzero(self._meaning(np.arange(256)) == value)
            if not len(shades):
                if (self.cells == value).any():
                    raise OptionError(
                        f"no grey value means {value} with free_threshold={self.free_threshold} and "
                        f"occupied_threshold={self.occupied_threshold}; use 0.196 and 0.65"
                    )
                shades = np.array([usual])
            found.append(int(usual if usual in shades else shades[len(shades) // 2]))
        return found[0], found[1], found[2]

    def _meaning(self, pixels: np.ndarray) -> np.ndarray:
        return _meaning(pixels, self.negate, self.occupied_threshold, self.free_threshold)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a map that :meth:`save` or ROS wrote: its ``.yaml`` file, or the folder of its ``map.yaml``."""
        import yaml
        from PIL import Image, UnidentifiedImageError

        from sensorium import yaml_files

        file = Path(path)
        file = file / "map.yaml" if file.is_dir() else file
        if not file.is_file():
            raise OptionError(f"there is no map {os.fspath(file)!r}")
        try:
            values = yaml_files.load(file.read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise OptionError(f"{file}: this is no YAML: {error}") from error
        needed = ("image", "resolution", "origin")
        if not isinstance(values, dict) or any(name not in values for name in needed):
            raise OptionError(f"{file}: a map needs the keys {', '.join(needed)}")
        if values.get("mode", "trinary") != "trinary":
            raise OptionError(f"{file}: mode {values['mode']!r} is not known; save the map in the mode 'trinary'")
        try:
            with Image.open(file.parent / str(values["image"])) as image:
                pixels = np.asarray(image.convert("RGB"), dtype=np.float64).mean(axis=2)
        except (OSError, UnidentifiedImageError) as error:
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

    # -- where is what ------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.cells.shape[0], self.cells.shape[1]

    @property
    def free(self) -> np.ndarray:
        """Which cells are free, (rows, columns)."""
        return self.cells == FREE

    def to_world(self, pixels: Any) -> np.ndarray:
        """The middles of cells in the world, (n, 2) m, by row and column (n, 2)."""
        place = np.asarray(pixels, dtype=np.float64)
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

    def to_pixels(self, points: Any) -> np.ndarray:
        """Row and column (n, 2) of the cells in which points of the world (n, 2) lie; outside the map too."""
        place = np.asarray(points, dtype=np.float64)
        x, y, yaw = self.origin
        dx, dy = place[..., 0] - x, place[..., 1] - y
        along = math.cos(yaw) * dx + math.sin(yaw) * dy
        across = math.cos(yaw) * dy - math.sin(yaw) * dx
        column = np.floor(along / self.resolution).astype(np.int64)
        row = self.shape[0] - 1 - np.floor(across / self.resolution).astype(np.int64)
        return np.stack([row, column], axis=-1)

    def is_free(self, points: Any) -> np.ndarray:
        """Whether points of the world (n, 2) lie in free cells; those outside the map do not."""
        pixels = self.to_pixels(points)
        rows, columns = self.shape
        row, column = pixels[..., 0], pixels[..., 1]
        inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
        return inside & self.free[np.clip(row, 0, rows - 1), np.clip(column, 0, columns - 1)]

    def dilated(self, radius: float) -> Self:
        """The map for the centre of something round: every cell whose middle lies within ``radius`` metres of the
        middle of an occupied one is occupied."""
        if not math.isfinite(radius) or radius < 0:
            raise OptionError(f"radius must not be negative, got {radius!r}")
        wide = copy.copy(self)
        wide.cells = self.cells.copy()
        wide.cells[self.clearance() <= radius + 1e-9] = OCCUPIED
        return wide

    def clearance(self) -> np.ndarray:
        """Distance from each cell's middle to that of the nearest occupied one, (rows, columns) m; inf without one."""
        from scipy.ndimage import distance_transform_edt

        occupied = self.cells == OCCUPIED
        if not occupied.any():
            return np.full(self.shape, np.inf)
        return np.asarray(distance_transform_edt(~occupied)) * self.resolution

    def sample_free(self, count: int, seed: int = 0) -> np.ndarray:
        """Points of free cells, (count, 2) m, drawn evenly; the same for the same seed."""
        pixels = np.argwhere(self.free)
        if not len(pixels):
            raise OptionError("the map has no free cell")
        rng = np.random.default_rng(seed)
        chosen = pixels[rng.integers(len(pixels), size=count)]
        return self.to_world(chosen + rng.uniform(-0.499, 0.499, (count, 2)))

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"<OccupancyMap {rows} x {columns} cells of {self.resolution:g} m, {self.free.mean():.0%} free>"


class _Eye:
    """One env of a scene in an engine of its own, which casts rays past what is excluded."""

    def __init__(self, scene: Scene, exclude: tuple[str, ...] | None, env: int) -> None:
        entities = scene.entities
        if exclude is None:
            exclude = tuple(name for name, entity in entities.items() if entity.kind == "robot")
        missing = [name for name in exclude if name not in entities]
        if missing:
            raise OptionError(f"exclude: the scene has no entity {missing[0]!r}; it has {', '.join(entities)}")
        model = copy.copy(scene.model)
        names = [model.body(int(body)).name for body in model.geom_bodyid]
        gone = np.array([any(name == out or name.startswith(f"{out}/") for out in exclude) for name in names], bool)
        gone |= (model.geom_contype == 0) & (model.geom_conaffinity == 0)  # what a robot can drive through
        model.geom_rgba[:, 3], model.geom_matid[:] = 1.0, -1  # rays look through what is fully transparent
        model.geom_group[:] = np.where(gone, _HIDDEN, 0)
        self._model, self._seen = model, ~gone
        self._data = mujoco.MjData(model)
        state = scene.get_state()[env].double().numpy(force=True)
        mujoco.mj_setState(model, self._data, state, int(mujoco.mjtState.mjSTATE_INTEGRATION))
        mujoco.mj_kinematics(model, self._data)
        self._batch = Batch(model, 1)
        self._batch.state[0] = state
        self._groups = np.arange(mujoco.mjNGROUP) != _HIDDEN

    def look(self, points: np.ndarray, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distance to the first surface, (n,): inf without one, 0 from within geometry; and whether there is one."""
        distances, _, normals = self._batch.ray(points, direction, geomgroup=self._groups, normal=True)
        distances, normals = distances[0], normals[0]
        hit = distances >= 0
        within = hit & (normals @ direction > 0)
        return np.where(within, 0.0, np.where(hit, distances, np.inf)), hit

    def bounds(self) -> tuple[float, float, float, float]:
        model, data = self._model, self._data
        corners = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, 8).T
        shown = self._seen & (model.geom_type != int(mujoco.mjtGeom.mjGEOM_PLANE))
        if not shown.any():
            raise OptionError("there is nothing but planes, so bounds must be given: (left, bottom, right, top)")
        points = np.concatenate(
            [
                data.geom_xpos[geom]
                + (model.geom_aabb[geom, :3] + corners * model.geom_aabb[geom, 3:])
                @ data.geom_xmat[geom].reshape(3, 3).T
                for geom in np.flatnonzero(shown)
            ]
        )
        (left, bottom), (right, top) = points[:, :2].min(axis=0), points[:, :2].max(axis=0)
        return float(left), float(bottom), float(right), float(top)


def _meaning(pixels: np.ndarray, negate: bool, occupied: float, free: float) -> np.ndarray:
    """What grey values mean, as ROS's map server has it."""
    shade = pixels / 255.0 if negate else (255.0 - pixels) / 255.0
    return np.where(shade > occupied, OCCUPIED, np.where(shade < free, FREE, UNKNOWN))
