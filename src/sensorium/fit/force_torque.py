"""Fit of a force/torque sensor: noise and drift at rest, scale and bias against known loads."""

from __future__ import annotations

from typing import Unpack

from sensorium.errors import OptionError
from sensorium.fit.channel import ChannelFit
from sensorium.fit.estimate import Twin
from sensorium.fit.logs import LogSource, as_log
from sensorium.fit.reading import LogReading
from sensorium.fit.response import known_signal

_UNITS = {"force": "N", "torque": "N·m"}


def force_torque(
    log: LogSource,
    reference: LogSource | None = None,
    *,
    smooth: bool = False,
    max_lag: float = 0.5,
    **reading: Unpack[LogReading],
) -> Twin:
    """Fit a force/torque sensor to a log.

    Args:
        log: arrays (``time``, ``force``, ``torque``) or a file; one of the channels is enough.
        reference: known loads in the sensor's frame, with the same names.
        smooth: whether the reference is noisy, so that it passes a smoothing spline.
        max_lag: largest latency that is searched for, s.
        **reading: ``fields``, ``units``, ``rate`` and ``group`` of :func:`as_log`.

    Raises:
        OptionError: the log has neither forces nor torques, or the reference does not fit it.

    Example:
        >>> twin = sn.fit.force_torque({"time": time, "force": force, "torque": torque})
        >>> scene.add_sensor(twin.options(link="hand"))
    """
    source = as_log(log, **reading)
    names = [name for name in _UNITS if name in source.channels]
    if not names:
        source.need("force")
    for name in names:
        columns = source.channels[name].shape[1]
        if columns != 3:
            raise OptionError(f"{source.source}: {name} must have 3 columns (x, y, z), got {columns}")
    other = None if reference is None else as_log(reference)
    if other is not None and not set(names) & other.channels.keys():
        raise OptionError(f"reference: it has none of {', '.join(names)}; it has {', '.join(other.channels)}")
    fit = ChannelFit(source, max_lag)
    for name in names:
        known = None
        if other is not None and name in other.channels:
            loads = {"time": other.time, name: other.channels[name]}
            known = known_signal(loads, source, name, source.channels[name].shape[1], smooth)
        fit.fit(name, f"{name}.", _UNITS[name], known, "diagonal")
    fit.sensor_delay([f"{name}." for name in names])
    return fit.twin("force_torque", other, smooth=smooth, max_lag=max_lag)
