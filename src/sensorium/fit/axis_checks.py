"""Check of a gyroscope against an accelerometer: gravity must turn as the gyroscope says."""

from __future__ import annotations

import itertools

import numpy as np

from sensorium.fit.field_names import unit_of_ratio
from sensorium.fit.logs import SensorLog
from sensorium.fit.problems import Problem

_SMOOTHING = 2.0
"""Cut-off frequency of both sensors in the comparison, Hz: linear accelerations are mostly faster."""
_MIN_EXPLAINED = 0.8
"""Share of the turning of gravity that a matrix must explain before it counts as evidence."""
_MIN_TURN = 0.1
"""Smallest RMS rate of gravity's direction that is used, rad/s."""


def check_axes(log: SensorLog) -> list[Problem]:
    """Return a problem if gyroscope and accelerometer contradict each other in unit, axes or sign.

    The direction u of gravity in the body turns by du/dt = u x (A gyro). A is the identity if both agree. A log with
    little rotation, or with fast linear motion, gives no evidence.
    """
    from scipy.signal import butter, sosfiltfilt

    if not {"gyro", "acc"} <= log.channels.keys() or len(log) < 20 or log.rate < 4 * _SMOOTHING:
        return []
    gyro, acc = log.channels["gyro"], log.channels["acc"]
    if gyro.shape[1] != 3 or acc.shape[1] != 3 or not (np.isfinite(gyro).all() and np.isfinite(acc).all()):
        return []
    smooth = butter(2, _SMOOTHING, fs=log.rate, output="sos")
    rate, force = sosfiltfilt(smooth, gyro - np.median(gyro, axis=0), axis=0), sosfiltfilt(smooth, acc, axis=0)
    size = np.linalg.norm(force, axis=1)
    calm = np.abs(size / max(float(np.median(size)), 1e-12) - 1) < 0.1
    up = force / np.maximum(size, 1e-12)[:, None]
    change = np.gradient(up, 1 / log.rate, axis=0)
    rows = np.flatnonzero(calm)[:: max(1, round(log.rate / 20))]
    if len(rows) < 100 or float(np.sqrt(np.mean(change[rows] ** 2))) < _MIN_TURN:
        return []
    across = np.cross(up[rows, None, :], np.eye(3)[None])  # (n, k, i): u x e_k
    design = np.einsum("nki,nj->nikj", across, rate[rows]).reshape(-1, 9)
    target = change[rows].reshape(-1)
    solution, _, rank, _ = np.linalg.lstsq(design, target, rcond=1e-6)
    explained = 1 - float(np.mean((target - design @ solution) ** 2) / np.mean(target**2))
    if rank < 9 or explained < _MIN_EXPLAINED:
        return []
    matrix = solution.reshape(3, 3)
    determinant = float(np.linalg.det(matrix))
    found = []
    unit = unit_of_ratio("gyro", 1 / max(abs(determinant) ** (1 / 3), 1e-12), 0.3)
    if unit is not None:
        text = f"gravity turns {abs(determinant) ** (1 / 3):.3g} times as fast as the gyroscope reads: a log in {unit}"
        fix = f'pass units={{"gyro": "{unit}"}}, or --units gyro={unit}'
        found.append(Problem("gyro.units", text, fix, "gyro"))
    left, _, right = np.linalg.svd(np.linalg.inv(matrix))
    turn = left @ right
    if determinant < 0 or np.trace(turn) < 1 + 2 * np.cos(np.radians(30)):
        text = f"gyroscope and accelerometer have different axes: for the gyroscope {describe_axes(turn)}"
        found.append(Problem("gyro.axes", text, "bring both into one right-handed frame", "gyro"))
    return found


def describe_axes(turn: np.ndarray) -> str:
    """Return the nearest assignment of axes of a rotation or reflection (3, 3): "x = y, y = -x, z = z"."""
    names = "xyz"
    best = max(itertools.permutations(range(3)), key=lambda order: sum(abs(turn[i, order[i]]) for i in range(3)))
    signs = ["" if turn[i, best[i]] > 0 else "-" for i in range(3)]
    return ", ".join(f"{names[i]} = {signs[i]}{names[best[i]]}" for i in range(3))
