"""One signal of a log beside the simulated one, with verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sensorium.doctor.compare_rays import Scans, compare_scans
from sensorium.doctor.signals import usable
from sensorium.doctor.value_checks import white_noise
from sensorium.fit.comparison import MotionComparison, Verdict, compare_motion, motion_verdicts
from sensorium.json_files import load_json
from sensorium.logs import Log, TopicLog
from sensorium.options import Options
from sensorium.ros.topics import RosField

TimeSeries = tuple[np.ndarray, np.ndarray]
"""Times (n,) s and values (n, k)."""

_NOISE_RATIO = 1.5
"""Ratio of the noise of log and twin that counts as equal."""
_MIN_SCANS = 20
_PLACE = (
    "link",
    "pos",
    "quat",
    "euler",
    "relative_to",
    "robot",
    "joints",
    "left",
    "right",
    "reversed",
    "radius",
    "track",
)
"""Options that say what an ideal sensor reads."""
_STEPS = 1.25
"""Lag in steps of the simulation that counts as none: accelerations are those of the beginning of a step."""


@dataclass(frozen=True)
class SignalComparison:
    """One signal of the log beside the simulated one."""

    name: str
    """uuid of the simulated sensor and field, "robot_imu.ang_vel"."""
    topic: str
    """Topic and field of the log."""
    unit: str
    """Unit of both."""
    motion: MotionComparison
    """Both over time, with spectra and lag."""
    verdicts: tuple[Verdict, ...]
    """Whether prediction, lag and noise agree."""


def truth_of(log: Log, topic: TopicLog, field: RosField, options: Options) -> TimeSeries | None:
    """Return the ground truth of a signal in one of our own logs, if its sensor is where the simulated one is."""
    name = f"/truth{topic.name}"
    if topic.name != field.topic or name not in log or field.path not in log[name]:
        return None
    try:
        stated = load_json(log.metadata.get("sensors", {}).get(options.model_dump()["uuid"], ""))
    except ValueError:
        return None
    own = options.model_dump(mode="json", exclude_unset=True)
    if any(stated.get(each) != own.get(each) for each in _PLACE) or stated.get("kind") != type(options).__name__:
        return None
    values = np.asarray(log[name][field.path], np.float64)
    return log[name].capture, values.reshape(len(values), -1)


def has_arrivals(log: Log, topic: TopicLog) -> bool:
    """Return whether a log states when messages arrived: tables have one time per row only."""
    return "sensorium" in log.metadata or bool((np.abs(topic.latency) > 1e-6).any())


def compare_latency(uuid: str, topic: TopicLog, simulated: float, step: float) -> Verdict:
    """Return whether the latency of a sensor is the simulated one, s; ``step`` is that of the simulation, s."""
    real = float(np.median(topic.latency))
    agrees = abs(real - simulated) <= max(2e-3, 1.5 * step, 0.25 * max(real, simulated))
    return Verdict(uuid, "latency", agrees, f"{1e3 * real:.2f} ms in the log, {1e3 * simulated:.2f} ms simulated")


def compare_rays(
    name: str,
    field: RosField,
    topic: TopicLog,
    twin: TimeSeries,
    ideal: TimeSeries,
    marked: Callable[[np.ndarray], np.ndarray],
) -> SignalComparison | str:
    """Return scans of the log beside the simulated ones, or why they cannot be compared."""
    order = np.argsort(topic.capture, kind="stable")
    time, far = topic.capture[order], np.asarray(topic[field.path], np.float64)[order]
    inside = (time > ideal[0][0] + 0.1) & (time < ideal[0][-1] - 0.1)
    time, far = time[inside], far[inside]
    if len(time) < _MIN_SCANS:
        return f"not judged: {topic.name} has {len(time)} scans during the motion, and {_MIN_SCANS} are needed"
    if far.shape[1] != ideal[1].shape[1]:
        return f"not judged: {topic.name} has {far.shape[1]} rays, the simulated sensor {ideal[1].shape[1]}"
    own = (twin[0], marked(twin[1]))
    found = compare_scans(name, (time, marked(far)), own, Scans(ideal[0], marked(ideal[1])), _NOISE_RATIO)
    if isinstance(found, str):
        return found
    motion, verdicts = found
    return SignalComparison(name, f"{topic.name} {field.path}", field.unit, motion, tuple(verdicts))


def compare_signal(
    name: str,
    field: RosField,
    topic: TopicLog,
    twin: TimeSeries,
    ideal: TimeSeries,
    times: np.ndarray,
    truth: TimeSeries | None,
) -> SignalComparison | str:
    """Return one signal beside the simulated one, or why they cannot be compared.

    Args:
        name: name of the signal.
        field: which field it is.
        topic: its topic in the log.
        twin: samples of the simulated sensor.
        ideal: what an ideal sensor reads along the motion of the log.
        times: times of the simulation, (n,) s.
        truth: what an ideal sensor read in the log, if the log knows it. The errors of the twin are added to it then:
            a motion at the rate of a log does not show how accelerations change between its samples.
    """
    order = np.argsort(topic.capture, kind="stable")
    time, values = topic.capture[order], np.asarray(topic[field.path], np.float64)[order]
    values = values.reshape(len(values), -1)
    inside = (time > times[0] + 0.1) & (time < times[-1] - 0.1) & np.r_[True, np.diff(time) > 0] & usable(values)
    time, values = time[inside], values[inside]
    if len(time) < 50:
        return f"not judged: {topic.name} has {len(time)} readings during the motion, and 50 are needed"
    if values.shape[1] != ideal[1].shape[1]:
        return f"not judged: {topic.name} has {values.shape[1]} values, the simulated sensor {ideal[1].shape[1]}"
    own, true = (np.stack([np.interp(time, t, column) for column in v.T], axis=1) for t, v in (twin, ideal))
    if truth is not None and truth[1].shape[1] == values.shape[1]:
        known = np.stack([np.interp(time, truth[0], column) for column in truth[1].T], axis=1)
        own, true = own - true + known, known
    log_noise, twin_noise = (float(np.sqrt((white_noise(each, 0.5) ** 2).mean())) for each in (values, twin[1]))
    error = float(np.hypot(log_noise, twin_noise))
    found = compare_motion(time, values, own, true, error, true, "noise of log and twin")
    ratio = twin_noise / max(log_noise, 1e-15)
    agrees = 1 / _NOISE_RATIO < ratio < _NOISE_RATIO or max(log_noise, twin_noise) < 1e-9
    text = f"white noise of {log_noise:.3g} {field.unit} in the log, {twin_noise:.3g} simulated"
    step = 0.0 if truth is not None else float(np.median(np.diff(times)))  # the simulation knows times to a step
    moves = float(np.sqrt(((true - true.mean(axis=0)) ** 2).mean())) > error
    verdicts = [
        replace(each, holds=each.holds or abs(found.lag) <= _STEPS * step) if each.subject == "lag" else each
        for each in motion_verdicts(name, field.unit, found)
        if moves or each.subject != "lag"
    ]
    verdicts.append(Verdict(name, "noise", agrees, text))
    return SignalComparison(name, f"{topic.name} {field.path}", field.unit, found, tuple(verdicts))
