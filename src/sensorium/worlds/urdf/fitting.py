"""The smallest box or cylinder around points, over a few orientations that are likely to be good."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_FACES = 4
"""How many of the largest faces of a hull give an orientation to try."""


@dataclass(frozen=True)
class Fit:
    """A box (size x, y, z) or a cylinder along z (radius, length) at ``center``, its axes the columns of ``turn``."""

    size: tuple[float, ...]
    center: np.ndarray
    turn: np.ndarray
    volume: float


@dataclass(frozen=True)
class Hull:
    """The convex hull of points: its corners (n, 3), its volume, and orientations to try (m, 3, 3)."""

    corners: np.ndarray
    volume: float
    axes: np.ndarray


def convex_hull(points: np.ndarray) -> Hull:
    """The hull of points (n, 3), and directions in which something may fit well.

    Those are the coordinate axes, the principal axes of the solid hull, which do not depend on how its surface is
    divided into triangles, and the normals of its largest faces.

    Raises:
        ValueError: the points lie in a plane.
    """
    from scipy.spatial import ConvexHull, QhullError

    try:
        hull = ConvexHull(points)
    except QhullError as error:
        raise ValueError("its vertices lie in a plane, or nearly so") from error
    corners = points[hull.vertices]
    triangles = points[hull.simplices]
    return Hull(
        corners, float(hull.volume), np.concatenate([np.eye(3), _principal(triangles), _faces(hull, triangles)])
    )


def _principal(triangles: np.ndarray) -> np.ndarray:
    """Principal axes of a solid, (3, 3), one a row, from the tetrahedra between its surface and a point inside."""
    inside = triangles.mean((0, 1))
    legs = triangles - inside
    weights = np.abs(np.linalg.det(legs))
    total = weights.sum()
    middle = (weights[:, None] * legs.sum(1)).sum(0) / (4 * total)
    # the second moment of a tetrahedron with a corner at the origin: (sum of v v' + s s') / 20, s the sum of all v
    sums = legs.sum(1)
    second = np.einsum("t,tni,tnj->ij", weights, legs, legs) + np.einsum("t,ti,tj->ij", weights, sums, sums)
    return np.linalg.eigh(second / (20 * total) - np.outer(middle, middle))[1].T


def _faces(hull: object, triangles: np.ndarray) -> np.ndarray:
    """Normals of the largest faces, (n, 3): triangles of one plane are one face, and opposite faces one direction."""
    normals = hull.equations[:, :3]  # type: ignore[attr-defined]
    areas = np.linalg.norm(np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]), axis=1)
    found: list[np.ndarray] = []
    while len(found) < _FACES and areas.max() > 0:
        alike = np.abs(normals @ normals.T[:, areas.argmax()]) > 1 - 1e-6
        found.append(normals[areas.argmax()])
        areas = np.where(alike, 0, areas)
    return np.array(found)


def fit_box(hull: Hull) -> Fit:
    """The smallest box over all directions: along each, the rectangle of least area around what is seen from there."""
    best: Fit | None = None
    for axis in hull.axes:
        frame = _frame(axis)
        flat = hull.corners @ frame[:, :2]
        angle = _rectangle(flat)
        turn = frame @ _about_z(angle)
        local = hull.corners @ turn
        low, high = local.min(0), local.max(0)
        volume = float(np.prod(high - low))
        if best is None or volume < best.volume * (1 - 1e-9):
            best = Fit(tuple((high - low).tolist()), turn @ ((low + high) / 2), turn, volume)
    assert best is not None
    return best


def fit_cylinder(hull: Hull) -> Fit:
    """The smallest cylinder over all directions: along each, the smallest circle around what is seen from there."""
    best: Fit | None = None
    for axis in hull.axes:
        turn = _frame(axis)
        local = hull.corners @ turn
        middle, radius = enclosing_circle(local[:, :2])
        low, high = float(local[:, 2].min()), float(local[:, 2].max())
        volume = np.pi * radius**2 * (high - low)
        if best is None or volume < best.volume * (1 - 1e-9):
            best = Fit((radius, high - low), turn @ [*middle, (low + high) / 2], turn, float(volume))
    assert best is not None
    return best


def _frame(axis: np.ndarray) -> np.ndarray:
    """A rotation whose third column is the axis; for a coordinate axis, the others are coordinate axes too."""
    axis = axis / np.linalg.norm(axis)
    first = np.roll(np.eye(3)[np.abs(axis).argmax()], 1)
    first = first - axis * (first @ axis)
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(axis, first), axis], axis=1)


def _about_z(angle: float) -> np.ndarray:
    cos, sin = np.cos(angle), np.sin(angle)
    return np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])


def _rectangle(points: np.ndarray) -> float:
    """The angle of the smallest rectangle around points (n, 2): one of its sides lies on a side of their hull."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        ring = points[ConvexHull(points).vertices]
    except QhullError:  # seen from its edge
        return 0.0
    edges = np.roll(ring, -1, 0) - ring
    angles = np.append(np.arctan2(edges[:, 1], edges[:, 0]), 0.0)
    cos, sin = np.cos(angles), np.sin(angles)
    along, across = (
        np.outer(cos, ring[:, 0]) + np.outer(sin, ring[:, 1]),
        np.outer(cos, ring[:, 1]) - np.outer(sin, ring[:, 0]),
    )
    return float(angles[(np.ptp(along, axis=1) * np.ptp(across, axis=1)).argmin()])


def enclosing_circle(points: np.ndarray) -> tuple[np.ndarray, float]:
    """Centre (2,) and radius of the smallest circle around points (n, 2).

    Points enter one by one; one that lies outside is on the border of the circle around it and those before it, so the
    circle is made again, with it and then with one or two more on its border.
    """
    points = np.random.default_rng(0).permutation(points)  # which makes the expected time linear
    slack = 1e-12 * float(np.abs(points).max() + 1)
    center, radius = points[0], 0.0
    for i in range(1, len(points)):
        if _outside(points[i], center, radius, slack):
            center, radius = points[i], 0.0
            for j in range(i):
                if _outside(points[j], center, radius, slack):
                    center, radius = _between(points[i], points[j])
                    for k in range(j):
                        if _outside(points[k], center, radius, slack):
                            center, radius = _through(points[i], points[j], points[k])
    return center, float(np.linalg.norm(points - center, axis=1).max())


def _outside(point: np.ndarray, center: np.ndarray, radius: float, slack: float) -> bool:
    return float(np.hypot(*(point - center))) > radius + slack


def _between(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, float]:
    return (a + b) / 2, float(np.hypot(*(a - b))) / 2


def _through(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, float]:
    """The circle through three points; through the two farthest ones where they lie on a line."""
    system = 2 * np.array([b - a, c - a])
    if abs(np.linalg.det(system)) < 1e-18:
        return max((_between(a, b), _between(b, c), _between(a, c)), key=lambda circle: circle[1])
    center = a + np.linalg.solve(system, [(b - a) @ (b - a), (c - a) @ (c - a)])
    return center, float(np.hypot(*(a - center)))
