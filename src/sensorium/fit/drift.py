"""Slow drift of readings at rest: random walk or Gauss-Markov process, by the exact Gaussian likelihood.

The readings are averaged over blocks. Differences of neighbouring block means are stationary for white noise, random
walk and Gauss-Markov drift, and do not depend on the bias. A Gauss-Markov process of standard deviation d and
time constant T is a random walk of K = d √(2 / T) for times much shorter than T, so both are one family (K, 1 / T):
1 / T = 0 is the random walk. Likelihood ratios decide whether the log shows a drift, and which. Intervals are those of
the profile likelihood.

The covariance of the differences is w A + K² B(T), where w is the variance of the white noise. The eigenvectors of
(B, A) make it diagonal, so a grid of T costs one decomposition each, and the likelihood on a grid of K and w is cheap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from scipy import interpolate, linalg

from sensorium.sensors.allan import PEAK_TIME

_BLOCKS = 200
"""Number of blocks that the rest of a log is averaged to."""
_TIMES = 15
"""Number of time constants."""
_SHOWN = 7.0
"""Twice the gain in log-likelihood from which on a drift is reported; 0.4 % of logs without one exceed it."""
_CURVED = 5.0
"""The same from which on a drift is a Gauss-Markov process instead of a random walk."""
_ONE_SIDED, _TWO_SIDED = 2.706, 3.841
"""Quantiles of χ² (1 degree of freedom) for bounds and intervals at 95 %."""
_NOISE = np.array([-2.5, -1.25, 0.0, 1.25, 2.5])
"""Grid of the white noise, in its standard errors."""


@dataclass(frozen=True)
class Drift:
    """Drift of the axes of one channel; intervals are (low, high) at 95 %. Axes without drift have 0.

    Attributes:
        kind: "none", "walk" or "gauss_markov".
        walk: random walk K, (axes,) unit/√s; upper bounds at 95 % for "none".
        walk_interval: of ``walk``, each (axes,).
        size: standard deviation of the Gauss-Markov drift, (axes,); NaN for other kinds.
        size_interval: of ``size``, each (axes,).
        time: time constant of the Gauss-Markov drift, s; NaN for other kinds.
        time_interval: of ``time``.
        floor: lowest Allan deviation of noise and Gauss-Markov drift together, (axes,); NaN for other kinds.
        floor_interval: of ``floor``, each (axes,).
    """

    kind: str
    walk: np.ndarray
    walk_interval: tuple[np.ndarray, np.ndarray]
    size: np.ndarray
    size_interval: tuple[np.ndarray, np.ndarray]
    time: float = np.nan
    time_interval: tuple[float, float] = (0.0, np.inf)
    floor: np.ndarray = field(default_factory=lambda: np.empty(0))
    floor_interval: tuple[np.ndarray, np.ndarray] = field(default_factory=lambda: (np.empty(0), np.empty(0)))


def drift(parts: Sequence[np.ndarray], rate: float, white: np.ndarray, white_log_std: np.ndarray) -> Drift | None:
    """Return the drift of the axes of one channel at rest, or None if no rest period has enough samples.

    Args:
        parts: readings of the rest periods, each (samples, axes).
        rate: samples per second, Hz.
        white: variance of the white noise per sample at low frequencies, quantisation included, (axes,).
        white_log_std: standard error of the logarithm of its square root, (axes,).
    """
    samples = max(1, sum(len(part) for part in parts) // _BLOCKS)
    counts = tuple(len(part) // samples for part in parts if len(part) // samples >= 4)
    if sum(counts) < 20:
        return None
    means = [part[: len(part) // samples * samples] for part in parts if len(part) // samples >= 4]
    means = [part.reshape(len(part) // samples, samples, -1).mean(axis=1) for part in means]
    grid = _Grid(counts, samples, 1 / rate)
    axes = range(len(white))
    levels = [
        grid.log_likelihood([np.diff(one[:, axis]) for one in means], white[axis], max(white_log_std[axis], 1e-4))
        for axis in axes
    ]
    walks = [grid.log_walk(one) for one in white]
    gains = np.array([2 * (one.max() - one[0, 0]) for one in levels])
    bounds = np.array([_crossing(walks[axis], levels[axis][:, 0], _ONE_SIDED)[1] for axis in axes])
    nothing = np.full(len(white), np.nan)
    if gains.max() < _SHOWN + 2 * np.log(len(white)):
        upper = np.exp(bounds)
        return Drift("none", upper, (0 * upper, upper), nothing, (nothing, nothing))
    shown = gains >= _SHOWN
    of_time = sum(levels[axis].max(axis=0) for axis in axes if shown[axis])
    assert isinstance(of_time, np.ndarray)
    if 2 * (of_time[1:].max() - of_time[0]) > _CURVED and 1 < of_time[1:].argmax() + 1 < _TIMES:
        return _gauss_markov(grid, walks, levels, shown, np.exp(bounds), white)
    low, high = np.zeros(len(white)), np.exp(bounds)
    best = np.zeros(len(white))
    for axis in np.flatnonzero(shown):
        fine = np.linspace(walks[axis][0], walks[axis][-1], 4000)
        best[axis] = np.exp(fine[interpolate.PchipInterpolator(walks[axis], levels[axis][:, 0])(fine).argmax()])
        low[axis], high[axis] = np.exp(_crossing(walks[axis], levels[axis][:, 0], _TWO_SIDED))
    return Drift("walk", best, (low, high), nothing, (nothing, nothing))


def _gauss_markov(
    grid: _Grid,
    walks: list[np.ndarray],
    levels: list[np.ndarray],
    shown: np.ndarray,
    bounds: np.ndarray,
    white: np.ndarray,
) -> Drift:
    """Return Gauss-Markov drifts with one time constant, from the likelihood of K and T of each axis."""
    log_time = np.log(grid.times)
    fine_time = np.linspace(log_time[0], log_time[-1], 200)
    surfaces = []
    for axis in range(len(walks)):
        spline = interpolate.RectBivariateSpline(walks[axis], log_time, levels[axis][:, 1:], kx=3, ky=3)
        surfaces.append(spline(np.linspace(walks[axis][0], walks[axis][-1], 500), fine_time))
    profiles = np.array([one.max(axis=0) if seen else 0 * fine_time for one, seen in zip(surfaces, shown, strict=True)])
    pooled = profiles.sum(axis=0)
    best = int(pooled.argmax())
    size, walk, floor = np.zeros(len(walks)), np.zeros(len(walks)), np.full(len(walks), np.nan)
    ends = {"walk": [np.zeros(len(walks)), bounds.copy()], "size": [np.zeros(len(walks)), np.full(len(walks), np.nan)]}
    ends["floor"] = [np.full(len(walks), np.nan), np.full(len(walks), np.nan)]
    half_time = np.exp(0.5 * (fine_time - np.log(2)))
    for axis in range(len(walks)):
        if not shown[axis]:
            ends["size"][1][axis] = bounds[axis] * half_time[best]
            continue
        of_walk = np.exp(np.linspace(walks[axis][0], walks[axis][-1], 500))
        total = surfaces[axis] + (pooled - profiles[axis])
        inside = 2 * (total.max() - total) <= _TWO_SIDED
        rows, columns = np.nonzero(inside)
        row = int(total[:, best].argmax())
        walk[axis], size[axis] = of_walk[row], of_walk[row] * half_time[best]
        sizes = of_walk[rows] * half_time[columns]
        pick = np.unique([*np.linspace(0, len(rows) - 1, 200).astype(int), sizes.argmin(), sizes.argmax()])
        floors = allan_floor(white[axis] * grid.dt, sizes[pick], np.exp(fine_time[columns[pick]]))
        floor[axis] = allan_floor(white[axis] * grid.dt, size[axis : axis + 1], np.exp(fine_time[best : best + 1]))[0]
        for name, values in (("walk", of_walk[rows]), ("size", sizes), ("floor", floors)):
            ends[name][0][axis], ends[name][1][axis] = values.min(), values.max()
    time_low, time_high = _crossing(fine_time, pooled, _TWO_SIDED)
    return Drift(
        "gauss_markov",
        walk,
        (ends["walk"][0], ends["walk"][1]),
        size,
        (ends["size"][0], ends["size"][1]),
        float(np.exp(fine_time[best])),
        (float(np.exp(time_low)), float(np.exp(time_high))),
        floor,
        (ends["floor"][0], ends["floor"][1]),
    )


def allan_floor(white: float, size: np.ndarray, time: np.ndarray) -> np.ndarray:
    """Return the lowest Allan deviation of white noise and Gauss-Markov drift, up to the peak of the drift.

    Args:
        white: Allan variance of the white noise at 1 s.
        size: standard deviations of the drift, (n,).
        time: time constants, (n,) s.
    """
    u = np.geomspace(1e-3, PEAK_TIME, 200)[:, None]
    shape = 2 / u * (1 - (3 - 4 * np.exp(-u) + np.exp(-2 * u)) / (2 * u))
    return np.asarray(np.sqrt((white / (u * time) + size**2 * shape).min(axis=0)))


def _crossing(x: np.ndarray, level: np.ndarray, width: float) -> tuple[float, float]:
    """Return where twice the log-likelihood falls ``width`` below its maximum, to both sides."""
    below = 2 * (level.max() - level) - width
    best = int(level.argmax())
    low, high = x[0], x[-1]
    for i in range(best, 0, -1):
        if below[i - 1] > 0 >= below[i]:
            low = x[i] - (x[i] - x[i - 1]) * below[i] / (below[i] - below[i - 1])
            break
    for i in range(best, len(x) - 1):
        if below[i + 1] > 0 >= below[i]:
            high = x[i] + (x[i + 1] - x[i]) * below[i] / (below[i] - below[i + 1])
            break
    return float(low), float(high)


class _Grid:
    """Decompositions for all time constants, for rest periods of ``counts`` blocks of ``samples`` samples."""

    def __init__(self, counts: tuple[int, ...], samples: int, dt: float) -> None:
        block = samples * dt
        self.samples, self.dt, self.duration = samples, dt, sum(counts) * block
        self.times = np.geomspace(1.0 * block, 1.5 * max(counts) * block, _TIMES)
        self.parts = [_decompositions(count, samples, dt, tuple(self.times)) for count in counts]

    def log_walk(self, white: float) -> np.ndarray:
        """Return the grid of log(K), around the walk that matches the white noise over the log."""
        unit = np.sqrt(white * self.dt) / self.duration
        return np.log(unit) + np.linspace(-3.0, 12.0, 100)

    def log_likelihood(self, differences: Sequence[np.ndarray], white: float, white_log_std: float) -> np.ndarray:
        """Return the log-likelihood, maximised over the white noise, (K, 1 + T); column 0 is the random walk."""
        walk = np.exp(2 * self.log_walk(white))[:, None, None]
        scale = white / self.samples * np.exp(2 * white_log_std * _NOISE)[None, :, None]
        result = np.empty((len(walk), _TIMES + 1))
        for column in range(_TIMES + 1):
            total = np.broadcast_to(-0.5 * _NOISE**2, (len(walk), len(_NOISE))).copy()
            for one, decomposition in zip(differences, self.parts, strict=True):
                values, vectors = decomposition[column]
                square = (vectors.T @ one) ** 2
                variance = scale + walk * values
                total -= 0.5 * (np.log(variance) + square / variance).sum(axis=-1)
            result[:, column] = _peak(total)
        return result


def _peak(total: np.ndarray) -> np.ndarray:
    """Return the maximum over the last axis, the vertex of the parabola around the best grid point."""
    best = np.clip(total.argmax(axis=-1), 1, total.shape[-1] - 2)
    rows = np.arange(len(total))
    a, b, c = (total[rows, best + offset] for offset in (-1, 0, 1))
    curvature = np.minimum(a - 2 * b + c, -1e-12)
    return np.where(total.max(axis=-1) > b, total.max(axis=-1), b - (c - a) ** 2 / (8 * curvature))


@lru_cache(maxsize=64)
def _decompositions(
    count: int, samples: int, dt: float, times: tuple[float, ...]
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Return eigenvalues and eigenvectors of (B, A) for the random walk and for every time constant."""
    size = count - 1
    white = linalg.toeplitz(np.concatenate([[2.0, -1.0], np.zeros(max(size - 2, 0))])[:size])
    offset = np.arange(-(samples - 1), samples)
    weights = (samples - np.abs(offset)) / samples**2
    lags = np.abs(np.arange(count + 1)[:, None] * samples + offset) * dt
    found = []
    for time in (np.inf, *times):
        variogram = lags / 2 if np.isinf(time) else -np.expm1(-lags / time) * time / 2
        of_means = variogram @ weights
        of_means = of_means - of_means[0]
        covariance = np.empty(size)
        covariance[0] = 2 * of_means[1]
        covariance[1:] = (of_means[2:] + of_means[:-2] - 2 * of_means[1:-1])[: size - 1]
        values, vectors = linalg.eigh(linalg.toeplitz(covariance), white, check_finite=False)
        found.append((np.maximum(values, 0.0), vectors))
    return tuple(found)
