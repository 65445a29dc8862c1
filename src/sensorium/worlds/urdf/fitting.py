"""Smallest box or cylinder around points, over a few promising orientations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_MAX_FACES = 4
"""Number of the largest faces of a hull whose normals are tried."""


@dataclass(frozen=True)
class Fit:
    """A box (size x, y, z) or a cylinder along z (radius, length) at ``center``; ``turn`` has its axes as columns."""

    size: tuple[float, ...]
    center: np.ndarray
    turn: np.ndarray
    volume: float


@dataclass(frozen=True)
class Hull:
    """The convex hull of points: corners (n, 3), volume, and directions to try (m, 3)."""

    corners: np.ndarray
    volume: float
    axes: np.ndarray


def convex_hull(points: np.ndarray) -> Hull:
    """Return the convex hull of points (n, 3), with directions along which a shape may fit well.

    These are the coordinate axes, the principal axes of the solid hull, which do not depend on the triangulation of its
    surface, and the normals of its largest faces.

    Raises:
        ValueError: the points lie in a plane.
    """
    from scipy.spatial import ConvexHull, QhullError

    try:
        hull = ConvexHull(points)
    except QhullError as error:
        raise ValueError("its vertices lie in a plane, or nearly in one") from error
    corners = points[hull.vertices]
    triangles = points[hull.simplices]
    return Hull(
        corners, float(hull.volume), np.concatenate([np.eye(3), _principal(triangles), _faces(hull, triangles)])
    )


def _principal(triangles: np.ndarray) -> np.ndarray:
    """Return the principal axes of a solid, one per row (3, 3), from tetrahedra between its surface and its inside."""
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
    """Return the normals of the largest faces, (n, 3).

    Triangles in one plane count as one face, and opposite faces as one direction.
    """
    normals = hull.equations[:, :3]  # type: ignore[attr-defined]
    areas = np.linalg.norm(np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]), axis=1)
    found: list[np.ndarray] = []
    while len(found) < _MAX_FACES and areas.max() > 0:
        parallel = np.abs(normals @ normals.T[:, areas.argmax()]) > 1 - 1e-6
        found.append(normals[areas.argmax()])
        areas = np.where(parallel, 0, areas)
    return np.array(found)


def fit_box(hull: Hull) -> Fit:
    """Return the smallest box over all directions: for each, the smallest rectangle around the projected points."""
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
    """Return the smallest cylinder over all directions: for each, the smallest circle around the projected points."""
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
    """Return a rotation matrix whose third column is ``axis``; for a coordinate axis, all columns are such axes."""
    axis = axis / np.linalg.norm(axis)
    first = np.roll(np.eye(3)[np.abs(axis).argmax()], 1)
    first = first - axis * (first @ axis)
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(axis, first), axis], axis=1)


def _about_z(angle: float) -> np.ndarray:
    cos, sin = np.cos(angle), np.sin(angle)
    return np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])


def _rectangle(points: np.ndarray) -> float:
    """Return the angle of the smallest rectangle around points (n, 2); it shares a side with their hull."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        ring = points[ConvexHull(points).vertices]
    except QhullError:  # all points lie on a line
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
    """Return centre (2,) and radius of the smallest circle around points (n, 2).

    Points are added one by one. A point outside the current circle lies on the border of the new one. The circle is
    then computed again with that point, and with one or two more, on its border.
    """
    points = np.random.default_rng(0).permutation(points)  # the expected time is then linear
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
    """Return the circle through three points; if they lie on a line, through the two farthest ones."""
    system = 2 * np.array([b - a, c - a])
    if abs(np.linalg.det(system)) < 1e-18:
        return max((_between(a, b), _between(b, c), _between(a, c)), key=lambda circle: circle[1])
    center = a + np.linalg.solve(system, [(b - a) @ (b - a), (c - a) @ (c - a)])
    return center, float(np.hypot(*(a - center)))
