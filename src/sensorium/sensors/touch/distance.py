"""Numba kernels of signed distances from points to geoms, and of the nearest surface points, in every env.

Distances are exact for planes, spheres, capsules, cylinders and boxes, and accurate to 1e-9 of its size for an
ellipsoid. A mesh is its convex hull, as in MuJoCo's collisions. A height field is its triangles, and solid below them:
its sides and bottom are not surfaces. Distances are negative inside.

Two bounds keep many points times many geoms cheap. A sensor only considers geoms whose bounding sphere is within reach
of the sphere around all its points. A point only considers those of them that could be nearer than the nearest one
found so far.
"""

from __future__ import annotations

import mujoco
import numpy as np

from sensorium.jit import helper, kernel

PLANE, HFIELD, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH = (
    int(getattr(mujoco.mjtGeom, f"mjGEOM_{name}"))
    for name in ("PLANE", "HFIELD", "SPHERE", "CAPSULE", "ELLIPSOID", "CYLINDER", "BOX", "MESH")
)

Nearest = tuple[float, float, float, float, float, float, float]
"""Signed distance, nearest point of the surface and outward normal there, in the geom's frame."""

_TINY = 1e-12
_FAR = 1e30


@helper
def _plane(x: float, y: float, z: float) -> Nearest:
    return z, x, y, 0.0, 0.0, 0.0, 1.0


@helper
def _sphere(x: float, y: float, z: float, radius: float) -> Nearest:
    length = np.sqrt(x * x + y * y + z * z)
    if length < _TINY:
        return -radius, 0.0, 0.0, radius, 0.0, 0.0, 1.0
    nx, ny, nz = x / length, y / length, z / length
    return length - radius, nx * radius, ny * radius, nz * radius, nx, ny, nz


@helper
def _capsule(x: float, y: float, z: float, radius: float, half: float) -> Nearest:
    axial = min(max(z, -half), half)
    dz = z - axial
    length = np.sqrt(x * x + y * y + dz * dz)
    nx, ny, nz = (1.0, 0.0, 0.0) if length < _TINY else (x / length, y / length, dz / length)
    return length - radius, nx * radius, ny * radius, axial + nz * radius, nx, ny, nz


@helper
def _cylinder(x: float, y: float, z: float, radius: float, half: float) -> Nearest:
    rho = np.sqrt(x * x + y * y)
    ux, uy = (1.0, 0.0) if rho < _TINY else (x / rho, y / rho)
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


@kernel
def _box(x: float, y: float, z: float, a: float, b: float, c: float) -> Nearest:
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
def _ellipsoid(x: float, y: float, z: float, a: float, b: float, c: float) -> Nearest:
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
        best = _FAR
        for a, b in ((along_u, 0.0), (0.0, along_v), (1.0 - opposite, opposite)):
            dx, dy, dz = wx - a * ux - b * vx, wy - a * uy - b * vy, wz - a * uz - b * vz
            square = dx * dx + dy * dy + dz * dz
            if square < best:
                best, i, j = square, a, b
    return t[0] + i * ux + j * vx, t[1] + i * uy + j * vy, t[2] + i * uz + j * vz


@helper
def _hull(x: float, y: float, z: float, faces: np.ndarray, first: int, last: int) -> Nearest:
    """Return the nearest point of a convex hull; a face is three corners, outward normal, and offset along it."""
    top, at = -_FAR, first
    for f in range(first, last):
        height = faces[f, 9] * x + faces[f, 10] * y + faces[f, 11] * z - faces[f, 12]
        if height > top:
            top, at = height, f
    nx, ny, nz = faces[at, 9], faces[at, 10], faces[at, 11]
    if top <= 0:
        return top, x - top * nx, y - top * ny, z - top * nz, nx, ny, nz
    best, qx, qy, qz = _FAR, x, y, z
    for f in range(first, last):
        if faces[f, 9] * x + faces[f, 10] * y + faces[f, 11] * z - faces[f, 12] > 0:
            tx, ty, tz = _on_triangle(x, y, z, faces[f])
            square = (x - tx) ** 2 + (y - ty) ** 2 + (z - tz) ** 2
            if square < best:
                best, qx, qy, qz = square, tx, ty, tz
    length = np.sqrt(best)
    if length > _TINY:
        nx, ny, nz = (x - qx) / length, (y - qy) / length, (z - qz) / length
    return length, qx, qy, qz, nx, ny, nz


@helper
def _corner(heights: np.ndarray, shape: np.ndarray, ncol: int, row: int, col: int, t: np.ndarray, place: int) -> None:
    """Write one corner of a height field to ``t[place : place + 3]``."""
    t[place] = col * shape[4] - shape[0]
    t[place + 1] = row * shape[5] - shape[1]
    t[place + 2] = heights[row * ncol + col] * shape[2]


@helper
def _terrain(
    x: float, y: float, z: float, reach: float, shape: np.ndarray, heights: np.ndarray, nrow: int, ncol: int
) -> Nearest:
    """Return the nearest point of a height field: extents and height are ``shape[:3]``, cell widths ``shape[4:6]``."""
    t = np.empty(9)
    if z - shape[2] > reach:
        return _FAR, x, y, z, 0.0, 0.0, 1.0
    # the surface point straight below or above bounds the search
    col = min(max(int((x + shape[0]) / shape[4]), 0), ncol - 2)
    row = min(max(int((y + shape[1]) / shape[5]), 0), nrow - 2)
    fx = min(max((x + shape[0]) / shape[4] - col, 0.0), 1.0)
    fy = min(max((y + shape[1]) / shape[5] - row, 0.0), 1.0)
    h00, h11 = heights[row * ncol + col], heights[(row + 1) * ncol + col + 1]
    if fx >= fy:  # cells are split along the diagonal from the corner of smallest to that of largest x and y
        h10 = heights[row * ncol + col + 1]
        below = shape[2] * (h00 + fx * (h10 - h00) + fy * (h11 - h10))
    else:
        h01 = heights[(row + 1) * ncol + col]
        below = shape[2] * (h00 + fy * (h01 - h00) + fx * (h11 - h01))
    outside = z >= below or abs(x) > shape[0] or abs(y) > shape[1]
    window = np.sqrt(
        (x - min(max(x, -shape[0]), shape[0])) ** 2 + (y - min(max(y, -shape[1]), shape[1])) ** 2 + (z - below) ** 2
    )
    if outside:
        window = min(window, reach)
    best, qx, qy, qz, nx, ny, nz = _FAR, x, y, z, 0.0, 0.0, 1.0
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
    if length > _TINY and best < _FAR:
        sign = 1.0 if outside else -1.0
        nx, ny, nz = sign * (x - qx) / length, sign * (y - qy) / length, sign * (z - qz) / length
    return length if outside else -length, qx, qy, qz, nx, ny, nz


@kernel
def nearest_surfaces(
    geom_xpos: np.ndarray,
    geom_xmat: np.ndarray,
    xpos: np.ndarray,
    xmat: np.ndarray,
    sensors: np.ndarray,
    bounds: np.ndarray,
    probes: np.ndarray,
    index: np.ndarray,
    shape: np.ndarray,
    faces: np.ndarray,
    heights: np.ndarray,
    near: np.ndarray,
    found: np.ndarray,
    body: np.ndarray,
) -> None:
    """Find the nearest surface to every probe of every sensor in every env.

    Args:
        geom_xpos, geom_xmat, xpos, xmat: poses of geoms and bodies, per env.
        sensors: (S, 5) link, first probe, end of its probes, first surface, end of its surfaces.
        bounds: (S, 4) centre in the link's frame, and radius, of a sphere that contains everything its probes reach.
        probes: (N, 8) position, reach, normal, and whether it has one, in the link's frame.
        index: (G, 6) of each surface: type, geom, body, first face or height, their number (rows), columns.
        shape: (G, 6) size, radius of its bounding sphere, and cell widths of height fields.
        faces: see ``_hull``.
        heights: of all height fields.
        near: scratch, (G,).
        found: out, (B, N, 11): signed distance (at most the reach), nearest point, outward normal of the surface there,
            position of the probe (all in the world frame), depth.
        body: out, (B, N): body of the surface, -1 out of reach.
    """
    for env in range(found.shape[0]):
        for s in range(sensors.shape[0]):
            link, first, last = sensors[s, 0], sensors[s, 1], sensors[s, 2]
            ox, oy, oz = xpos[env, link, 0], xpos[env, link, 1], xpos[env, link, 2]
            m0, m1, m2 = xmat[env, link, 0], xmat[env, link, 1], xmat[env, link, 2]
            m3, m4, m5 = xmat[env, link, 3], xmat[env, link, 4], xmat[env, link, 5]
            m6, m7, m8 = xmat[env, link, 6], xmat[env, link, 7], xmat[env, link, 8]
            cx = ox + m0 * bounds[s, 0] + m1 * bounds[s, 1] + m2 * bounds[s, 2]
            cy = oy + m3 * bounds[s, 0] + m4 * bounds[s, 1] + m5 * bounds[s, 2]
            cz = oz + m6 * bounds[s, 0] + m7 * bounds[s, 1] + m8 * bounds[s, 2]
            count = 0
            for k in range(sensors[s, 3], sensors[s, 4]):
                kind, g = index[k, 0], index[k, 1]
                dx, dy, dz = cx - geom_xpos[env, g, 0], cy - geom_xpos[env, g, 1], cz - geom_xpos[env, g, 2]
                if kind == PLANE:
                    apart = dx * geom_xmat[env, g, 2] + dy * geom_xmat[env, g, 5] + dz * geom_xmat[env, g, 8]
                elif kind == HFIELD:
                    apart = 0.0
                else:
                    apart = np.sqrt(dx * dx + dy * dy + dz * dz) - shape[k, 3]
                if apart <= bounds[s, 3]:
                    near[count] = k
                    count += 1
            for p in range(first, last):
                px, py, pz, reach = probes[p, 0], probes[p, 1], probes[p, 2], probes[p, 3]
                x = ox + m0 * px + m1 * py + m2 * pz
                y = oy + m3 * px + m4 * py + m5 * pz
                z = oz + m6 * px + m7 * py + m8 * pz
                best, at = reach, -1
                bx = by = bz = bnx = bny = bnz = 0.0  # of the nearest, in its geom's frame
                for i in range(count):
                    k = near[i]
                    kind, g = index[k, 0], index[k, 1]
                    dx, dy, dz = x - geom_xpos[env, g, 0], y - geom_xpos[env, g, 1], z - geom_xpos[env, g, 2]
                    if kind != PLANE and kind != HFIELD:
                        limit = best + shape[k, 3]
                        if limit < 0 or dx * dx + dy * dy + dz * dz > limit * limit:
                            continue
                    lx = geom_xmat[env, g, 0] * dx + geom_xmat[env, g, 3] * dy + geom_xmat[env, g, 6] * dz
                    ly = geom_xmat[env, g, 1] * dx + geom_xmat[env, g, 4] * dy + geom_xmat[env, g, 7] * dz
                    lz = geom_xmat[env, g, 2] * dx + geom_xmat[env, g, 5] * dy + geom_xmat[env, g, 8] * dz
                    a, b, c = shape[k, 0], shape[k, 1], shape[k, 2]
                    if kind == BOX:
                        d, qx, qy, qz, nx, ny, nz = _box(lx, ly, lz, a, b, c)
                    elif kind == PLANE:
                        d, qx, qy, qz, nx, ny, nz = _plane(lx, ly, lz)
                    elif kind == SPHERE:
                        d, qx, qy, qz, nx, ny, nz = _sphere(lx, ly, lz, a)
                    elif kind == CAPSULE:
                        d, qx, qy, qz, nx, ny, nz = _capsule(lx, ly, lz, a, b)
                    elif kind == CYLINDER:
                        d, qx, qy, qz, nx, ny, nz = _cylinder(lx, ly, lz, a, b)
                    elif kind == ELLIPSOID:
                        d, qx, qy, qz, nx, ny, nz = _ellipsoid(lx, ly, lz, a, b, c)
                    elif kind == MESH:
                        d, qx, qy, qz, nx, ny, nz = _hull(lx, ly, lz, faces, index[k, 3], index[k, 3] + index[k, 4])
                    else:
                        d, qx, qy, qz, nx, ny, nz = _terrain(
                            lx, ly, lz, best, shape[k], heights[index[k, 3] :], index[k, 4], index[k, 5]
                        )
                    if d < best:
                        best, at = d, k
                        bx, by, bz, bnx, bny, bnz = qx, qy, qz, nx, ny, nz
                found[env, p, 0], found[env, p, 10] = best, 0.0
                found[env, p, 7], found[env, p, 8], found[env, p, 9] = x, y, z
                if at < 0:
                    body[env, p] = -1
                    found[env, p, 1], found[env, p, 2], found[env, p, 3] = x, y, z
                    found[env, p, 4], found[env, p, 5], found[env, p, 6] = 0.0, 0.0, 0.0
                    continue
                body[env, p], g = index[at, 2], index[at, 1]
                facing = 1.0
                for k in range(3):
                    r0, r1, r2 = geom_xmat[env, g, 3 * k], geom_xmat[env, g, 3 * k + 1], geom_xmat[env, g, 3 * k + 2]
                    found[env, p, 1 + k] = geom_xpos[env, g, k] + r0 * bx + r1 * by + r2 * bz
                    found[env, p, 4 + k] = r0 * bnx + r1 * bny + r2 * bnz
                if probes[p, 7] > 0:  # it has a normal: only surfaces that face it count, with the component along it
                    nx, ny, nz = probes[p, 4], probes[p, 5], probes[p, 6]
                    wx = m0 * nx + m1 * ny + m2 * nz
                    wy = m3 * nx + m4 * ny + m5 * nz
                    wz = m6 * nx + m7 * ny + m8 * nz
                    facing = -(wx * found[env, p, 4] + wy * found[env, p, 5] + wz * found[env, p, 6])
                    facing = facing if facing > 1e-6 else 0.0  # not from rounding
                found[env, p, 10] = (reach - best) * facing
