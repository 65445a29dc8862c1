"""The Numba kernels that drive: each env by scalar arithmetic of its own, so that no bit depends on the batch size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sensorium.jit import kernel
from sensorium.pipeline.kernels import threefry

_U = np.uint32
DRIVING, ARRIVED, STUCK = 0, 1, 2
"""What :func:`follow` says of an env."""

_STILL_WAY, _STILL_TURN = 0.05, 0.1
"""Metres and rad within which a robot stands still."""
_TURN_FIRST = 0.6
"""rad off the target from which a robot turns on the spot."""
_SLOW = 0.1
"""m/s below which a robot has stopped at its goal."""
_FACING = 2.0
"""1/s: yaw rate by the angle to the target, on the spot and on bases that drive any way."""


@kernel
def uniform(keys: Any, element: int, env: int, draw: int) -> float:
    """A number in [0, 1) that depends on key, env and draw alone."""
    w0, w1 = threefry(keys[element, 0], keys[element, 1], _U(env), _U(draw))
    return (float(w0 >> _U(5)) * 67108864.0 + float(w1 >> _U(6))) / 9007199254740992.0


@kernel
def headings(position: Any, quat: Any, pose: Any, up: Any) -> None:
    """x, y and yaw (B, 3), and how far up the z axis points (B,), from position (B, 3) and orientation (B, 4)."""
    for env in range(len(position)):
        w, x, y, z = quat[env, 0], quat[env, 1], quat[env, 2], quat[env, 3]
        pose[env, 0], pose[env, 1] = position[env, 0], position[env, 1]
        pose[env, 2] = math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
        up[env] = 1.0 - 2.0 * (x * x + y * y)


@kernel
def accelerate(
    keys: Any,
    draws: Any,
    remaining: Any,
    acceleration: Any,
    blocked: Any,
    command: Any,
    speeds: Any,
    limits: Any,
    greatest: Any,
    moves: Any,
    interval: float,
    patience: float,
    dt: float,
) -> None:
    """Random accelerations for some time each; away from whatever blocks the robot.

    Args:
        keys: (actions + 1, 2); draws, remaining, blocked: (B,); acceleration, command: (B, actions).
        speeds: how fast the base moves, (B,) m/s.
        limits: (actions, 2); greatest: acceleration, (actions,); moves: which actions move the base, (actions,).
        interval: mean seconds of an acceleration; patience: seconds for which it may be blocked.
    """
    n = command.shape[1]
    for env in range(command.shape[0]):
        wanted = 0.0
        for i in range(n):
            if moves[i]:
                wanted += command[env, i] * command[env, i]
        wanted = math.sqrt(wanted)
        if wanted > 0.1 and speeds[env] < 0.25 * wanted:
            blocked[env] += dt
        else:
            blocked[env] = 0.0
        if blocked[env] > patience:
            blocked[env] = 0.0
            remaining[env] = 0.0
            for i in range(n):
                acceleration[env, i] = -math.copysign(greatest[i], command[env, i])
                if acceleration[env, i] != 0.0:  # until it drives as fast the other way
                    remaining[env] = max(remaining[env], 2.0 * abs(command[env, i]) / greatest[i])
        elif remaining[env] <= 0.0:
            for i in range(n):
                acceleration[env, i] = (2.0 * uniform(keys, i, env, draws[env]) - 1.0) * greatest[i]
            remaining[env] = interval * (0.5 + uniform(keys, n, env, draws[env]))
            draws[env] += 1
        remaining[env] -= dt
        for i in range(n):
            value = command[env, i] + acceleration[env, i] * dt
            if value > limits[i, 1] or value < limits[i, 0]:
                value = min(max(value, limits[i, 0]), limits[i, 1])
                acceleration[env, i] = -acceleration[env, i]
            command[env, i] = value


@kernel
def follow(
    pose: Any,
    path: Any,
    corners: Any,
    leg: Any,
    command: Any,
    anchor: Any,
    still: Any,
    backing: Any,
    side: Any,
    state: Any,
    speed: float,
    turn: float,
    acceleration: float,
    turn_acceleration: float,
    ahead: float,
    near: float,
    arrival: float,
    patience: float,
    any_way: bool,
    dt: float,
) -> None:
    """Pure pursuit of a polyline, with in-place turns, a stop at its end, and a way back out of where it is stuck.

    Args:
        pose: x, y, yaw (B, 3).
        path: (B, corners, 2); corners: how many there are, (B,); leg: the one that is driven, (B,).
        command: forward, left, turn (B, 3): in, as they were; out, as they shall be.
        anchor, still: where it was last seen to move (B, 3), and for how long it has not (B,) s.
        backing, side: how long it still backs up (B,) s, and to which side.
        state: DRIVING, ARRIVED or STUCK, (B,).
        speed, turn, acceleration, turn_acceleration: the greatest.
        ahead, near, arrival: metres: of the target on the path, at which a corner and the end count as reached.
        any_way: whether the base can drive sideways.
    """
    for env in range(pose.shape[0]):
        x, y, yaw = pose[env, 0], pose[env, 1], pose[env, 2]
        forward, left, rate = 0.0, 0.0, 0.0
        state[env] = DRIVING
        if backing[env] > 0.0:
            backing[env] -= dt
            forward, rate = -0.4 * speed, 0.3 * turn * side[env]
            if backing[env] <= 0.0:
                state[env] = STUCK
                still[env] = 0.0
        elif corners[env] < 2:
            state[env] = ARRIVED
        else:
            while True:
                last = leg[env] + 2 >= corners[env]
                ax, ay = path[env, leg[env], 0], path[env, leg[env], 1]
                bx, by = path[env, leg[env] + 1, 0], path[env, leg[env] + 1, 1]
                length = math.hypot(bx - ax, by - ay)
                along = length
                if length > 0.0:
                    along = ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length
                to_end = math.hypot(bx - x, by - y)
                if last or (to_end >= near and along < length):
                    break
                leg[env] += 1
            if last and to_end < arrival:  # stop first: what is fast drifts off the next path
                if math.hypot(command[env, 0], command[env, 1]) < _SLOW:
                    state[env] = ARRIVED
            else:
                part = 1.0
                if length > 0.0:
                    part = min(1.0, (max(along, 0.0) + ahead) / length)
                tx, ty = ax + (bx - ax) * part, ay + (by - ay) * part
                away = max(math.hypot(tx - x, ty - y), 1e-6)
                off = math.atan2(ty - y, tx - x) - yaw
                off = math.atan2(math.sin(off), math.cos(off))
                slow, to_stop = 0.0, to_end
                if not last:  # the sharper the corner, the slower
                    cx, cy = path[env, leg[env] + 2, 0] - bx, path[env, leg[env] + 2, 1] - by
                    on = max(math.hypot(cx, cy) * length, 1e-9)
                    slow = speed * max(0.25, 2.0 * ((bx - ax) * cx + (by - ay) * cy) / on - 1.0)
                    to_stop = max(0.0, to_end - near)
                fast = min(speed, math.sqrt(slow * slow + acceleration * to_stop))  # brakes at half of what it can
                if any_way:
                    forward, left = fast * math.cos(off), fast * math.sin(off)
                    rate = min(max(_FACING * off, -turn), turn)
                elif abs(off) > _TURN_FIRST:
                    rate = min(max(_FACING * off, -turn), turn)
                else:
                    forward = fast * math.cos(off)
                    bend = 2.0 * math.sin(off) / max(away, 0.5 * ahead)
                    if abs(forward * bend) > turn:
                        forward = turn / abs(bend)
                    rate = forward * bend
            turned = math.atan2(math.sin(yaw - anchor[env, 2]), math.cos(yaw - anchor[env, 2]))
            if math.hypot(x - anchor[env, 0], y - anchor[env, 1]) > _STILL_WAY or abs(turned) > _STILL_TURN:
                anchor[env, 0], anchor[env, 1], anchor[env, 2] = x, y, yaw
                still[env] = 0.0
            else:
                still[env] += dt
            if still[env] > patience:
                backing[env], still[env] = 1.0, 0.0
                command[env, 0] = command[env, 1] = command[env, 2] = 0.0  # it stands, whatever it was told
                side[env] = -side[env]
        if any_way:  # it goes on as it did in the world, while its own axes turn
            bend = command[env, 2] * dt
            old, across = command[env, 0], command[env, 1]
            command[env, 0] = math.cos(bend) * old + math.sin(bend) * across
            command[env, 1] = math.cos(bend) * across - math.sin(bend) * old
        for i in range(3):
            wanted = forward if i == 0 else (left if i == 1 else rate)
            step = (turn_acceleration if i == 2 else acceleration) * dt
            command[env, i] = min(max(wanted, command[env, i] - step), command[env, i] + step)
