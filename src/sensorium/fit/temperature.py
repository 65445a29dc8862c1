"""Temperature drift: the slope of the readings at rest over the temperature that the log holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from sensorium.fit.estimate import Estimate, Z
from sensorium.pipeline.formula import TEMPERATURE

_BLOCKS = 60
_MIN_SPREAD = 0.5
"""Smallest standard deviation of the temperature that shows a drift, °C."""


def temperature_drift(
    name: str, parts: Sequence[np.ndarray], temperatures: Sequence[np.ndarray], unit: str
) -> Estimate:
    """Return the change of the readings at rest per °C, by least squares over blocks of the rest periods.

    Args:
        name: name of the estimate.
        parts: readings of the rest periods, each (samples, axes).
        temperatures: temperatures of the sensor in the same periods, each (samples,) °C.
        unit: unit of the readings.
    """
    axes = parts[0].shape[1] if parts else 3
    heat = np.concatenate(list(temperatures)) if temperatures else np.zeros(0)
    if len(heat) < _BLOCKS or not np.isfinite(heat).all() or heat.std() < _MIN_SPREAD:
        reason = f"the temperature changes by less than {_MIN_SPREAD:g} °C at rest; record the sensor while it warms up"
        return Estimate.missing(name, f"{unit}/°C", reason, (axes,))
    pieces = [np.array_split(one, _BLOCKS) for one in (np.concatenate(list(parts)), heat)]
    level, mean = (np.array([block.mean(axis=0) for block in one]) for one in pieces)
    away = mean - mean.mean()
    slope = away @ level / (away @ away)
    rest = level - level.mean(axis=0) - np.outer(away, slope)
    # residuals of neighbouring blocks are correlated by drift (Newey-West with 4 lags)
    score = rest * away[:, None]
    power = (score**2).sum(axis=0)
    for lag in range(1, 5):
        power = power + 2 * (1 - lag / 5) * (score[lag:] * score[:-lag]).sum(axis=0)
    error = np.sqrt(np.maximum(power, (score**2).sum(axis=0))) / (away @ away)
    factor = stats.t.ppf(0.975, _BLOCKS // 3) / Z
    return Estimate.normal(name, slope, factor * error, f"{unit}/°C", f"offset is that at {TEMPERATURE:g} °C")
