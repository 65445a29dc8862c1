"""Comparison of the readings of a log with those of its twin, at rest and in motion: curves and verdicts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import welch

from sensorium.fit.allan import allan_deviation

TOLERANCE = 0.1
"""Relative difference of noise that counts as equal."""
MAX_LAG = 5e-4
"""Difference in time that counts as equal, s."""
_WIDER = 1.51
"""Width of an interval of 99.7 %, relative to one of 95 %."""
_LAGS = 40
"""Number of lags of autocorrelations, samples."""


@dataclass(frozen=True)
class Verdict:
    """Whether a twin has a property of its log."""

    channel: str
    """Channel of the sensor: "gyro"."""
    subject: str
    """Property: "noise", "distribution", "autocorrelation", "prediction", "lag"."""
    holds: bool
    """Whether the twin has it."""
    text: str
    """Statement with numbers."""

    def __str__(self) -> str:
        return f"{'yes' if self.holds else 'NO ':3} {self.channel} {self.subject}: {self.text}"


@dataclass(frozen=True)
class RestComparison:
    """Log and twin at rest; all arrays have one column per axis."""

    tau: np.ndarray
    """Averaging times, (n,) s."""
    log_allan: np.ndarray
    """Allan deviation of the log, (n, k)."""
    log_low: np.ndarray
    """Lower bound at 95 %."""
    log_high: np.ndarray
    """Upper bound at 95 %."""
    twin_allan: np.ndarray
    """Allan deviation of the twin, over all its runs, (n, k)."""
    frequency: np.ndarray
    """Frequencies of the spectra, Hz."""
    log_density: np.ndarray
    """Amplitude spectral density of the log, unit per √Hz."""
    twin_density: np.ndarray
    """Amplitude spectral density of the twin."""
    log_values: np.ndarray
    """Readings of the log minus the mean of their segment, (m, k)."""
    twin_values: np.ndarray
    """Readings of the twin minus the mean of their run."""
    lags: np.ndarray
    """Lags of the autocorrelations, s."""
    log_correlation: np.ndarray
    """Autocorrelation of the log."""
    twin_correlation: np.ndarray
    """Autocorrelation of the twin."""
    step: np.ndarray
    """Step of the readings, (k,); 0 for none."""


@dataclass(frozen=True)
class MotionComparison:
    """Log, twin and reference in motion; (n, k) each."""

    time: np.ndarray
    """Time stamps of the log, (n,) s."""
    log: np.ndarray
    """Readings of the log."""
    twin: np.ndarray
    """Readings of the twin along the reference motion."""
    ideal: np.ndarray
    """What an ideal sensor without latency would read, from the reference."""
    error: float
    """RMS of the reference's own error."""
    lag: float
    """By how much the log is behind the twin, s."""
    lag_std: float
    """Standard error of ``lag``, s."""
    frequency: np.ndarray
    """Frequencies of the spectra, Hz."""
    log_density: np.ndarray
    """Amplitude spectral density of the log."""
    twin_density: np.ndarray
    """Amplitude spectral density of the twin."""
    residual_density: np.ndarray
    """Amplitude spectral density of log minus twin."""


def compare_rest(log_parts: list[np.ndarray], twin_runs: np.ndarray, rate: float, step: np.ndarray) -> RestComparison:
    """Return the comparison at rest.

    Args:
        log_parts: readings of rest segments, (n, k) each.
        twin_runs: readings of the twin, (samples, runs, k).
        rate: Hz.
        step: step of the readings of each axis, (k,).
    """
    stacked, segments = np.concatenate(log_parts), _segments(log_parts)
    log_curve = allan_deviation(stacked, rate, segments)
    samples, runs, axes = twin_runs.shape
    twin_flat = twin_runs.transpose(1, 0, 2).reshape(-1, axes)
    twin_curve = allan_deviation(twin_flat, rate, [slice(k * samples, (k + 1) * samples) for k in range(runs)])
    shared = log_curve.tau <= twin_curve.tau[-1] * 1.001
    twin_allan = np.stack(
        [
            np.exp(np.interp(np.log(log_curve.tau), np.log(twin_curve.tau), np.log(column)))
            for column in _positive(twin_curve.deviation).T
        ],
        axis=1,
    )
    twin_parts = list(twin_runs.transpose(1, 0, 2))
    length = min(2048, samples, max(len(part) for part in log_parts))
    frequency, log_density = _density(log_parts, rate, length)
    twin_density = _density(twin_parts, rate, length)[1]
    return RestComparison(
        log_curve.tau[shared],
        log_curve.deviation[shared],
        log_curve.low[shared],
        log_curve.high[shared],
        twin_allan[shared],
        frequency,
        log_density,
        twin_density,
        np.concatenate([part - part.mean(axis=0) for part in log_parts]),
        np.concatenate([part - part.mean(axis=0) for part in twin_parts]),
        np.arange(1, _LAGS + 1) / rate,
        _correlation(log_parts),
        _correlation(twin_parts),
        step,
    )


def rest_verdicts(channel: str, found: RestComparison) -> list[Verdict]:
    """Return whether noise, distribution and autocorrelation of log and twin agree."""
    noise = Verdict(channel, "noise", *_noise_agreement(found))
    spread = found.twin_values.std(axis=0) / _positive(found.log_values.std(axis=0))
    distance = _distance(found)
    text = f"standard deviations {_list(100 * (spread - 1), '+.1f')} % off, distributions at most {distance:.3f} apart"
    same = bool((np.abs(spread - 1) <= TOLERANCE).all()) and distance <= 0.05
    shape = Verdict(channel, "distribution", same, text)
    apart = float(np.abs(found.log_correlation - found.twin_correlation).max())
    limit = 0.1 + 3 / np.sqrt(len(found.log_values))
    text = f"autocorrelations at most {apart:.3f} apart up to {1e3 * found.lags[-1]:.0f} ms"
    return [noise, shape, Verdict(channel, "autocorrelation", apart <= limit, text)]


def _noise_agreement(found: RestComparison) -> tuple[bool, str]:
    """Return whether the Allan deviations agree at 4 of 5 averaging times, and a statement with the ranges."""
    off = np.abs(found.twin_allan / _positive(found.log_allan) - 1)
    # at 99.7 %, because some thirty averaging times of three axes are compared at once
    low = found.log_allan * (found.log_low / _positive(found.log_allan)) ** _WIDER
    high = found.log_allan * (found.log_high / _positive(found.log_allan)) ** _WIDER
    uncertain = (found.twin_allan >= low) & (found.twin_allan <= high)
    near = ((off <= TOLERANCE) | uncertain).all(axis=1)
    edges = np.flatnonzero(np.diff(np.r_[False, near, False].astype(int)))
    ranges = [(found.tau[a], found.tau[b - 1]) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    ranges = sorted(sorted(ranges, key=lambda span: span[0] / span[1])[:3])
    listed = " and ".join(f"from {start:.2g} to {stop:.2g} s" for start, stop in ranges) or "nowhere"
    text = f"the twin's noise is within {100 * TOLERANCE:.0f} % of the log's, or within its uncertainty, {listed}"
    if not near.all():
        beyond = np.where(uncertain, 0.0, off)
        row, axis = np.unravel_index(int(beyond.argmax()), beyond.shape)
        text += f"; at worst {100 * beyond[row, axis]:.0f} % off (axis {axis}, {found.tau[row]:.2g} s)"
    return float(near.mean()) >= 0.8, text


def compare_motion(
    time: np.ndarray,
    log: np.ndarray,
    twin: np.ndarray,
    ideal: np.ndarray,
    error: float,
    truth: np.ndarray | None = None,
) -> MotionComparison:
    """Return the comparison in motion; see :class:`MotionComparison`.

    ``truth`` is the twin without noise, (n, k). The lag follows from its slope, which noise would make too steep.
    """
    rate = 1 / float(np.median(np.diff(time)))
    slope = np.gradient(twin if truth is None else truth, 1 / rate, axis=0)
    gap = log - twin
    gap = gap - gap.mean(axis=0)
    energy = float(np.sum(slope**2))
    lag = -float(np.sum(gap * slope)) / energy if energy > 0 else 0.0
    blocks = np.array_split(np.sum((gap + lag * slope) * slope, axis=1), max(2, len(time) // max(1, int(rate))))
    lag_std = float(np.sqrt(np.sum([block.sum() ** 2 for block in blocks]))) / energy if energy > 0 else np.inf
    frequency, log_density = _density([log], rate)
    return MotionComparison(
        time,
        log,
        twin,
        ideal,
        error,
        lag,
        lag_std,
        frequency,
        log_density,
        _density([twin], rate)[1],
        _density([log - twin], rate)[1],
    )


def motion_verdicts(channel: str, unit: str, found: MotionComparison) -> list[Verdict]:
    """Return whether the twin predicts the readings, and at the right time."""
    after, before = _rms(found.log - found.twin), _rms(found.log - found.ideal)
    size = _rms(found.log - found.log.mean(axis=0))
    text = f"residual {after:.3g} {unit} RMS of a signal of {size:.3g}; an ideal sensor without latency: {before:.3g}; "
    text += f"error of the reference: {found.error:.2g}"
    good = after <= max(2 * found.error, 0.05 * size)
    holds = abs(found.lag) <= max(MAX_LAG, 2 * found.lag_std)
    lag = f"the log is {abs(1e3 * found.lag):.2f} ms {'behind' if found.lag > 0 else 'ahead of'} the twin"
    lag += f" (±{1.96e3 * found.lag_std:.2f} ms)"
    return [Verdict(channel, "prediction", good, text), Verdict(channel, "lag", holds, lag)]


def _segments(parts: list[np.ndarray]) -> list[slice]:
    ends = np.cumsum([len(part) for part in parts])
    return [slice(int(end) - len(part), int(end)) for end, part in zip(ends, parts, strict=True)]


def _density(parts: list[np.ndarray], rate: float, length: int = 2048) -> tuple[np.ndarray, np.ndarray]:
    """Return frequencies and the amplitude spectral density of several parts, by Welch's method."""
    length = min(length, max(len(part) for part in parts))
    long = [part for part in parts if len(part) >= length]
    found = [welch(part, rate, nperseg=length, axis=0) for part in long]
    weights = np.array([len(part) for part in long], float)
    return found[0][0], np.sqrt(
        sum(w * density for w, (_, density) in zip(weights, found, strict=True)) / weights.sum()
    )


def _correlation(parts: list[np.ndarray]) -> np.ndarray:
    """Return the autocorrelation at lags of 1 to 40 samples, (40, k), of all parts together."""
    total, power = np.zeros((_LAGS, parts[0].shape[1])), np.zeros(parts[0].shape[1])
    for part in parts:
        centred = part - part.mean(axis=0)
        power += np.mean(centred**2, axis=0) * len(part)
        for lag in range(1, min(_LAGS, len(part) - 1) + 1):
            total[lag - 1] += np.mean(centred[lag:] * centred[:-lag], axis=0) * len(part)
    return total / _positive(power)


def _distance(found: RestComparison) -> float:
    """Return the largest distance of the two distribution functions (Kolmogorov-Smirnov) of any axis.

    Readings are spread evenly over their steps: the position of the mean within a step is that of the bias, which is
    removed here.
    """
    rng = np.random.default_rng(0)
    worst = 0.0
    for axis, step in enumerate(found.step):
        a, b = (
            np.sort(values[:, axis] + step * rng.uniform(-0.5, 0.5, len(values)))
            for values in (found.log_values, found.twin_values)
        )
        both = np.concatenate([a, b])
        gap = np.searchsorted(a, both, side="right") / len(a) - np.searchsorted(b, both, side="right") / len(b)
        worst = max(worst, float(np.abs(gap).max()))
    return worst


def _positive(values: np.ndarray) -> np.ndarray:
    return np.maximum(values, 1e-300)


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _list(values: np.ndarray, form: str) -> str:
    return ", ".join(f"{value:{form}}" for value in values)
