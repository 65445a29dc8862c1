"""Numba kernels of :mod:`sensorium.robots.kinematic_chain`: each env by scalar arithmetic of its own.

A chain of n joints is a tuple of arrays: ``slide`` (n,) whether a joint slides, ``axis`` (n, 3) and ``anchor`` (n, 3)
in the frame of its link, ``zero`` (n,) the position at which the link stands as ``pos`` says, and ``pos`` (n + 1, 3)
and ``quat`` (n + 1, 4), each link in the frame of the one before; the last is the tool centre point.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sensorium.jit import helper, kernel

_STEP = 0.5
"""Greatest change of a joint in one iteration, rad or m."""
_ARM = 0.25
"""Metres that count as much as a rad."""
_DAMPING = 1e-7
"""Least damping, m²: what keeps a step finite where the arm is stretched."""
_NEAR_METRES, _NEAR_ANGLE = 1e-5, 1e-4
"""m and rad within which a pose is reached."""
_PULL = 0.01
"""Part of the way to ``home`` that an iteration goes, as far as that moves the hand by nothing."""
_PASSES = 4
"""Least-squares problems in one iteration, each without the joints that ran into their limits in the one before."""


@helper
def _multiply(a: Any, b: Any, out: Any) -> None:
    """Product of two quaternions; ``out`` may be either."""
    w = a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3]
    x = a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2]
    y = a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1]
    z = a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0]
    out[0], out[1], out[2], out[3] = w, x, y, z


@helper
def _rotate(quat: Any, vector: Any, out: Any) -> None:
    """A vector turned by a unit quaternion; ``out`` may be ``vector``."""
    w, x, y, z = quat[0], quat[1], quat[2], quat[3]
    a, b, c = vector[0], vector[1], vector[2]
    u, v, t = 2 * (y * c - z * b), 2 * (z * a - x * c), 2 * (x * b - y * a)
    out[0] = a + w * u + y * t - z * v
    out[1] = b + w * v + z * u - x * t
    out[2] = c + w * t + x * v - y * u


@kernel
def relative(frame: Any, pose: Any, out: Any) -> None:
    """Poses (n, 7) seen from frames (n, 7), all in one frame before."""
    inverse, delta = np.empty(4), np.empty(3)
    for row in range(len(pose)):
        inverse[0] = frame[row, 3]
        for i in range(3):
            inverse[1 + i] = -frame[row, 4 + i]
            delta[i] = pose[row, i] - frame[row, i]
        _rotate(inverse, delta, out[row, :3])
        _multiply(inverse, pose[row, 3:], out[row, 3:])


@kernel
def compose(frame: Any, pose: Any, out: Any) -> None:
    """Poses (n, 7) in frames (n, 7), seen from where the frames are."""
    delta = np.empty(3)
    for row in range(len(pose)):
        _rotate(frame[row, 3:], pose[row, :3], delta)
        for i in range(3):
            out[row, i] = frame[row, i] + delta[i]
        _multiply(frame[row, 3:], pose[row, 3:], out[row, 3:])


@kernel
def twists(cvel: Any, com: Any, at: Any, out: Any) -> None:
    """Linear and angular velocity (B, 6) of points (B, 3) of bodies that move by ``cvel`` about ``com``."""
    for b in range(len(at)):
        x, y, z = at[b, 0] - com[b, 0], at[b, 1] - com[b, 1], at[b, 2] - com[b, 2]
        a, c, d = cvel[b, 0], cvel[b, 1], cvel[b, 2]
        out[b, 0] = cvel[b, 3] + (c * z - d * y)
        out[b, 1] = cvel[b, 4] + (d * x - a * z)
        out[b, 2] = cvel[b, 5] + (a * y - c * x)
        out[b, 3], out[b, 4], out[b, 5] = a, c, d


@kernel
def between(start: Any, goal: Any, dt: float, out: Any) -> None:
    """Linear and angular velocity (n, 6) that lead from poses (n, 7) to others in ``dt`` seconds, the shorter way."""
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
def _place(chain: Any, q: Any, position: Any, quat: Any, anchors: Any, axes: Any) -> None:
    """Position and orientation of the tool in the root's frame, and the joints' anchors and axes there, (n, 3)."""
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
def _differentiate(chain: Any, position: Any, anchors: Any, axes: Any, jacobian: Any) -> None:
    """What moves the tool: (6, n), linear then angular velocity in the root's frame by each joint's."""
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
def forward(chain: Any, q: Any, pose: Any, jacobian: Any) -> None:
    """Poses (B, 7) of the tool and Jacobians (B, 6, n), in the root's frame, of joint positions (B, n)."""
    n = q.shape[1]
    anchors, axes = np.empty((n, 3)), np.empty((n, 3))
    for b in range(len(q)):
        _place(chain, q[b], pose[b, :3], pose[b, 3:], anchors, axes)
        _differentiate(chain, pose[b, :3], anchors, axes, jacobian[b])


@helper
def _miss(position: Any, quat: Any, goal: Any, error: Any) -> None:
    """What is left to the goal: a way (m) and a rotation vector (rad), both in the root's frame."""
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
def _factor(a: Any, x: Any) -> None:
    """Solve a x = x for a symmetric positive a (6, 6), both overwritten."""
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
def _improve(jacobian: Any, error: Any, q: Any, limits: Any, home: Any, damping: float, step: Any, work: Any) -> None:
    """One damped least-squares step towards the goal and, where that is free, to ``home``; q stays within limits."""
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
        greatest = 0.0
        for k in range(n):
            if free[k]:
                for i in range(6):
                    step[k] += jacobian[i, k] * y[i]
                greatest = max(greatest, abs(step[k]))
        if greatest > _STEP:
            for k in range(n):
                if free[k]:
                    step[k] *= _STEP / greatest
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
def solve(chain: Any, limits: Any, home: Any, goal: Any, q: Any, miss: Any, iterations: int, starts: Any) -> None:
    """Joint positions that bring the tool to goals.

    Args:
        chain: see above.
        limits: (n, 2); home: (n,), where joints go that are free to.
        goal: poses (B, 7) in the root's frame.
        q: (B, n), where to start from; the best that was found.
        miss: (B, 2), what is left to the goal then, m and rad.
        iterations: from each start.
        starts: (m, n), where to start again while a goal is not reached.
    """
    n = q.shape[1]
    anchors, axes, jacobian = np.empty((n, 3)), np.empty((n, 3)), np.empty((6, n))
    position, quat, error, step = np.empty(3), np.empty(4), np.empty(6), np.empty(n)
    work = (np.empty(n, np.bool_), np.empty((6, 6)), np.empty(6))
    trial, best = np.empty(n), np.empty(n)
    for b in range(len(q)):
        least, found = np.inf, False
        for attempt in range(len(starts) + 1):
            for k in range(n):
                value = q[b, k] if attempt == 0 else starts[attempt - 1, k]
                trial[k] = min(max(value, limits[k, 0]), limits[k, 1])
            for iteration in range(iterations + 1):
                _place(chain, trial, position, quat, anchors, axes)
                _miss(position, quat, goal[b], error)
                way = math.sqrt(error[0] * error[0] + error[1] * error[1] + error[2] * error[2])
                angle = math.sqrt(error[3] * error[3] + error[4] * error[4] + error[5] * error[5])
                size = way * way + (_ARM * angle) * (_ARM * angle)
                if size < least:
                    least = size
                    miss[b, 0], miss[b, 1] = way, angle
                    best[:] = trial
                found = way < _NEAR_METRES and angle < _NEAR_ANGLE
                if found or iteration == iterations:
                    break
                _differentiate(chain, position, anchors, axes, jacobian)
                for i in range(3, 6):
                    error[i] *= _ARM
                    for k in range(n):
                        jacobian[i, k] *= _ARM
                _improve(jacobian, error, trial, limits, home, _DAMPING + 0.02 * size, step, work)
            if found:
                break
        q[b] = best
