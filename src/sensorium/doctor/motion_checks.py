"""Checks of inertial signals and orientation against each other: gravity, angular rates, quaternions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product
from typing import NamedTuple

import numpy as np

from sensorium.deploy.contract import Contract
from sensorium.doctor.findings import Examination
from sensorium.doctor.links import rotations
from sensorium.doctor.signals import InertialSignals, Signals, TimeSeries, at, spans, window_means

G = 9.81
DEGREES = 180 / np.pi
_NO_GRAVITY = 0.05
"""Gravity, m/s², below which a world has none."""
_SHORTEST = 2.0
"""Duration, s, from which the direction of gravity is judged."""
_TILTS = 0.1
"""RMS angle, rad, from which a robot tilts."""
_AXES = "xyz"

_SIGNED = sorted(
    (
        np.eye(3)[list(order)] * np.array(signs)[:, None]
        for order in permutations(range(3))
        for signs in product((1.0, -1.0), repeat=3)
    ),
    key=lambda matrix: (
        int((np.abs(matrix).argmax(axis=1) != np.arange(3)).sum()),
        int((matrix.sum(axis=1) < 0).sum()),
    ),
)
"""All signed permutations of the axes, the simplest first."""

_TURNS = [(matrix, scale) for scale in (1.0, 1 / DEGREES, DEGREES) for matrix in _SIGNED]
"""Explanations of angular rates: axes and unit."""

Correction = Callable[[np.ndarray], np.ndarray]

_QUATERNIONS: dict[str, Correction] = {
    "": lambda q: q,
    "inverted": lambda q: q * np.array([1.0, -1.0, -1.0, -1.0]),
    "order": lambda q: q[:, [1, 2, 3, 0]],  # the true w is last
    "order reversed": lambda q: q[:, [3, 0, 1, 2]],
}
"""What may be wrong with quaternions (w, x, y, z) -> how to correct them."""


def check_motion(exam: Examination, signals: Signals, expected: dict[str, np.ndarray]) -> None:
    """Check magnitude and direction of gravity, orientation, and angular rate of every IMU.

    With an orientation, all explanations are compared: quaternions in another order or inverted, and axes of the
    accelerometer and the gyroscope swapped or with other signs. The one with the fewest changes that fits is reported.

    Args:
        exam: where findings go.
        signals: the log.
        expected: "TOPIC FIELD" -> mean acceleration in training, (3,) m/s², if it is known.
    """
    for imu in signals.imus:
        _check_imu(exam, imu, signals, expected)


def _check_imu(exam: Examination, imu: InertialSignals, signals: Signals, expected: dict[str, np.ndarray]) -> None:
    acc, gyro, quat, resets = imu.acc, imu.gyro, imu.quat, signals.resets
    size = float(np.linalg.norm(signals.gravity))
    if acc is not None and imu.is_own:
        _check_magnitude(exam, acc, size)
    up = -signals.gravity / size if size > _NO_GRAVITY else None
    gravity = _gravity_windows(acc, quat, resets) if acc is not None and up is not None else None
    if quat is not None and gravity is not None and _is_planar(quat) and _tilt(gravity[1]) > _TILTS:
        exam.skip("quaternion", quat.subject, "it has the heading only, and the robot tilts")
        quat = None
    if quat is None:
        if acc is not None and imu.is_own:
            _check_mean_gravity(exam, acc, gravity, expected.get(acc.subject), _why_no_windows(acc, None, up))
        if gyro is not None and imu.is_own:
            _check_gyro_alone(exam, gyro, acc if up is not None else None, resets)
        return
    fits = {}
    for name, correct in _QUATERNIONS.items():
        direction = None if gravity is None or up is None else _fit_gravity(gravity, quat, correct, up)
        turn = None if gyro is None else _fit_gyro(gyro, quat, correct, resets)
        found = [fit for fit in (direction, turn) if fit is not None]
        # about one fixed axis, an inverted orientation is a gyroscope with the opposite sign: the latter is reported
        cost = sum(fit.residual + 0.15 * fit.is_changed for fit in found) + _REORDERED * (name != "")
        fits[name] = (cost if found else np.inf, direction, turn)
    best = min(fits, key=lambda name: fits[name][0])
    _, direction, turn = fits[best]
    as_it_is = fits[""]
    if direction is None and turn is None:
        exam.skip("quaternion", quat.subject, "the log has no inertial signals that turn")
    elif best and not exam.has_failed(quat.subject):
        _report_quaternion(exam, quat, best, as_it_is[1] or as_it_is[2], direction or turn)
    elif not best:
        exam.ok("quaternion", quat.subject, "order and direction agree with the inertial signals")
    if acc is not None and imu.is_own:
        _report_gravity(exam, acc, quat, direction, _why_no_windows(acc, quat, up))
    if gyro is not None and imu.is_own:
        how = f"compared with {quat.subject}"
        if not best and turn is not None and turn.is_changed and fits["inverted"][0] < as_it_is[0] + _REORDERED - 0.1:
            how += " (or its rotation is inverted)"
        _report_gyro(exam, gyro, turn, how)


def _is_planar(quat: TimeSeries) -> bool:
    """Return whether an orientation never leaves the plane: odometry of wheels."""
    return bool(np.abs(quat.values[:, 1:3]).max() < 1e-6)


def _tilt(directions: np.ndarray) -> float:
    """Return the RMS angle between directions (n, 3) and their mean, rad."""
    mean = directions.mean(axis=0)
    return float(np.sqrt(((directions - mean) ** 2).sum(axis=1).mean()))


class _Fit(NamedTuple):
    """How well a signal fits another one, if its axes are changed."""

    residual: float
    """Relative error of the best explanation."""
    matrix: np.ndarray
    """Signed permutation of the axes, (3, 3): true = matrix @ log."""
    scale: float
    as_it_is: float
    """Relative error without a change."""

    @property
    def is_changed(self) -> bool:
        """Whether anything must change."""
        return self.scale != 1.0 or not np.array_equal(self.matrix, np.eye(3))


_REORDERED = 0.4
"""Relative error by which another order or direction of a quaternion must be better, to be reported."""
_LITTLE = 0.1
"""Relative error, or angle in rad, that noise and impacts explain: no axis or sign is blamed for it."""


def _choose(tries: list[tuple[np.ndarray, float]], residuals: list[float]) -> _Fit:
    """Return the simplest explanation that is almost as good as the best one."""
    best = min(residuals)
    limits = [max(1.25 * best + 0.01, _LITTLE if i == 0 else 0.0) for i in range(len(tries))]
    chosen = next(i for i, value in enumerate(residuals) if value <= limits[i])
    return _Fit(residuals[chosen], *tries[chosen], residuals[0])


def quiet(acc: TimeSeries) -> np.ndarray:
    """Return which samples of the accelerometer are taken at little acceleration: windows of the least variation."""
    size = max(int(0.5 * acc.rate), 4)
    n = len(acc) // size
    if n < 2:
        return np.ones(len(acc), bool)
    norm = np.linalg.norm(acc.values[: n * size], axis=1).reshape(n, size)
    spread = norm.std(axis=1)
    if (spread > 0).any():
        spread[spread == 0] = np.inf  # frozen, not calm
    calm = spread <= np.quantile(spread[np.isfinite(spread)], 0.25) + 1e-12
    return np.r_[np.repeat(calm, size), np.zeros(len(acc) - n * size, bool)]


def _check_magnitude(exam: Examination, acc: TimeSeries, g: float) -> None:
    calm = np.linalg.norm(acc.values[quiet(acc)], axis=1)
    size = float(np.median(calm))
    low, high = np.quantile(calm, [0.1, 0.9])  # limbs accelerate even then
    text = f"{size:.3g} m/s² in the calmest quarter"
    if g < _NO_GRAVITY:
        exam.skip("gravity.magnitude", acc.subject, "the world of the log has no gravity")
    elif low < 1.1 * g and high > 0.9 * g:
        exam.ok("gravity.magnitude", acc.subject, text)
    elif 0.9 < size * G / g < 1.1:
        exam.fail("gravity.magnitude", acc.subject, f"{text}: the unit is g", f"multiply the acceleration by {G}")
    elif 0.9e3 < size * G / g < 1.1e3:
        fix = f"multiply the acceleration by {G / 1e3}"
        exam.fail("gravity.magnitude", acc.subject, f"{text}: the unit is mg", fix)
    elif size < 0.2 * g:
        fix = f"publish the specific force, which is {g:.3g} m/s² upwards at rest"
        exam.fail("gravity.magnitude", acc.subject, f"{text}: gravity is missing", fix)
    else:
        exam.fail("gravity.magnitude", acc.subject, text, f"check the scale: at rest it must read {g:.3g} m/s²")


def _unit(values: np.ndarray) -> np.ndarray:
    return values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)


def describe(matrix: np.ndarray, what: str) -> str:
    """Return how a signed permutation changes axes, e.g. "its x is -y"."""
    parts = []
    for row, axis in zip(matrix, _AXES, strict=True):
        source = int(np.abs(row).argmax())
        sign = "-" if row[source] < 0 else ""
        if _AXES[source] != axis or sign:
            parts.append(f"the true {axis} is {sign}{_AXES[source]} of {what}")
    return ", ".join(parts)


def _kind(matrix: np.ndarray) -> str:
    return "sign" if np.array_equal(np.abs(matrix), np.eye(3)) else "axis"


def _gravity_windows(
    acc: TimeSeries, quat: TimeSeries | None, resets: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return times and directions (n, 3) of the mean acceleration over half seconds; None if there are too few."""
    edges = np.arange(acc.time[0], acc.time[-1], 0.5)
    measured = window_means(acc, edges)
    middles = (edges[1:] + edges[:-1]) / 2
    keep = np.isfinite(measured).all(axis=1) & ~spans(resets, edges[:-1], edges[1:])
    if quat is not None:
        keep &= (middles > quat.time[0]) & (middles < quat.time[-1])
    return (middles[keep], _unit(measured[keep])) if keep.sum() >= 4 else None


def _fit_gravity(
    gravity: tuple[np.ndarray, np.ndarray], quat: TimeSeries, correct: Correction, above: np.ndarray
) -> _Fit:
    """Compare the direction of gravity with that of the orientation; ``above`` points upwards in the world, (3,)."""
    times, measured = gravity
    up = above @ rotations(correct(at(quat, times)))  # in the body
    tries = [(matrix, 1.0) for matrix in _SIGNED]
    return _choose(tries, [float(np.linalg.norm(measured @ m.T - up, axis=1).mean()) for m, _ in tries])


def _fit_gyro(gyro: TimeSeries, quat: TimeSeries, correct: Correction, resets: np.ndarray) -> _Fit | None:
    """Compare angular rates with those of the orientation; None if it hardly turns."""
    edges = np.arange(max(gyro.time[0], quat.time[0]), min(gyro.time[-1], quat.time[-1]), 0.05)
    if len(edges) < 22:
        return None
    rate, turns = window_means(gyro, edges), rotations(correct(at(quat, edges)))
    true = _rotation_vectors(np.einsum("nji,njk->nik", turns[:-1], turns[1:])) / 0.05
    # interpolated orientations reach over a reset by up to a sample
    margin = 1.5 / quat.rate
    jumps = spans(resets, edges[:-1] - margin, edges[1:] + margin)
    keep = np.isfinite(rate).all(axis=1) & (np.linalg.norm(true, axis=1) > 0.1) & ~jumps
    if keep.sum() < 20:
        return None
    rate, true = rate[keep], true[keep]
    spread = np.linalg.norm(true, axis=1).mean()
    return _choose(_TURNS, [float(np.linalg.norm(rate @ m.T * s - true, axis=1).mean() / spread) for m, s in _TURNS])


def _angle(residual: float) -> str:
    return f"{np.degrees(2 * np.arcsin(min(residual / 2, 1))):.0f}°"


def _report_quaternion(exam: Examination, quat: TimeSeries, name: str, before: _Fit | None, after: _Fit | None) -> None:
    what, fix = {
        "inverted": ("the rotation is inverted", "publish the orientation of the body in the world, not its inverse"),
        "order": ("the components are in the order x, y, z, w", "write (w, x, y, z) into the fields of their names"),
        "order reversed": ("the components are shifted by one", "write each component into the field of its name"),
    }[name]
    text = what
    if before is not None and after is not None:
        text = (
            f"{what}: inertial signals are off by {before.as_it_is:.0%} as it is, by {after.residual:.0%} if corrected"
        )
    exam.fail("quaternion.direction" if name == "inverted" else "quaternion.order", quat.subject, text, fix)


def _why_no_windows(acc: TimeSeries, quat: TimeSeries | None, up: np.ndarray | None) -> str:
    """Return why a log does not show the direction of gravity."""
    if up is None:
        return "the world of the log has no gravity"
    start, stop = acc.time[0], acc.time[-1]
    if stop - start < _SHORTEST:
        return f"the log has {stop - start:.2g} s of it, and {_SHORTEST:g} s are needed"
    if quat is not None and min(stop, quat.time[-1]) - max(start, quat.time[0]) < _SHORTEST:
        return f"it and {quat.subject} are in the log together for less than {_SHORTEST:g} s"
    return "the log has fewer than 4 half seconds without gaps and resets"


def _report_gravity(exam: Examination, acc: TimeSeries, quat: TimeSeries, fit: _Fit | None, why: str) -> None:
    if fit is None:
        exam.skip("gravity.axis", acc.subject, why)
    elif fit.is_changed:
        text = (
            f"{describe(fit.matrix, 'the log')}; off by {_angle(fit.as_it_is)}, by {_angle(fit.residual)} if corrected"
        )
        exam.fail(
            f"gravity.{_kind(fit.matrix)}", acc.subject, text, "turn the axes of the accelerometer into the frame"
        )
    else:
        exam.ok("gravity.axis", acc.subject, f"off by {_angle(fit.residual)} from the vertical of {quat.subject}")


def _check_mean_gravity(
    exam: Examination,
    acc: TimeSeries,
    gravity: tuple[np.ndarray, np.ndarray] | None,
    expected: np.ndarray | None,
    why: str,
) -> None:
    """Without orientation: compare the mean direction with that in training; ``why`` is why there is none."""
    if gravity is None:
        exam.skip("gravity.axis", acc.subject, why)
        return
    if expected is None or np.linalg.norm(expected) < 0.5 * G:
        exam.skip("gravity.axis", acc.subject, "the log has no orientation to compare with")
        return
    mean, target = gravity[1].mean(axis=0), expected / np.linalg.norm(expected)
    tries = [(matrix, 1.0) for matrix in _SIGNED]
    fit = _choose(tries, [float(np.linalg.norm(matrix @ mean - target)) for matrix in _SIGNED])
    own, trained = (", ".join(f"{x:.2f}" for x in each) for each in (mean, target))
    text = f"mean direction ({own}), in training ({trained})"
    if fit.as_it_is < 0.5 or not fit.is_changed:
        exam.ok("gravity.axis", acc.subject, text)
    else:
        changes = f"{text}; {describe(fit.matrix, 'the log')}"
        fix = "turn the axes of the accelerometer into the frame"
        exam.fail(f"gravity.{_kind(fit.matrix)}", acc.subject, changes, fix)


def _check_gyro_alone(exam: Examination, gyro: TimeSeries, acc: TimeSeries | None, resets: np.ndarray) -> None:
    """Without orientation: gravity must turn in the body against the angular rate."""
    if acc is None or exam.has_failed(acc.subject):
        exam.skip("gyro.sign", gyro.subject, "the log has neither an orientation nor a usable direction of gravity")
        return
    edges = np.arange(max(gyro.time[0], acc.time[0]), min(gyro.time[-1], acc.time[-1]), 0.1)
    down, rate = window_means(acc, edges), window_means(gyro, edges)
    keep = np.isfinite(down).all(axis=1) & np.isfinite(rate).all(axis=1)
    down = _unit(np.where(keep[:, None], down, 1.0))
    change = down[1:] - down[:-1]
    turn = (rate[1:] + rate[:-1]) / 2 * 0.1
    keep = keep[1:] & keep[:-1] & (np.linalg.norm(change, axis=1) > 0.01) & ~spans(resets, edges[:-2], edges[2:])
    if keep.sum() < 20:
        exam.skip("gyro.sign", gyro.subject, "the direction of gravity hardly turns in the log")
        return
    middle = _unit(down[1:] + down[:-1])[keep]
    change, turn = change[keep], turn[keep]
    size = np.linalg.norm(change, axis=1).mean()
    residuals = [
        float(np.linalg.norm(-np.cross(turn @ m.T * s, middle) - change, axis=1).mean() / size) for m, s in _TURNS
    ]
    if min(residuals) > 0.8:
        exam.skip("gyro.sign", gyro.subject, "accelerations hide how gravity turns in the log")
        return
    _report_gyro(exam, gyro, _choose(_TURNS, residuals), "compared with how gravity turns")


def _report_gyro(exam: Examination, gyro: TimeSeries, fit: _Fit | None, how: str) -> None:
    if fit is None:
        exam.skip("gyro.sign", gyro.subject, "the orientation of the log hardly turns")
        return
    text = f"{how}: off by {fit.as_it_is:.0%} as it is"
    if not fit.is_changed:
        exam.ok("gyro.sign", gyro.subject, text)
        return
    text += f", by {fit.residual:.0%} if corrected"
    if fit.scale != 1.0:
        unit = "°/s" if fit.scale < 1 else "rad/s, divided by 180/π"
        fix = f"multiply the angular rate by {fit.scale:.6g}"
        exam.fail("gyro.unit", gyro.subject, f"{text}: the unit is {unit}", fix)
    else:
        changes = f"{text}; {describe(fit.matrix, 'the log')}"
        exam.fail(f"gyro.{_kind(fit.matrix)}", gyro.subject, changes, "turn the axes of the gyroscope into the frame")


def _rotation_vectors(matrices: np.ndarray) -> np.ndarray:
    """Return rotation vectors (n, 3) of rotation matrices (n, 3, 3)."""
    cosine = np.clip((np.trace(matrices, axis1=1, axis2=2) - 1) / 2, -1, 1)
    angle = np.arccos(cosine)
    axis = np.stack(
        [
            matrices[:, 2, 1] - matrices[:, 1, 2],
            matrices[:, 0, 2] - matrices[:, 2, 0],
            matrices[:, 1, 0] - matrices[:, 0, 1],
        ],
        axis=1,
    )
    factor = np.where(angle < 1e-6, 0.5, angle / np.maximum(2 * np.sin(angle), 1e-9))
    return axis * factor[:, None]


def expected_means(contract: Contract | None) -> dict[str, np.ndarray]:
    """Return "TOPIC FIELD" -> mean acceleration in training, from the contract's statistics."""
    return {
        f"{term.topic} {term.field}": (np.array(term.seen.mean[:3]) - term.offset) / term.scale
        for term in (() if contract is None else contract.observations)
        if term.field == "linear_acceleration" and term.seen is not None
    }
