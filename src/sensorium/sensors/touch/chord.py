"""Numba functions of chords: the part of a line that lies inside a geom.

Closed forms for planes, spheres, capsules, cylinders, boxes and ellipsoids. A mesh is its convex hull, whose face
planes clip the line. In a height field, the line is followed through the triangles. The line is o + t d in the geom's
frame, with a unit vector d.
"""

from __future__ import annotations

import numpy as np

from sensorium.jit import helper
from sensorium.sensors.touch.distance import (
    BOX,
    CAPSULE,
    CYLINDER,
    ELLIPSOID,
    FAR,
    SPHERE,
    TINY,
    terrain_height,
)

Interval = tuple[float, float]
"""Parameters t between which a line is inside a solid. The first is larger than the second if the line misses it."""


@helper
def _slab(o: float, d: float, half: float) -> Interval:
    """Return where ``|o + t d| <= half``."""
    if abs(d) < TINY:
        return (-FAR, FAR) if abs(o) <= half else (FAR, -FAR)
    middle, extent = -o / d, abs(half / d)
    return middle - extent, middle + extent


@helper
def _quadric(a: float, b: float, c: float) -> Interval:
    """Return where ``a t² + 2 b t + c <= 0``, with ``a >= 0``."""
    if a < TINY:  # along the axis of a cylinder
        return (-FAR, FAR) if c <= 0 else (FAR, -FAR)
    square = b * b - a * c
    if square < 0:
        return FAR, -FAR
    root = np.sqrt(square)
    return (-b - root) / a, (-b + root) / a


@helper
def _in_plane(oz: float, dz: float) -> Interval:
    if abs(dz) < TINY:
        return FAR, -FAR
    t = -oz / dz
    return (t, FAR) if dz < 0 else (-FAR, t)


@helper
def _in_cylinder(
    ox: float, oy: float, oz: float, dx: float, dy: float, dz: float, radius: float, half: float
) -> Interval:
    a, b = _quadric(dx * dx + dy * dy, ox * dx + oy * dy, ox * ox + oy * oy - radius * radius)
    c, d = _slab(oz, dz, half)
    return max(a, c), min(b, d)


@helper
def _in_capsule(
    ox: float, oy: float, oz: float, dx: float, dy: float, dz: float, radius: float, half: float
) -> Interval:
    """Return the union of cylinder and both balls, which is one interval since a capsule is convex."""
    low, high = _in_cylinder(ox, oy, oz, dx, dy, dz, radius, half)
    if low > high:
        low, high = FAR, -FAR
    for end in (-half, half):
        z = oz - end
        a, b = _quadric(1.0, ox * dx + oy * dy + z * dz, ox * ox + oy * oy + z * z - radius * radius)
        low, high = min(low, a), max(high, b)
    return low, high


@helper
def _in_box(ox: float, oy: float, oz: float, dx: float, dy: float, dz: float, a: float, b: float, c: float) -> Interval:
    x0, x1 = _slab(ox, dx, a)
    y0, y1 = _slab(oy, dy, b)
    z0, z1 = _slab(oz, dz, c)
    return max(x0, y0, z0), min(x1, y1, z1)


@helper
def _in_ellipsoid(
    ox: float, oy: float, oz: float, dx: float, dy: float, dz: float, a: float, b: float, c: float
) -> Interval:
    px, py, pz, qx, qy, qz = ox / a, oy / b, oz / c, dx / a, dy / b, dz / c
    return _quadric(qx * qx + qy * qy + qz * qz, px * qx + py * qy + pz * qz, px * px + py * py + pz * pz - 1.0)


@helper
def hull_chord(
    ox: float,
    oy: float,
    oz: float,
    dx: float,
    dy: float,
    dz: float,
    top: float,
    faces: np.ndarray,
    first: int,
    last: int,
) -> Interval:
    """Return where the line is inside a convex hull. It misses a hull that it enters above ``top``."""
    low, high = -FAR, FAR
    for f in range(first, last):
        height = faces[f, 9] * ox + faces[f, 10] * oy + faces[f, 11] * oz - faces[f, 12]
        slope = faces[f, 9] * dx + faces[f, 10] * dy + faces[f, 11] * dz
        if abs(slope) < TINY:
            if height > 0:
                return FAR, -FAR
        elif slope < 0:
            low = max(low, -height / slope)
        else:
            high = min(high, -height / slope)
        if low > high or low > top:
            return FAR, -FAR
    return low, high


@helper
def terrain_chord(
    ox: float,
    oy: float,
    oz: float,
    dx: float,
    dy: float,
    dz: float,
    top: float,
    base: float,
    shape: np.ndarray,
    heights: np.ndarray,
    nrow: int,
    ncol: int,
) -> Interval:
    """Return where the line enters a height field deepest; from there on, it counts as inside.

    The line is followed down from t = ``top`` until it is outside and below -``base``. Between the lines of the grid
    and the diagonals of the cells, its height above the surface is linear in t. Where this turns positive, the line has
    left the field through the surface.
    """
    ceiling = shape[2] + 1e-6  # clearly above all heights
    a, b = _slab(ox, -dx, shape[0])
    c, d = _slab(oy, -dy, shape[1])
    at, end = max(a, c, -top), min(b, d)  # parameters are -t from here on
    if dz < 0:
        end = min(end, (ceiling - oz) / -dz)
    elif dz > 0:
        at = max(at, (oz - ceiling) / dz)
    elif oz > ceiling:
        return FAR, -FAR
    if not at < end:
        return FAR, -FAR
    # in cells: columns u and rows v; diagonals are where u - v is a whole number
    u, du = (ox + shape[0]) / shape[4], -dx / shape[4]
    v, dv = (oy + shape[1]) / shape[5], -dy / shape[5]
    next_u, step_u = _next_line(u, du, at)
    next_v, step_v = _next_line(v, dv, at)
    next_w, step_w = _next_line(u - v, du - dv, at)
    above = oz - at * dz - terrain_height(u + at * du, v + at * dv, shape[2], heights, nrow, ncol)
    deepest = FAR
    while at < end and (above < 0 or at < base):
        to = min(next_u, next_v, next_w, end, base if at < base else FAR)
        if next_u <= to:
            next_u += step_u
        if next_v <= to:
            next_v += step_v
        if next_w <= to:
            next_w += step_w
        then = oz - to * dz - terrain_height(u + to * du, v + to * dv, shape[2], heights, nrow, ncol)
        if above < 0 and then >= 0:
            deepest = at - (to - at) * above / (then - above)
        at, above = to, then
    return (FAR, -FAR) if deepest == FAR else (-deepest, FAR)


@helper
def _next_line(u: float, du: float, at: float) -> tuple[float, float]:
    """Return the first parameter after ``at`` where u + parameter * du is a whole number, and the step to the next."""
    if abs(du) < TINY:
        return FAR, FAR
    now = u + at * du
    line = np.floor(now) + 1.0 if du > 0 else np.ceil(now) - 1.0
    return (line - u) / du, 1.0 / abs(du)


@helper
def chord(
    kind: int, ox: float, oy: float, oz: float, dx: float, dy: float, dz: float, a: float, b: float, c: float
) -> Interval:
    """Return where the line is inside a primitive geom of this type and size."""
    if kind == BOX:
        return _in_box(ox, oy, oz, dx, dy, dz, a, b, c)
    if kind == SPHERE:
        return _quadric(1.0, ox * dx + oy * dy + oz * dz, ox * ox + oy * oy + oz * oz - a * a)
    if kind == CAPSULE:
        return _in_capsule(ox, oy, oz, dx, dy, dz, a, b)
    if kind == CYLINDER:
        return _in_cylinder(ox, oy, oz, dx, dy, dz, a, b)
    if kind == ELLIPSOID:
        return _in_ellipsoid(ox, oy, oz, dx, dy, dz, a, b, c)
    return _in_plane(oz, dz)
