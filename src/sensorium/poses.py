"""Poses as NumPy arrays (..., 7): position x, y, z in metres, then the unit quaternion w, x, y, z.

All functions broadcast over the leading axes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

IDENTITY = np.array([0.0, 0, 0, 1, 0, 0, 0])
"""The pose at the origin, without rotation."""


def make(pos: ArrayLike, quat: ArrayLike = (1.0, 0.0, 0.0, 0.0)) -> np.ndarray:
    """Return the pose of a position (..., 3) and an orientation (..., 4)."""
    pos, quat = np.asarray(pos, np.float64), np.asarray(quat, np.float64)
    shape = np.broadcast_shapes(pos.shape[:-1], quat.shape[:-1])
    out = np.empty((*shape, 7))
    out[..., :3], out[..., 3:] = pos, quat
    return out


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the product of quaternions: the rotation ``b`` followed by the rotation ``a``."""
    aw, ax, ay, az = np.moveaxis(a, -1, 0)
    bw, bx, by, bz = np.moveaxis(b, -1, 0)
    return np.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ],
        axis=-1,
    )


def conjugate(quat: np.ndarray) -> np.ndarray:
    """Return the inverse rotation of a quaternion."""
    return quat * np.array([1.0, -1, -1, -1])


def rotate(quat: np.ndarray, vector: ArrayLike) -> np.ndarray:
    """Return a vector (..., 3) rotated by a quaternion."""
    vector = np.asarray(vector, np.float64)
    w, u = quat[..., :1], quat[..., 1:]
    t = 2 * cross(u, vector)
    return vector + w * t + cross(u, t)


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the cross product of vectors (..., 3). For few rows it is several times faster than ``numpy.cross``."""
    a0, a1, a2 = a[..., 0], a[..., 1], a[..., 2]
    b0, b1, b2 = b[..., 0], b[..., 1], b[..., 2]
    return np.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], axis=-1)


def compose(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the pose ``b``, expressed in the frame ``a``, in the frame that ``a`` is expressed in."""
    return make(a[..., :3] + rotate(a[..., 3:], b[..., :3]), multiply(a[..., 3:], b[..., 3:]))


def relative(base: np.ndarray, pose: np.ndarray) -> np.ndarray:
    """Return ``pose`` in the frame ``base``. Both are expressed in the same frame."""
    back = conjugate(base[..., 3:])
    return make(rotate(back, pose[..., :3] - base[..., :3]), multiply(back, pose[..., 3:]))


def rotation_vector(quat: np.ndarray) -> np.ndarray:
    """Return axis times angle of a quaternion, (..., 3) rad, with an angle in [0, pi]."""
    quat = np.where(quat[..., :1] < 0, -quat, quat)
    sine = np.linalg.norm(quat[..., 1:], axis=-1, keepdims=True)
    angle = 2 * np.arctan2(sine, quat[..., :1])
    return quat[..., 1:] * np.where(sine > 1e-9, angle / np.maximum(sine, 1e-9), 2.0)


def from_rotation_vector(vector: ArrayLike) -> np.ndarray:
    """Return the quaternion of axis times angle, (..., 3) rad."""
    vector = np.asarray(vector, np.float64)
    half = np.linalg.norm(vector, axis=-1, keepdims=True) / 2
    return np.concatenate([np.cos(half), vector * np.sinc(half / np.pi) / 2], axis=-1)


def yaw(angle: ArrayLike) -> np.ndarray:
    """Return the quaternion of a rotation about z by ``angle`` in rad."""
    half = np.asarray(angle, np.float64) / 2
    zero = np.zeros_like(half)
    return np.stack([np.cos(half), zero, zero, np.sin(half)], axis=-1)


def from_axes(x: ArrayLike, y: ArrayLike, z: ArrayLike) -> np.ndarray:
    """Return the orientation of the frame with these axes, (..., 3) each, right-handed and of unit length."""
    m = np.stack([np.asarray(axis, np.float64) for axis in (x, y, z)], axis=-1)
    diagonal = np.stack([m[..., 0, 0], m[..., 1, 1], m[..., 2, 2]], axis=-1)
    trace = diagonal.sum(axis=-1)
    # of the four formulas, take the one with the largest divisor, which is accurate
    squares = np.stack(
        [1 + trace, *(1 + 2 * diagonal[..., k] - trace for k in range(3))],
        axis=-1,
    )
    best = squares.argmax(axis=-1)
    a = np.stack([m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]], axis=-1)
    s = np.stack([m[..., 2, 1] + m[..., 1, 2], m[..., 0, 2] + m[..., 2, 0], m[..., 1, 0] + m[..., 0, 1]], axis=-1)
    rows = np.stack(
        [
            np.stack([squares[..., 0], a[..., 0], a[..., 1], a[..., 2]], axis=-1),
            np.stack([a[..., 0], squares[..., 1], s[..., 2], s[..., 1]], axis=-1),
            np.stack([a[..., 1], s[..., 2], squares[..., 2], s[..., 0]], axis=-1),
            np.stack([a[..., 2], s[..., 1], s[..., 0], squares[..., 3]], axis=-1),
        ],
        axis=-2,
    )
    quat = np.take_along_axis(rows, best[..., None, None], axis=-2)[..., 0, :]
    return np.asarray(quat / np.linalg.norm(quat, axis=-1, keepdims=True))


def towards(pose: np.ndarray, target: np.ndarray, reach: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """Return ``pose`` moved towards ``target``. Position and orientation reach the target at the same time.

    Args:
        pose: start, (n, 7).
        target: goal, (n, 7).
        reach: max. distance, (n,) m.
        turn: max. rotation, (n,) rad.
    """
    way = target[..., :3] - pose[..., :3]
    spin = rotation_vector(multiply(target[..., 3:], conjugate(pose[..., 3:])))
    length, angle = np.linalg.norm(way, axis=-1), np.linalg.norm(spin, axis=-1)
    part = 1 / np.maximum(np.maximum(length / reach, angle / turn), 1)
    return make(
        pose[..., :3] + way * part[..., None],
        multiply(from_rotation_vector(spin * part[..., None]), pose[..., 3:]),
    )
