"""Noise, drift and level of a channel at rest, as estimates of the options of :class:`sn.Imperfections`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import linalg, optimize, stats

from sensorium.fit.allan import allan_deviation
from sensorium.fit.drift import Drift, drift
from sensorium.fit.estimate import Estimate, Z
from sensorium.fit.spectrum import WhiteNoise, white_noise

MIN_SAMPLES = 64
"""Samples at rest that noise needs."""
_SCALARS = {"bandwidth": "Hz", "drift_time": "s"}
_COARSE = 0.5
"""Noise below this many steps of quantised readings is estimated from the counts of the levels."""


@dataclass(frozen=True)
class RestFit:
    """Noise and drift of the axes of one channel at rest."""

    estimates: list[Estimate]
    white: list[WhiteNoise]
    drift: Drift | None
    log_likelihood: float
    """Of the spectra, for the choice of the order of the filter."""


def rest_noise(
    channel: str, parts: Sequence[np.ndarray], rate: float, unit: str, steps: np.ndarray, order: int = 2
) -> RestFit:
    """Return noise density, bandwidth, random walk, Gauss-Markov drift and Allan floor of one channel.

    Args:
        channel: prefix of the names, e.g. "gyro.".
        parts: readings of the rest periods without outliers, each (samples, axes).
        rate: samples per second, Hz.
        unit: unit of the readings.
        steps: quantisation step of each axis; 0 for none.
        order: order of the low-pass filter.
    """
    axes = parts[0].shape[1] if parts else len(steps)
    names = {"noise_density": f"{unit}/√Hz", "random_walk": f"{unit}/√s", "drift": unit, "bias_instability": unit}
    if sum(len(part) for part in parts) < MIN_SAMPLES or max(len(part) for part in parts) < MIN_SAMPLES // 2:
        reason = f"no rest of at least {MIN_SAMPLES} samples; record the sensor at rest for 1 min or more"
        missing = [Estimate.missing(channel + name, one, reason, (axes,)) for name, one in names.items()]
        missing += [Estimate.missing(channel + name, one, reason) for name, one in _SCALARS.items()]
        return RestFit(missing, [], None, 0.0)
    found = [_of_axis([part[:, axis] for part in parts], rate, steps[axis], order) for axis in range(axes)]
    white = [one for one, _ in found]
    if all(coarse for _, coarse in found) and not np.isfinite([one.density for one in white]).all():
        return _hidden(channel, unit, rate, steps)
    density, error = np.array([one.density for one in white]), np.array([one.log_std for one in white])
    estimates = [Estimate.positive(f"{channel}noise_density", density, error, f"{unit}/√Hz", _why(white, found))]
    estimates.append(_bandwidth(f"{channel}bandwidth", white, rate))
    variance = (density**2 * rate / 2) + steps**2 / 12
    slow = drift(parts, rate, variance, error)
    estimates += _drift_estimates(channel, slow, unit, sum(len(part) for part in parts) / rate)
    estimates += _allan_estimates(channel, parts, rate, unit, steps)
    return RestFit(estimates, white, slow, sum(one.log_likelihood for one in white))


def _of_axis(parts: list[np.ndarray], rate: float, step: float, order: int) -> tuple[WhiteNoise, bool]:
    """Return the white noise of one axis, and whether it is small against the step."""
    short = np.concatenate([np.diff(part) for part in parts])
    if step > 0 and np.std(short) / np.sqrt(2) < np.hypot(_COARSE, 0.29) * step:
        sigma, error = _from_levels(parts, step)
        return WhiteNoise(sigma * np.sqrt(2 / rate), error), True
    if np.ptp(short) == 0:
        return WhiteNoise(np.nan, np.nan), True
    return white_noise(parts, rate, step, order), False


def _from_levels(parts: list[np.ndarray], step: float) -> tuple[float, float]:
    """Return the standard deviation of noise below the step and its relative error, by the likelihood of the levels."""
    levels = np.rint(np.concatenate([part - np.median(part) for part in parts]) / step)
    level, count = np.unique(levels, return_counts=True)
    if len(level) < 2:
        return np.nan, np.nan

    def cost(x: np.ndarray) -> float:
        sigma = np.exp(x[1])
        share = stats.norm.cdf((level + 0.5 - x[0]) / sigma) - stats.norm.cdf((level - 0.5 - x[0]) / sigma)
        return -float(count @ np.log(np.maximum(share, 1e-300)))

    mean = float(count @ level / count.sum())
    best = optimize.minimize(cost, [mean, np.log(max(levels.std(), 0.2))], method="Nelder-Mead")
    hessian = _hessian(cost, best.x, 1e-3)
    covariance = np.linalg.pinv(hessian)
    return float(np.exp(best.x[1])) * step, float(np.sqrt(max(covariance[1, 1], 1e-12)))


def _hessian(cost: object, x: np.ndarray, step: float) -> np.ndarray:
    size, result = len(x), np.empty((len(x), len(x)))
    for i in range(size):
        for j in range(size):
            moved = [np.array(x) + step * (a * np.eye(size)[i] + b * np.eye(size)[j]) for a in (-1, 1) for b in (-1, 1)]
            a, b, c, d = (cost(one) for one in moved)  # type: ignore[operator]
            result[i, j] = (a - b - c + d) / (4 * step**2)
    return result


def _hidden(channel: str, unit: str, rate: float, steps: np.ndarray) -> RestFit:
    """Return bounds for noise that is too small to change the reading."""
    reason = "the readings at rest do not change: the noise is hidden by their step"
    bound = Estimate.at_most(f"{channel}noise_density", steps * np.sqrt(2 / rate), f"{unit}/√Hz", reason)
    missing = {"random_walk": f"{unit}/√s", "drift": unit, "bias_instability": unit} | _SCALARS
    return RestFit(
        [bound, *(Estimate.missing(channel + name, one, reason) for name, one in missing.items())], [], None, 0.0
    )


def _why(white: list[WhiteNoise], found: list[tuple[WhiteNoise, bool]]) -> str:
    notes = []
    if any(coarse for _, coarse in found):
        notes.append("noise below the step of the readings: from the counts of the levels, assumed white")
    lines = max(one.lines for one in white)
    if any(one.misfit for one in white):
        notes.append("the spectrum is not that of a low-pass filter: low frequencies and variance are matched")
    if lines > 0.002:
        notes.append(f"{100 * lines:.2g} % of the spectrum are lines (vibration) and were not used")
    return "; ".join(notes)


def _bandwidth(name: str, white: list[WhiteNoise], rate: float) -> Estimate:
    """Return one bandwidth for all axes, the mean of those that show one weighted by their errors."""
    shown = [one for one in white if np.isfinite(one.bandwidth)]
    if len(shown) < (len(white) + 1) // 2 or not shown:
        reason = f"the noise is white up to {rate / 2:.3g} Hz, half the sample rate: the bandwidth is not below that"
        return Estimate.missing(name, "Hz", reason)
    logs, weights = np.log([one.bandwidth for one in shown]), np.array([one.bandwidth_log_std for one in shown]) ** -2.0
    mean = float(logs @ weights / weights.sum())
    scatter = float(np.sqrt(((logs - mean) ** 2 * weights).sum() / max(len(shown) - 1, 1)))
    return Estimate.positive(name, np.exp(mean), max(1.0, scatter) / np.sqrt(weights.sum()), "Hz", "from the noise")


def _drift_estimates(channel: str, found: Drift | None, unit: str, duration: float) -> list[Estimate]:
    names = [f"{channel}{name}" for name in ("random_walk", "drift", "drift_time", "bias_instability")]
    units = [f"{unit}/√s", unit, "s", unit]
    if found is None:
        reason = "too short a rest; record the sensor at rest for 10 min or more"
        return [Estimate.missing(name, one, reason) for name, one in zip(names, units, strict=True)]
    if found.kind == "none":
        reason = f"no drift in {duration:.3g} s of rest; record at rest for 10 times longer"
        return [Estimate.at_most(names[0], found.walk, units[0], reason)] + [
            Estimate.missing(name, one, reason) for name, one in zip(names[1:], units[1:], strict=True)
        ]
    if found.kind == "walk":
        reason = f"the drift does not level off in {duration:.3g} s: a random walk describes it; record longer"
        return [Estimate(names[0], found.walk, found.walk_interval, units[0])] + [
            Estimate.missing(name, one, reason) for name, one in zip(names[1:], units[1:], strict=True)
        ]
    reason = "the drift levels off: a Gauss-Markov process describes it, drift √(2 / drift_time) at short times"
    return [
        Estimate(names[0], found.walk, found.walk_interval, units[0], False, reason),
        Estimate(names[1], found.size, found.size_interval, units[1]),
        Estimate(names[2], found.time, found.time_interval, units[2]),
        Estimate(names[3], np.nan_to_num(found.floor), found.floor_interval, units[3], True, "floor of the model"),
    ]


def _allan_estimates(
    channel: str, parts: Sequence[np.ndarray], rate: float, unit: str, steps: np.ndarray
) -> list[Estimate]:
    """Return density and floor as the overlapping Allan deviation shows them, to compare with the likelihood."""
    curve = allan_deviation(np.concatenate(list(parts)), rate, _slices(parts))
    lowest = curve.deviation.argmin(axis=0)
    axes = np.arange(len(steps))
    # where the white noise dominates, deviation² τ is constant: N², half of density²; the quantisation adds to it
    short = curve.tau <= max(curve.tau[-1] / 30, 4 / rate)
    weight = 1 / (curve.high - curve.low)[short] ** 2 * curve.deviation[short] ** 2
    square = 2 * (curve.deviation[short] ** 2 * curve.tau[short, None] * weight).sum(0) / weight.sum(0)
    density = np.sqrt(np.maximum(square - steps**2 / 6 / rate, 1e-3 * square))
    spread = ((curve.high - curve.low)[short] / curve.deviation[short] / (2 * Z)).min(axis=0)
    reason = "slope -1/2 of the Allan deviation"
    found = [Estimate.positive(f"{channel}allan_density", density, spread, f"{unit}/√Hz", reason)]
    if (curve.tau[lowest] > curve.tau[-1] / 2).any():
        reason = "the Allan deviation still falls at its longest averaging time; record a longer rest"
        return [*found, Estimate.at_most(f"{channel}allan_floor", curve.high[lowest, axes], unit, reason)]
    floor, interval = curve.deviation[lowest, axes], (curve.low[lowest, axes], curve.high[lowest, axes])
    reason = f"lowest value of the Allan deviation, at {', '.join(f'{curve.tau[one]:.3g}' for one in lowest)} s"
    return [*found, Estimate(f"{channel}allan_floor", floor, interval, unit, True, reason)]


def _slices(parts: Sequence[np.ndarray]) -> list[slice]:
    ends = np.cumsum([0, *(len(part) for part in parts)])
    return [slice(int(a), int(b)) for a, b in pairwise(ends)]


def level(
    parts: Sequence[np.ndarray], starts: Sequence[float], rate: float, fit: RestFit, steps: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the constant offset of each axis at rest and its standard error, by generalised least squares.

    White noise and the fitted drift are the covariance. With a random walk it is the level at the start of the log.

    Args:
        parts: readings of the rest periods, each (samples, axes).
        starts: time of the first sample of each part, since the start of the log, s.
        rate: samples per second, Hz.
        fit: noise and drift.
        steps: quantisation step of each axis.
    """
    total = sum(len(part) for part in parts)
    samples = max(1, total // 300)
    means, times, sizes = [], [], []
    for part, start in zip(parts, starts, strict=True):
        for first in range(0, len(part), samples):
            piece = part[first : first + samples]
            means.append(piece.mean(axis=0))
            times.append(start + (first + len(piece) / 2) / rate)
            sizes.append(len(piece))
    y, t, n = np.array(means), np.array(times), np.array(sizes)
    value, error = np.empty(y.shape[1]), np.empty(y.shape[1])
    for axis in range(y.shape[1]):
        density = fit.white[axis].density if fit.white else 0.0
        step = steps[axis] if len(steps) else 0.0
        variance = np.nan_to_num(density) ** 2 * rate / 2 + step**2 / 12 + 1e-30
        cov = np.diag(variance / n)
        # the size of the drift has an error of its own: its mean with its upper bound, squared, stands for that
        if fit.drift is not None and fit.drift.kind == "walk":
            size = fit.drift.walk[axis] * fit.drift.walk_interval[1][axis]
            cov += size * np.minimum(t[:, None], t)
        elif fit.drift is not None and fit.drift.kind == "gauss_markov":
            size = fit.drift.size[axis] * fit.drift.size_interval[1][axis]
            cov += size * np.exp(-np.abs(t[:, None] - t) / fit.drift.time)
        weights = linalg.solve(cov, np.ones(len(t)), assume_a="pos")
        value[axis] = weights @ y[:, axis] / weights.sum()
        error[axis] = 1 / np.sqrt(weights.sum())
        if step > 0 and variance < (_COARSE * step) ** 2:
            error[axis] = max(error[axis], step / np.sqrt(12))  # the offset is hidden inside a step
    return value, error
