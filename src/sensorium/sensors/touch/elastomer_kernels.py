"""Numba kernel of elastomer pads: displacements of markers under indentation and drag."""

from __future__ import annotations

import numpy as np

from sensorium.jit import kernel


@kernel
def displace(
    sensors: np.ndarray,
    grids: np.ndarray,
    pads: np.ndarray,
    tables: np.ndarray,
    xmat: np.ndarray,
    cvel: np.ndarray,
    com: np.ndarray,
    root: np.ndarray,
    depth: np.ndarray,
    position: np.ndarray,
    body: np.ndarray,
    motion: np.ndarray,
    sources: np.ndarray,
    sums: np.ndarray,
    dt: float,
    out: np.ndarray,
) -> None:
    """Compute the displacements of all markers.

    Gaussians are products of one along y and one along x, so each sum takes two passes. ``sources`` (3, N) holds depth
    and drag of each marker position. ``sums`` (6, N) holds the results of the pass along x (dilation along y and x,
    drag along x and y), and then the displacements. ``motion`` (3 * N, B) holds whether a marker touches, and its drag.
    """
    middle = tables.shape[2] // 2
    for s in range(sensors.shape[0]):
        link, first, last = sensors[s, 0], sensors[s, 1], sensors[s, 2]
        rows, columns = grids[s, 0], grids[s, 1]
        pad, table = pads[s], tables[s]
        for env in range(out.shape[1]):
            touched = False
            for i in range(first, last):
                h = min(depth[env, i], pad[9])
                row = 3 * i
                if h <= 0:
                    sources[0, i], sources[1, i], sources[2, i] = 0.0, 0.0, 0.0
                    motion[row, env], motion[row + 1, env], motion[row + 2, env] = 0.0, 0.0, 0.0
                    continue
                touched = True
                sx = sy = 0.0
                if motion[row, env] > 0:  # drag starts at 0 at first touch
                    vx = vy = vz = 0.0
                    for other in range(2):  # velocity of the body minus that of the link, at the marker
                        b = body[env, i] if other == 0 else link
                        sign = 1.0 if other == 0 else -1.0
                        rx = position[env, i, 0] - com[env, root[b], 0]
                        ry = position[env, i, 1] - com[env, root[b], 1]
                        rz = position[env, i, 2] - com[env, root[b], 2]
                        wx, wy, wz = cvel[env, b, 0], cvel[env, b, 1], cvel[env, b, 2]
                        vx += sign * (cvel[env, b, 3] + wy * rz - wz * ry)
                        vy += sign * (cvel[env, b, 4] + wz * rx - wx * rz)
                        vz += sign * (cvel[env, b, 5] + wx * ry - wy * rx)
                    lx = xmat[env, link, 0] * vx + xmat[env, link, 3] * vy + xmat[env, link, 6] * vz
                    ly = xmat[env, link, 1] * vx + xmat[env, link, 4] * vy + xmat[env, link, 7] * vz
                    lz = xmat[env, link, 2] * vx + xmat[env, link, 5] * vy + xmat[env, link, 8] * vz
                    sx = motion[row + 1, env] + dt * (pad[0] * lx + pad[3] * ly + pad[6] * lz)
                    sy = motion[row + 2, env] + dt * (pad[1] * lx + pad[4] * ly + pad[7] * lz)
                    moved, max_drag = np.sqrt(sx * sx + sy * sy), pad[10] * h
                    if moved > max_drag:  # slip
                        sx, sy = sx * max_drag / moved, sy * max_drag / moved
                motion[row, env], motion[row + 1, env], motion[row + 2, env] = 1.0, sx, sy
                sources[0, i], sources[1, i], sources[2, i] = h, sx, sy
            start = 3 * first
            if not touched:
                out[start : start + 3 * (last - first), env] = 0
                continue
            sums[:, first:last] = 0
            for r in range(rows):
                line = first + r * columns
                pressed = False
                for k in range(columns):
                    h, sx, sy = sources[0, line + k], sources[1, line + k], sources[2, line + k]
                    if h > 0:
                        pressed = True
                        for c in range(columns):
                            apart = middle + c - k
                            sums[0, line + c] += table[1, apart] * h
                            sums[1, line + c] += table[3, apart] * h
                            sums[2, line + c] += table[5, apart] * sx
                            sums[3, line + c] += table[5, apart] * sy
                if pressed:
                    for k in range(rows):
                        apart = middle + k - r
                        even, odd, drag = table[0, apart], table[2, apart], table[4, apart]
                        there = first + k * columns
                        for c in range(columns):
                            sums[4, there + c] += even * sums[1, line + c] + drag * sums[2, line + c]
                            sums[5, there + c] += odd * sums[0, line + c] + drag * sums[3, line + c]
            for i in range(first, last):
                place = start + 3 * (i - first)
                out[place, env], out[place + 1, env], out[place + 2, env] = sums[4, i], sums[5, i], -sources[0, i]
