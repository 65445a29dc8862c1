"""Numba kernels of the sensors of links with a free joint.

Names: b is an env, j a joint, k a sensor; (w, x, y, z) is the orientation of the link, ``mounts`` has the position of
each site in its link, its rotation matrix by rows and its quaternion, (n, 16).
"""

from __future__ import annotations

import numpy as np

from sensorium.jit import helper, inlined, kernel

GYRO, MAGNETOMETER, ORIENTATION, UP = range(4)
"""Kinds of sensors of motion."""
_U = np.uint64
_ONE, _TWO, _THREE, _FOUR, _FIVE = (_U(n) for n in range(1, 6))
"""Indices without a sign: Numba would compile code for negative ones."""
_MIN = 1e-15
"""Norm of a quaternion below which the engine takes the unit quaternion, and difference from 1 that it ignores."""


@kernel
def remember(qpos: np.ndarray, qvel: np.ndarray, joints: np.ndarray, before: np.ndarray) -> None:
    """Copy orientations and angular velocities of free joints, (B, n, 7).

    Args:
        qpos, qvel: positions (B, nq) and velocities (B, nv).
        joints: first elements of each free joint in ``qpos`` and ``qvel``, (n, 2).
        before: unit quaternion and angular velocity in the link's frame, rad/s.
    """
    for b in range(before.shape[0]):
        for j in range(before.shape[1]):
            q, v = joints[j, 0] + 3, joints[j, 1] + 3
            for i in range(4):
                before[b, j, i] = qpos[b, q + i]
            for i in range(3):
                before[b, j, 4 + i] = qvel[b, v + i]


@helper
def _unit(w: float, x: float, y: float, z: float) -> tuple[float, float, float, float]:
    """Normalise a quaternion as the engine does."""
    square = w * w + x * x + y * y + z * z
    if abs(square - 1) <= _MIN:  # then the norm is closer to 1 than that; the square root takes long
        return w, x, y, z
    norm = np.sqrt(square)
    if norm < _MIN:
        return 1.0, 0.0, 0.0, 0.0
    if abs(norm - 1) > _MIN:
        return w / norm, x / norm, y / norm, z / norm
    return w, x, y, z


@helper
def _in_link(w: float, x: float, y: float, z: float, vx: float, vy: float, vz: float) -> tuple[float, float, float]:
    """Rotate a vector from the world frame into the frame of the link."""
    lx = (w * w + x * x - y * y - z * z) * vx + 2 * (x * y + w * z) * vy + 2 * (x * z - w * y) * vz
    ly = 2 * (x * y - w * z) * vx + (w * w - x * x + y * y - z * z) * vy + 2 * (y * z + w * x) * vz
    lz = 2 * (x * z + w * y) * vx + 2 * (y * z - w * x) * vy + (w * w - x * x - y * y + z * z) * vz
    return lx, ly, lz


@helper
def _mounted(
    vx: float,
    vy: float,
    vz: float,
    m0: float,
    m1: float,
    m2: float,
    m3: float,
    m4: float,
    m5: float,
    m6: float,
    m7: float,
    m8: float,
) -> tuple[float, float, float]:
    """Rotate a vector from the frame of the link into the frame of the site, of which m is the rotation matrix."""
    return m0 * vx + m3 * vy + m6 * vz, m1 * vx + m4 * vy + m7 * vz, m2 * vx + m5 * vy + m8 * vz


@inlined
def _feel(
    felt: np.ndarray,
    mounts: np.ndarray,
    k: int,
    before: np.ndarray,
    qacc: np.ndarray,
    gravity: np.ndarray,
    ids: np.ndarray,
    data: np.ndarray,
) -> None:
    """Write an accelerometer of all envs ``ids``."""
    j, v, column = _U(felt[k, 0]), _U(felt[k, 1]), _U(felt[k, 2])
    sx, sy, sz, m0, m1, m2 = mounts[k, 0], mounts[k, 1], mounts[k, 2], mounts[k, 3], mounts[k, 4], mounts[k, 5]
    m3, m4, m5, m6, m7, m8 = mounts[k, 6], mounts[k, 7], mounts[k, 8], mounts[k, 9], mounts[k, 10], mounts[k, 11]
    is_shared = gravity.shape[0] == 1
    for i in range(ids.shape[0]):
        b = _U(ids[i])
        g = _U(0) if is_shared else b
        w, x, y, z = _unit(before[b, j, 0], before[b, j, 1], before[b, j, 2], before[b, j, 3])
        p, q, r = before[b, j, 4], before[b, j, 5], before[b, j, 6]
        ax, ay, az = qacc[b, v] - gravity[g, 0], qacc[b, v + _ONE] - gravity[g, 1], qacc[b, v + _TWO] - gravity[g, 2]
        dp, dq, dr = qacc[b, v + _THREE], qacc[b, v + _FOUR], qacc[b, v + _FIVE]
        ax, ay, az = _in_link(w, x, y, z, ax, ay, az)
        # velocity of the site relative to the link's origin, omega x s, in the link's frame
        ux, uy, uz = q * sz - r * sy, r * sx - p * sz, p * sy - q * sx
        ax += dq * sz - dr * sy + q * uz - r * uy
        ay += dr * sx - dp * sz + r * ux - p * uz
        az += dp * sy - dq * sx + p * uy - q * ux
        ax, ay, az = _mounted(ax, ay, az, m0, m1, m2, m3, m4, m5, m6, m7, m8)
        data[b, column], data[b, column + _ONE], data[b, column + _TWO] = ax, ay, az


@inlined
def _move(
    moved: np.ndarray,
    mounts: np.ndarray,
    k: int,
    qpos: np.ndarray,
    qvel: np.ndarray,
    magnetic: np.ndarray,
    ids: np.ndarray,
    data: np.ndarray,
) -> None:
    """Write a sensor of motion of all envs ``ids``."""
    kind, o, v, column = moved[k, 0], _U(moved[k, 1]), _U(moved[k, 2]), _U(moved[k, 3])
    m0, m1, m2, m3, m4 = mounts[k, 3], mounts[k, 4], mounts[k, 5], mounts[k, 6], mounts[k, 7]
    m5, m6, m7, m8 = mounts[k, 8], mounts[k, 9], mounts[k, 10], mounts[k, 11]
    if kind == GYRO:
        for i in range(ids.shape[0]):
            b = _U(ids[i])
            x, y, z = qvel[b, v], qvel[b, v + _ONE], qvel[b, v + _TWO]
            x, y, z = _mounted(x, y, z, m0, m1, m2, m3, m4, m5, m6, m7, m8)
            data[b, column], data[b, column + _ONE], data[b, column + _TWO] = x, y, z
    elif kind == UP:
        for i in range(ids.shape[0]):
            b = _U(ids[i])
            w, x, y, z = _unit(qpos[b, o], qpos[b, o + _ONE], qpos[b, o + _TWO], qpos[b, o + _THREE])
            x, y, z = _in_link(w, x, y, z, 0.0, 0.0, 1.0)
            x, y, z = _mounted(x, y, z, m0, m1, m2, m3, m4, m5, m6, m7, m8)
            data[b, column], data[b, column + _ONE], data[b, column + _TWO] = x, y, z
    elif kind == MAGNETOMETER:
        is_shared = magnetic.shape[0] == 1
        for i in range(ids.shape[0]):
            b = _U(ids[i])
            g = _U(0) if is_shared else b
            w, x, y, z = _unit(qpos[b, o], qpos[b, o + _ONE], qpos[b, o + _TWO], qpos[b, o + _THREE])
            x, y, z = _in_link(w, x, y, z, magnetic[g, 0], magnetic[g, 1], magnetic[g, 2])
            x, y, z = _mounted(x, y, z, m0, m1, m2, m3, m4, m5, m6, m7, m8)
            data[b, column], data[b, column + _ONE], data[b, column + _TWO] = x, y, z
    else:
        p, q, r, n = mounts[k, 12], mounts[k, 13], mounts[k, 14], mounts[k, 15]
        for i in range(ids.shape[0]):
            b = _U(ids[i])
            w, x, y, z = _unit(qpos[b, o], qpos[b, o + _ONE], qpos[b, o + _TWO], qpos[b, o + _THREE])
            data[b, column] = w * p - x * q - y * r - z * n
            data[b, column + _ONE] = w * q + x * p + y * n - z * r
            data[b, column + _TWO] = w * r - x * n + y * p + z * q
            data[b, column + _THREE] = w * n + x * r - y * q + z * p


@inlined
def _encode(read: np.ndarray, values: np.ndarray, ids: np.ndarray, data: np.ndarray) -> None:
    """Copy elements of positions or velocities, env by env, since the rows of an env are far from those of another."""
    for i in range(ids.shape[0]):
        b = _U(ids[i])
        for k in range(read.shape[0]):
            data[b, _U(read[k, 1])] = values[b, _U(read[k, 0])]


@inlined
def _load(loads: np.ndarray, k: int, qfrc: np.ndarray, ids: np.ndarray, data: np.ndarray) -> None:
    """Write a contact force of all envs ``ids``."""
    v, column = _U(loads[k, 0]), _U(loads[k, 1])
    for i in range(ids.shape[0]):
        b = _U(ids[i])
        x, y, z = qfrc[b, v], qfrc[b, v + _ONE], qfrc[b, v + _TWO]
        data[b, column], data[b, column + _ONE], data[b, column + _TWO] = x, y, z


@inlined
def _press(
    presses: np.ndarray, normals: np.ndarray, k: int, qfrc: np.ndarray, ids: np.ndarray, data: np.ndarray
) -> None:
    """Write a sum of normal forces of all envs ``ids``."""
    v, column, count = _U(presses[k, 0]), _U(presses[k, 1]), _U(presses[k, 2])
    x, y, z = normals[k, 0], normals[k, 1], normals[k, 2]
    for i in range(ids.shape[0]):
        b = _U(ids[i])
        force = x * qfrc[b, v] + y * qfrc[b, v + _ONE] + z * qfrc[b, v + _TWO]
        for c in range(count):
            data[b, column + _U(c)] = 0.0
        data[b, column] = max(force, 0.0)


@kernel
def sense(
    felt: np.ndarray,
    felt_mounts: np.ndarray,
    moved: np.ndarray,
    moved_mounts: np.ndarray,
    positions: np.ndarray,
    velocities: np.ndarray,
    loads: np.ndarray,
    presses: np.ndarray,
    normals: np.ndarray,
    before: np.ndarray,
    qpos: np.ndarray,
    qvel: np.ndarray,
    qacc: np.ndarray,
    qfrc: np.ndarray,
    gravity: np.ndarray,
    magnetic: np.ndarray,
    ids: np.ndarray,
    data: np.ndarray,
) -> None:
    """Write accelerations of the last substep, contact forces, and motions at the current state.

    Args:
        felt: number of the joint, its first element in ``qacc``, and first column of each accelerometer, (n, 3).
        moved: kind, first elements of the sensed rotation in ``qpos`` and ``qvel``, and first column of each sensor of
            motion, (n, 4).
        felt_mounts, moved_mounts: see above.
        positions, velocities: element in ``qpos`` or ``qvel``, and column, of each encoder, (n, 2).
        loads: first element of the joint in ``qfrc``, and first column, of each sensor of contact forces, (n, 2).
        presses: the same of each sensor of normal forces, and its number of columns, (n, 3). The first column gets the
            sum of the normal forces, the others 0.
        normals: direction of these forces in the world frame, (n, 3).
        before: what :func:`remember` copied from the state that the accelerations belong to.
        qpos, qvel: positions (B, nq) and velocities (B, nv) now.
        qacc: accelerations (B, nv): linear in the world frame, m/s², angular in the link's frame, rad/s².
        qfrc: constraint forces (B, nv), N in the world frame.
        gravity: (B, 3), or (1, 3) for all envs, m/s².
        magnetic: magnetic field in the world frame, likewise, T.
        ids: the envs.
        data: the engine's sensor data (B, columns).
    """
    for k in range(felt.shape[0]):
        _feel(felt, felt_mounts, k, before, qacc, gravity, ids, data)
    for k in range(moved.shape[0]):
        _move(moved, moved_mounts, k, qpos, qvel, magnetic, ids, data)
    _encode(positions, qpos, ids, data)
    _encode(velocities, qvel, ids, data)
    for k in range(loads.shape[0]):
        _load(loads, k, qfrc, ids, data)
    for k in range(presses.shape[0]):
        _press(presses, normals, k, qfrc, ids, data)
