"""Values of a log at given times, as a robot's software would have had them."""

from __future__ import annotations

import numpy as np

from sensorium._arguments import checked, checked_number
from sensorium._system import check_memory
from sensorium.errors import OptionError, shorten
from sensorium.logs.log import Log, TopicLog

_SAME_TIME = 1e-6
"""Times that differ by less are equal, s: seconds since 1970 have steps of 2.4e-7 s as float64."""


def latest(topic: TopicLog, times: np.ndarray) -> np.ndarray:
    """Return the number of the message that a reader has at each time, (n,) int64; -1 before the first arrival.

    It is the one with the newest capture among those that have arrived, as ``sensor.read()`` returns it.
    """
    order = np.argsort(topic.arrival, kind="stable")
    arrived = np.searchsorted(topic.arrival[order], np.asarray(times) + _SAME_TIME, side="right")
    capture = topic.capture[order]
    newest = np.zeros(len(capture), np.int64)
    best = 0
    for i in range(len(capture)):  # the newest capture of those up to i
        best = i if capture[i] >= capture[best] else best
        newest[i] = order[best]
    return np.where(arrived > 0, newest[np.maximum(arrived - 1, 0)], -1) if len(capture) else np.full(len(times), -1)


def _of_one_joint_set(topic: TopicLog) -> TopicLog:
    """Return a topic with its joints in one order.

    Raises:
        OptionError: its messages are of different joints.
    """
    parts = topic.split_joints()
    if len(parts) > 1:
        joints = "; ".join(f"{part.name} has {shorten(part.names)}" for part in parts)
        raise OptionError(
            f"the messages of {topic.name} have different joints, perhaps from several publishers. Split them with "
            f"log.with_topics(*log[{topic.name!r}].split_joints()), and use one of the new topics: {joints}"
        )
    return parts[0]


@checked
def resample(
    log: Log, fields: dict[str, tuple[str, str]], rate: float, start: float | None = None, stop: float | None = None
) -> dict[str, np.ndarray]:
    """Return fields of a log at a fixed rate, as a policy at that rate would have seen them.

    Args:
        log: the log.
        fields: name -> (topic, path of the field).
        rate: Hz.
        start: first time, s. Default: when all topics have had a message.
        stop: last time, s. Default: the end of the log.

    Returns:
        Name -> (n, ...) values, "time" -> (n,) s, and "age/NAME" -> (n,) s since the capture of each value.

    Raises:
        OptionError: a topic or field is missing, messages have different joints, or the rate is not > 0.

    Example:
        >>> sn.logs.resample(log, {"gyro": ("/imu", "angular_velocity")}, rate=50)["gyro"]  # (n, 3)
    """
    if not 0 < rate <= 1e6:
        raise OptionError(f"rate must lie in (0, 1e6] Hz, got {rate!r}")
    for name, place in fields.items():
        if not isinstance(name, str) or not (isinstance(place, tuple | list) and len(place) == 2):
            raise OptionError(f"fields must be name -> (topic, path of the field), got {name!r:.40}: {place!r:.40}")
    if not fields:
        raise OptionError("fields must name at least one field of the log, got {}")
    taken = [name for name in fields if name == "time" or name.startswith("age/")]
    if taken:
        raise OptionError(f"fields: {taken[0]!r} is a name of the result itself; choose another one")
    used = {topic: _of_one_joint_set(log[topic]) for topic, _ in fields.values()}
    empty = [name for name, topic in used.items() if not len(topic)]
    if empty:
        raise OptionError(f"the topic {empty[0]!r} has no messages")
    own_start = max(float(topic.arrival.min()) for topic in used.values())
    first = own_start if start is None else checked_number("start", start)
    last = log.span[1] if stop is None else checked_number("stop", stop)
    count = int(np.floor((last - first + _SAME_TIME) * rate)) + 1
    check_memory("times from start to stop", count, "the result", 8 * (1 + len(fields)))
    if count < 1:
        raise OptionError(f"there is no time between start {first:g} and stop {last:g}")
    times = first + np.arange(count) / rate
    rows = {name: latest(topic, times) for name, topic in used.items()}
    found: dict[str, np.ndarray] = {"time": times}
    for name, (topic, path) in fields.items():
        index = rows[topic]
        if index[0] < 0:
            raise OptionError(f"{topic} has no message before {first:g} s; start later")
        values = used[topic][path]
        if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiub":
            raise OptionError(f"{topic} {path} has texts or values of varying length, which cannot be resampled")
        found[name] = values[index]
        found[f"age/{name}"] = times - used[topic].capture[index]
    return found
