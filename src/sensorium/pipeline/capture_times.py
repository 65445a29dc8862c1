"""When the options of a sensor have it captured, and warnings of timing that has no or an unexpected effect."""

from __future__ import annotations

import math
import warnings
from numbers import Real

from sensorium.errors import OptionError
from sensorium.pipeline.formula import EPS
from sensorium.pipeline.protocols import GroupSensor
from sensorium.pipeline.timing import RATE_TOLERANCE

WHOLE_TOLERANCE = 1e-5
"""Relative difference of a sample interval from whole ticks that counts as rounding of the rate."""


def needs_substeps(sensor: GroupSensor, dt: float, substeps: int) -> bool:
    """Return whether a sensor is captured at substeps instead of steps.

    Args:
        sensor: the sensor.
        dt: seconds of one step.
        substeps: physics substeps in a step.

    Raises:
        OptionError: its rate is higher than that of the substeps.
    """
    options, cls = sensor.options, type(sensor)
    rate, name = options.rate, f"{cls.options_type.__name__}.rate"
    has_rings = cls.keeps_columns and cls.uses_ring_pipeline
    highest = (substeps if has_rings else 1) / dt
    if rate is not None and rate > highest * (1 + RATE_TOLERANCE):
        each = f"physics steps of {dt / substeps * 1e3:g} ms" if has_rings else f"steps of {dt * 1e3:g} ms"
        raise OptionError(
            f"{name}={rate:g} is too high for {each}: the highest possible rate is {highest:g} Hz. Lower the rate, or "
            + ("lower dt or raise substeps of the scene" if has_rings else "lower dt of the scene")
        )
    is_fast = rate is not None and rate * dt > 1 + RATE_TOLERANCE
    is_averaged = getattr(options, "window", "instant") == "mean"
    if substeps == 1 or not cls.keeps_columns:
        return False
    if is_averaged and not has_rings:
        raise OptionError(
            f'{cls.options_type.__name__}.window="mean" averages over physics substeps, for which a class needs rings '
            f'({cls.__name__}.uses_ring_pipeline is False); use window="instant", or a scene with substeps=1'
        )
    return is_fast or options.substeps or is_averaged


def warn_of_timing(sensor: GroupSensor, dt: float, substep: float) -> None:
    """Warn of jitter and interpolation that cannot change any reading, and of means over unequal windows.

    Args:
        sensor: the sensor.
        dt: seconds of one tick of the sensor.
        substep: seconds of one physics substep.
    """
    owner = f"{type(sensor).options_type.__name__}(uuid={sensor.uuid!r})"
    if sensor.options.interpolate and sensor.max_delay == 0:
        warnings.warn(f"{owner}.interpolate has no effect without a delay; omit it, or set delay", stacklevel=5)
    if message := _hidden_jitter(sensor, dt, substep):
        warnings.warn(f"{owner}.{message}", stacklevel=5)
    warn_of_windows(sensor, sensor.options.rate, dt)


def warn_of_windows(sensor: GroupSensor, rate: object, dt: float) -> None:
    """Warn of means over windows whose sum is not the integral of the signal.

    Args:
        sensor: the sensor.
        rate: its sample rate, Hz; only a number is checked.
        dt: seconds of one tick of the sensor.
    """
    is_averaged = getattr(sensor.options, "window", "instant") == "mean"
    if is_averaged and isinstance(rate, Real) and (message := _unequal_windows(float(rate), dt)):
        owner = f"{type(sensor).options_type.__name__}(uuid={sensor.uuid!r})"
        warnings.warn(f"{owner}.{message}", stacklevel=6)


def _hidden_jitter(sensor: GroupSensor, dt: float, substep: float) -> str | None:
    """Return why jitter cannot change any reading, and what to do; None if it can."""
    options, cls = sensor.options, type(sensor)
    if not options.jitter or options.interpolate or _is_resolved(sensor, dt):
        return None
    if options.rate is not None and not _has_whole_ticks(options.rate, dt):
        return None  # samples are captured at different times between ticks
    read = math.ceil((options.delay + options.jitter) / dt - EPS) * dt
    if not (cls.keeps_columns and cls.uses_ring_pipeline):
        advice = "Lower dt of the scene"
    elif substep < dt and _is_resolved(sensor, substep):
        advice = "Set substeps=True to capture at physics substeps"
    elif options.substeps:
        advice = "Raise substeps of the scene"
    else:
        advice = "Raise substeps of the scene and set substeps=True to capture at physics substeps"
    interval = dt if options.rate is None else max(dt, 1 / options.rate)
    taken = "taken and" if interval < 1.5 * dt else f"taken every {interval * 1e3:g} ms and"
    return (
        f"jitter={options.jitter:g} has no effect: samples are {taken} read every {dt * 1e3:g} ms, and with "
        f"delay={options.delay:g} every sample is first read when it is {read:g} s old. {advice}, or raise jitter"
    )


def _is_resolved(sensor: GroupSensor, dt: float) -> bool:
    """Return whether samples can be first read at different ages, with ticks of dt seconds."""
    shortest, longest = sensor.options.delay / dt, (sensor.options.delay + sensor.options.jitter) / dt
    return math.ceil(longest - EPS) - math.floor(shortest + EPS) > 1


def _has_whole_ticks(rate: float, dt: float) -> bool:
    """Return whether there is a whole number of ticks of dt seconds between samples."""
    ticks = 1 / (rate * dt)
    return abs(ticks - round(ticks)) <= WHOLE_TOLERANCE * ticks


def _unequal_windows(rate: float, dt: float) -> str | None:
    """Return why means over the windows at a rate do not add up to the integral; None if they do."""
    if _has_whole_ticks(rate, dt):
        return None
    ticks = 1 / (rate * dt)
    fewer, more = math.floor(ticks), math.ceil(ticks)
    return (
        f'window="mean" with rate={rate:g}: a window has {fewer} or {more} physics steps of {dt * 1e3:g} ms, but '
        f"samples are {1e3 / rate:g} ms apart, so the sum of samples / rate is not the integral of the signal. Use a "
        f"rate that divides {1 / dt:g} Hz, e.g. {1 / (more * dt):.6g} or {1 / (fewer * dt):.6g}"
    )
