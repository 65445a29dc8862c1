"""Comparison of twins with logs for sensors whose reference is the measured quantity itself: all but IMUs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sensorium.fit.barometer import barometer, known_pressure
from sensorium.fit.channel import channel
from sensorium.fit.comparison import (
    TOLERANCE,
    MotionComparison,
    RestComparison,
    Verdict,
    compare_motion,
    compare_rest,
    motion_verdicts,
    rest_verdicts,
)
from sensorium.fit.distance import distance
from sensorium.fit.estimate import Twin
from sensorium.fit.field_names import si_unit
from sensorium.fit.force_torque import force_torque
from sensorium.fit.gps import gps
from sensorium.fit.joint_encoder import joint_encoder
from sensorium.fit.logs import LogSource, SensorLog, as_log
from sensorium.fit.replay import Progress
from sensorium.fit.response import KnownSignal, known_signal
from sensorium.fit.rest import rest_segments
from sensorium.fit.signal_replay import replay_signals

RUNS = 16
"""Simulated runs."""
MAX_SAMPLES = 6000
"""Max samples of a simulated run."""
MIN_SAMPLES = 100
"""Min samples of a stretch of the log that is compared."""
MAX_RAYS = 16
"""Max rays that are compared."""
_FITS: dict[str, Callable[..., Twin]] = {
    "joint_encoder": joint_encoder,
    "force_torque": force_torque,
    "gps": gps,
    "barometer": barometer,
    "raycaster": distance,
    "lidar": distance,
    "depth_camera": distance,
    "channel": channel,
}
_CHANNELS = {
    "imu": {"gyro": "gyro.", "acc": "acc.", "mag": "mag."},
    "joint_encoder": {"joint_pos": "", "joint_vel": "vel."},
    "force_torque": {"force": "force.", "torque": "torque."},
    "gps": {"pos": "", "vel": "vel."},
    "barometer": {"pressure": ""},
    "raycaster": {"distance": ""},
    "lidar": {"distance": ""},
    "depth_camera": {"distance": ""},
}
"""Kind -> channel of the log -> prefix of its estimates."""
_STILL = ("joint_vel", "vel")
"""Channels whose true value at rest is 0."""


@dataclass(frozen=True)
class Comparison:
    """Comparison of one channel."""

    verdicts: list[Verdict]
    rest: RestComparison | None = None
    motion: MotionComparison | None = None
    note: str = ""
    """Why nothing was compared."""


def channels_of(twin: Twin) -> dict[str, str]:
    """Return channel of the log -> prefix of its estimates."""
    if twin.kind == "channel":
        return {str(twin.provenance["settings"]["name"]): ""}
    return _CHANNELS[twin.kind]


def unit_of(twin: Twin, name: str) -> str:
    """Return the unit of a channel's readings."""
    return (
        str(twin.provenance.get("settings", {}).get("unit", ""))
        if twin.kind == "channel"
        else si_unit(name).replace("^2", "²")
    )


def refit(twin: Twin, log: SensorLog, reference: object) -> Twin:
    """Return the fit of another log with the settings of a twin."""
    settings = {**twin.provenance.get("settings", {})}
    if twin.kind in ("lidar", "raycaster", "depth_camera"):
        settings["kind"] = twin.kind
    return _FITS[twin.kind](log, reference, **settings)


def part_of(reference: object, log: SensorLog, rows: slice) -> object:
    """Return the rows of a reference that has one value per sample of the log; other references as they are."""
    if isinstance(reference, np.ndarray | list | tuple) and len(reference) == len(log):
        return np.asarray(reference, float)[rows]
    return reference


def read_log(twin: Twin, source: LogSource, reading: dict[str, Any]) -> SensorLog:
    """Return a log with the channels of a twin's own: positions of receivers are in m."""
    log = as_log(source, **reading)
    return gps(log).log or log if twin.kind == "gps" else log


def compare_channel(
    twin: Twin, log: SensorLog, name: str, reference: object, seed: int, progress: Progress | None = None
) -> Comparison:
    """Compare one channel: its residuals against an exact reference, or else its rest segments.

    Args:
        twin: the fitted sensor.
        log: the log that it is compared with.
        name: channel of the log.
        reference: reference of the log, or None.
        seed: seed of the simulated noise.
        progress: called with numbers of finished steps.
    """
    values = log.channels[name]
    if name == "distance":
        chosen = np.unique(np.linspace(0, values.shape[1] - 1, min(MAX_RAYS, values.shape[1])).round().astype(int))
        values = np.where(np.isfinite(values) & (values > 0), values, np.nan)
    else:
        chosen = np.arange(values.shape[1])
    known = None if reference is None or name in _STILL else _known(twin, log, name, reference)
    if known is not None:
        return _against(twin, log, name, values, chosen, known, seed, progress)
    return _at_rest(twin, log, name, values, reference, seed, progress)


def _known(twin: Twin, log: SensorLog, name: str, reference: object) -> KnownSignal | None:
    settings = twin.provenance.get("settings", {})
    smooth = bool(settings.get("smooth", False))
    if twin.kind == "barometer":
        weather = {key: settings[key] for key in ("sea_level_pressure", "sea_level_temperature") if key in settings}
        return known_pressure(reference, log, smooth, **weather)
    if twin.kind == "force_torque":
        other = as_log(reference)  # type: ignore[arg-type]
        if name not in other.channels:
            return None
        reference = {"time": other.time, name: other.channels[name]}
    return known_signal(reference, log, name, log.channels[name].shape[1], smooth)


def _at_rest(
    twin: Twin, log: SensorLog, name: str, values: np.ndarray, reference: object, seed: int, progress: Progress | None
) -> Comparison:
    """Compare rest segments, simulated at the mean of the readings."""
    whole = twin.kind == "gps" and reference is None  # the receiver stands still in the whole log
    runs = [slice(0, len(log))] if whole else rest_segments(log, 2.0, [name])
    parts = [values[run][np.isfinite(values[run]).all(axis=1)] for run in runs]
    parts = [part for part in parts if len(part) >= MIN_SAMPLES]
    if not parts:
        return Comparison([], note="no rest of 2 s or more in the log, and no reference of this quantity")
    samples = min(MAX_SAMPLES, len(parts[0]))
    level = np.zeros(values.shape[1]) if name in _STILL else parts[0].mean(axis=0) - _bias(twin, name)
    signals = {name: np.tile(level, (samples, 1))}
    for carrier, carried in (("joint_pos", "joint_vel"), ("pos", "vel")):  # velocities need a body that is at rest
        if name == carried:
            signals[carrier] = np.zeros((samples, values.shape[1]))
    readings = replay_signals(twin, signals, 1 / log.rate, RUNS, seed=seed, progress=progress)
    found = compare_rest(parts, readings[name], log.rate, _step(twin, name))
    return Comparison(rest_verdicts(name, found), found)


def _against(
    twin: Twin,
    log: SensorLog,
    name: str,
    values: np.ndarray,
    chosen: np.ndarray,
    known: KnownSignal,
    seed: int,
    progress: Progress | None,
) -> Comparison:
    """Compare the readings along the reference, and their residuals if it is exact."""
    late = twin.estimates.get("delay")
    delay = float(late.value) if late is not None and late.identifiable else 0.0
    expected = known.expected(log.time - delay)[:, chosen]
    rows = _stretch(log, expected, values[:, chosen] if name != "distance" else None)
    if rows is None:
        return Comparison([], note=f"log and reference have no common stretch of {MIN_SAMPLES} samples without gaps")
    truth, measured = expected[rows], values[rows][:, chosen]
    runs = max(1, RUNS // len(chosen)) if name == "distance" else RUNS
    readings = replay_signals(twin, {name: truth}, 1 / log.rate, runs, seed=seed, progress=progress)[name]
    verdicts: list[Verdict] = []
    rest = None
    if known.exact:
        rest = _residuals(twin, name, measured - truth, readings - truth[:, None], log.rate)
        rest = replace(rest, what="minus the reference")
        verdicts += [*rest_verdicts(name, rest), _level(name, measured - truth, readings - truth[:, None])]
    motion = None
    if bool((np.std(truth, axis=0) > 1e-9 * np.abs(truth).max()).any()):
        filled = np.where(np.isfinite(measured), measured, readings.mean(axis=1))  # lost returns say nothing here
        noise = float(np.sqrt(np.mean((readings - readings.mean(axis=1, keepdims=True)) ** 2))) if runs > 1 else 0.0
        noise = noise or float(np.sqrt(np.mean((readings[:, 0] - truth - (readings[:, 0] - truth).mean(axis=0)) ** 2)))
        ideal = known.expected(log.time[rows])[:, chosen]
        ideal = np.where(np.isfinite(ideal), ideal, truth)
        motion = compare_motion(log.time[rows], filled, readings[:, 0], ideal, noise, truth, "noise of the twin")
        verdicts += motion_verdicts(name, unit_of(twin, name), motion)
    return Comparison(verdicts, rest, motion)


def _residuals(twin: Twin, name: str, log: np.ndarray, runs: np.ndarray, rate: float) -> RestComparison:
    """Compare residuals against the reference. All rays of a range sensor are one series of independent parts."""
    step = _step(twin, name)
    if name != "distance":
        return compare_rest([log], runs, rate, step)
    parts = [column[np.isfinite(column)][:, None] for column in log.T]
    series = runs.transpose(0, 2, 1).reshape(len(runs), -1, 1)
    return compare_rest([part for part in parts if len(part) >= MIN_SAMPLES // 2], series, rate, step[:1])


def _level(name: str, log: np.ndarray, runs: np.ndarray) -> Verdict:
    """Compare the mean residuals: within a tenth of the noise, or three standard deviations of those of the runs."""
    means = runs.mean(axis=0)
    gap = np.nanmean(log, axis=0) - means.mean(axis=0)
    noise = runs.std(axis=(0, 1))
    spread = means.std(axis=0, ddof=1) if len(means) > 1 else noise / np.sqrt(max(1, len(runs)))
    same = bool((np.abs(gap) <= np.maximum(TOLERANCE * noise, 3 * spread)).all())
    worst = int(np.abs(gap).argmax())
    text = f"mean of log and twin at most {abs(gap[worst]):.2g} apart; noise of the twin {noise[worst]:.2g}"
    return Verdict(name, "level", same, text)


def _stretch(log: SensorLog, expected: np.ndarray, values: np.ndarray | None) -> slice | None:
    """Return the longest rows without gaps of the clock, of the reference or of the readings."""
    usable = np.isfinite(expected).all(axis=1)
    if values is not None:
        usable &= np.isfinite(values).all(axis=1)
    usable &= np.abs(np.diff(log.time, prepend=log.time[0] - 1 / log.rate) * log.rate - 1) < 0.9
    edges = np.flatnonzero(np.diff(np.r_[False, usable, False].astype(int)))
    spans = [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    start, stop = max(spans, key=lambda span: span[1] - span[0], default=(0, 0))
    return slice(start, min(stop, start + MAX_SAMPLES)) if stop - start >= MIN_SAMPLES else None


def _bias(twin: Twin, name: str) -> np.ndarray | float:
    one = twin.estimates.get(f"{channels_of(twin)[name]}bias")
    return 0.0 if one is None or not one.identifiable else np.asarray(one.value, float)


def _step(twin: Twin, name: str) -> np.ndarray:
    axes = twin.log.channels[name].shape[1] if twin.log is not None and name in twin.log.channels else 1
    one = twin.estimates.get(f"{channels_of(twin)[name]}resolution")
    step = np.zeros(axes) if one is None or not one.identifiable else np.nan_to_num(np.asarray(one.value, float))
    return np.broadcast_to(step, (axes,))
