"""Variances of readings, as messages state them, from the imperfections of a sensor."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sensorium.ros.topics import RosSensor


def variance(sensor: RosSensor, channel: str, n: int) -> np.ndarray:
    """Return the variance of the error of a sample, per axis, (n,): all zero for a perfect sensor.

    It is that of noise, turn-on bias, drift and rounding, as the options set them. Constant errors (bias, scale) are
    calibrated in practice and not counted, and the random walk grows without bound.

    Args:
        sensor: the sensor.
        channel: name of the channel, "acc"; "" for the sensor's own imperfections.
        n: number of axes.
    """
    found = sensor._parameters.spreads()
    if channel not in found:
        return np.zeros(n)
    options = getattr(sensor.options, channel) if channel else sensor.options
    total = sum((_axes(each.numpy(force=True), n) ** 2 for each in found[channel]), np.zeros(n))
    return total + _axes(options.bias_spread, n) ** 2 + _axes(options.resolution, n) ** 2 / 12


def _axes(value: ArrayLike, n: int) -> np.ndarray:
    """Return one value per axis, float64."""
    return np.broadcast_to(np.asarray(value, np.float64), (n,))
