"""Fit of a satellite receiver: white and correlated errors of its position, noise of its velocity, lost fixes."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

import numpy as np
from scipy import stats

from sensorium.errors import OptionError
from sensorium.fit.channel import ChannelFit
from sensorium.fit.estimate import Estimate, Twin
from sensorium.fit.logs import LogSource, SensorLog, as_log
from sensorium.fit.reading import LogReading
from sensorium.fit.response import KnownSignal, known_signal
from sensorium.sensors.robot.wgs84 import ECCENTRICITY_2, SEMI_MAJOR

_GEODETIC = ("latitude", "longitude", "altitude")


def gps(
    log: LogSource,
    reference: object = None,
    *,
    origin: tuple[float, float, float] | None = None,
    smooth: bool = False,
    max_lag: float = 2.0,
    **reading: Unpack[LogReading],
) -> Twin:
    """Fit a satellite receiver to a log.

    The position error is white noise (``noise_density``) plus a correlated error (``horizontal_error``,
    ``vertical_error``, ``error_time_constant``). Without a reference, the receiver must stand still in the whole log.

    Args:
        log: arrays (``time``; ``latitude``, ``longitude`` in degrees and ``altitude`` in m, or ``pos`` as east, north,
            up in m; ``vel`` in m/s; ``fix``, 0 without a fix) or a file.
        reference: true positions: one (east, north, up) or one per time stamp of the log, or a log with ``pos``.
        origin: latitude, longitude (degrees) and altitude (m) of the reference's origin. Default: the first fix.
        smooth: whether the reference is noisy, so that it passes a smoothing spline.
        max_lag: largest latency that is searched for, s.
        **reading: ``fields``, ``units``, ``rate`` and ``group`` of :func:`as_log`.

    Raises:
        OptionError: the log has no positions, or the reference does not fit it.

    Example:
        >>> twin = sn.fit.gps({"time": time, "latitude": lat, "longitude": lon, "altitude": height})
        >>> scene.add_sensor(twin.options(link="body"))
    """
    source = as_log(log, **reading)
    position = _position(source, origin)
    fixed = np.ones(len(source), bool)
    if "fix" in source.channels:
        fixed = source.channels["fix"][:, 0] > 0
    position = np.where(fixed[:, None], position, np.nan)
    if np.isfinite(position).all(axis=1).sum() < 4:
        raise OptionError(f"{source.source}: fewer than 4 samples have a fix; record with satellites in view")
    channels = {"pos": position} | {name: source.channels[name] for name in ("vel", "fix") if name in source.channels}
    local = replace(source, channels=channels)
    known: KnownSignal | None = None
    if reference is not None:
        known = known_signal(reference, local, "pos", 3, smooth)
    still = known_signal(np.nanmean(position, axis=0), local, "pos", 3, False)
    fit = ChannelFit(local, max_lag)
    fit.fit("pos", "", "m", known or still, "diagonal", constant=known is None)
    if known is None:
        reason = "needs a reference; the mean position of a receiver at rest is not its true one"
        for name, unit in (("bias", "m"), ("scale_error", ""), ("delay", "s")):
            fit.add(Estimate.missing(name, unit, reason))
    else:
        fit.sensor_delay([""])
    _correlated(fit)
    _reception(fit, source.time, fixed)
    if "vel" in source.channels:
        fit.fit("vel", "vel.", "m/s", None, "diagonal", constant=known is None)
    return fit.twin("gps", reference, origin=origin, smooth=smooth, max_lag=max_lag)


def _position(log: SensorLog, origin: tuple[float, float, float] | None) -> np.ndarray:
    """Return east, north and up in m, (n, 3)."""
    if "pos" in log.channels:
        if log.channels["pos"].shape[1] != 3:
            raise OptionError(
                f"{log.source}: pos must have 3 columns (east, north, up), got {log.channels['pos'].shape[1]}"
            )
        return log.channels["pos"]
    missing = [name for name in _GEODETIC if name not in log.channels]
    if missing:
        raise OptionError(f"fit.gps: {log.source} has neither 'pos' nor {', '.join(missing)}")
    latitude, longitude, altitude = (log.channels[name][:, 0] for name in _GEODETIC)
    known = np.isfinite(latitude + longitude + altitude)
    first = int(known.argmax())  # 0 if there is none: all positions are NaN then
    start = origin or (float(latitude[first]), float(longitude[first]), float(altitude[first]))
    return local_position(latitude, longitude, altitude, start)


def local_position(
    latitude: np.ndarray, longitude: np.ndarray, altitude: np.ndarray, origin: tuple[float, float, float]
) -> np.ndarray:
    """Return geodetic positions in the frame (east, north, up) at an origin, (n, 3) m."""
    lat, lon = np.radians(origin[0]), np.radians(origin[1])
    east = [-np.sin(lon), np.cos(lon), 0.0]
    north = [-np.sin(lat) * np.cos(lon), -np.sin(lat) * np.sin(lon), np.cos(lat)]
    up = [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)]
    start = _cartesian(*(np.array([one]) for one in origin))
    return (_cartesian(latitude, longitude, altitude) - start) @ np.array([east, north, up]).T


def _cartesian(latitude: np.ndarray, longitude: np.ndarray, altitude: np.ndarray) -> np.ndarray:
    lat, lon = np.radians(latitude), np.radians(longitude)
    normal = SEMI_MAJOR / np.sqrt(1 - ECCENTRICITY_2 * np.sin(lat) ** 2)
    across = (normal + altitude) * np.cos(lat)
    along = (normal * (1 - ECCENTRICITY_2) + altitude) * np.sin(lat)
    return np.stack([across * np.cos(lon), across * np.sin(lon), along], axis=1)


def _correlated(fit: ChannelFit) -> None:
    """Add the correlated error under the names of the receiver's options."""
    size, time = fit.estimates.pop("drift"), fit.estimates.pop("drift_time")
    fit.estimates.pop("bias_instability")
    if not size.identifiable:
        reason = size.reason.replace("of rest", "of a fixed position")
        for name in ("horizontal_error", "vertical_error"):
            fit.add(Estimate.missing(name, "m", reason))
        fit.add(Estimate.missing("error_time_constant", "s", reason))
        return
    value, low, high = (np.asarray(one, float) for one in (size.value, *size.interval))
    flat = float(np.sqrt((value[0] ** 2 + value[1] ** 2) / 2))
    # two axes of one parameter, but with one time constant, whose error is a part of both
    spread = np.log(np.maximum(high[:2], 1e-12) / np.maximum(low[:2], 1e-12)).mean() / 2 / 1.15
    fit.add(Estimate("horizontal_error", flat, (flat * np.exp(-spread), flat * np.exp(spread)), "m"))
    fit.add(Estimate("vertical_error", float(value[2]), (float(low[2]), float(high[2])), "m"))
    fit.add(Estimate("error_time_constant", time.value, time.interval, "s"))


def _reception(fit: ChannelFit, time: np.ndarray, fixed: np.ndarray) -> None:
    """Add how often a fix is lost, and how long it takes to come back."""
    lost = np.flatnonzero(fixed[:-1] & ~fixed[1:])
    back = np.flatnonzero(~fixed[:-1] & fixed[1:])
    with_fix = float(np.diff(time)[fixed[:-1]].sum())
    count = len(lost)
    if count == 0:
        bound = 3.0 / max(with_fix, 1e-9)
        fit.add(Estimate.at_most("loss_rate", bound, "1/s", "no fix was lost"))
        return
    low = float(stats.chi2.ppf(0.025, 2 * count)) / 2 / with_fix
    high = float(stats.chi2.ppf(0.975, 2 * count + 2)) / 2 / with_fix
    fit.add(Estimate("loss_rate", count / with_fix, (low, high), "1/s"))
    spans = [float(time[back[back > one][0] + 1] - time[one + 1]) for one in lost if (back > one).any()]
    if spans:
        middle, step = float(np.mean(spans)), float(np.median(np.diff(time)))
        error = max(float(np.std(spans)) / np.sqrt(len(spans)), step / np.sqrt(12))
        fit.add(Estimate.normal("reacquire_time", middle, error, "s"))
