"""Numba kernel of the nearest surface to every probe, in every env.

Two bounds keep many probes times many geoms cheap. A sensor only considers geoms whose bounding sphere is within reach
of the sphere around all its probes. A probe only considers those of them that could be nearer than the nearest one
found so far.
"""

from __future__ import annotations

import numpy as np

from sensorium.jit import helper, kernel
from sensorium.sensors.touch.distance import (
    BOX,
    CAPSULE,
    CYLINDER,
    ELLIPSOID,
    HFIELD,
    MESH,
    PLANE,
    SPHERE,
    on_box,
    on_capsule,
    on_cylinder,
    on_ellipsoid,
    on_hull,
    on_plane,
    on_sphere,
    on_terrain,
)

ANY_DIRECTION, FACING, ALONG_NORMAL = 0, 1, 2
"""Depths of probes: to the nearest surface; the same times the cosine between both normals; along the normal."""


@helper
def geoms_in_reach(
    cx: float,
    cy: float,
    cz: float,
    radius: float,
    geom_xpos: np.ndarray,
    geom_xmat: np.ndarray,
    first: int,
    last: int,
    index: np.ndarray,
    shape: np.ndarray,
    near: np.ndarray,
) -> int:
    """Write the geoms ``first`` to ``last`` that may touch a sphere to ``near``, and return their number."""
    count = 0
    for k in range(first, last):
        kind, g = index[k, 0], index[k, 1]
        dx, dy, dz = cx - geom_xpos[g, 0], cy - geom_xpos[g, 1], cz - geom_xpos[g, 2]
        if kind == PLANE:
            apart = dx * geom_xmat[g, 2] + dy * geom_xmat[g, 5] + dz * geom_xmat[g, 8]
        elif kind == HFIELD:
            apart = 0.0
        else:
            apart = np.sqrt(dx * dx + dy * dy + dz * dz) - shape[k, 3]
        if apart <= radius:
            near[count] = k
            count += 1
    return count


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
        probes: (N, 9) position, reach, normal in the link's frame, which depth, and see ``normal_depth``. Probes whose
            depth is along the normal are skipped.
        index: (G, 6) of each surface: type, geom, body, first face or height, their number (rows), columns.
        shape: (G, 6) size, radius of its bounding sphere, and cell widths of height fields.
        faces: (F, 13) triangles of all convex hulls: three corners, outward normal, and offset along it.
        heights: of all height fields.
        near: scratch, (G,).
        found: out, (B, N, 11): signed distance (at most the reach), nearest point, outward normal of the surface there,
            position of the probe (all in the world frame), depth.
        body: out, (B, N): body of the surface, -1 out of reach.
    """
    for env in range(found.shape[0]):
        for s in range(sensors.shape[0]):
            link, first, last = sensors[s, 0], sensors[s, 1], sensors[s, 2]
            if probes[first, 7] == ALONG_NORMAL:
                continue
            ox, oy, oz = xpos[env, link, 0], xpos[env, link, 1], xpos[env, link, 2]
            m0, m1, m2 = xmat[env, link, 0], xmat[env, link, 1], xmat[env, link, 2]
            m3, m4, m5 = xmat[env, link, 3], xmat[env, link, 4], xmat[env, link, 5]
            m6, m7, m8 = xmat[env, link, 6], xmat[env, link, 7], xmat[env, link, 8]
            cx = ox + m0 * bounds[s, 0] + m1 * bounds[s, 1] + m2 * bounds[s, 2]
            cy = oy + m3 * bounds[s, 0] + m4 * bounds[s, 1] + m5 * bounds[s, 2]
            cz = oz + m6 * bounds[s, 0] + m7 * bounds[s, 1] + m8 * bounds[s, 2]
            count = geoms_in_reach(
                cx,
                cy,
                cz,
                bounds[s, 3],
                geom_xpos[env],
                geom_xmat[env],
                sensors[s, 3],
                sensors[s, 4],
                index,
                shape,
                near,
            )
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
                    # here and not in a function: a call that passes all these arrays takes longer than a distance
                    if kind == BOX:
                        d, qx, qy, qz, nx, ny, nz = on_box(lx, ly, lz, a, b, c)
                    elif kind == PLANE:
                        d, qx, qy, qz, nx, ny, nz = on_plane(lx, ly, lz)
                    elif kind == SPHERE:
                        d, qx, qy, qz, nx, ny, nz = on_sphere(lx, ly, lz, a)
                    elif kind == CAPSULE:
                        d, qx, qy, qz, nx, ny, nz = on_capsule(lx, ly, lz, a, b)
                    elif kind == CYLINDER:
                        d, qx, qy, qz, nx, ny, nz = on_cylinder(lx, ly, lz, a, b)
                    elif kind == ELLIPSOID:
                        d, qx, qy, qz, nx, ny, nz = on_ellipsoid(lx, ly, lz, a, b, c)
                    elif kind == MESH:
                        d, qx, qy, qz, nx, ny, nz = on_hull(lx, ly, lz, faces, index[k, 3], index[k, 3] + index[k, 4])
                    else:
                        d, qx, qy, qz, nx, ny, nz = on_terrain(
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
                if probes[p, 7] == FACING:  # only surfaces that face it count, with the component along it
                    nx, ny, nz = probes[p, 4], probes[p, 5], probes[p, 6]
                    wx = m0 * nx + m1 * ny + m2 * nz
                    wy = m3 * nx + m4 * ny + m5 * nz
                    wz = m6 * nx + m7 * ny + m8 * nz
                    facing = -(wx * found[env, p, 4] + wy * found[env, p, 5] + wz * found[env, p, 6])
                    facing = facing if facing > 1e-6 else 0.0  # not from rounding
                found[env, p, 10] = (reach - best) * facing
