"""Hard and soft iron of a magnetometer: against a pose reference, or from the readings of all orientations alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field as dataclass_field

import numpy as np
from scipy import stats

from sensorium.fit.calibration import smoothed
from sensorium.fit.estimate import Z
from sensorium.fit.latency import coarse_lag

_CLUSTERS = 60
_STEP = 1e-3
"""Time step of derivatives, s."""
_VAGUE = 0.05
"""Largest standard error of an ellipsoid, relative to its radius."""


@dataclass(frozen=True)
class Iron:
    """Hard and soft iron: reading = matrix @ field in the body frame + bias.

    Attributes:
        matrix: soft iron, scale and misalignment, (3, 3).
        matrix_std: its standard errors.
        bias: hard iron, (3,).
        bias_std: its standard errors.
        field: field of the world, (3,); NaN without a reference.
        delay: latency, s; NaN without a reference.
        delay_std: its standard error, s.
        residual: rms of readings minus model, (3,).
        field_std: standard errors of the field across its direction, (3,).
        residual_std: standard errors of the residual, (3,).
        before: rms of readings minus the rotated field without hard and soft iron, (3,).
    """

    matrix: np.ndarray
    matrix_std: np.ndarray
    bias: np.ndarray
    bias_std: np.ndarray
    field: np.ndarray
    delay: float
    delay_std: float
    residual: np.ndarray
    before: np.ndarray
    field_std: np.ndarray = dataclass_field(default_factory=lambda: np.full(3, np.nan))
    residual_std: np.ndarray = dataclass_field(default_factory=lambda: np.full(3, np.nan))


def iron_by_pose(
    time: np.ndarray,
    values: np.ndarray,
    rotated: Callable[[np.ndarray, np.ndarray], np.ndarray],
    cutoff: float,
    strength: float | None = None,
    max_lag: float = 0.5,
) -> Iron | None:
    """Return hard and soft iron, the field of the world and the latency, or None if the orientation hardly changes.

    Scale and field strength have the same effect. Without ``strength`` the matrix has the determinant 1.

    Args:
        time: time stamps, (n,) s.
        values: readings, (n, 3).
        rotated: (times, field of the world) -> field in the body frame, (n, 3); NaN in gaps.
        cutoff: cut-off frequency of the smoothing of the orientations, Hz; the readings are smoothed in the same way.
        strength: strength of the field, in the unit of the readings.
        max_lag: largest latency that is searched for, s.
    """
    rate = (len(time) - 1) / (time[-1] - time[0])
    rows = slice(None, None, max(1, int(rate / 100)))
    values = smoothed(values, rate, (cutoff,))[0]
    time, values = time[rows], values[rows]
    basis = _basis(rotated, time)
    used = np.isfinite(basis).all(axis=(1, 2)) & np.isfinite(values).all(axis=1)
    if used.sum() < 100:
        return None
    world = np.einsum("nij,ni->nj", basis[used], values[used]).mean(axis=0)
    aligned = basis @ world
    if np.linalg.svd(aligned[used] - aligned[used].mean(axis=0), compute_uv=False)[-1] < 0.05 * np.sqrt(
        used.sum()
    ) * np.linalg.norm(world):
        return None
    delay = coarse_lag(values, aligned, rate / rows.step, max_lag)
    before = np.sqrt(((values - aligned)[used] ** 2).mean(axis=0))
    matrix, bias = np.eye(3), np.zeros(3)
    for _ in range(60):
        basis, slope = _basis(rotated, time - delay), _slope(rotated, time - delay)
        used = np.isfinite(basis + slope).all(axis=(1, 2)) & np.isfinite(values).all(axis=1)
        size, previous = (np.linalg.norm(world), world.copy())
        for _ in range(15):  # alternate between (matrix, bias) and field: each is linear given the other
            design = np.concatenate([basis[used] @ world, np.ones((used.sum(), 1))], axis=1)
            solution = np.linalg.lstsq(design, values[used], rcond=None)[0]
            matrix, bias = solution[:3].T, solution[3]
            scale = (size if strength is None else strength) / size
            scale *= np.cbrt(abs(np.linalg.det(matrix))) if strength is None else 1.0
            world, matrix = world * scale, matrix / scale
            of_field = (matrix @ basis[used]).reshape(-1, 3)
            world = np.linalg.lstsq(of_field, (values[used] - bias).ravel(), rcond=None)[0]
            size = np.linalg.norm(world)
        rest = values[used] - basis[used] @ world @ matrix.T - bias
        change = -(slope[used] @ world) @ matrix.T
        step = float((change * rest).sum() / (change**2).sum())
        delay += np.clip(step, -0.02, 0.02)
        if abs(step) < 1e-6 and np.linalg.norm(world - previous) < 1e-7 * size:
            break
    errors = _errors(values[used], basis[used], slope[used], world, matrix, rest)
    across = np.linalg.svd(world[None])[2][1:].T
    rms = np.sqrt((rest**2).mean(axis=0))
    blocks = np.array([(one**2).mean(axis=0) for one in np.array_split(rest, _CLUSTERS)])
    return Iron(
        matrix,
        errors[:9].reshape(3, 3),
        bias,
        errors[9:12],
        world,
        float(delay),
        float(errors[-1]),
        rms,
        before,
        np.sqrt((across**2) @ errors[12:14] ** 2),
        blocks.std(axis=0) / np.sqrt(_CLUSTERS) / (2 * rms),
    )


def _basis(rotated: Callable[[np.ndarray, np.ndarray], np.ndarray], time: np.ndarray) -> np.ndarray:
    """Return the rotations from world to body, (n, 3, 3)."""
    return np.stack([rotated(time, axis) for axis in np.eye(3)], axis=2)


def _slope(rotated: Callable[[np.ndarray, np.ndarray], np.ndarray], time: np.ndarray) -> np.ndarray:
    return (_basis(rotated, time + _STEP) - _basis(rotated, time - _STEP)) / (2 * _STEP)


def _errors(
    values: np.ndarray, basis: np.ndarray, slope: np.ndarray, world: np.ndarray, matrix: np.ndarray, rest: np.ndarray
) -> np.ndarray:
    """Return standard errors of matrix (9), bias (3), field direction (2) and delay, from clusters of residuals."""
    count = len(values)
    signal, change = basis @ world, -(slope @ world) @ matrix.T
    tangent = np.linalg.svd(world[None])[2][1:].T  # two directions across the field
    jacobian = np.zeros((count, 3, 15))
    for axis in range(3):
        jacobian[:, axis, 3 * axis : 3 * axis + 3] = signal
        jacobian[:, axis, 9 + axis] = 1.0
    jacobian[:, :, 12:14] = matrix @ basis @ tangent
    jacobian[:, :, 14] = change
    flat = jacobian.reshape(-1, 15)
    scale = 1 / np.sqrt((flat**2).sum(axis=0) + 1e-300)
    inverse = np.linalg.pinv((flat * scale).T @ (flat * scale), rcond=1e-12) * np.outer(scale, scale)
    starts = np.arange(_CLUSTERS) * count // _CLUSTERS
    scores = np.add.reduceat(np.einsum("nij,ni->nj", jacobian, rest), starts, axis=0)
    factor = _CLUSTERS / (_CLUSTERS - 1) * (stats.t.ppf(0.975, _CLUSTERS - 1) / Z) ** 2
    covariance = factor * inverse @ (scores.T @ scores) @ inverse
    return np.asarray(np.sqrt(np.maximum(np.diag(covariance), 0)))


def iron_by_turning(values: np.ndarray) -> Iron | None:
    """Return hard and soft iron from readings of many orientations: they lie on an ellipsoid around the hard iron.

    The matrix is symmetric with the determinant 1: a rotation of the axes and the scale cannot be seen this way.

    Args:
        values: readings, (n, 3).

    Returns:
        The result, or None if the orientations do not span the sphere.
    """
    values = values[np.isfinite(values).all(axis=1)]
    parts = np.array_split(values, 20)
    whole = _ellipsoid(values)
    if whole is None:
        return None
    matrix, bias = whole
    unit = np.linalg.solve(matrix, (values - bias).T).T
    directions = unit / np.linalg.norm(unit, axis=1, keepdims=True)
    if np.linalg.eigvalsh(directions.T @ directions / len(directions))[0] < 0.08:
        return None
    found = []
    for left in range(20):  # jackknife over blocks
        one = _ellipsoid(np.concatenate([part for i, part in enumerate(parts) if i != left]))
        if one is None:
            return None
        found.append(np.concatenate([one[0].ravel(), one[1]]))
    spread = np.array(found)
    errors = np.sqrt(19 / 20 * ((spread - spread.mean(axis=0)) ** 2).sum(axis=0))
    radius = np.linalg.norm(unit, axis=1)
    vague = errors[:9].max() > _VAGUE or errors[9:].max() > _VAGUE * radius.mean()
    if vague or np.linalg.cond(matrix) > 2:  # a small part of the sphere fits many ellipsoids
        return None
    rest = (values - bias) - (directions * radius.mean()) @ matrix.T
    nan = np.full(3, np.nan)
    return Iron(
        matrix, errors[:9].reshape(3, 3), bias, errors[9:], nan, np.nan, np.inf, np.sqrt((rest**2).mean(0)), nan
    )


def _ellipsoid(values: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return matrix and centre of the ellipsoid through the readings, or None if there is none."""
    centre, size = values.mean(axis=0), values.std() + 1e-300
    x, y, z = ((values - centre) / size).T
    design = np.stack([x * x, y * y, z * z, 2 * x * y, 2 * x * z, 2 * y * z, 2 * x, 2 * y, 2 * z], axis=1)
    p = np.linalg.lstsq(design, np.ones(len(values)), rcond=None)[0]
    shape = np.array([[p[0], p[3], p[4]], [p[3], p[1], p[5]], [p[4], p[5], p[2]]])
    try:
        middle = -np.linalg.solve(shape, p[6:])
    except np.linalg.LinAlgError:
        return None
    scaled = shape / (1 + middle @ shape @ middle)
    eigenvalues, vectors = np.linalg.eigh(scaled)
    if eigenvalues[0] <= 0:
        return None
    matrix = (vectors / np.sqrt(eigenvalues)) @ vectors.T
    return matrix / np.cbrt(np.linalg.det(matrix)), centre + size * middle
