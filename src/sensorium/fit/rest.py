"""Rest segments of a log: spans in which the sensor did not move, found from its readings alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sensorium._arguments import checked
from sensorium.fit.logs import SensorLog

_INERTIAL = ("gyro", "acc")
_POSES = ("quat", "pos")
WINDOW = 0.4
"""Length of the windows whose spread is compared, s."""
MAX_SPREAD = 3.0
"""Largest standard deviation of a window at rest, relative to the quietest windows."""
MAX_RATIO = 4.0
"""Largest variance of the quietest windows, relative to that of differences over 20 ms. It is about 1 for noise, and
far larger for smooth motion."""
MAX_MISSING = 0.25
"""Largest share of the readings of a window that may be NaN."""
MAX_RATE_DIFFERENCE = 0.05
"""Largest difference between the mean rates of two rest segments, rad/s. A turntable at constant speed exceeds it."""


@checked
def rest_segments(log: SensorLog, min_duration: float = 1.0, channels: Sequence[str] | None = None) -> list[slice]:
    """Return the rows of a log during which the sensor was at rest, longest first.

    A window is at rest if the spread of all axes is at most 3 times that of the quietest windows of the log, and if the
    readings there are noise rather than slow motion. Of a gyroscope, segments whose mean rate differs from that of the
    longest by more than 0.05 rad/s are discarded: they are rotations at constant speed.

    Args:
        log: the log.
        min_duration: shortest segment, s.
        channels: channels to use. Default: "gyro" and "acc" if the log has one of them, otherwise all but poses.

    Returns:
        Slices of rows; an empty list if the sensor never was at rest.

    Example:
        >>> at_rest = rest_segments(log)
        >>> bias = log.channels["gyro"][at_rest[0]].mean(axis=0)
    """
    names = list(channels or [name for name in _INERTIAL if name in log.channels])
    names = names or [name for name in log.channels if name not in _POSES]
    width = max(4, round(WINDOW * log.rate))
    count = len(log) // width
    if count < 2 or not names:
        return []
    quiet = np.ones(count, bool)
    for name in names:
        quiet &= _quiet_windows(log.channels[name][: count * width].reshape(count, width, -1), log.rate)
    time = log.time[: count * width].reshape(count, width)
    before = np.r_[time[0, 0], time[:-1, -1]]
    quiet &= time[:, -1] - before < 2 * width / log.rate  # no gap inside, nor before it
    edges = np.flatnonzero(np.diff(np.r_[False, quiet, False].astype(int)))
    # motion may begin or end inside a window, with too little of it to be noticed
    runs = [slice((a + 1) * width if a else 0, (b - 1) * width if b < count else len(log)) for a, b in _pairs(edges)]
    runs = [run for run in runs if run.stop - run.start >= min_duration * log.rate]
    runs.sort(key=lambda run: run.start - run.stop)
    if runs and "gyro" in names:
        rates = [np.nanmean(log.channels["gyro"][run], axis=0) for run in runs]
        runs = [
            run for run, rate in zip(runs, rates, strict=True) if np.abs(rate - rates[0]).max() <= MAX_RATE_DIFFERENCE
        ]
    return runs


def _pairs(edges: np.ndarray) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _quiet_windows(windows: np.ndarray, rate: float) -> np.ndarray:
    """Return which windows (count, width, k) have the spread of noise in every axis, (count,)."""
    known = np.isfinite(windows)
    complete = (~known).any(axis=2).mean(axis=1) <= MAX_MISSING
    if not complete.any():
        return complete
    filled = np.where(known, windows, np.nan)
    filled[~complete] = 0.0
    spread = np.nanstd(filled, axis=1)
    # a percentile, because the smallest of many spreads is smaller than the noise
    floor = np.percentile(spread[complete], 2, axis=0)
    limit = np.maximum(MAX_SPREAD * floor, _steps(filled[complete]))
    quiet = complete & (spread <= limit).all(axis=1)
    lag = min(max(1, round(0.02 * rate)), windows.shape[1] // 2)
    noise = np.nanmean((filled[:, lag:] - filled[:, :-lag]) ** 2, axis=1) / 2
    lowest = quiet & (spread <= np.median(spread[quiet], axis=0) * 1.5).all(axis=1) if quiet.any() else quiet
    if lowest.any():
        variance = np.median(spread[lowest], axis=0) ** 2
        moving = variance > MAX_RATIO * np.maximum(np.median(noise[lowest], axis=0), 1e-30)
        # a spread of a step or less is that of the quantisation
        if bool((moving & (np.sqrt(variance) > _steps(filled[complete]))).any()):
            return np.zeros_like(quiet)
    return quiet


def _steps(windows: np.ndarray) -> np.ndarray:
    """Return the smallest difference between unequal successive readings of each axis, (k,)."""
    change = np.abs(np.diff(windows, axis=1)).reshape(-1, windows.shape[-1])
    steps = np.where(change > 0, change, np.inf).min(axis=0)
    return np.where(np.isfinite(steps), steps, 0.0)
