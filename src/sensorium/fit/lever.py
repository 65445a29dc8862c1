"""Lever arm: where the accelerometer is, relative to the point that motion capture tracks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sensorium import units
from sensorium.fit.references import PoseReference

MAX_ERROR = 0.01
"""Largest standard error of an identified lever arm, m."""


@dataclass(frozen=True)
class LeverArm:
    """Position of the accelerometer relative to the tracked point, in the body frame."""

    value: np.ndarray
    """(3,) m; zero if the motion does not identify it."""
    std: np.ndarray
    """Standard error, (3,) m."""
    identifiable: bool
    """Whether the motion identifies all three components."""
    reason: str = ""
    """Why it is not identified, and what to record."""


def lever_arm(
    reference: PoseReference, time: np.ndarray, acc: np.ndarray, gravity: ArrayLike = units.STANDARD_GRAVITY
) -> LeverArm:
    """Return the lever arm of an accelerometer by least squares, together with its bias and axis matrix.

    The error of the reference is correlated over half a period of its cut-off frequency, which widens the
    standard error.

    Args:
        reference: poses with positions.
        time: time stamps of the readings on the clock of the reference, latency removed, (n,) s.
        acc: readings, (n, 3) m/s².
        gravity: as in :meth:`PoseReference.specific_force`.

    Example:
        >>> lever = lever_arm(pose, log.time - delay, log.channels["acc"])
        >>> force, error = pose.specific_force(log.time - delay, lever=lever.value)
    """
    force, error = reference.specific_force(time, gravity)
    rows = np.isfinite(force).all(axis=1) & np.isfinite(acc).all(axis=1)
    missing = LeverArm(np.zeros(3), np.full(3, np.inf), False, "rotate the sensor about two axes at least")
    if rows.sum() < 100:
        return missing
    weight = 1 / error[rows, :1]
    design = np.zeros((int(rows.sum()), 3, 15))
    design[:, :, :3] = reference.lever_matrix(time[rows])
    design[:, :, 3:6] = np.eye(3)
    for axis in range(3):
        design[:, axis, 6 + 3 * axis : 9 + 3 * axis] = force[rows]
    matrix = (design * weight[:, :, None]).reshape(-1, 15)
    target = ((acc - force)[rows] * weight).reshape(-1)
    scale = np.linalg.norm(matrix, axis=0)
    if scale.min() <= 0:
        return missing
    solution, _, rank, _ = np.linalg.lstsq(matrix / scale, target, rcond=1e-9)
    if rank < 15:
        return missing
    residual = target - (matrix / scale) @ solution
    covariance = np.linalg.inv((matrix / scale).T @ (matrix / scale)) * float(np.mean(residual**2))
    step = float(np.median(np.diff(time)))
    correlated = max(1.0, 1 / (2 * reference.cutoff * step))
    std = np.sqrt(np.diag(covariance)[:3] * correlated) / scale[:3]
    if float(std.max()) > MAX_ERROR:
        reason = f"the motion leaves ±{196 * std.max():.1f} cm open; rotate the sensor faster, about two axes at least"
        return LeverArm(np.zeros(3), std, False, reason)
    return LeverArm((solution / scale)[:3], std, True)
