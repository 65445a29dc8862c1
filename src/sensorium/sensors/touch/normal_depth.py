"""Numba kernel of depths along normals: how far bodies reach into the pad or skin, straight below each probe.

The line through a probe along its normal has a chord in every geom that it hits. The lower end of the chord is where
the geom reaches deepest.

A geom that reaches through the whole pad or skin overlaps the rigid link behind it. Either it is pressed in too far,
or it touches the link's side or back, as the floor does below the edge of an upright pad. The distance from the rigid
surface out of the geom tells which: in the second case, it is much shorter than the way along the normal.
"""

from __future__ import annotations

import numpy as np

from sensorium.jit import kernel
from sensorium.sensors.touch.chord import chord, hull_chord, terrain_chord
from sensorium.sensors.touch.distance import HFIELD, MESH, PLANE, distance_to_geom
from sensorium.sensors.touch.nearest import ALONG_NORMAL, geoms_in_reach

SIDEWAYS = 0.02
"""A geom that reaches through the pad touches from the side if the way out is shorter than this part of the way down:
the sine of the smallest angle between a normal and a surface that is felt."""


@kernel
def depths_along_normals(
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
    """Find how far bodies reach behind the free surface, which lies in front of every probe by its reach.

    Arguments are those of :func:`~sensorium.sensors.touch.nearest.nearest_surfaces`. Only probes whose depth is along
    the normal are treated. The last column of ``probes`` is the distance from a probe back to the rigid surface. Of
    ``found``, position and depth are written.
    """
    for env in range(found.shape[0]):
        for s in range(sensors.shape[0]):
            link, first, last = sensors[s, 0], sensors[s, 1], sensors[s, 2]
            if probes[first, 7] != ALONG_NORMAL:
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
                px, py, pz = probes[p, 0], probes[p, 1], probes[p, 2]
                found[env, p, 7] = ox + m0 * px + m1 * py + m2 * pz
                found[env, p, 8] = oy + m3 * px + m4 * py + m5 * pz
                found[env, p, 9] = oz + m6 * px + m7 * py + m8 * pz
                found[env, p, 10], body[env, p] = 0.0, -1
            for i in range(count):
                k = near[i]
                kind, g, radius = index[k, 0], index[k, 1], shape[k, 3]
                bounded = kind != PLANE and kind != HFIELD
                # from the link's frame to the geom's: once per geom, for all its probes
                a0, a1, a2 = geom_xmat[env, g, 0], geom_xmat[env, g, 3], geom_xmat[env, g, 6]
                b0, b1, b2 = geom_xmat[env, g, 1], geom_xmat[env, g, 4], geom_xmat[env, g, 7]
                c0, c1, c2 = geom_xmat[env, g, 2], geom_xmat[env, g, 5], geom_xmat[env, g, 8]
                rx, ry, rz = ox - geom_xpos[env, g, 0], oy - geom_xpos[env, g, 1], oz - geom_xpos[env, g, 2]
                tx, ty, tz = a0 * rx + a1 * ry + a2 * rz, b0 * rx + b1 * ry + b2 * rz, c0 * rx + c1 * ry + c2 * rz
                r0, r1, r2 = a0 * m0 + a1 * m3 + a2 * m6, a0 * m1 + a1 * m4 + a2 * m7, a0 * m2 + a1 * m5 + a2 * m8
                r3, r4, r5 = b0 * m0 + b1 * m3 + b2 * m6, b0 * m1 + b1 * m4 + b2 * m7, b0 * m2 + b1 * m5 + b2 * m8
                r6, r7, r8 = c0 * m0 + c1 * m3 + c2 * m6, c0 * m1 + c1 * m4 + c2 * m7, c0 * m2 + c1 * m5 + c2 * m8
                for p in range(first, last):
                    px, py, pz, reach, base = probes[p, 0], probes[p, 1], probes[p, 2], probes[p, 3], probes[p, 8]
                    nx, ny, nz = probes[p, 4], probes[p, 5], probes[p, 6]
                    x, y, z = (
                        tx + r0 * px + r1 * py + r2 * pz,
                        ty + r3 * px + r4 * py + r5 * pz,
                        tz + r6 * px + r7 * py + r8 * pz,
                    )
                    dx, dy, dz = (
                        r0 * nx + r1 * ny + r2 * nz,
                        r3 * nx + r4 * ny + r5 * nz,
                        r6 * nx + r7 * ny + r8 * nz,
                    )
                    lowest = reach - found[env, p, 10]
                    if bounded:  # does the line pass through the bounding sphere, deeper than so far?
                        ahead = -(x * dx + y * dy + z * dz)
                        aside = x * x + y * y + z * z - ahead * ahead
                        if aside > radius * radius or ahead - radius > lowest or ahead + radius < -base:
                            continue
                    if kind == MESH:
                        end = index[k, 3] + index[k, 4]
                        low, high = hull_chord(x, y, z, dx, dy, dz, lowest, faces, index[k, 3], end)
                    elif kind == HFIELD:
                        grid = heights[index[k, 3] :]
                        nrow, ncol = index[k, 4], index[k, 5]
                        low, high = terrain_chord(x, y, z, dx, dy, dz, lowest, base, shape[k], grid, nrow, ncol)
                    else:
                        low, high = chord(kind, x, y, z, dx, dy, dz, shape[k, 0], shape[k, 1], shape[k, 2])
                    if not low < min(lowest, high) or high < -base:
                        continue
                    if low < -base - reach:  # it reaches deep behind the rigid surface
                        qx, qy, qz = x - base * dx, y - base * dy, z - base * dz
                        inside = -distance_to_geom(qx, qy, qz, k, index, shape, faces, heights)
                        if inside < SIDEWAYS * (-base - low):
                            continue
                    found[env, p, 10], body[env, p] = reach - low, index[k, 2]
