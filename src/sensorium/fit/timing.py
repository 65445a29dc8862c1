"""Sample rate, irregular time stamps and lost samples, from the time stamps and from repeated readings."""

from __future__ import annotations

import numpy as np
from scipy import optimize, stats

from sensorium.fit.estimate import Estimate

_REGULAR = 1e-4
"""Irregularity of time stamps that counts as rounding, in sample intervals."""

_UNORDERED = 0.01
"""Share of time stamps before the previous one above which rows are out of order, not a clock that jumps."""


def timing(time: np.ndarray) -> list[Estimate]:
    """Return estimates of ``rate``, ``jitter``, ``stamp_jitter`` and ``lost_stamps`` from time stamps.

    Stamps are numbered by whole sample intervals, so gaps count as lost samples. The rate is the slope of the stamps
    over these numbers, and the irregularity is what remains.

    Args:
        time: time stamps, (samples,) s. A clock that jumps back is continued.
    """
    time = np.asarray(time, float)
    if len(time) < 3:
        reason = "fewer than 3 samples; record a longer log"
        return [Estimate.missing(name, unit, reason) for name, unit in (("rate", "Hz"), ("jitter", "s"))]
    steps = np.diff(time)
    back = steps < 0
    if back.mean() > _UNORDERED:
        reason = "the rows are not in the order of their time stamps; sort them"
        return [Estimate.missing(name, unit, reason) for name, unit in (("rate", "Hz"), ("jitter", "s"))]
    if back.any():  # a jump of the clock says nothing about the samples
        time = np.r_[0.0, np.cumsum(np.where(back, np.median(steps), steps))]
    number = sample_numbers(time)
    centred = number - number.mean()
    interval = float(centred @ (time - time.mean()) / (centred @ centred))
    rest = (time - time.mean()) - interval * centred
    std = float(np.sqrt((rest @ rest) / max(len(rest) - 2, 1)))
    error = std / float(np.sqrt(centred @ centred))
    resolved = float(np.spacing(np.abs(time).max())) / float(np.ptp(number))
    rate = Estimate.normal("rate", 1 / interval, (error + resolved) / interval**2, "Hz")
    return [rate, *_jitter(centred, rest, std, interval), _lost(number, len(time))]


def sample_numbers(time: np.ndarray) -> np.ndarray:
    """Return the number of the sample interval of every time stamp: 0, 1, 2, ... with gaps where samples are lost."""
    steps = np.diff(time)
    interval = np.median(steps)
    for _ in range(3):  # the median of jittered steps is not yet their mean
        counts = np.maximum(np.rint(steps / interval), 0)
        near = counts >= 1
        interval = steps[near].sum() / max(counts[near].sum(), 1)
    number = np.rint((time - time[0]) / interval)
    # a rounding error of the interval adds up over a long log: follow it by differences where it matters
    drifted = np.abs((time - time[0]) / interval - number).max() > 0.45
    counted = np.concatenate([[0.0], np.cumsum(np.maximum(np.rint(steps / interval), 0))])
    return counted if drifted else number


def _jitter(number: np.ndarray, rest: np.ndarray, std: float, interval: float) -> list[Estimate]:
    """Return the irregularity of the stamps, and the width of a uniform latency that gives it."""
    count = len(rest)
    if std < _REGULAR * interval:
        reason = "the time stamps are regular: the log holds capture times, or stamps made afterwards"
        bound = np.sqrt(12) * max(std, np.finfo(float).tiny)
        return [Estimate.at_most("jitter", bound, "s", reason)]
    kurtosis = float(stats.kurtosis(rest, fisher=False))
    relative = np.sqrt(max(kurtosis - 1, 0.05) / (4 * count))
    spread = Estimate.positive("stamp_jitter", std, relative, "s")
    reason = "uniform latency that gives the irregularity of the stamps, if they are arrival times"
    if abs(kurtosis - 1.8) < 5 * np.sqrt(24 / count) + 0.1:  # uniform: the range says more than the variance
        slope = 6 * std / float(np.sqrt(number @ number))
        found = optimize.minimize_scalar(
            lambda x: np.ptp(rest - x * number),
            bounds=(-slope, slope),
            method="bounded",
            options={"xatol": 1e-6 * slope},
        )
        width = float(found.fun)
        # the stamps at the edges of the band, two on one side and one on the other, leave a Gamma(3) gap to its width
        low, middle, high = (width * (1 + stats.gamma.ppf(one, 3) / count) for one in (0.025, 0.5, 0.975))
        return [Estimate("jitter", middle, (low, high), "s", True, reason), spread]
    return [Estimate.positive("jitter", np.sqrt(12) * std, relative, "s", reason), spread]


def _lost(number: np.ndarray, count: int) -> Estimate:
    """Return the share of samples that have no stamp."""
    expected = int(number[-1]) + 1
    return probability("lost_stamps", max(expected - count, 0), expected)


def probability(name: str, count: int, total: int, reason: str = "") -> Estimate:
    """Return a probability from a count, with the exact (Clopper-Pearson) interval."""
    low = float(stats.beta.ppf(0.025, count, total - count + 1)) if count else 0.0
    high = float(stats.beta.ppf(0.975, count + 1, total - count)) if count < total else 1.0
    return Estimate(name, count / max(total, 1), (low, high), "", True, reason)


def dropout(name: str, values: np.ndarray, chance: float = 0.0) -> Estimate:
    """Return the probability that a sample is lost and the one before it is held: all axes repeat exactly.

    Args:
        name: name of the estimate.
        values: readings, (samples, axes).
        chance: probability that all axes repeat although a new sample was taken, because readings are quantised.
    """
    repeats = (np.diff(values, axis=0) == 0).all(axis=1)
    count, total = int(repeats.sum()), len(repeats)
    if chance > 0.2:
        reason = "readings repeat by themselves because of their step; record a log with motion"
        return Estimate.missing(name, "", reason)
    found = probability(name, count, total)
    if count > 30 and _is_periodic(repeats):
        fresh = 1 - count / total
        reason = f"readings repeat periodically, {fresh:.3g} of them are new: the sensor is slower than the log"
        return Estimate(name, 0.0, (0.0, 0.0), "", False, reason)
    share, low, high = ((float(one) - chance) / (1 - chance) for one in (found.value, *found.interval))
    if low <= 0 or count < 5:
        return Estimate.at_most(name, max(high, 0.0), "", "no repeated readings beyond chance")
    return Estimate(name, max(share, 0.0), (max(low, 0.0), max(high, 0.0)), "")


def _is_periodic(repeats: np.ndarray) -> bool:
    """Return whether repeats come more regularly than by chance."""
    gaps = np.diff(np.flatnonzero(repeats))
    share = repeats.mean()
    expected = np.sqrt(1 - share) / share  # geometric distribution
    return bool(gaps.std() < 0.6 * expected)


def chance_of_repeat(values: np.ndarray, parts: list[np.ndarray]) -> float:
    """Return the probability that all axes repeat by chance: that two readings a few samples apart agree on each axis.

    Args:
        values: readings, (samples, axes).
        parts: readings at rest, each (samples, axes); without any, the whole log is used.
    """
    used = [part for part in parts or [values] if len(part) > 20]
    agree = [float(np.prod((part[7:] == part[:-7]).mean(axis=0))) * len(part) for part in used]
    return sum(agree) / max(sum(len(part) for part in used), 1)
