"""ReadingStep of the readings, saturation and dead band, from the values that occur in a log."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

from sensorium.fit.estimate import Estimate

_ROUGH = 0.12
"""Largest rms distance of readings from a grid that counts as a grid, in steps; 0.29 is no grid at all."""
_QUANTILES = (0.3, 0.05, 0.01, 0.002)
"""Quantiles of the distances of neighbouring values that are tried as steps: the step is frequent, unless the readings
move fast."""
_FLOAT32 = 2.0**-22
"""Steps below this share of the largest reading are those of the number format of the log."""


class ReadingStep(NamedTuple):
    """ReadingStep of one axis."""

    size: float
    """0 without a grid."""
    error: float
    """Bound of the error of ``size``."""
    bound: float
    """Without a grid: the median distance of neighbouring values. A step cannot be larger."""


def step_of(values: np.ndarray) -> ReadingStep:
    """Return the step of the grid that the readings of one axis lie on.

    Readings may be multiples of the step with rounding errors, and the grid may have an offset: both occur after a
    change of units. The search starts with the distances of neighbouring values and fits the grid to a range that
    doubles until it holds all readings.

    Args:
        values: readings of one axis, (samples,).
    """
    finite = np.asarray(values, float)
    finite = finite[np.isfinite(finite)]
    if len(finite) < 10 or np.ptp(finite) == 0:
        return ReadingStep(0.0, 0.0, np.inf)
    scale = np.abs(finite).max()
    levels = np.unique(finite)
    gaps = np.diff(levels)
    merged = levels[np.concatenate([[True], gaps > 1e-9 * scale])]
    gaps = np.diff(merged)
    if len(gaps) < 1:
        return ReadingStep(0.0, 0.0, np.inf)
    bound = float(np.median(gaps))
    for start in [*np.quantile(gaps, _QUANTILES), _period(finite)]:
        near = gaps[(gaps > 0.7 * start) & (gaps < 1.4 * start)]
        if start <= _FLOAT32 * scale:
            continue
        found = _refined(merged, float(near.mean()) if len(near) else float(start), float(np.median(finite)), bound)
        if found.size > 0:
            return found
    return ReadingStep(0.0, 0.0, bound)


def _period(values: np.ndarray) -> float:
    """Return the period of a histogram of the readings, for steps that are blurred by rounding; 0 if there is none."""
    low, high = np.quantile(values, [0.02, 0.98])
    inside = values[(values >= low) & (values <= high)]
    if high <= low or len(inside) < 50:
        return 0.0
    counts = np.histogram(inside, 2**18, (low, high))[0]
    size = np.abs(np.fft.rfft(counts)) / len(inside)
    # the spectrum of the distribution itself lies below a few cycles per range; harmonics lie above the period
    strong = np.flatnonzero(size[8:] > 0.6)
    return float((high - low) / (strong[0] + 8)) if len(strong) else 0.0


def _refined(levels: np.ndarray, start: float, centre: float, bound: float) -> ReadingStep:
    """Return the step by least squares, from few levels around the centre to all of them."""
    origin = levels[np.abs(levels - centre).argmin()]
    size, span, reach = start, 4.0, np.abs(levels - origin).max()
    while True:
        chosen = levels[np.abs(levels - origin) <= span * start] - origin
        count = np.rint(chosen / size)
        if np.ptp(count) > 0:
            deviation = count - count.mean()
            size = float((chosen * deviation).sum() / (deviation**2).sum())
        if span * start > reach:
            break
        span *= 1.6
    rest = chosen - size * count
    rest = rest - rest.mean()
    rms = float(np.sqrt((rest**2).mean()))
    if size <= 0 or rms > _ROUGH * size:
        return ReadingStep(0.0, 0.0, bound)
    reach = max(float(np.sqrt((deviation**2).sum())), 0.7)
    # numbers of a log have at least the error of float32
    error = (3 * rms + 2.0**-23 * float(np.abs(levels).max())) / reach + 1e-7 * size
    return ReadingStep(size, error, bound)


def resolution(name: str, values: np.ndarray, unit: str) -> Estimate:
    """Return the step of each axis, as the option ``resolution`` takes it.

    Args:
        name: name of the estimate.
        values: readings, (samples, axes).
        unit: unit of the readings.
    """
    found = [step_of(axis) for axis in values.T]
    if not all(one.size > 0 for one in found):
        bound = np.array([one.bound for one in found])
        if not np.isfinite(bound).all():
            return Estimate.missing(name, unit, "an axis has a single value; record a log that moves", bound.shape)
        reason = "the readings are not multiples of a step: it is below the resolution of the log's numbers"
        return Estimate.at_most(name, bound, unit, reason)
    size, error = np.array([one.size for one in found]), np.array([one.error for one in found])
    return Estimate(name, size, (size - error, size + error), unit)


def saturation(name: str, values: np.ndarray, unit: str) -> Estimate:
    """Return (min, max) of the readings where they are clipped; a side that is never reached is infinite.

    A side counts as reached if an axis stays at its extreme value for at least three samples in a row while the
    readings around it change.
    """
    low, high = _clipped(-values), _clipped(values)
    if low is None and high is None:
        largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
        reason = f"never reached: it is above {largest:.4g} {unit}; record faster motion"
        return Estimate.missing(name, unit, reason, (2,))
    value = np.array([-np.inf if low is None else -low, np.inf if high is None else high])
    reason = "" if low is not None and high is not None else "one side was never reached"
    error = np.where(np.isfinite(value), 2.0**-22 * np.abs(np.nan_to_num(value)), 0.0)  # of numbers in float32
    return Estimate(name, value, (value - error, value + error), unit, True, reason)


def _clipped(values: np.ndarray) -> float | None:
    """Return the upper limit at which readings stay, or None.

    At a limit the extreme value is far more frequent than the values just below it, and lasts.
    """
    limits = []
    for axis in values.T:
        axis = axis[np.isfinite(axis)]
        if len(axis) < 10 or np.ptp(axis) == 0:
            continue
        top = float(axis.max())
        at_top = axis >= top - 1e-9 * max(abs(top), 1e-12)
        below = np.unique(axis[axis >= top - 0.05 * np.ptp(axis)])[-6:-1]
        count = max((int((axis == one).sum()) for one in below), default=0)
        if at_top.sum() >= max(5, 4 * count) and _longest_run(at_top) >= 3:
            limits.append(top)
    return max(limits) if limits else None


def _longest_run(flags: np.ndarray) -> int:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(int), [0]])))
    return int((edges[1::2] - edges[::2]).max()) if len(edges) else 0


def deadband(name: str, values: np.ndarray, unit: str) -> Estimate:
    """Return the magnitude below which readings are exactly 0, per axis.

    It is identified if 0 is frequent and smaller readings than the smallest non-zero ones are missing, although the
    density of the readings just above would make them occur.
    """
    found = [_gap(axis) for axis in values.T]
    if any(one is None for one in found):
        reason = "no gap around 0 in the readings: there is none, or the readings stay away from 0"
        if bool(((values > 0).all(axis=0) | (values < 0).all(axis=0)).any()):
            return Estimate.missing(name, unit, reason, (len(found),))
        tiny = 1e-9 * np.abs(values[np.isfinite(values)]).max(initial=0.0)
        smallest = [np.min(np.abs(axis[np.abs(axis) > tiny]), initial=np.inf) for axis in values.T]
        if not np.isfinite(smallest).all():
            return Estimate.missing(name, unit, reason, (len(found),))
        return Estimate.at_most(name, np.array(smallest), unit, reason)
    gap = np.array([one[0] for one in found if one is not None])
    spacing = np.array([one[1] for one in found if one is not None])
    return Estimate(name, gap - spacing / 2, (gap - 3.7 * spacing, gap), unit)


def _gap(axis: np.ndarray) -> tuple[float, float] | None:
    """Return the smallest non-zero magnitude and the mean distance of magnitudes above it, or None without a gap."""
    axis = axis[np.isfinite(axis)]
    magnitude = np.sort(np.abs(axis[axis != 0]))
    if len(magnitude) < 30 or (axis == 0).mean() < 0.002:
        return None
    gap = float(magnitude[0])
    count = max(10, min(len(magnitude) // 10, 500))
    spacing = float(magnitude[count] - gap) / count
    levels = np.unique(magnitude[: 5 * count])
    step = float(np.median(np.diff(levels))) if len(levels) > 2 else gap
    # a grid alone leaves a gap of one step around 0; chance leaves one of a few mean distances
    if gap < 1.8 * step or spacing <= 0 or stats.poisson.sf(0, gap / spacing) < 1 - 1e-6:
        return None
    return gap, max(spacing, step)
