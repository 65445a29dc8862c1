"""When the options of a sensor have it captured, and whether its delay and jitter can be seen."""

from __future__ import annotations

import math
import warnings

from sensorium.errors import OptionError
from sensorium.pipeline.formula import EPS
from sensorium.pipeline.protocols import GroupSensor
from sensorium.pipeline.timing import RATE_TOLERANCE


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
    highest = (substeps if cls.keeps_columns else 1) / dt
    if rate is not None and rate > highest * (1 + RATE_TOLERANCE):
        each = f"physics steps of {dt / substeps * 1e3:g} ms" if cls.keeps_columns else f"steps of {dt * 1e3:g} ms"
        raise OptionError(
            f"{name}={rate:g} is too high for {each}: the highest possible rate is {highest:g} Hz. Lower the rate, or "
            + ("lower dt or raise substeps of the scene" if cls.keeps_columns else "lower dt of the scene")
        )
    is_fast = rate is not None and rate * dt > 1 + RATE_TOLERANCE
    return cls.keeps_columns and substeps > 1 and (is_fast or options.substeps or getattr(options, "window", "instant") == "mean")


def warn_without_effect(sensor: GroupSensor, dt: float) -> None:
    """Warn of jitter and interpolation that cannot change any reading.

    Args:
        sensor: the sensor.
        dt: seconds of one tick.
    """
    options = sensor.options
    owner = f"{type(sensor).options_type.__name__}(uuid={sensor.uuid!r})"
    if options.interpolate and sensor.max_delay == 0:
        warnings.warn(f"{owner}.interpolate has no effect without a delay; omit it, or set delay", stacklevel=5)
    if not options.jitter or options.interpolate or options.rate is not None:
        return
    shortest, longest = options.delay / dt, (options.delay + options.jitter) / dt
    ages = math.ceil(longest - EPS) - math.floor(shortest + EPS)
    if ages <= 1:
        read = math.ceil(longest - EPS) * dt
        warnings.warn(
            f"{owner}.jitter={options.jitter:g} has no effect: samples are taken and read every {dt * 1e3:g} ms, and "
            f"with a latency from {options.delay:g} to {options.delay + options.jitter:g} s every sample is first read "
            f"when it is {read:g} s old. Set substeps=True to capture at physics substeps, or raise jitter",
            stacklevel=5,
        )
