"""Numba kernels of :mod:`sensorium.robots.kinematic_chain`, with scalar arithmetic for each env.

A chain of n joints is a tuple of arrays: ``slide`` (n,), whether a joint is a slide; ``axis`` (n, 3) and ``anchor``
(n, 3) in the frame of its link; ``zero`` (n,), the joint position at which ``pos`` and ``quat`` hold; and ``pos``
(n + 1, 3) and ``quat`` (n + 1, 4) of each link in the frame of the previous one. The last one is the tool centre point.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from sensorium.jit import helper, kernel

Array: TypeAlias = np.ndarray
Chain: TypeAlias = tuple[np.ndarray, ...]

_MAX_STEP = 0.5
"""Max change of a joint in one iteration, rad or m."""
_LEVER = 0.25
"""m/rad: weight of rotation errors relative to position errors."""
_MIN_DAMPING = 1e-7
"""m². Keeps a step finite when the arm is stretched out."""
_NEAR_METRES, _NEAR_ANGLE = 1e-5, 1e-4
"""Errors in m and rad below which a pose is reached."""
_PULL = 0.01
"""Fraction of the way to ``home`` that an iteration moves, as far as it does not move the tool."""
_PASSES = 4
"""Least-squares problems in one iteration; each excludes the joints that reached their limits in the previous one."""


@helper
def _multiply(a: Array, b: Array, out: Array) -> None:
    """Multiply two quaternions; ``out`` may be one of them."""
    w = a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3]
    x = a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2]
    y = a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1]
    z = a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0]
    out[0], out[1], out[2], out[3] = w, x, y, z


@helper
def _rotate(quat: Array, vector: Array, out: Array) -> None:
    """Rotate a vector by a unit quaternion; ``out`` may be ``vector``."""
    w, x, y, z = quat[0], quat[1], quat[2], quat[3]
    a, b, c = vector[0], vector[1], vector[2]
    u, v, t = 2 * (y * c - z * b), 2 * (z * a - x * c), 2 * (x * b - y * a)
    out[0] = a + w * u + y * t - z * v
    out[1] = b + w * v + z * u - x * t
    out[2] = c + w * t + x * v - y * u


@kernel
def relative(frame: Array, pose: Array, out: Array) -> None:
    """Express poses (n, 7) in frames (n, 7); both are given in the same frame."""
    inverse, delta = np.empty(4), np.empty(3)
    for row in range(len(pose)):
        inverse[0] = frame[row, 3]
        for i in range(3):
            inverse[1 + i] = -frame[row, 4 + i]
            delta[i] = pose[row, i] - frame[row, i]
        _rotate(inverse, delta, out[row, :3])
        _multiply(inverse, pose[row, 3:], out[row, 3:])


@kernel
def compose(frame: Array, pose: Array, out: Array) -> None:
    """Express poses (n, 7), given in frames (n, 7), in the frame in which these are given."""
    delta = np.empty(3)
    for row in range(len(pose)):
        _rotate(frame[row, 3:], pose[row, :3], delta)
        for i in range(3):
            out[row, i] = frame[row, i] + delta[i]
        _multiply(frame[row, 3:], pose[row, 3:], out[row, 3:])


@kernel
def twists(cvel: Array, com: Array, at: Array, out: Array) -> None:
    """Compute linear and angular velocities (B, 6) of points (B, 3) on bodies with MuJoCo's ``cvel`` about ``com``."""
    for b in range(len(at)):
        x, y, z = at[b, 0] - com[b, 0], at[b, 1] - com[b, 1], at[b, 2] - com[b, 2]
        a, c, d = cvel[b, 0], cvel[b, 1], cvel[b, 2]
        out[b, 0] = cvel[b, 3] + (c * z - d * y)
        out[b, 1] = cvel[b, 4] + (d * x - a * z)
        out[b, 2] = cvel[b, 5] + (a * y - c * x)
        out[b, 3], out[b, 4], out[b, 5] = a, c, d


@kernel
def between(start: Array, goal: Array, dt: float, out: Array) -> None:
    """Compute linear and angular velocities (n, 6) that lead from poses (n, 7) to others in ``dt`` seconds.

    Of the two rotations between them, the shorter one is used.
    """
    back, turn = np.empty(4), np.empty(4)
    for row in range(len(goal)):
        back[0] = start[row, 3]
        for i in range(3):
            back[1 + i] = -start[row, 4 + i]
            out[row, i] = (goal[row, i] - start[row, i]) / dt
        _multiply(goal[row, 3:], back, turn)
        if turn[0] < 0:
            for i in range(4):
                turn[i] = -turn[i]
        sine = math.sqrt(turn[1] ** 2 + turn[2] ** 2 + turn[3] ** 2)
        stretch = 2 * math.atan2(sine, turn[0]) / sine if sine > 1e-9 else 2.0
        for i in range(3):
            out[row, 3 + i] = turn[1 + i] * stretch / dt


@helper
def _place(
    chain: Chain,
    q: Array,
    position: Array,
    quat: Array,
    anchors: Array,
    axes: Array,
) -> None:
    """Compute the pose of the tool in the frame of the root, and anchors and axes (n, 3) of the joints in it."""
    slide, axis, anchor, zero, pos, turn = chain
    spin, arm = np.empty(4), np.empty(3)
    position[:] = 0.0
    quat[:] = 0.0
    quat[0] = 1.0
    for k in range(len(slide) + 1):
        _rotate(quat, pos[k], arm)
        for i in range(3):
            position[i] += arm[i]
        _multiply(quat, turn[k], quat)
        if k == len(slide):
            break
        _rotate(quat, axis[k], axes[k])
        _rotate(quat, anchor[k], arm)
        for i in range(3):
            anchors[k, i] = position[i] + arm[i]
        if slide[k]:
            for i in range(3):
                position[i] += axes[k, i] * (q[k] - zero[k])
        else:
            half = 0.5 * (q[k] - zero[k])
            spin[0] = math.cos(half)
            sine = math.sin(half)
            for i in range(3):
                spin[1 + i] = sine * axis[k, i]
            _multiply(quat, spin, quat)
            _rotate(quat, anchor[k], arm)
            for i in range(3):
                position[i] = anchors[k, i] - arm[i]


@helper
def _differentiate(chain: Chain, position: Array, anchors: Array, axes: Array, jacobian: Array) -> None:
    """Compute the Jacobian of the tool (6, n), linear then angular, in the frame of the root."""
    slide = chain[0]
    for k in range(len(slide)):
        x, y, z = axes[k, 0], axes[k, 1], axes[k, 2]
        if slide[k]:
            jacobian[0, k], jacobian[1, k], jacobian[2, k] = x, y, z
            jacobian[3, k] = jacobian[4, k] = jacobian[5, k] = 0.0
        else:
            a, b, c = position[0] - anchors[k, 0], position[1] - anchors[k, 1], position[2] - anchors[k, 2]
            jacobian[0, k], jacobian[1, k], jacobian[2, k] = y * c - z * b, z * a - x * c, x * b - y * a
            jacobian[3, k], jacobian[4, k], jacobian[5, k] = x, y, z


@kernel
def forward(chain: Chain, q: Array, pose: Array, jacobian: Array) -> None:
    """Compute poses (B, 7) and Jacobians (B, 6, n) of the tool in the frame of the root, at positions (B, n)."""
    n = q.shape[1]
    anchors, axes = np.empty((n, 3)), np.empty((n, 3))
    for b in range(len(q)):
        _place(chain, q[b], pose[b, :3], pose[b, 3:], anchors, axes)
        _differentiate(chain, pose[b, :3], anchors, axes, jacobian[b])


@helper
def _miss(position: Array, quat: Array, goal: Array, error: Array) -> None:
    """Compute the error to the goal in the frame of the root: a vector (m) and a rotation vector (rad)."""
    for i in range(3):
        error[i] = goal[i] - position[i]
    w = goal[3] * quat[0] + goal[4] * quat[1] + goal[5] * quat[2] + goal[6] * quat[3]
    x = -goal[3] * quat[1] + goal[4] * quat[0] - goal[5] * quat[3] + goal[6] * quat[2]
    y = -goal[3] * quat[2] + goal[4] * quat[3] + goal[5] * quat[0] - goal[6] * quat[1]
    z = -goal[3] * quat[3] - goal[4] * quat[2] + goal[5] * quat[1] + goal[6] * quat[0]
    length = math.sqrt(x * x + y * y + z * z)
    if w < 0:
        length, w = -length, -w
    scale = 2.0 * math.atan2(abs(length), w) / length if abs(length) > 1e-12 else 2.0
    error[3], error[4], error[5] = x * scale, y * scale, z * scale


@helper
def _factor(a: Array, x: Array) -> None:
    """Solve a y = x for y, with a symmetric positive definite (6, 6); ``x`` becomes y and ``a`` is overwritten."""
    for i in range(6):
        for j in range(i + 1):
            s = a[i, j]
            for k in range(j):
                s -= a[i, k] * a[j, k]
            a[i, j] = math.sqrt(s) if i == j else s / a[j, j]
    for i in range(6):
        for k in range(i):
            x[i] -= a[i, k] * x[k]
        x[i] /= a[i, i]
    for i in range(5, -1, -1):
        for k in range(i + 1, 6):
            x[i] -= a[k, i] * x[k]
        x[i] /= a[i, i]


@helper
def _improve(
    jacobian: Array,
    error: Array,
    q: Array,
    limits: Array,
    home: Array,
    damping: float,
    step: Array,
    work: tuple[Array, ...],
) -> None:
    """Make one damped least-squares step towards the goal and, in the null space, towards ``home``, within limits."""
    free, a, y = work
    n = len(q)
    for k in range(n):
        free[k] = True
        step[k] = _PULL * (home[k] - q[k])
    for _ in range(_PASSES):
        for i in range(6):
            y[i] = error[i]
            for k in range(n):
                y[i] -= jacobian[i, k] * step[k]
            for j in range(i + 1):
                s = damping if i == j else 0.0
                for k in range(n):
                    if free[k]:
                        s += jacobian[i, k] * jacobian[j, k]
                a[i, j] = s
        _factor(a, y)
        largest = 0.0
        for k in range(n):
            if free[k]:
                for i in range(6):
                    step[k] += jacobian[i, k] * y[i]
                largest = max(largest, abs(step[k]))
        if largest > _MAX_STEP:
            for k in range(n):
                if free[k]:
                    step[k] *= _MAX_STEP / largest
        inside = True
        for k in range(n):
            if free[k] and (q[k] + step[k] < limits[k, 0] or q[k] + step[k] > limits[k, 1]):
                step[k] = min(max(q[k] + step[k], limits[k, 0]), limits[k, 1]) - q[k]
                free[k] = inside = False
        if inside:
            break
        for k in range(n):
            if free[k]:
                step[k] = _PULL * (home[k] - q[k])
    for k in range(n):
        q[k] = min(max(q[k] + step[k], limits[k, 0]), limits[k, 1])


@kernel
def solve(
    chain: Chain,
    limits: Array,
    home: Array,
    goal: Array,
    q: Array,
    miss: Array,
    iterations: int,
    starts: Array,
) -> None:
    """Solve inverse kinematics.

    Args:
        chain: see the module.
        limits: bounds of the joint positions, (n, 2).
        home: preferred joint positions, (n,).
        goal: poses (B, 7) in the frame of the root.
        q: joint positions (B, n): in, the start; out, the best that was found.
        miss: out, the remaining errors (B, 2), m and rad.
        iterations: iterations from each start.
        starts: (m, n), tried in order while a goal is not reached.
    """
    n = q.shape[1]
    anchors, axes, jacobian = np.empty((n, 3)), np.empty((n, 3)), np.empty((6, n))
    position, quat, error, step = np.empty(3), np.empty(4), np.empty(6), np.empty(n)
    work = (np.empty(n, np.bool_), np.empty((6, 6)), np.empty(6))
    trial, best = np.empty(n), np.empty(n)
    for b in range(len(q)):
        smallest, found = np.inf, False
        for attempt in range(len(starts) + 1):
            for k in range(n):
                value = q[b, k] if attempt == 0 else starts[attempt - 1, k]
                trial[k] = min(max(value, limits[k, 0]), limits[k, 1])
            for iteration in range(iterations + 1):
                _place(chain, trial, position, quat, anchors, axes)
                _miss(position, quat, goal[b], error)
                way = math.sqrt(error[0] * error[0] + error[1] * error[1] + error[2] * error[2])
                angle = math.sqrt(error[3] * error[3] + error[4] * error[4] + error[5] * error[5])
                size = way * way + (_LEVER * angle) * (_LEVER * angle)
                if size < smallest:
                    smallest = size
                    miss[b, 0], miss[b, 1] = way, angle
                    best[:] = trial
                found = way < _NEAR_METRES and angle < _NEAR_ANGLE
                if found or iteration == iterations:
                    break
                _differentiate(chain, position, anchors, axes, jacobian)
                for i in range(3, 6):
                    error[i] *= _LEVER
                    for k in range(n):
                        jacobian[i, k] *= _LEVER
                _improve(jacobian, error, trial, limits, home, _MIN_DAMPING + 0.02 * size, step, work)
            if found:
                break
        q[b] = best
