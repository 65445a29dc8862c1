"""Path planning on an occupancy map: shortest paths by SciPy's Dijkstra, then straightened."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import distance_transform_edt, label
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from sensorium._arguments import checked, checked_numbers
from sensorium.errors import OptionError
from sensorium.scenarios.occupancy import OccupancyMap


class PathPlanner:
    """Shortest paths between the free cells of a map.

    Args:
        room: the map, dilated by the radius of the robot: the centre of the robot may be in any free cell.

    Raises:
        OptionError: the map has no free cell.
    """

    @checked
    def __init__(self, room: OccupancyMap) -> None:
        free = room.free
        if not free.any():
            raise OptionError(
                "the map has no free cell for this robot: it may be wider than all gaps, or start in a wall"
            )
        self.room = room
        self.regions = label(free)[0]
        """Number of the connected region of each cell; 0 if the cell is not free."""
        self._graph = _neighbours(free, room.resolution)
        self._nearest = distance_transform_edt(~free, return_distances=False, return_indices=True)

    def cell(self, point: np.ndarray) -> tuple[int, int]:
        """Return row and column of the free cell that is nearest to a point (2,) in the world frame."""
        row, column = self.room.to_pixels(point)
        rows, columns = self.room.shape
        row, column = min(max(int(row), 0), rows - 1), min(max(int(column), 0), columns - 1)
        return int(self._nearest[0, row, column]), int(self._nearest[1, row, column])

    def plan(self, start: np.ndarray, goal: np.ndarray) -> np.ndarray | None:
        """Return the corners of a short path between the free cells nearest to ``start`` and ``goal``.

        Args:
            start: (2,) m, world frame.
            goal: (2,) m, world frame.

        Returns:
            (n, 2) m with n >= 2; None if there is no path.
        """
        columns = self.room.shape[1]
        first, last = self.cell(start), self.cell(goal)
        if self.regions[first] != self.regions[last]:
            return None
        source, target = last[0] * columns + last[1], first[0] * columns + first[1]
        _, before = dijkstra(self._graph, indices=source, return_predecessors=True)
        cells = [target]
        while cells[-1] != source:
            cells.append(int(before[cells[-1]]))
        way = self.room.to_world(np.stack(np.divmod(np.array(cells), columns), axis=1))
        return self.straighten(way if len(way) > 1 else np.repeat(way, 2, axis=0))

    def lengths(self, start: np.ndarray) -> np.ndarray:
        """Return the length of the shortest path from the free cell nearest to ``start`` to each cell.

        Args:
            start: (2,) m, world frame.

        Returns:
            (rows, columns) m; inf without a path.
        """
        row, column = self.cell(start)
        columns = self.room.shape[1]
        return np.asarray(dijkstra(self._graph, indices=row * columns + column)).reshape(self.room.shape)

    def straighten(self, way: np.ndarray) -> np.ndarray:
        """Return a path (m, 2) without the corners between two points that a straight line connects; given (n, 2) m."""
        way = checked_numbers("way", way, ("n", 2), finite=True)
        corners, here = [0], 0
        while here < len(way) - 1:
            ahead, step = here + 1, 1
            while True:  # double the step while the line is free, then shrink it
                farther = min(ahead + step, len(way) - 1)
                if farther > ahead and self._sees(way[here], way[farther]):
                    ahead, step = farther, step * 2
                elif step > 1:
                    step = max(1, step // 4)
                else:
                    break
            corners.append(ahead)
            here = ahead
        return way[corners]

    def sees(self, start: np.ndarray, end: np.ndarray) -> bool:
        """Return whether the straight line between two points is free, sampled every quarter of a cell."""
        points = (checked_numbers(name, value, (2,), finite=True) for name, value in (("start", start), ("end", end)))
        return self._sees(*points)

    def _sees(self, start: np.ndarray, end: np.ndarray) -> bool:
        count = 2 + int(np.hypot(*(end - start)) / (0.25 * self.room.resolution))
        along = np.linspace(0.0, 1.0, count)[:, None]
        return bool(self.room.is_free(start + along * (end - start)).all())


def _neighbours(free: np.ndarray, resolution: float) -> csr_matrix:
    """Return the graph of free cells and their free neighbours, weighted by distance.

    Diagonal neighbours are connected only if both cells beside the diagonal are free.
    """
    rows, columns = free.shape
    number = np.arange(rows * columns).reshape(rows, columns)
    starts, ends, lengths = [], [], []
    for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
        here = (slice(0, rows - down), slice(max(0, -right), columns - max(0, right)))
        there = (slice(down, rows), slice(max(0, right), columns - max(0, -right)))
        open_ = free[here] & free[there]
        if down and right:  # both cells beside the diagonal
            open_ &= free[here[0], there[1]] & free[there[0], here[1]]
        starts.append(number[here][open_])
        ends.append(number[there][open_])
        lengths.append(np.full(int(open_.sum()), resolution * np.hypot(down, right)))
    start, end, length = (np.concatenate(parts) for parts in (starts, ends, lengths))
    both = (np.concatenate([start, end]), np.concatenate([end, start]))
    return csr_matrix((np.concatenate([length, length]), both), shape=(free.size, free.size))
