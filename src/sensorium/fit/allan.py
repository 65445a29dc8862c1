"""Overlapping Allan deviation with confidence intervals.

The Allan deviation of readings at the averaging time τ is the standard deviation of the difference of neighbouring
means over τ, over √2. Formulas and degrees of freedom are those of NIST Special Publication 1065 (W. J. Riley, 2008),
section 5: readings are "frequency data" there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from sensorium._arguments import checked, checked_numbers
from sensorium.errors import OptionError
from sensorium.options import checked_integer


@dataclass(frozen=True)
class AllanDeviation:
    """Allan deviation of one or several axes.

    Attributes:
        tau: averaging times, (n,) s.
        deviation: (n, axes), in the unit of the readings.
        low: lower bound at 95 %, (n, axes).
        high: upper bound at 95 %, (n, axes).
    """

    tau: np.ndarray
    deviation: np.ndarray
    low: np.ndarray
    high: np.ndarray


_MAX_POINTS = 100_000
"""Largest number of averaging times."""


@checked
def allan_deviation(
    values: np.ndarray, rate: float, segments: Sequence[slice] | None = None, points: int = 40
) -> AllanDeviation:
    """Return the overlapping Allan deviation of readings at a constant rate.

    Differences never span two segments, so several rest periods of one log can be used together.

    Args:
        values: readings, (samples,) or (samples, axes).
        rate: samples per second, Hz.
        segments: parts of the log to use. Default: all of it.
        points: number of averaging times, spaced logarithmically up to a third of the longest segment.

    Raises:
        OptionError: no segment has three samples.

    Example:
        >>> curve = sn.fit.allan_deviation(log["gyro"], rate=200.0)
        >>> plt.loglog(curve.tau, curve.deviation)
    """
    array, points = checked_numbers("values", values), checked_integer("points", points, 1, _MAX_POINTS)
    if array.ndim not in (1, 2):
        raise OptionError(f"allan_deviation: values must be (samples,) or (samples, axes), got shape {array.shape}")
    segments = [slice(None)] if segments is None else segments
    if any(not isinstance(one, slice) for one in segments):
        raise OptionError(f"allan_deviation: segments must be slices, got {segments!r:.80}")
    array = array[:, None] if array.ndim == 1 else array
    parts = [array[one] for one in segments]
    longest = max((len(part) for part in parts), default=0)
    if longest < 3:
        raise OptionError(f"allan_deviation needs at least 3 samples in one segment, got {longest}")
    factors = np.unique(np.geomspace(1, max(longest // 3, 1), points).round().astype(int))
    deviation, freedom = [], []
    for factor in factors:
        total, count, dof = np.zeros(array.shape[1]), 0, 0.0
        for part in parts:
            square, number = _squares(part, int(factor))
            total, count = total + square, count + number
            if number:
                dof += _degrees_of_freedom(len(part), int(factor))
        deviation.append(np.sqrt(total / (2 * count)))
        freedom.append(max(dof, 1.0))
    curve, dof_of = np.array(deviation), np.array(freedom)[:, None]
    low = curve * np.sqrt(dof_of / stats.chi2.ppf(0.975, dof_of))
    high = curve * np.sqrt(dof_of / stats.chi2.ppf(0.025, dof_of))
    return AllanDeviation(factors / rate, curve, low, high)


def _squares(part: np.ndarray, factor: int) -> tuple[np.ndarray, int]:
    """Return the sum of squared differences of neighbouring means over ``factor`` samples, and their number."""
    total = np.concatenate([np.zeros((1, part.shape[1])), np.cumsum(part - part.mean(axis=0), axis=0)])
    difference = (total[2 * factor :] - 2 * total[factor:-factor] + total[: -2 * factor]) / factor
    return (difference**2).sum(axis=0), max(len(difference), 0)


def _degrees_of_freedom(samples: int, factor: int) -> float:
    """Return the equivalent degrees of freedom for white noise of the readings (white FM, SP 1065 table 5)."""
    n, m = samples + 1, factor  # n counts phase data
    return (3 * (n - 1) / (2 * m) - 2 * (n - 2) / n) * 4 * m**2 / (4 * m**2 + 5)
