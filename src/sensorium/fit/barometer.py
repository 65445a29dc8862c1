"""Fit of a barometer: noise and drift of the pressure, bias and latency against known heights or pressures."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from sensorium.errors import OptionError
from sensorium.fit.channel import ChannelFit
from sensorium.fit.estimate import Twin
from sensorium.fit.logs import LogSource, SensorLog, as_log
from sensorium.fit.reading import LogReading
from sensorium.fit.response import KnownSignal, known_signal
from sensorium.sensors.robot.atmosphere import (
    EARTH_RADIUS,
    EXPONENT,
    LAPSE_RATE,
    STANDARD_PRESSURE,
    STANDARD_TEMPERATURE,
)


def barometer(
    log: LogSource,
    reference: object = None,
    *,
    sea_level_pressure: float = STANDARD_PRESSURE,
    sea_level_temperature: float = STANDARD_TEMPERATURE,
    smooth: bool = False,
    max_lag: float = 2.0,
    **reading: Unpack[LogReading],
) -> Twin:
    """Fit a barometer to a log of pressures.

    Args:
        log: arrays (``time``, ``pressure``) or a file, Pa.
        reference: true pressures: an array at the time stamps of the log, one value, or a log with ``pressure``; or a
            log with ``altitude`` (m above sea level), which the standard atmosphere turns into pressures.
        sea_level_pressure: pressure at sea level during the log, Pa, for altitudes.
        sea_level_temperature: temperature at sea level, K, for altitudes.
        smooth: whether the reference is noisy, so that it passes a smoothing spline.
        max_lag: largest latency that is searched for, s.
        **reading: ``fields``, ``units``, ``rate`` and ``group`` of :func:`as_log`.

    Raises:
        OptionError: the log has no pressures, or the reference does not fit it.

    Example:
        >>> twin = sn.fit.barometer({"time": time, "pressure": pressure}, reference={"time": t, "altitude": height})
    """
    source = as_log(log, **reading)
    if source.need("pressure").shape[1] != 1:
        raise OptionError(f"fit.barometer: pressure must have one column, got {source.channels['pressure'].shape[1]}")
    known: KnownSignal | None = None
    if reference is not None:
        known = known_pressure(reference, source, smooth, sea_level_pressure, sea_level_temperature)
    fit = ChannelFit(source, max_lag)
    fit.fit("pressure", "", "Pa", known, "diagonal", constant=_is_constant(known, source.time))
    fit.sensor_delay([""])
    weather = {"sea_level_pressure": sea_level_pressure, "sea_level_temperature": sea_level_temperature}
    return fit.twin("barometer", reference, smooth=smooth, max_lag=max_lag, **weather)


def known_pressure(
    reference: object,
    log: SensorLog,
    smooth: bool,
    sea_level_pressure: float = STANDARD_PRESSURE,
    sea_level_temperature: float = STANDARD_TEMPERATURE,
) -> KnownSignal:
    """Return the true pressures of a log, from pressures or altitudes; see :func:`barometer`."""
    if not isinstance(reference, float | int | np.ndarray | list | tuple):
        other = as_log(reference)  # type: ignore[arg-type]
        if "pressure" not in other.channels and "altitude" in other.channels:
            pressure = pressure_at(other.channels["altitude"], sea_level_pressure, sea_level_temperature)
            reference = {"time": other.time, "pressure": pressure}
    return known_signal(reference, log, "pressure", 1, smooth)


def pressure_at(altitude: np.ndarray, pressure: float, temperature: float) -> np.ndarray:
    """Return the pressure of the standard atmosphere at heights above sea level, Pa.

    Args:
        altitude: m.
        pressure: at sea level, Pa.
        temperature: at sea level, K.
    """
    height = EARTH_RADIUS * altitude / (EARTH_RADIUS + altitude)
    return np.asarray(pressure * (1 - LAPSE_RATE * height / temperature) ** EXPONENT)


def _is_constant(known: KnownSignal | None, time: np.ndarray) -> bool:
    return known is not None and bool(np.ptp(known.expected(time)) == 0)
