"""Checks of values: topics and fields of the contract, invalid and frozen values, ranges and noise of training."""

from __future__ import annotations

from math import comb

import numpy as np

from sensorium.deploy.contract import Contract, ObservationTerm
from sensorium.doctor.findings import Examination
from sensorium.doctor.signals import ACC, GYRO, is_measured, usable
from sensorium.logs import Log, TopicLog
from sensorium.ros.topics import IMU, JOINT_STATE, MAGNETIC_FIELD, ODOMETRY, POSE

_MIN_MESSAGES = 10
"""Topics with fewer messages are not examined."""
_NOISE_WINDOW = 25
"""Samples in a window in which noise is measured."""
_CALM = 0.1
"""Quantile of those windows."""


def check_topics(exam: Examination, log: Log, contract: Contract) -> None:
    """Check that the log has the topics of the contract, with messages of the right type."""
    for topic, message in contract.topics.items():
        if topic not in log:
            near = [each.name for each in log.of(message)]
            hint = f"; {', '.join(near)} has such messages" if near else ""
            exam.fail("topics", topic, f"missing{hint}", f"publish {message} on {topic}, or remap the topic")
        elif log[topic].message != message:
            text = f"has {log[topic].message} instead of {message}"
            exam.fail("topics", topic, text, "publish messages of the type of the contract")
        elif len(log[topic]) < _MIN_MESSAGES:
            text = f"{len(log[topic])} messages of {message}, too few to check"
            exam.fail("topics", topic, text, f"record at least {_MIN_MESSAGES} messages, better some seconds")
        else:
            exam.ok("topics", topic, f"{len(log[topic])} messages of {message}")


def without_varying_joints(exam: Examination, log: Log) -> Log:
    """Return the log without topics whose messages are of different joints, which are named: they have no columns."""
    for topic in log.of(JOINT_STATE):
        parts = topic.split_joints()
        if len(parts) == 1 and all(isinstance(values, np.ndarray) for values in parts[0].fields.values()):
            log = log.with_topics(*parts)  # with its joints in one order
        else:
            text = "its messages have different joints or numbers of values, perhaps from several publishers"
            exam.skip("joints", topic.name, f"{text}; record one topic for each publisher to check them")
            log = log.without(topic.name)
    return log


_FIELDS = {
    IMU: (GYRO, ACC),
    MAGNETIC_FIELD: ("magnetic_field",),
    JOINT_STATE: ("position", "velocity"),
    POSE: ("pose.position", "pose.orientation"),
    ODOMETRY: ("pose.pose.position", "pose.pose.orientation"),
}
"""Message -> fields that are checked."""


def check_values(exam: Examination, log: Log) -> None:
    """Check for values that are no readings or never change, and for a magnetic field in another unit."""
    for topic in log.of(*_FIELDS):
        if not is_measured(topic.name) or len(topic) < _MIN_MESSAGES:
            continue
        for path in _FIELDS[topic.message]:
            if path in topic and np.size(topic[path]):
                _check_signal(exam, topic, path)


def _check_signal(exam: Examination, topic: TopicLog, path: str) -> None:
    subject, values = f"{topic.name} {path}", np.asarray(topic[path], np.float64)
    good = usable(values)
    if topic.message in (POSE, ODOMETRY):
        good |= np.isnan(values).any(axis=1)  # motion capture loses its markers
    if not good.all():
        first = int((~good).argmax())
        value = values[first][~usable(values[first][:, None])][0]
        text = f"{int((~good).sum())} of {len(values)} messages hold no reading, the first is number {first}: {value:g}"
        exam.fail("finite", subject, text, "drop invalid samples in the driver")
        values = values[good]
    held = _longest_run(values)
    limit = max(20, int(0.5 * topic.rate))
    if topic.message == IMU and held > limit:
        text = f"{held} messages in a row are identical, with new stamps"
        exam.fail("frozen", subject, text, "let the driver report errors instead of the last value")
    elif topic.message == IMU:
        exam.ok("frozen", subject, "values change")
    if path == "magnetic_field" and len(values):
        size = float(np.median(np.linalg.norm(values, axis=1)))
        text = f"{size:.3g} T"
        if 15e-6 < size < 100e-6:
            exam.ok("magnetic.unit", subject, text)
        else:
            units = {"µT": 1e-6, "G": 1e-4, "nT": 1e-9, "mG": 1e-7}
            guess = [name for name, factor in units.items() if 15e-6 < size * factor < 100e-6]
            what = f": the unit may be {guess[0]}" if guess else ""
            exam.fail("magnetic.unit", subject, f"{text}, on Earth 25 to 65 µT{what}", "publish tesla")


def _longest_run(values: np.ndarray) -> int:
    """Return the most identical rows in a row."""
    same = (np.diff(values, axis=0) == 0).all(axis=tuple(range(1, values.ndim)))
    edges = np.flatnonzero(np.diff(np.r_[False, same, False].astype(int)))
    return int((edges[1::2] - edges[::2]).max()) + 1 if len(edges) else 1


def check_training(exam: Examination, log: Log, contract: Contract) -> None:
    """Compare shape, range and noise of every term with those of training."""
    for term in contract.observations:
        if term.source != "sensor" or term.topic not in log or term.conversion not in ("values", "joints"):
            continue
        topic, subject = log[term.topic], f"{term.topic} {term.field}"
        if term.field not in topic or not len(topic):
            if term.message == topic.message:
                exam.fail("fields", subject, "the field is empty", f"fill {term.field} of {term.message}")
            continue
        values = np.asarray(topic[term.field], np.float64).reshape(len(topic), -1)
        if term.names and topic.names:
            if not set(term.names) <= set(topic.names):
                continue  # joints.names says so
            values = values[:, [topic.names.index(name) for name in term.names]]
        if values.shape[1] != term.size:
            text = f"{values.shape[1]} values, the policy takes {term.size}"
            exam.fail("fields", subject, text, "publish as many values as the contract says")
            continue
        values = values[usable(values)]
        _check_range(exam, term, subject, values)
        _check_noise(exam, term, subject, values)


def _check_range(exam: Examination, term: ObservationTerm, subject: str, values: np.ndarray) -> None:
    if term.seen is None or exam.is_blamed("range", subject):
        return
    low, high = trained_range(term)
    margin = 0.25 * (high - low) + 5 * np.array(term.noise) + 1e-6
    outside = ((values < low - margin) | (values > high + margin)).mean(axis=0)
    worst = int(outside.argmax())
    name = f" of {term.names[worst]}" if term.names else f" of component {worst}" if len(outside) > 1 else ""
    text = f"{outside[worst]:.1%}{name} outside the range of training, [{low[worst]:.3g}, {high[worst]:.3g}]"
    if outside[worst] > 0.02:
        fix = "check scale and offset, or train with a wider range"
        exam.fail("range", subject, f"{text}: [{values[:, worst].min():.3g}, {values[:, worst].max():.3g}]", fix)
    else:
        exam.ok("range", subject, text)


def trained_range(term: ObservationTerm) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and the largest readings of a term in training, per component."""
    assert term.seen is not None
    n = term.size
    low, high = ((np.array(each).reshape(-1, n) - term.offset) / term.scale for each in (term.seen.min, term.seen.max))
    return np.minimum(low, high).min(axis=0), np.maximum(low, high).max(axis=0)


def _check_noise(exam: Examination, term: ObservationTerm, subject: str, values: np.ndarray) -> None:
    if len(values) < 100 or exam.is_blamed("noise", subject):
        return
    measured = white_noise(values)
    assumed = np.array(term.noise)
    if not assumed.any():
        exam.skip("noise", subject, "the policy was trained without noise")
        return
    ratio = measured / np.maximum(assumed, 1e-12)
    worst = int(ratio.argmax())
    text = f"{measured[worst]:.3g}, in training {assumed[worst]:.3g}"
    if ratio[worst] > 3:
        exam.fail(
            "noise", subject, text, f"find the source (vibration, wiring), or train with noise={measured[worst]:.2g}"
        )
    else:
        exam.ok("noise", subject, text)


def white_noise(values: np.ndarray, quantile: float = _CALM) -> np.ndarray:
    """Return the standard deviation of white noise, per column.

    Differences of order k of white noise have C(2k, k) times its variance, whatever k. Those of motion shrink with k.
    So the smallest figure of several orders is taken, in the calmest windows (``quantile``): motion may be jerky.
    """
    found = []
    for order in (3, 5, 8):
        if len(values) <= 2 * order:
            continue
        parts = np.diff(values, n=order, axis=0) / np.sqrt(float(comb(2 * order, order)))
        n = len(parts) // _NOISE_WINDOW
        windows = parts[: n * _NOISE_WINDOW].reshape(n, _NOISE_WINDOW, -1) if n >= 4 else parts[None]
        found.append(np.quantile(windows.std(axis=1), quantile, axis=0))
    return np.min(found, axis=0) if found else np.zeros(values.shape[1])
