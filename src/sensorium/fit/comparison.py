"""Comparison of the readings of a log with those of its twin, at rest and in motion: curves and verdicts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import welch

from sensorium.fit.allan import allan_deviation
from sensorium.fit.field_names import axis_name

TOLERANCE = 0.1
"""Relative difference of noise that counts as equal."""
MAX_LAG = 5e-4
"""Difference in time that counts as equal, s."""
_WIDER = 1.51
"""Width of an interval of 99.7 %, relative to one of 95 %."""
_TINY = 1e-12
"""Noise that counts as none."""
_SQRT2 = float(np.sqrt(2))
_LAGS = 40
"""Number of lags of autocorrelations, samples."""


@dataclass(frozen=True)
class Verdict:
    """Whether a twin has a property of its log."""

    channel: str
    """Channel of the sensor: "gyro"; "sensor" for the sensor as a whole."""
    subject: str
    """Property: "noise", "distribution", "autocorrelation", "level", "prediction", "lag", "rate", "jitter",
    "drop-outs"."""
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
    spread_scatter: float = 0.0
    """Largest relative difference between the standard deviation of one run of the twin and of all its runs."""
    distance_scatter: float = 0.0
    """Largest distance between the distribution functions of one run of the twin and of all its runs."""
    correlation_scatter: float = 0.0
    """Largest difference between the autocorrelations of one run of the twin and of all its runs."""
    what: str = "at rest"
    """What was compared, for titles: readings "at rest", or "minus the reference"."""


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
    """RMS of the reference's own error; for an exact reference, of the noise of the sensor."""
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
    error_of: str = "error of the reference"
    """What ``error`` is."""


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
    centred = [part - part.mean(axis=0) for part in twin_parts]
    pooled, twin_correlation = np.concatenate(centred), _correlation(twin_parts)
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
        pooled,
        np.arange(1, _LAGS + 1) / rate,
        _correlation(log_parts),
        twin_correlation,
        step,
        max(float(np.abs(_ratio(one.std(axis=0), pooled.std(axis=0)) - 1).max()) for one in centred),
        max(_distance(one, pooled, step) for one in centred),
        max(float(np.abs(_correlation([one]) - twin_correlation).max()) for one in twin_parts),
    )


def rest_verdicts(channel: str, found: RestComparison) -> list[Verdict]:
    """Return whether noise, distribution and autocorrelation of log and twin agree.

    Drift makes runs differ. A difference of the size of that between a run of the twin and all its runs counts as none,
    times √2 because the twin was fitted to one run, too.
    """
    noise = Verdict(channel, "noise", *_noise_agreement(channel, found))
    spread = _ratio(found.twin_values.std(axis=0), found.log_values.std(axis=0))
    distance = _distance(found.log_values, found.twin_values, found.step)
    text = f"standard deviations {_list(100 * (spread - 1), '+.1f')} % off, distributions at most {distance:.3f} apart"
    same = bool((np.abs(spread - 1) <= max(TOLERANCE, _SQRT2 * found.spread_scatter)).all())
    same = same and distance <= max(0.05, _SQRT2 * found.distance_scatter)
    if max(found.spread_scatter / TOLERANCE, found.distance_scatter / 0.05) > 1:
        text += f"; runs of the twin differ by {100 * found.spread_scatter:.0f} % and {found.distance_scatter:.3f}"
    shape = Verdict(channel, "distribution", same, text)
    apart = float(np.abs(found.log_correlation - found.twin_correlation).max())
    limit = max(0.1 + 3 / np.sqrt(len(found.log_values)), _SQRT2 * found.correlation_scatter)
    text = f"autocorrelations at most {apart:.3f} apart up to {_time(found.lags[-1])}"
    if found.correlation_scatter > 0.1:
        text += f"; runs of the twin differ by {found.correlation_scatter:.3f}"
    return [noise, shape, Verdict(channel, "autocorrelation", apart <= limit, text)]


def _noise_agreement(channel: str, found: RestComparison) -> tuple[bool, str]:
    """Return whether the Allan deviations agree at 4 of 5 averaging times, and a statement with the ranges."""
    off = np.abs(_ratio(found.twin_allan, found.log_allan) - 1)
    # at 99.7 %, because some thirty averaging times of three axes are compared at once
    low = found.log_allan * (found.log_low / _positive(found.log_allan)) ** _WIDER
    high = found.log_allan * (found.log_high / _positive(found.log_allan)) ** _WIDER
    uncertain = (found.twin_allan >= low) & (found.twin_allan <= high)
    near = ((off <= TOLERANCE) | uncertain).all(axis=1)
    edges = np.flatnonzero(np.diff(np.r_[False, near, False].astype(int)))
    ranges = [(found.tau[a], found.tau[b - 1]) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    ranges = sorted(sorted(ranges, key=lambda span: span[0] / span[1])[:3])
    ranges = [span for span in ranges if span[1] > span[0]] or ranges[:1]
    listed = " and ".join(f"from {start:.2g} to {stop:.2g} s" for start, stop in ranges) or "nowhere"
    text = f"the twin's noise is within {100 * TOLERANCE:.0f} % of the log's, or within its uncertainty, {listed}"
    if not near.all():
        beyond = np.where(uncertain, 0.0, off)
        row, axis = np.unravel_index(int(beyond.argmax()), beyond.shape)
        which = f"axis {axis_name(channel, int(axis), off.shape[1])}, " if off.shape[1] > 1 else ""
        text += f"; at worst {100 * beyond[row, axis]:.0f} % off ({which}{found.tau[row]:.2g} s)"
    return float(near.mean()) >= 0.8, text


def compare_motion(
    time: np.ndarray,
    log: np.ndarray,
    twin: np.ndarray,
    ideal: np.ndarray,
    error: float,
    truth: np.ndarray | None = None,
    error_of: str = "error of the reference",
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
        error_of,
    )


def motion_verdicts(channel: str, unit: str, found: MotionComparison) -> list[Verdict]:
    """Return whether the twin predicts the readings, and at the right time, if the motion shows that."""
    after, before = _rms(found.log - found.twin), _rms(found.log - found.ideal)
    size = _rms(found.log - found.log.mean(axis=0))
    text = f"residual {after:.3g} {unit} RMS of a signal of {size:.3g}; an ideal sensor without latency: {before:.3g}; "
    text += f"{found.error_of}: {found.error:.2g}"
    good = after <= max(2 * found.error, 0.05 * size)
    verdicts = [Verdict(channel, "prediction", good, text.replace("  ", " "))]
    if found.lag_std < 2 * float(np.median(np.diff(found.time))):
        holds = abs(found.lag) <= max(MAX_LAG, 3 * found.lag_std)
        lag = f"the log is {abs(1e3 * found.lag):.2f} ms {'behind' if found.lag > 0 else 'ahead of'} the twin"
        verdicts.append(Verdict(channel, "lag", holds, f"{lag} (±{1.96e3 * found.lag_std:.2f} ms)"))
    return verdicts


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


def _distance(one: np.ndarray, other: np.ndarray, steps: np.ndarray) -> float:
    """Return the largest distance of two distribution functions (Kolmogorov-Smirnov) of any axis.

    Readings are spread evenly over their steps: the position of the mean within a step is that of the bias, which is
    removed here.
    """
    rng = np.random.default_rng(0)
    worst = 0.0
    for axis, step in enumerate(steps):
        a, b = (np.sort(values[:, axis] + step * rng.uniform(-0.5, 0.5, len(values))) for values in (one, other))
        both = np.concatenate([a, b])
        gap = np.searchsorted(a, both, side="right") / len(a) - np.searchsorted(b, both, side="right") / len(b)
        worst = max(worst, float(np.abs(gap).max()))
    return worst


def _positive(values: np.ndarray) -> np.ndarray:
    return np.maximum(values, 1e-300)


def _ratio(twin: np.ndarray, log: np.ndarray) -> np.ndarray:
    """Return twin / log; 1 where neither has noise, and infinite where only the twin has."""
    safe = np.where(log > _TINY, log, 1.0)
    return np.where(log > _TINY, twin / safe, np.where(twin > _TINY, np.inf, 1.0))


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _time(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds >= 1 else f"{1e3 * seconds:.0f} ms"


def _list(values: np.ndarray, form: str) -> str:
    if len(values) > 6:
        return f"{values.min():{form}} to {values.max():{form}}"
    return ", ".join(f"{value:{form}}" for value in values)
