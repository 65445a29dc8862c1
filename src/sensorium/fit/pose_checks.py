"""Checks of a pose reference against an IMU: clock, quaternion order, axes, units, direction of gravity, motion."""

from __future__ import annotations

import numpy as np

from sensorium import poses
from sensorium.fit.axis_checks import describe_axes
from sensorium.fit.field_names import unit_of_ratio
from sensorium.fit.logs import SensorLog
from sensorium.fit.problems import Problem
from sensorium.fit.references import PoseReference

MAX_OFFSET = 0.1
"""Largest lag between log and reference that passes as latency, s."""
MIN_RATE = 0.2
"""Smallest RMS rate about an axis that identifies its scale, rad/s."""
_GRID = 100.0
"""Rate at which signals are compared, Hz."""
_GOOD_FIT = 0.8
"""Share of the variance that a matrix must explain for log and reference to belong together."""
_PERFECT_FIT = 0.98
"""Share above which no other reading of the quaternions is tried."""
_NAMES = "xyz"


def check_pose(log: SensorLog, reference: PoseReference, max_lag: float = 0.5) -> list[Problem]:
    """Return what is wrong between the readings of an IMU and a pose reference."""
    found = _check_gravity(log, reference) + _check_positions(log, reference) if "acc" in log.channels else []
    if "gyro" not in log.channels or log.channels["gyro"].shape[1] != 3:
        return found
    start, stop = max(log.time[0], reference.time[0]), min(log.time[-1], reference.time[-1])
    if stop - start < 2:
        text = f"log and reference overlap for {max(0.0, stop - start):.1f} s"
        fix = "give both the same clock; subtract the difference of their time stamps"
        return [*found, Problem("reference.clock", text, fix, "reference")]
    grid = np.arange(start, stop, 1 / _GRID)
    rows = np.isfinite(log.channels["gyro"]).all(axis=1) & np.isfinite(log.time)
    if not rows.any():
        return found
    gyro = np.stack([np.interp(grid, log.time[rows], column) for column in log.channels["gyro"][rows].T], axis=1)
    gyro = gyro - np.median(gyro, axis=0)
    rate = np.nan_to_num(reference.angular_rate(grid).values)
    strength = np.sqrt(np.mean(rate**2, axis=0))
    weak = [_NAMES[axis] for axis in range(3) if strength[axis] < MIN_RATE]
    if len(weak) == 3:
        text = f"the reference turns by {strength.max():.2g} rad/s RMS at most"
        fix = "turn the sensor about each axis, by 90° and more, at 1 rad/s and faster"
        return [*found, Problem("gyro.excitation", f"{text}: scale, axes and latency are not identified", fix)]
    if weak:
        text = f"the rotation about {', '.join(weak)} is below {MIN_RATE} rad/s RMS; its scale is uncertain"
        found.append(Problem("gyro.excitation", text, "turn the sensor about each axis, at 1 rad/s and faster"))
    lag = _lag(np.linalg.norm(gyro, axis=1), np.linalg.norm(rate, axis=1))
    if abs(lag) > MAX_OFFSET:
        side = "behind" if lag > 0 else "ahead of"
        text = f"the log is {abs(lag):.2f} s {side} the reference: latency and clock offset cannot be told apart"
        change = f"subtract {lag:.2f} s from" if lag > 0 else f"add {-lag:.2f} s to"
        fix = f"synchronise the clocks, or {change} the time stamps of the log"
        if abs(lag) > max_lag:
            text += f", and it is more than the {max_lag:g} s that are searched (max_lag)"
        found.append(Problem("reference.clock", text, fix, "reference" if abs(lag) > max_lag else ""))
    return found + _check_axes(gyro, _shift(rate, lag), reference, grid, lag)


def _check_axes(
    gyro: np.ndarray, rate: np.ndarray, reference: PoseReference, grid: np.ndarray, lag: float
) -> list[Problem]:
    matrix, explained = _matrix(gyro, rate)
    wrong = _wrong_order(gyro, reference, grid, lag, matrix, explained)
    if wrong is not None:
        return [wrong]
    found = []
    determinant = float(np.linalg.det(matrix))
    scale = abs(determinant) ** (1 / 3)
    unit = unit_of_ratio("gyro", scale)
    if unit is not None:
        text = f"the gyroscope reads {scale:.4g} times the rate of the reference: that is a log in {unit}"
        fix = f'pass units={{"gyro": "{unit}"}}, or --units gyro={unit}'
        found.append(Problem("gyro.units", text, fix, "gyro"))
    elif abs(scale - 1) > 0.1:
        text = f"the gyroscope reads {scale:.4g} times the rate of the reference"
        found.append(Problem("gyro.size", text, "check the unit and the range that the sensor is set to"))
    left, _, right = np.linalg.svd(matrix)
    turn = left @ right
    if determinant < 0:
        text = f"the axes of the gyroscope are a mirror image of the reference's: {describe_axes(turn)}"
        found.append(Problem("gyro.axes", text, "change the sign of one axis, or swap two", "gyro"))
    else:
        angle = float(np.degrees(np.arccos(np.clip((np.trace(turn) - 1) / 2, -1, 1))))
        if angle > 10:
            text = f"the sensor is turned by {angle:.0f}° against the reference: {describe_axes(turn)}"
            fix = "nothing, if it is mounted so: the matrix contains it. Otherwise swap the axes of the log"
            found.append(Problem("gyro.axes", text, fix))
    return found


def _wrong_order(
    gyro: np.ndarray, reference: PoseReference, grid: np.ndarray, lag: float, matrix: np.ndarray, explained: float
) -> Problem | None:
    """Return why the rates do not agree: the order of the quaternions, their direction, or an unknown reason."""
    mirrored = float(np.linalg.det(matrix)) < 0
    if explained > _PERFECT_FIT and not mirrored:
        return None
    turns = reference.orientation(grid)
    other = "xyzw" if reference.quat_order == "wxyz" else "wxyz"
    swapped = np.roll(turns, 1 if other == "xyzw" else -1, axis=1)
    fits = {}
    for kind, candidate in (("order", swapped), ("inverse", poses.conjugate(turns))):
        change = np.gradient(candidate, grid, axis=0)
        rate = 2 * poses.multiply(poses.conjugate(candidate), change)[:, 1:]
        fits[kind] = _matrix(gyro, _shift(rate, lag))
    # a rolled quaternion is a conjugate one between two fixed rotations: both fit, one of them without a rotation
    best = min(1 - share for _, share in fits.values())
    good = [kind for kind, (_, share) in fits.items() if 1 - share <= 2 * best + 1e-3]
    kind = max(good, key=lambda name: float(np.trace(fits[name][0])))
    # if the sensor turns little, a wrong reading of the quaternions agrees almost as well, with mirrored axes
    explains_mirror = mirrored and best < 1 - explained and _is_upright(fits[kind][0])
    if best < 1 - _GOOD_FIT and (best < (1 - explained) / 3 or explains_mirror):
        if kind == "order":
            text = f"the quaternions are in the order {other}, not {reference.quat_order}"
            return Problem("reference.order", text, f'pass quat_order="{other}", or --quat-order {other}', "reference")
        text = "the quaternions turn the world into the body, not the body into the world"
        return Problem("reference.inverse", text, "conjugate them: change the sign of x, y, z", "reference")
    if explained > _GOOD_FIT:
        return None
    text = f"the reference explains {100 * max(0.0, explained):.0f} % of the motion that the gyroscope measured"
    fix = "check that log and reference are of one run and one body, and the frame of the quaternions"
    return Problem("reference.mismatch", text, fix, "reference")


def _is_upright(matrix: np.ndarray) -> bool:
    """Return whether a matrix keeps every axis within about 10° of its direction."""
    left, _, right = np.linalg.svd(matrix)
    return bool(np.trace(left @ right) > 2.95)


def _check_gravity(log: SensorLog, reference: PoseReference) -> list[Problem]:
    """Return a problem if gravity, turned into the world by the reference, is not along z."""
    rows = np.flatnonzero(np.isfinite(log.channels["acc"]).all(axis=1) & reference.valid(log.time))[::10]
    if len(rows) < 100:
        return []
    world = poses.rotate(reference.orientation(log.time[rows]), log.channels["acc"][rows])
    mean = np.median(world, axis=0)
    size = float(np.linalg.norm(mean))
    spread = float(np.median(np.linalg.norm(log.channels["acc"][rows], axis=1)))
    if size < 0.5 * spread:  # not constant in the world: the checks of the rates say why
        return []
    tilt = float(np.degrees(np.arccos(np.clip(mean[2] / size, -1, 1))))
    if tilt < 5:
        return []
    axis = int(np.abs(mean).argmax())
    sign = "" if mean[axis] > 0 else "-"
    if tilt > 170:
        text = "the accelerometer reads gravity downwards at rest: its sign is reversed, or z of the reference is down"
        return [Problem("acc.sign", text, "change the sign of the accelerometer, or turn the reference", "acc")]
    text = f"gravity is {tilt:.0f}° away from z of the reference's world; {sign}{_NAMES[axis]} is up there"
    return [Problem("reference.vertical", text, "turn the poses into a world with z up", "acc")]


def _check_positions(log: SensorLog, reference: PoseReference) -> list[Problem]:
    """Return a problem if the positions accelerate as they would in another unit than m."""
    if not reference.has_position or log.channels["acc"].shape[1] != 3:
        return []
    rows = np.flatnonzero(np.isfinite(log.channels["acc"]).all(axis=1) & reference.valid(log.time))
    if len(rows) < 100:
        return []
    time = log.time[rows]
    read = poses.rotate(reference.orientation(time), log.channels["acc"][rows])
    read, moved = read - np.median(read, axis=0), reference.acceleration(time)
    # the reference is the noisier one: it is regressed on the readings
    both, own = float(np.sum(read * moved)), float(np.sum(read**2))
    if own == 0 or both / np.sqrt(own * max(float(np.sum(moved**2)), 1e-30)) < 0.3:
        return []
    unit = unit_of_ratio("pos", both / own, 0.5)
    if unit is None:
        return []
    text = f"the positions of the reference accelerate {both / own:.3g} times as much as the accelerometer reads: they "
    text += f"are in {unit}"
    fix = (
        f'pass units={{"pos": "{unit}"}} to sn.fit.as_log for the reference, or --reference-units pos={unit} (--units '
    )
    fix += "for poses in the log itself)"
    return [Problem("reference.units", text, fix, "acc")]


def _lag(a: np.ndarray, b: np.ndarray) -> float:
    """Return by how much ``a`` is behind ``b``, s, by the peak of their cross-correlation."""
    from scipy.signal import correlate

    a, b = a - a.mean(), b - b.mean()
    both = correlate(a, b, mode="full", method="fft")
    return float((int(both.argmax()) - (len(b) - 1)) / _GRID)


def _shift(values: np.ndarray, lag: float) -> np.ndarray:
    return np.roll(values, round(lag * _GRID), axis=0)


def _matrix(gyro: np.ndarray, rate: np.ndarray) -> tuple[np.ndarray, float]:
    """Return M with gyro = M rate, and the share of the variance that it explains.

    The rate is the noisier one: it is regressed on the gyroscope, and the matrix inverted.
    """
    solution = np.linalg.lstsq(gyro, rate, rcond=None)[0].T
    explained = 1 - float(np.mean((rate - gyro @ solution.T) ** 2) / np.mean((rate - rate.mean(axis=0)) ** 2))
    return np.linalg.pinv(solution), explained
