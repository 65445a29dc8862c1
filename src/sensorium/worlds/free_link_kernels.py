"""Numba kernels of the sensors of links with a free joint.

Names: b is an env, j a joint, k a sensor; (w, x, y, z) is the orientation of the link, ``mounts`` has the position of
each site in its link, its rotation matrix by rows and its quaternion, (n, 16).
"""

from __future__ import annotations

import numpy as np

from sensorium.jit import helper, inlined, kernel

GYRO, MAGNETOMETER, ORIENTATION = range(3)
"""Kinds of sensors of motion."""
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
    norm = np.sqrt(w * w + x * x + y * y + z * z)
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


@inlined
def _write(mounts: np.ndarray, k: int, vx: float, vy: float, vz: float, data: np.ndarray, b: int, column: int) -> None:
    """Rotate a vector from the frame of the link into the frame of the site, and write it."""
    for i in range(3):
        data[b, column + i] = mounts[k, 3 + i] * vx + mounts[k, 6 + i] * vy + mounts[k, 9 + i] * vz


@kernel
def sense(
    felt: np.ndarray,
    felt_mounts: np.ndarray,
    moved: np.ndarray,
    moved_mounts: np.ndarray,
    loads: np.ndarray,
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
        moved: kind, first elements of the joint in ``qpos`` and ``qvel``, and first column of each sensor of motion,
            (n, 4).
        felt_mounts, moved_mounts: see above.
        loads: first element of the joint in ``qfrc``, and first column, of each sensor of contact forces, (n, 2).
        before: what :func:`remember` copied from the state that the accelerations belong to.
        qpos, qvel: positions (B, nq) and velocities (B, nv) now.
        qacc: accelerations (B, nv): linear in the world frame, m/s², angular in the link's frame, rad/s².
        qfrc: constraint forces (B, nv), N in the world frame.
        gravity: (B, 3), or (1, 3) for all envs, m/s².
        magnetic: magnetic field in the world frame, likewise, T.
        ids: the envs.
        data: the engine's sensor data (B, columns).
    """
    # one body rather than a helper per sensor: Numba compiles it into code that is three times as fast
    for b in ids:
        g = b if gravity.shape[0] > 1 else 0
        for k in range(felt.shape[0]):
            j, v = felt[k, 0], felt[k, 1]
            w, x, y, z = _unit(before[b, j, 0], before[b, j, 1], before[b, j, 2], before[b, j, 3])
            p, q, r = before[b, j, 4], before[b, j, 5], before[b, j, 6]
            dp, dq, dr = qacc[b, v + 3], qacc[b, v + 4], qacc[b, v + 5]
            sx, sy, sz = felt_mounts[k, 0], felt_mounts[k, 1], felt_mounts[k, 2]
            ax, ay, az = qacc[b, v] - gravity[g, 0], qacc[b, v + 1] - gravity[g, 1], qacc[b, v + 2] - gravity[g, 2]
            ax, ay, az = _in_link(w, x, y, z, ax, ay, az)
            # velocity of the site relative to the link's origin, omega x s, in the link's frame
            ux, uy, uz = q * sz - r * sy, r * sx - p * sz, p * sy - q * sx
            ax += dq * sz - dr * sy + q * uz - r * uy
            ay += dr * sx - dp * sz + r * ux - p * uz
            az += dp * sy - dq * sx + p * uy - q * ux
            _write(felt_mounts, k, ax, ay, az, data, b, felt[k, 2])
        m = b if magnetic.shape[0] > 1 else 0
        for k in range(moved.shape[0]):
            kind, i, v, column = moved[k, 0], moved[k, 1] + 3, moved[k, 2] + 3, moved[k, 3]
            if kind == GYRO:
                _write(moved_mounts, k, qvel[b, v], qvel[b, v + 1], qvel[b, v + 2], data, b, column)
                continue
            w, x, y, z = _unit(qpos[b, i], qpos[b, i + 1], qpos[b, i + 2], qpos[b, i + 3])
            if kind == MAGNETOMETER:
                ax, ay, az = _in_link(w, x, y, z, magnetic[m, 0], magnetic[m, 1], magnetic[m, 2])
                _write(moved_mounts, k, ax, ay, az, data, b, column)
            else:
                p, q, r, n = moved_mounts[k, 12], moved_mounts[k, 13], moved_mounts[k, 14], moved_mounts[k, 15]
                data[b, column] = w * p - x * q - y * r - z * n
                data[b, column + 1] = w * q + x * p + y * n - z * r
                data[b, column + 2] = w * r - x * n + y * p + z * q
                data[b, column + 3] = w * n + x * r - y * q + z * p
        for k in range(loads.shape[0]):
            for axis in range(3):
                data[b, loads[k, 1] + axis] = qfrc[b, loads[k, 0] + axis]
