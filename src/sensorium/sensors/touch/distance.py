"""Numba functions of signed distances from points to geoms, and of the nearest surface points.

Distances are exact for planes, spheres, capsules, cylinders and boxes, and accurate to 1e-9 of its size for an
ellipsoid. A mesh is its convex hull, as in MuJoCo's collisions. A height field is its triangles, and solid below them:
its sides and bottom are not surfaces. Distances are negative inside.
"""

from __future__ import annotations

import mujoco
import numpy as np

from sensorium.jit import helper

PLANE, HFIELD, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH = (
    int(getattr(mujoco.mjtGeom, f"mjGEOM_{name}"))
    for name in ("PLANE", "HFIELD", "SPHERE", "CAPSULE", "ELLIPSOID", "CYLINDER", "BOX", "MESH")
)

Nearest = tuple[float, float, float, float, float, float, float]
"""Signed distance, nearest point of the surface and outward normal there, in the geom's frame."""

TINY = 1e-12
FAR = 1e30


@helper
def on_plane(x: float, y: float, z: float) -> Nearest:
    """Return the nearest surface point of the plane z = 0."""
    return z, x, y, 0.0, 0.0, 0.0, 1.0


@helper
def on_sphere(x: float, y: float, z: float, radius: float) -> Nearest:
    """Return the nearest surface point of a sphere."""
    length = np.sqrt(x * x + y * y + z * z)
    if length < TINY:
        return -radius, 0.0, 0.0, radius, 0.0, 0.0, 1.0
    nx, ny, nz = x / length, y / length, z / length
    return length - radius, nx * radius, ny * radius, nz * radius, nx, ny, nz


@helper
def on_capsule(x: float, y: float, z: float, radius: float, half: float) -> Nearest:
    """Return the nearest surface point of a capsule along z."""
    axial = min(max(z, -half), half)
    dz = z - axial
    length = np.sqrt(x * x + y * y + dz * dz)
    nx, ny, nz = (1.0, 0.0, 0.0) if length < TINY else (x / length, y / length, dz / length)
    return length - radius, nx * radius, ny * radius, axial + nz * radius, nx, ny, nz


@helper
def on_cylinder(x: float, y: float, z: float, radius: float, half: float) -> Nearest:
    """Return the nearest surface point of a cylinder along z."""
    rho = np.sqrt(x * x + y * y)
    ux, uy = (1.0, 0.0) if rho < TINY else (x / rho, y / rho)
    side = 1.0 if z >= 0 else -1.0
    beyond_rim, beyond_cap = rho - radius, abs(z) - half
    if beyond_rim <= 0 and beyond_cap <= 0:
        if beyond_rim > beyond_cap:
            return beyond_rim, ux * radius, uy * radius, z, ux, uy, 0.0
        return beyond_cap, x, y, side * half, 0.0, 0.0, side
    near, height = min(rho, radius), min(max(z, -half), half)
    radial, axial = rho - near, z - height
    length = np.sqrt(radial * radial + axial * axial)
    return length, ux * near, uy * near, height, ux * radial / length, uy * radial / length, axial / length


@helper
def on_box(x: float, y: float, z: float, a: float, b: float, c: float) -> Nearest:
    """Return the nearest surface point of a box."""
    dx, dy, dz = abs(x) - a, abs(y) - b, abs(z) - c
    sx, sy, sz = 1.0 if x >= 0 else -1.0, 1.0 if y >= 0 else -1.0, 1.0 if z >= 0 else -1.0
    if dx <= 0 and dy <= 0 and dz <= 0:
        if dx >= dy and dx >= dz:
            return dx, sx * a, y, z, sx, 0.0, 0.0
        if dy >= dz:
            return dy, x, sy * b, z, 0.0, sy, 0.0
        return dz, x, y, sz * c, 0.0, 0.0, sz
    qx, qy, qz = min(max(x, -a), a), min(max(y, -b), b), min(max(z, -c), c)
    ex, ey, ez = x - qx, y - qy, z - qz
    length = np.sqrt(ex * ex + ey * ey + ez * ez)
    return length, qx, qy, qz, ex / length, ey / length, ez / length


@helper
def on_ellipsoid(x: float, y: float, z: float, a: float, b: float, c: float) -> Nearest:
    """Return the nearest surface point of an ellipsoid.

    It is q_i = r_i² p_i / (t + r_i²), where t is the largest root of |q / r|² = 1. In the octant of positive
    coordinates, as a function of s = t + r_min², the equation is convex and decreasing, so Newton's method converges
    monotonically from the left. Coordinates are kept away from zero, where the root meets a pole; this changes the
    distance by less than 1e-9 of the smallest radius.
    """
    smallest = min(a, b, c)
    off = 1e-9 * smallest
    px, py, pz = max(abs(x), off), max(abs(y), off), max(abs(z), off)
    la, lb, lc = a * a - smallest * smallest, b * b - smallest * smallest, c * c - smallest * smallest
    s = max(a * px - la, b * py - lb, c * pz - lc)
    for _ in range(64):
        ga, gb, gc = a * px / (s + la), b * py / (s + lb), c * pz / (s + lc)
        excess = ga * ga + gb * gb + gc * gc - 1.0
        slope = 2.0 * (ga * ga / (s + la) + gb * gb / (s + lb) + gc * gc / (s + lc))
        change = excess / slope
        s += change
        if abs(change) <= 1e-14 * s:
            break
    qx = np.copysign(a * a * px / (s + la), x)
    qy = np.copysign(b * b * py / (s + lb), y)
    qz = np.copysign(c * c * pz / (s + lc), z)
    nx, ny, nz = qx / (a * a), qy / (b * b), qz / (c * c)
    length = np.sqrt(nx * nx + ny * ny + nz * nz)
    nx, ny, nz = nx / length, ny / length, nz / length
    # along the normal, which points to the nearest point; the sign is right, and it is accurate near the surface
    return (x - qx) * nx + (y - qy) * ny + (z - qz) * nz, qx, qy, qz, nx, ny, nz


@helper
def _on_triangle(x: float, y: float, z: float, t: np.ndarray) -> tuple[float, float, float]:
    """Return the point of the triangle t (three corners, one after the other) that is nearest to (x, y, z)."""
    ux, uy, uz = t[3] - t[0], t[4] - t[1], t[5] - t[2]
    vx, vy, vz = t[6] - t[0], t[7] - t[1], t[8] - t[2]
    wx, wy, wz = x - t[0], y - t[1], z - t[2]
    uu, uv, vv = ux * ux + uy * uy + uz * uz, ux * vx + uy * vy + uz * vz, vx * vx + vy * vy + vz * vz
    wu, wv = wx * ux + wy * uy + wz * uz, wx * vx + wy * vy + wz * vz
    det = uu * vv - uv * uv
    i, j = vv * wu - uv * wv, uu * wv - uv * wu  # barycentric coordinates times det
    if i >= 0 and j >= 0 and i + j <= det:
        i, j = i / det, j / det
    else:  # on one of the edges
        along_u, along_v = min(max(wu / uu, 0.0), 1.0), min(max(wv / vv, 0.0), 1.0)
        opposite = min(max((uu - uv - wu + wv) / (uu - 2.0 * uv + vv), 0.0), 1.0)
        best = FAR
        for a, b in ((along_u, 0.0), (0.0, along_v), (1.0 - opposite, opposite)):
            dx, dy, dz = wx - a * ux - b * vx, wy - a * uy - b * vy, wz - a * uz - b * vz
            square = dx * dx + dy * dy + dz * dz
            if square < best:
                best, i, j = square, a, b
    return t[0] + i * ux + j * vx, t[1] + i * uy + j * vy, t[2] + i * uz + j * vz


@helper
def on_hull(x: float, y: float, z: float, faces: np.ndarray, first: int, last: int) -> Nearest:
    """Return the nearest point of a convex hull; a face is three corners, outward normal, and offset along it."""
    top, at = -FAR, first
    for f in range(first, last):
        height = faces[f, 9] * x + faces[f, 10] * y + faces[f, 11] * z - faces[f, 12]
        if height > top:
            top, at = height, f
    nx, ny, nz = faces[at, 9], faces[at, 10], faces[at, 11]
    if top <= 0:
        return top, x - top * nx, y - top * ny, z - top * nz, nx, ny, nz
    best, qx, qy, qz = FAR, x, y, z
    for f in range(first, last):
        if faces[f, 9] * x + faces[f, 10] * y + faces[f, 11] * z - faces[f, 12] > 0:
            tx, ty, tz = _on_triangle(x, y, z, faces[f])
            square = (x - tx) ** 2 + (y - ty) ** 2 + (z - tz) ** 2
            if square < best:
                best, qx, qy, qz = square, tx, ty, tz
    length = np.sqrt(best)
    if length > TINY:
        nx, ny, nz = (x - qx) / length, (y - qy) / length, (z - qz) / length
    return length, qx, qy, qz, nx, ny, nz


@helper
def terrain_height(u: float, v: float, scale: float, heights: np.ndarray, nrow: int, ncol: int) -> float:
    """Return the height of a height field at column u and row v; beyond its edges, that of its outermost triangles."""
    col, row = min(max(int(u), 0), ncol - 2), min(max(int(v), 0), nrow - 2)
    fx, fy = min(max(u - col, 0.0), 1.0), min(max(v - row, 0.0), 1.0)
    h00, h11 = heights[row * ncol + col], heights[(row + 1) * ncol + col + 1]
    if fx >= fy:  # cells are split along the diagonal from the corner of smallest to that of largest x and y
        h10 = heights[row * ncol + col + 1]
        return scale * (h00 + fx * (h10 - h00) + fy * (h11 - h10))
    h01 = heights[(row + 1) * ncol + col]
    return scale * (h00 + fy * (h01 - h00) + fx * (h11 - h01))


@helper
def _corner(heights: np.ndarray, shape: np.ndarray, ncol: int, row: int, col: int, t: np.ndarray, place: int) -> None:
    """Write one corner of a height field to ``t[place : place + 3]``."""
    t[place] = col * shape[4] - shape[0]
    t[place + 1] = row * shape[5] - shape[1]
    t[place + 2] = heights[row * ncol + col] * shape[2]


@helper
def on_terrain(
    x: float, y: float, z: float, reach: float, shape: np.ndarray, heights: np.ndarray, nrow: int, ncol: int
) -> Nearest:
    """Return the nearest point of a height field: extents and height are ``shape[:3]``, cell widths ``shape[4:6]``."""
    t = np.empty(9)
    if z - shape[2] > reach:
        return FAR, x, y, z, 0.0, 0.0, 1.0
    # the surface point straight below or above bounds the search
    u, v = (x + shape[0]) / shape[4], (y + shape[1]) / shape[5]
    below = terrain_height(u, v, shape[2], heights, nrow, ncol)
    outside = z >= below or abs(x) > shape[0] or abs(y) > shape[1]
    window = np.sqrt(
        (x - min(max(x, -shape[0]), shape[0])) ** 2 + (y - min(max(y, -shape[1]), shape[1])) ** 2 + (z - below) ** 2
    )
    if outside:
        window = min(window, reach)
    best, qx, qy, qz, nx, ny, nz = FAR, x, y, z, 0.0, 0.0, 1.0
    for r in range(
        max(int(np.floor((y - window + shape[1]) / shape[5])), 0),
        min(int(np.floor((y + window + shape[1]) / shape[5])), nrow - 2) + 1,
    ):
        for c in range(
            max(int(np.floor((x - window + shape[0]) / shape[4])), 0),
            min(int(np.floor((x + window + shape[0]) / shape[4])), ncol - 2) + 1,
        ):
            for lower in range(2):
                _corner(heights, shape, ncol, r, c, t, 0)
                if lower:
                    _corner(heights, shape, ncol, r, c + 1, t, 3)
                    _corner(heights, shape, ncol, r + 1, c + 1, t, 6)
                else:
                    _corner(heights, shape, ncol, r + 1, c + 1, t, 3)
                    _corner(heights, shape, ncol, r + 1, c, t, 6)
                tx, ty, tz = _on_triangle(x, y, z, t)
                square = (x - tx) ** 2 + (y - ty) ** 2 + (z - tz) ** 2
                if square < best:
                    best, qx, qy, qz = square, tx, ty, tz
                    ux, uy, uz = t[3] - t[0], t[4] - t[1], t[5] - t[2]
                    vx, vy, vz = t[6] - t[0], t[7] - t[1], t[8] - t[2]
                    nx, ny, nz = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
    length, side = np.sqrt(best), np.sqrt(nx * nx + ny * ny + nz * nz)
    nx, ny, nz = nx / side, ny / side, nz / side
    if length > TINY and best < FAR:
        sign = 1.0 if outside else -1.0
        nx, ny, nz = sign * (x - qx) / length, sign * (y - qy) / length, sign * (z - qz) / length
    return length if outside else -length, qx, qy, qz, nx, ny, nz


@helper
def distance_to_geom(
    x: float, y: float, z: float, k: int, index: np.ndarray, shape: np.ndarray, faces: np.ndarray, heights: np.ndarray
) -> float:
    """Return the signed distance to the geom k of ``index`` and ``shape``; see ``nearest_surfaces``."""
    kind, a, b, c = index[k, 0], shape[k, 0], shape[k, 1], shape[k, 2]
    if kind == BOX:
        return on_box(x, y, z, a, b, c)[0]
    if kind == PLANE:
        return on_plane(x, y, z)[0]
    if kind == SPHERE:
        return on_sphere(x, y, z, a)[0]
    if kind == CAPSULE:
        return on_capsule(x, y, z, a, b)[0]
    if kind == CYLINDER:
        return on_cylinder(x, y, z, a, b)[0]
    if kind == ELLIPSOID:
        return on_ellipsoid(x, y, z, a, b, c)[0]
    if kind == MESH:
        return on_hull(x, y, z, faces, index[k, 3], index[k, 3] + index[k, 4])[0]
    return on_terrain(x, y, z, FAR, shape[k], heights[index[k, 3] :], index[k, 4], index[k, 5])[0]
