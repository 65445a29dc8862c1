"""Numba kernels of the scenarios, with scalar arithmetic for each env, so that no bit depends on the batch size."""

from __future__ import annotations

import math

import numpy as np

from sensorium.jit import kernel
from sensorium.pipeline.kernels import threefry

_U = np.uint32
DRIVING, ARRIVED, STUCK = 0, 1, 2
"""States of an env in :func:`follow`."""

_STILL_WAY, _STILL_TURN = 0.05, 0.1
"""m and rad: a robot that moves less stands still."""
_TURN_FIRST = 0.6
"""rad: a robot whose target is farther off its heading turns on the spot."""
_SLOW = 0.1
"""m/s: a slower robot has stopped at its goal."""
_FACING = 2.0
"""1/s: yaw rate per angle to the target, on the spot and for bases that drive in any direction."""


@kernel
def uniform(keys: np.ndarray, element: int, env: int, draw: int) -> float:
    """Return a random number in [0, 1) that depends on key, env and draw only."""
    w0, w1 = threefry(keys[element, 0], keys[element, 1], _U(env), _U(draw))
    return (float(w0 >> _U(5)) * 67108864.0 + float(w1 >> _U(6))) / 9007199254740992.0


@kernel
def headings(position: np.ndarray, quat: np.ndarray, pose: np.ndarray, up: np.ndarray) -> None:
    """Compute x, y and yaw (B, 3), and the z component of the z axis (B,), from positions (B, 3) and quats (B, 4)."""
    for env in range(len(position)):
        w, x, y, z = quat[env, 0], quat[env, 1], quat[env, 2], quat[env, 3]
        pose[env, 0], pose[env, 1] = position[env, 0], position[env, 1]
        pose[env, 2] = math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
        up[env] = 1.0 - 2.0 * (x * x + y * y)


@kernel
def accelerate(
    keys: np.ndarray,
    draws: np.ndarray,
    remaining: np.ndarray,
    acceleration: np.ndarray,
    blocked: np.ndarray,
    command: np.ndarray,
    speeds: np.ndarray,
    limits: np.ndarray,
    max_acceleration: np.ndarray,
    moves: np.ndarray,
    interval: float,
    patience: float,
    dt: float,
) -> None:
    """Apply random accelerations, each for some time, and reverse if the robot is blocked.

    Args:
        keys: (actions + 1, 2).
        draws: number of previous draws, (B,).
        remaining: seconds until the acceleration changes, (B,).
        acceleration: current accelerations, (B, actions).
        blocked: seconds for which the robot has been blocked, (B,).
        command: actions, (B, actions): in, the previous ones; out, the next ones.
        speeds: speed of the base, (B,) m/s.
        limits: bounds of the actions, (actions, 2).
        max_acceleration: (actions,).
        moves: whether an action moves the base, (actions,).
        interval: mean seconds of an acceleration.
        patience: seconds for which the robot may be blocked.
        dt: seconds of a step.
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
                acceleration[env, i] = -math.copysign(max_acceleration[i], command[env, i])
                if acceleration[env, i] != 0.0:  # until it drives at the same speed in reverse
                    remaining[env] = max(remaining[env], 2.0 * abs(command[env, i]) / max_acceleration[i])
        elif remaining[env] <= 0.0:
            for i in range(n):
                acceleration[env, i] = (2.0 * uniform(keys, i, env, draws[env]) - 1.0) * max_acceleration[i]
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
    pose: np.ndarray,
    path: np.ndarray,
    corners: np.ndarray,
    leg: np.ndarray,
    command: np.ndarray,
    anchor: np.ndarray,
    still: np.ndarray,
    backing: np.ndarray,
    side: np.ndarray,
    state: np.ndarray,
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
    """Follow a polyline by pure pursuit, with turns on the spot, a stop at its end, and backing up if stuck.

    Args:
        pose: x, y, yaw (B, 3).
        path: corners of the path, (B, corners, 2) m.
        corners: number of corners in use, (B,).
        leg: index of the current segment, (B,).
        command: forward, left, turn (B, 3): in, the previous ones; out, the next ones.
        anchor: pose at which the robot was last seen to move, (B, 3).
        still: seconds since then, (B,).
        backing: seconds for which the robot still backs up, (B,).
        side: side to which it turns while backing up, -1 or 1, (B,).
        state: out, DRIVING, ARRIVED or STUCK, (B,).
        speed: max speed, m/s.
        turn: max yaw rate, rad/s.
        acceleration: max acceleration, m/s².
        turn_acceleration: max yaw acceleration, rad/s².
        ahead: distance of the target along the path, m.
        near: distance at which a corner counts as reached, m.
        arrival: distance at which the end counts as reached, m.
        patience: seconds without moving after which the robot is stuck.
        any_way: whether the base can drive sideways.
        dt: seconds of a step.
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
            if last and to_end < arrival:  # stop first: at speed it would drift off the next path
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
                if not last:  # slower at sharper corners
                    cx, cy = path[env, leg[env] + 2, 0] - bx, path[env, leg[env] + 2, 1] - by
                    on = max(math.hypot(cx, cy) * length, 1e-9)
                    slow = speed * max(0.25, 2.0 * ((bx - ax) * cx + (by - ay) * cy) / on - 1.0)
                    to_stop = max(0.0, to_end - near)
                fast = min(
                    speed, math.sqrt(slow * slow + acceleration * to_stop)
                )  # brakes at half the max deceleration
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
                command[env, 0] = command[env, 1] = command[env, 2] = 0.0  # it stands still and ignores the command
                side[env] = -side[env]
        if any_way:  # keep the velocity in the world frame while the axes of the base turn
            bend = command[env, 2] * dt
            old, across = command[env, 0], command[env, 1]
            command[env, 0] = math.cos(bend) * old + math.sin(bend) * across
            command[env, 1] = math.cos(bend) * across - math.sin(bend) * old
        for i in range(3):
            wanted = forward if i == 0 else (left if i == 1 else rate)
            step = (turn_acceleration if i == 2 else acceleration) * dt
            command[env, i] = min(max(wanted, command[env, i] - step), command[env, i] + step)
