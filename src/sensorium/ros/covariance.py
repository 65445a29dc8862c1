"""Variances of readings, as messages state them, from the imperfections of a sensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sensorium.pipeline.imperfections import Imperfections

if TYPE_CHECKING:
    from sensorium.sensors.base import Sensor


def variance(sensor: Sensor[Any], channel: str, n: int) -> np.ndarray:
    """Return the variance of the error of a sample, per axis, (n,): all zero for a perfect sensor.

    It is that of noise, turn-on bias, drift and rounding. Constant errors (bias, scale) are calibrated in practice and
    not counted, and the random walk grows without bound.

    Args:
        sensor: the sensor.
        channel: name of the channel, "acc"; "" for the sensor's own imperfections.
        n: number of axes.
    """
    options = getattr(sensor.options, channel) if channel else sensor.options
    if not isinstance(options, Imperfections) and not hasattr(options, "noise"):
        return np.zeros(n)
    group = sensor.group
    rate = sensor.options.rate or 1.0 / (group.dt * group.ticks_per_step)
    total = _axes(options.noise, n) ** 2
    if options.noise_density is not None:
        bandwidth = rate / 2 if options.bandwidth is None else min(rate / 2, 1.11 * options.bandwidth)
        total += _axes(options.noise_density, n) ** 2 * bandwidth
    total += _axes(options.bias_spread, n) ** 2 + _axes(options.drift, n) ** 2 + _axes(options.resolution, n) ** 2 / 12
    if options.bias_instability is not None:
        total += (_axes(options.bias_instability, n) / 0.664) ** 2
    return total


def _axes(value: ArrayLike, n: int) -> np.ndarray:
    """Return one value per axis, float64."""
    return np.broadcast_to(np.asarray(value, np.float64), (n,)).copy()
