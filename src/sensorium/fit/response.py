"""Readings of one channel against a reference of the same quantity: bandwidth, latency, scale and bias."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import interpolate, signal

from sensorium.errors import OptionError
from sensorium.fit.calibration import Calibration, Expectation, calibrate
from sensorium.fit.logs import SensorLog, as_log
from sensorium.fit.references import SignalReference

_IMPROVED = 0.03
"""Share of the residual's variance by which a low-pass filter must lower it to be looked for."""


@dataclass(frozen=True)
class KnownSignal:
    """Reference of one channel.

    Attributes:
        expected: times -> values, (n, axes); NaN outside of the reference.
        exact: whether it has no error of its own.
        cutoff: cut-off frequency of its smoothing, Hz; None for an exact one.
    """

    expected: Expectation
    exact: bool
    cutoff: float | None = None


@dataclass(frozen=True)
class Response:
    """Readings against a reference.

    Attributes:
        calibration: scale, bias and latency; None if readings and reference do not overlap.
        expected: the reference behind the low-pass filter.
        bandwidth: -3 dB frequency, Hz; NaN if the readings show no filter.
        log_std: standard error of its logarithm.
    """

    calibration: Calibration | None
    expected: Expectation
    bandwidth: float = np.nan
    log_std: float = np.nan


def known_signal(source: object, log: SensorLog, channel: str, axes: int, smooth: bool) -> KnownSignal:
    """Return the reference of a channel.

    Args:
        source: values at the time stamps of the log, (samples,) or (samples, axes); one value for the whole log; or a
            log with the channel, or with one channel.
        log: the log that is fitted.
        channel: name of the channel.
        axes: number of axes.
        smooth: whether the reference is noisy and passes a smoothing spline; otherwise it is exact.

    Raises:
        OptionError: the reference does not fit the log.
    """
    if isinstance(source, float | int | np.ndarray | list | tuple):
        values = np.asarray(source, float)
        if values.ndim == 0 or values.shape == (axes,) != (len(log),):
            values = np.broadcast_to(values, (len(log), axes))
        values = values.reshape(len(values), -1)
        time = log.time
        if len(values) != len(time):
            raise OptionError(f"reference: got {len(values)} rows for {len(time)} samples of the log; pass time stamps")
    else:
        other = as_log(source)  # type: ignore[arg-type]
        name = channel if channel in other.channels else next(iter(other.channels))
        time, values = other.time, other.channels[name]
    if values.shape[1] != axes:
        if values.shape[1] != 1:
            raise OptionError(f"reference: {channel} has {axes} axes, the reference has {values.shape[1]}")
        values = np.repeat(values, axes, axis=1)
    if smooth:
        spline = SignalReference(time, values)
        return KnownSignal(lambda t: spline(t).values, False, spline.spline.cutoff)
    good = np.isfinite(values).all(axis=1)
    if good.sum() < 4:
        raise OptionError(f"reference: {channel} has {int(good.sum())} complete rows; at least 4 are needed")
    return KnownSignal(_curve(time[good], values[good]), True)


def _curve(time: np.ndarray, values: np.ndarray) -> Expectation:
    """Return an interpolation; signals in steps, such as known distances, do not overshoot."""
    steps = (np.diff(values, axis=0) == 0).mean() > 0.5
    kind = interpolate.PchipInterpolator if steps else interpolate.CubicSpline
    curve = kind(time, values, axis=0, extrapolate=False)
    return lambda t: np.asarray(curve(t))


def fit_response(
    log: SensorLog,
    values: np.ndarray,
    known: KnownSignal,
    rate: float,
    matrix: str,
    noise: np.ndarray | None,
    max_lag: float,
    order: int = 2,
) -> Response:
    """Return the calibration and the bandwidth of readings against a reference.

    The low-pass filter is that of the pipeline, at the rate of the log. Its bandwidth is found on a grid and then
    refined together with latency, matrix and bias. Against a smoothed reference it is not identified.
    """
    moving = _moves(known.expected(log.time), noise)

    def fit(expected: Expectation, extra: Expectation | None = None, lag: bool = moving) -> Calibration | None:
        return calibrate(
            log.time,
            values,
            expected,
            noise=noise,
            extra=extra,
            matrix=matrix if moving else "identity",
            lag=lag,
            max_lag=max_lag,
            cutoff=known.cutoff,
            exact=known.exact,
        )

    plain = fit(known.expected)
    if plain is None or not known.exact or not moving or plain.explained < 0.5:
        return Response(plain, known.expected)
    grid = np.geomspace(0.004 * rate, 0.4 * rate, 14)
    tried = [fit(_filtered(known.expected, log.time, rate, one, order)) for one in grid]
    cost = np.array([np.inf if one is None else float((one.residual**2).sum()) for one in tried])
    base = float((plain.residual**2).sum())
    if cost.min() > (1 - _IMPROVED) * base:
        return Response(plain, known.expected)
    log_band = float(np.log(grid[cost.argmin()]))
    step = 0.02
    for _ in range(6):
        now = _filtered(known.expected, log.time, rate, float(np.exp(log_band)), order)
        up = _filtered(known.expected, log.time, rate, float(np.exp(log_band + step)), order)
        down = _filtered(known.expected, log.time, rate, float(np.exp(log_band - step)), order)

        def change(t: np.ndarray, up: Expectation = up, down: Expectation = down) -> np.ndarray:
            return ((up(t) - down(t)) / (2 * step))[:, :, None]

        found = fit(now, change)
        if found is None:
            return Response(plain, known.expected)
        error = float(found.extra_std[0])
        move = float(np.clip(found.extra[0], -0.3, 0.3))
        log_band = float(np.clip(log_band + move, np.log(0.002 * rate), np.log(0.44 * rate)))
        if abs(move) < 0.02 * error:
            break
    return Response(found, now, float(np.exp(log_band)), error)


def _moves(expected: np.ndarray, noise: np.ndarray | None) -> bool:
    spread = np.nanstd(expected, axis=0)
    floor = 1e-9 * np.nanmax(np.abs(expected)) if noise is None else 0.5 * float(np.nan_to_num(noise).min())
    return bool((spread > max(floor, 1e-12)).all())


def _filtered(expected: Expectation, time: np.ndarray, rate: float, bandwidth: float, order: int) -> Expectation:
    """Return the expected signal behind the pipeline's low-pass filter, which starts at rest."""
    b, a = signal.butter(order, bandwidth, fs=rate)
    grid = time[0] + np.arange(int((time[-1] - time[0]) * rate) + 2) / rate
    values = expected(np.clip(grid, time[0], time[-1]))
    known = np.isfinite(values).all(axis=1)
    if not known.all():
        index = np.arange(len(grid))
        values = np.stack([np.interp(index, index[known], axis[known]) for axis in values.T], axis=1)
    state = signal.lfilter_zi(b, a)[:, None] * values[0]
    smooth = signal.lfilter(b, a, values, axis=0, zi=state)[0]
    return _curve(grid, smooth)
