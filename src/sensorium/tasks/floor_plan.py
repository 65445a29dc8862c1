"""``FloorPlan``: the layout of furniture and objects in a room, and the space between them for a robot."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from sensorium._arguments import checked, checked_number
from sensorium.scenarios.occupancy import FREE, OCCUPIED, OccupancyMap
from sensorium.worlds import Box, Cylinder
from sensorium.worlds.primitives import Primitive

CELL = 0.05
"""Size of a cell of the occupancy map, m."""
_MAX_DRAWS = 100
"""How many random places are tried for one piece."""

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
"""Furniture by name. All pieces are higher than the sensors of a small robot."""


@dataclass(frozen=True)
class Footprint:
    """The area of the floor that a piece covers: a rectangle or a circle.

    Attributes:
        x: x of its centre, m.
        y: y of its centre, m.
        yaw: its rotation about z, rad.
        half: half extents along its own axes, m; for a circle, its radius twice.
        is_round: whether it is a circle.
    """

    x: float
    y: float
    yaw: float
    half: tuple[float, float]
    is_round: bool

    @classmethod
    @checked
    def of(cls, shape: Primitive, x: float, y: float, yaw: float) -> Footprint:
        """Return the footprint of an upright box or cylinder."""
        if isinstance(shape, Box):
            return cls(x, y, yaw, (shape.size[0] / 2, shape.size[1] / 2), False)
        assert isinstance(shape, Cylinder)
        return cls.circle(x, y, shape.radius)

    @classmethod
    def circle(cls, x: float, y: float, radius: float) -> Footprint:
        """Return a circular footprint."""
        return cls(x, y, 0.0, (radius, radius), True)

    def distance(self, points: np.ndarray) -> np.ndarray:
        """Return the signed distance from points (..., 2) to its edge, m; negative inside."""
        dx, dy = points[..., 0] - self.x, points[..., 1] - self.y
        if self.is_round:
            return np.hypot(dx, dy) - self.half[0]
        cosine, sine = math.cos(self.yaw), math.sin(self.yaw)
        along = np.abs(cosine * dx + sine * dy) - self.half[0]
        across = np.abs(cosine * dy - sine * dx) - self.half[1]
        return np.hypot(np.maximum(along, 0), np.maximum(across, 0)) + np.minimum(np.maximum(along, across), 0)

    def outline(self) -> np.ndarray:
        """Return points on its edge, at most 0.1 m apart, followed by its centre: (n, 2) m."""
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
    """A room and the footprints of the pieces in it. Its centre is the origin of the world frame.

    Attributes:
        size: extents between the walls along x and y, m.
        pieces: footprints by name.
    """

    size: tuple[float, float]
    pieces: dict[str, Footprint] = field(default_factory=dict)

    @checked
    def gap(self, piece: Footprint) -> float:
        """Return the distance from a piece to the nearest other piece or wall, m."""
        points = piece.outline()
        walls = float((np.array(self.size) / 2 - np.abs(points)).min())
        return min([walls, *(float(other.distance(points).min()) for other in self.pieces.values())])

    @checked
    def add(self, name: str, shape: Primitive | float, gap: float, rng: np.random.Generator) -> bool:
        """Add a piece at a random place.

        Args:
            name: its name.
            shape: a box or cylinder, or the radius of a circle in metres.
            gap: minimum distance to all other pieces and to the walls, m.
            rng: random generator.

        Returns:
            False if no place was found.
        """
        if isinstance(shape, float):
            shape = checked_number("shape", shape, 0.0)
        half = np.array(self.size) / 2
        for _ in range(_MAX_DRAWS):
            (x, y), yaw = rng.uniform(-half, half).tolist(), float(rng.uniform(-math.pi, math.pi))
            piece = Footprint.circle(x, y, shape) if isinstance(shape, float) else Footprint.of(shape, x, y, yaw)
            if self.gap(piece) >= gap:
                self.pieces[name] = piece
                return True
        return False

    @checked
    def occupancy(self, without: str | None = None) -> OccupancyMap:
        """Return the occupancy map of the room with its walls, in cells of 0.05 m.

        Args:
            without: name of a piece to skip.
        """
        rows, columns = (round(extent / CELL) + 2 for extent in reversed(self.size))
        origin = (-columns * CELL / 2, -rows * CELL / 2, 0.0)
        cells = np.full((rows, columns), OCCUPIED, np.int8)
        cells[1:-1, 1:-1] = FREE
        room = OccupancyMap(cells, CELL, origin)
        centres = room.to_world(np.stack(np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij"), axis=-1))
        for name, piece in self.pieces.items():
            if name != without:  # the corner of a cell is 0.7 cell sizes from its centre
                room.cells[piece.distance(centres) < 0.7 * CELL] = OCCUPIED
        return room


def approaches(room: OccupancyMap, free: np.ndarray, point: np.ndarray, reach: float) -> np.ndarray:
    """Return the cells from which a point is near and in line of sight, (n, 2) rows and columns.

    Args:
        room: the map, without the piece at the point.
        free: (rows, columns) bool, the cells where the robot's centre may be.
        point: (2,) m in the world frame.
        reach: maximum distance, m.
    """
    cells = np.argwhere(free)
    here = room.to_world(cells)
    near = np.hypot(*(here - point).T) <= reach
    cells, here = cells[near], here[near]
    along = np.linspace(0, 1, 2 + int(reach / (0.5 * CELL)))[:, None, None]
    return cells[room.is_free(here + along * (point - here)).all(axis=0)]
