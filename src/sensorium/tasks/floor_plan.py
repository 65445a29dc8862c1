"""What stands where on the floor of a room, and where a robot can go between it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from sensorium.scenarios.occupancy import FREE, OCCUPIED, OccupancyMap
from sensorium.worlds import Box, Cylinder
from sensorium.worlds.primitives import Primitive

CELL = 0.05
"""Metres of a cell of the map."""
_TRIES = 100
"""Places that are tried for one piece."""

FURNITURE: dict[str, Primitive] = {
    "cabinet": Box(size=(0.8, 0.4, 0.9), rgba=(0.6, 0.45, 0.3, 1.0)),
    "drum": Cylinder(radius=0.28, height=0.8, rgba=(0.2, 0.4, 0.55, 1.0)),
    "crate": Box(size=(0.5, 0.5, 0.5), rgba=(0.7, 0.6, 0.4, 1.0)),
    "sofa": Box(size=(1.4, 0.7, 0.6), rgba=(0.5, 0.25, 0.3, 1.0)),
    "pillar": Cylinder(radius=0.2, height=1.2, rgba=(0.8, 0.8, 0.78, 1.0)),
    "desk": Box(size=(1.2, 0.6, 0.7), rgba=(0.45, 0.4, 0.35, 1.0)),
    "pot": Cylinder(radius=0.24, height=0.5, rgba=(0.35, 0.55, 0.3, 1.0)),
    "shelf": Box(size=(1.0, 0.3, 1.1), rgba=(0.35, 0.35, 0.4, 1.0)),
}
"""Pieces of furniture by name, all higher than the eyes of a small robot."""


@dataclass(frozen=True)
class Footprint:
    """What something covers of the floor: a rectangle, or a circle.

    Attributes:
        x, y: its middle, m.
        yaw: by which it is turned, rad.
        half: half its extents along its own axes, m; of a circle, its radius along both.
        is_round: whether it is a circle.
    """

    x: float
    y: float
    yaw: float
    half: tuple[float, float]
    is_round: bool

    @classmethod
    def of(cls, shape: Primitive, x: float, y: float, yaw: float) -> Footprint:
        """That of a box or a cylinder that stands upright."""
        if isinstance(shape, Box):
            return cls(x, y, yaw, (shape.size[0] / 2, shape.size[1] / 2), False)
        assert isinstance(shape, Cylinder)
        return cls.circle(x, y, shape.radius)

    @classmethod
    def circle(cls, x: float, y: float, radius: float) -> Footprint:
        """A circle."""
        return cls(x, y, 0.0, (radius, radius), True)

    def distance(self, points: np.ndarray) -> np.ndarray:
        """Metres from points (..., 2) to its edge; less than 0 inside."""
        dx, dy = points[..., 0] - self.x, points[..., 1] - self.y
        if self.is_round:
            return np.hypot(dx, dy) - self.half[0]
        cosine, sine = math.cos(self.yaw), math.sin(self.yaw)
        along = np.abs(cosine * dx + sine * dy) - self.half[0]
        across = np.abs(cosine * dy - sine * dx) - self.half[1]
        return np.hypot(np.maximum(along, 0), np.maximum(across, 0)) + np.minimum(np.maximum(along, across), 0)

    def outline(self) -> np.ndarray:
        """Points on its edge and its middle, (n, 2) m, at most 0.1 m apart."""
        if self.is_round:
            angle = np.linspace(0, 2 * math.pi, 8 + int(self.half[0] * 63), endpoint=False)
            edge = np.stack([np.cos(angle), np.sin(angle)], axis=1) * self.half[0]
        else:
            sides = [np.linspace(-half, half, 2 + int(half * 20)) for half in self.half]
            edge = np.concatenate(
                [np.stack([sides[0], np.full_like(sides[0], sign * self.half[1])], axis=1) for sign in (-1, 1)]
                + [np.stack([np.full_like(sides[1], sign * self.half[0]), sides[1]], axis=1) for sign in (-1, 1)]
            )
        cosine, sine = math.cos(self.yaw), math.sin(self.yaw)
        turned = edge @ np.array([[cosine, sine], [-sine, cosine]])
        return np.concatenate([turned, np.zeros((1, 2))]) + np.array([self.x, self.y])


@dataclass
class FloorPlan:
    """A room with things in it. Its middle is the origin of the world.

    Attributes:
        size: between the walls along x and y, m.
        pieces: what stands there, by name.
    """

    size: tuple[float, float]
    pieces: dict[str, Footprint] = field(default_factory=dict)

    def gap(self, piece: Footprint) -> float:
        """Metres that a piece would have to the nearest other one or to a wall."""
        points = piece.outline()
        walls = float((np.array(self.size) / 2 - np.abs(points)).min())
        return min([walls, *(float(other.distance(points).min()) for other in self.pieces.values())])

    def add(self, name: str, shape: Primitive | float, gap: float, draw: np.random.Generator) -> bool:
        """Find a place for a shape (or a circle of that radius) and put it there; False if none was found."""
        reach = np.array(self.size) / 2
        for _ in range(_TRIES):
            (x, y), yaw = draw.uniform(-reach, reach).tolist(), float(draw.uniform(-math.pi, math.pi))
            piece = Footprint.circle(x, y, shape) if isinstance(shape, float) else Footprint.of(shape, x, y, yaw)
            if self.gap(piece) >= gap:
                self.pieces[name] = piece
                return True
        return False

    def occupancy(self, without: str | None = None) -> OccupancyMap:
        """The map of it, in cells of 0.05 m with walls around; ``without`` one piece."""
        rows, columns = (round(extent / CELL) + 2 for extent in reversed(self.size))
        origin = (-columns * CELL / 2, -rows * CELL / 2, 0.0)
        cells = np.full((rows, columns), OCCUPIED, np.int8)
        cells[1:-1, 1:-1] = FREE
        room = OccupancyMap(cells, CELL, origin)
        middles = room.to_world(np.stack(np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij"), axis=-1))
        for name, piece in self.pieces.items():
            if name != without:  # a cell's corner is 0.7 of its size from its middle
                room.cells[piece.distance(middles) < 0.7 * CELL] = OCCUPIED
        return room


def approaches(room: OccupancyMap, free: np.ndarray, there: np.ndarray, reach: float) -> np.ndarray:
    """Cells, (n, 2) rows and columns, from which a point is near, and seen.

    Args:
        room: what stands there, without what is looked at.
        free: (rows, columns) of the same cells, where the middle of the robot may be.
        there: the point, (2,) m.
        reach: how near, m.
    """
    cells = np.argwhere(free)
    here = room.to_world(cells)
    near = np.hypot(*(here - there).T) <= reach
    cells, here = cells[near], here[near]
    along = np.linspace(0, 1, 2 + int(reach / (0.5 * CELL)))[:, None, None]
    return cells[room.is_free(here + along * (there - here)).all(axis=0)]
