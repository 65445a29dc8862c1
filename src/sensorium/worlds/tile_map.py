"""``TileMap``: terrain made of rectangular tiles of different heights."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Self, TypeAlias, cast

import mujoco
import numpy as np
import numpy.typing as npt
from pydantic import Field, field_validator, model_validator

from sensorium._arguments import checked, checked_numbers
from sensorium.errors import OptionError, did_you_mean, shorten
from sensorium.options import Options
from sensorium.worlds.markup import Node, Problems, parse, read_document
from sensorium.worlds.primitives import Friction, RgbaColor

_MAX_BOXES = 1000
"""Number of boxes up to which they collide faster than a height field of the same tiles: ``benchmarks/terrain.py``."""
_CELLS = 4
"""Cells of a height field along each side of a tile. Walls are ramps of one cell."""
_ATTRIBUTES = ("tile_size", "depth", "form", "friction", "rgba")

Kind: TypeAlias = str | float | None
"""Kind of a tile, or its height in metres."""
Grid: TypeAlias = Sequence[str] | Sequence[Sequence[Kind]] | np.ndarray
"""Rows of tiles."""
Heights: TypeAlias = Mapping[str, float | None] | Mapping[int, float | None] | Sequence[float | None] | np.ndarray
"""Kind of tile -> height in metres, or the heights of the kinds 0, 1, 2, ..."""


class TileMap(Options):
    """Terrain made of tiles, for ``scene.add_terrain``. The grid reads like a map: the first row has the largest y.

    The frame is at the centre of the map, at height 0; columns go along x. Every tile is solid from its height down to
    ``depth`` below the lowest one, with vertical walls.

    Neighbouring tiles of equal height are merged into boxes. If more than 1000 boxes remain, one height field is used
    instead, since it collides faster. Walls of a height field are ramps that take up a quarter of the lower tile.

    Args:
        grid: rows of tiles: text with one letter per tile, or kinds of tiles, or heights in metres if ``heights`` is
            not given.
        tile_size: size of a tile along x and y in metres; one number for square tiles.
        heights: kind -> height in metres, None for a hole; or the heights of the kinds 0, 1, 2, ...
        **options: depth, form, friction, rgba.

    Example:
        >>> steps = TileMap(["..##", "...#"], 0.5, {".": 0.0, "#": 0.2})
        >>> steps.boxes().shape
        (3, 6)
        >>> steps.height_at([[0.9, -0.1], [-0.9, 0.4]])
        array([0.2, 0. ])
    """

    grid: tuple[tuple[Kind, ...], ...]
    """Rows of tiles; the first row has the largest y."""
    tile_size: tuple[float, float] = (1.0, 1.0)
    """Size of a tile along x and y in metres; one number for square tiles."""
    heights: dict[str, float | None] | None = None
    """Kind of tile -> height in metres; None for a hole. Default: the grid contains heights."""
    depth: float = Field(default=0.5, gt=0)
    """Depth of the ground below the lowest tile in metres."""
    form: Literal["auto", "boxes", "height_field"] = "auto"
    """Collision geometry. "auto" chooses the faster one."""
    friction: Friction = (1.0, 0.005, 0.0001)
    """Sliding, torsional and rolling friction coefficients, as MuJoCo's ``geom/friction``."""
    rgba: RgbaColor = (0.45, 0.47, 0.5, 1.0)
    """Colour: red, green, blue, alpha in [0, 1]."""

    def __init__(
        self,
        grid: Grid,
        tile_size: float | tuple[float, float] | Sequence[float] = 1.0,
        heights: Heights | None = None,
        **options: object,
    ) -> None:
        super().__init__(grid=grid, tile_size=tile_size, heights=heights, **options)

    @field_validator("grid", mode="before")
    @classmethod
    def _rows(cls, value: object) -> object:
        rows: object = value.tolist() if isinstance(value, np.ndarray) else value
        if isinstance(rows, str) or not isinstance(rows, Sequence) or not all(isinstance(r, Iterable) for r in rows):
            raise ValueError("must be rows of tiles: a list of texts or lists, or a two-dimensional array")
        tiles = tuple(tuple(row) for row in rows)
        if not tiles or not tiles[0]:
            raise ValueError("must contain at least one tile")
        wrong = next((number for number, row in enumerate(tiles) if len(row) != len(tiles[0])), None)
        if wrong is not None:
            raise ValueError(
                f"every row must have {len(tiles[0])} tiles like the first; row {wrong} has {len(tiles[wrong])}"
            )
        return tiles

    @field_validator("tile_size", mode="before")
    @classmethod
    def _square(cls, value: object) -> object:
        return (value, value) if isinstance(value, int | float) else value

    @field_validator("tile_size")
    @classmethod
    def _size(cls, value: tuple[float, float]) -> tuple[float, float]:
        if min(value) <= 0:
            raise ValueError("must be > 0")
        return value

    @field_validator("heights", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        if isinstance(value, Mapping):
            return {str(kind): height for kind, height in value.items()}
        if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
            return {str(kind): height for kind, height in enumerate(value)}
        return value

    @model_validator(mode="after")
    def _kinds(self) -> TileMap:
        kinds = dict.fromkeys(tile for row in self.grid for tile in row)
        if self.heights is None:
            letters = [kind for kind in kinds if isinstance(kind, str)]
            if letters:
                raise ValueError(f"heights must contain the kind {letters[0]!r} of the grid")
        else:
            unknown = [_key(kind) for kind in kinds if _key(kind) not in self.heights]
            if unknown:
                hint = did_you_mean(unknown[0], self.heights) or f"; it has {shorten(self.heights)}"
                raise ValueError(f"heights must contain the kind {unknown[0]!r} of the grid{hint}")
        if all(self._height(kind) is None for kind in kinds):
            raise ValueError("at least one tile must have a height")
        if self.form == "height_field" and any(self._height(kind) is None for kind in kinds):
            raise ValueError("a height field cannot have holes: give every tile a height, or use form='boxes'")
        return self

    def _height(self, kind: Kind) -> float | None:
        if self.heights is not None:
            return self.heights[_key(kind)]
        assert not isinstance(kind, str)
        return kind

    @classmethod
    def from_xml(cls, document: str | os.PathLike[str]) -> Self:
        """Create a map from an XML file or text::

            <tile_map tile_size="0.5">
              <tile kind="." height="0"/>
              <tile kind="#" height="0.2"/>
              <row>..##</row>
              <row>...#</row>
            </tile_map>

        A kind is one letter. A tile without a height is a hole. Without ``<tile>``, rows contain heights in metres,
        separated by spaces.

        Raises:
            ModelError: the document is invalid; the message has file and line of every problem.
        """
        content, source, _ = read_document(document, "tile map")
        node, problems = parse(content, source), Problems(source)
        if node.tag != "tile_map":
            problems.add(node, f"the root must be <tile_map>, not <{node.tag}>")
        made = cls.from_node(node, problems) if not len(problems) else None
        problems.check()
        assert made is not None
        return made

    @classmethod
    @checked
    def from_node(cls, node: Node, problems: Problems) -> Self | None:
        """Create a map from a ``<tile_map>`` element; None, and entries in ``problems``, if it is invalid."""
        before = len(problems)
        values: dict[str, object] = {}
        for name, text in node.attributes.items():
            if name not in _ATTRIBUTES:
                problems.add(node, f"<tile_map> has no attribute {name!r}{did_you_mean(name, _ATTRIBUTES)}")
            elif name == "form":
                values[name] = text
            else:
                numbers = problems.numbers(node, name, max(1, len(text.split())))
                values[name] = numbers[0] if len(numbers) == 1 else numbers
        heights: dict[str, float | None] = {}
        for child in node.children:
            if child.tag == "tile":
                _tile(child, heights, problems)
            elif child.tag != "row":
                problems.add(child, f"<tile_map> has no <{child.tag}>{did_you_mean(child.tag, ('tile', 'row'))}")
        rows = [_row(child, bool(heights), problems) for child in node.all("row")]
        if len(problems) > before:
            return None
        try:
            return cls(rows, cast("float", values.pop("tile_size", 1.0)), heights or None, **values)
        except OptionError as error:
            problems.add(node, str(error))
            return None

    # -- geometry -----------------------------------------------------------------------------------------------------

    @property
    def height_map(self) -> np.ndarray:
        """Heights in metres, (rows, columns) float64; NaN for holes."""
        table = {kind: self._height(kind) for row in self.grid for kind in row}
        known = {kind: np.nan if height is None else height for kind, height in table.items()}
        return np.array([[known[kind] for kind in row] for row in self.grid], dtype=np.float64)

    def height_at(self, xy: npt.ArrayLike) -> np.ndarray:
        """Return the height of the ground, (n,) m; NaN for holes and outside the map.

        Args:
            xy: points (n, 2) or (2,) in the frame of the map, m.
        """
        points = np.atleast_2d(checked_numbers("xy", xy))
        if points.ndim != 2 or points.shape[1] != 2:
            raise OptionError(f"height_at: points must have shape (2,) or (n, 2), got {np.shape(xy)}")
        rows, columns = len(self.grid), len(self.grid[0])
        column = np.floor(points[:, 0] / self.tile_size[0] + columns / 2)
        row = np.floor(rows / 2 - points[:, 1] / self.tile_size[1])
        inside = (column >= 0) & (column < columns) & (row >= 0) & (row < rows)
        found = np.full(len(points), np.nan)
        found[inside] = self.height_map[row[inside].astype(int), column[inside].astype(int)]
        return found

    def boxes(self) -> np.ndarray:
        """Return the tiles merged into boxes, (n, 6): centre and full size along x, y, z in m, in the map's frame."""
        heights = self.height_map
        bottom = np.nanmin(heights) - self.depth
        blocks = min(merge(heights), [(c, r, w, h) for r, c, h, w in merge(heights.T)], key=len)
        row, column, high, wide = np.array(blocks, dtype=np.int64).T
        top = heights[row, column]
        x = (column + wide / 2 - heights.shape[1] / 2) * self.tile_size[0]
        y = (heights.shape[0] / 2 - row - high / 2) * self.tile_size[1]
        size = (wide * self.tile_size[0], high * self.tile_size[1], top - bottom)
        return np.stack([x, y, (top + bottom) / 2, *size], axis=1)

    @checked
    def add_to(
        self,
        spec: mujoco.MjSpec,
        body: mujoco.MjsBody,
        name: str,
        pos: Sequence[float],
        quat: Sequence[float] | np.ndarray,
    ) -> None:
        """Add the geoms to a body of a spec; ``pos`` and ``quat`` (w, x, y, z) are the map's frame in the body's."""
        frame = body.add_frame(pos=pos, quat=quat)
        look = {"friction": self.friction, "rgba": self.rgba}
        if self.form != "height_field":
            boxes = self.boxes()
            if self.form == "boxes" or len(boxes) <= _MAX_BOXES or np.isnan(self.height_map).any():
                kind = mujoco.mjtGeom.mjGEOM_BOX
                for number, box in enumerate(boxes):
                    geom = body.add_geom(name=f"{name}_{number}", type=kind, pos=box[:3], size=box[3:] / 2, **look)
                    geom.set_frame(frame)
                return
        samples = _samples(self.height_map)
        low, span = float(samples.min()), float(np.ptp(samples))
        span = span or 1e-6 * self.depth  # MuJoCo requires a positive range
        half = [len(self.grid[0]) * self.tile_size[0] / 2, len(self.grid) * self.tile_size[1] / 2]
        spec.add_hfield(
            name=name,
            nrow=samples.shape[0],
            ncol=samples.shape[1],
            size=[*half, span, self.depth],
            userdata=((samples[::-1] - low) / span).ravel(),
        )
        geom = body.add_geom(name=name, type=mujoco.mjtGeom.mjGEOM_HFIELD, hfieldname=name, pos=(0, 0, low), **look)
        geom.set_frame(frame)

    def to_spec(self) -> mujoco.MjSpec:
        """Return a spec with one body named "tiles"."""
        spec = mujoco.MjSpec()
        spec.modelname = "tile_map"
        self.add_to(spec, spec.worldbody.add_body(name="tiles"), "tiles", (0, 0, 0), (1, 0, 0, 0))
        return spec


def merge(heights: np.ndarray) -> list[tuple[int, int, int, int]]:
    """Cover a grid by rectangles of equal height: (row, column, number of rows, number of columns) of each.

    A rectangle starts at the first tile that is not covered. It extends along the row while the height is the same, and
    then down while whole rows of that width have that height. NaN is not covered.
    """
    left = ~np.isnan(heights)
    found = []
    for row, column in np.argwhere(left).tolist():
        if not left[row, column]:
            continue
        height = heights[row, column]
        same = left[row, column:] & (heights[row, column:] == height)
        wide = len(same) if same.all() else int(same.argmin())
        span = slice(column, column + wide)
        high = 1
        while row + high < len(heights) and (left[row + high, span] & (heights[row + high, span] == height)).all():
            high += 1
        left[row : row + high, span] = False
        found.append((row, column, high, wide))
    return found


def _samples(heights: np.ndarray) -> np.ndarray:
    """Return the heights at the corners of cells. On borders the highest tile counts, so ramps lie in the lower one."""
    sides = []
    for count in heights.shape:
        corner = np.arange(count * _CELLS + 1)
        sides.append([np.clip((corner - 1) // _CELLS, 0, None), np.clip(corner // _CELLS, None, count - 1)])
    return np.maximum.reduce([heights[np.ix_(row, column)] for row in sides[0] for column in sides[1]])


def _key(kind: Kind) -> str:
    return str(int(kind)) if isinstance(kind, float) and kind.is_integer() else str(kind)


def _tile(node: Node, heights: dict[str, float | None], problems: Problems) -> None:
    """Read one ``<tile kind="#" height="0.2"/>``."""
    for name in node.attributes.keys() - {"kind", "height"}:
        problems.add(node, f"<tile> has no attribute {name!r}{did_you_mean(name, ('kind', 'height'))}")
    kind = node.attributes.get("kind", "")
    if len(kind) != 1 or kind.isspace():
        problems.add(node, f"kind of <tile> must be one letter, got {kind!r}")
    elif kind in heights:
        problems.add(node, f"kind {kind!r} has two <tile> elements; remove one")
    else:
        heights[kind] = problems.number(node, "height") if "height" in node.attributes else None


def _row(node: Node, kinds: bool, problems: Problems) -> list[Kind]:
    """Read one ``<row>``: letters if ``kinds``, otherwise heights."""
    for name in node.attributes:
        problems.add(node, f"<row> has no attribute {name!r}")
    if kinds:
        return list(node.text.strip())
    try:
        return [float(word) for word in node.text.split()]
    except ValueError:
        problems.add(node, f"<row> must contain heights in metres if there is no <tile>, got {node.text.strip()!r}")
        return []
