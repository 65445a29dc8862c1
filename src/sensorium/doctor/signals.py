"""What a log says about motion: inertial signals, orientation, joints and commands."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sensorium.deploy.contract import Contract
from sensorium.logs import Log, TopicLog
from sensorium.ros.topics import IMU, JOINT_STATE, MAGNETIC_FIELD, ODOMETRY, POSE

GYRO, ACC = "angular_velocity", "linear_acceleration"


@dataclass(frozen=True)
class TimeSeries:
    """Values over time.

    Attributes:
        subject: topic and field.
        time: s, (n,).
        values: (n, k).
        names: names of the components; [] if they have none.
    """

    subject: str
    time: np.ndarray
    values: np.ndarray
    names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.time)

    @property
    def rate(self) -> float:
        """Samples per second."""
        return 1.0 / max(float(np.median(np.diff(self.time))), 1e-9) if len(self) > 1 else 0.0


@dataclass(frozen=True)
class Signals:
    """The signals of a log. Each is None, or [], if the log has none."""

    gyro: TimeSeries | None
    acc: TimeSeries | None
    mag: TimeSeries | None
    quat: TimeSeries | None
    position: TimeSeries | None
    velocity: TimeSeries | None
    commands: tuple[tuple[str, TimeSeries], ...]
    """("position", "velocity" or "effort", commands of joints)."""


def find_signals(log: Log, contract: Contract | None) -> Signals:
    """Return the signals of a log: those of the contract's topics, or of the only topic with such messages."""
    wanted = set() if contract is None else set(contract.topics)

    def topic(*messages: str, having: str = "") -> TopicLog | None:
        own = [each for each in log.of(*messages) if not each.name.startswith(("/truth", "/command")) and len(each) > 3]
        own = [each for each in own if not having or (having in each and np.size(each[having]))]
        named = [each for each in own if each.name in wanted]
        return next(iter(named or own), None)

    imu, mag = topic(IMU), topic(MAGNETIC_FIELD)
    pose = topic(POSE) or topic(ODOMETRY)
    where = "pose.orientation" if pose is not None and pose.message == POSE else "pose.pose.orientation"
    quat = series(pose, where)
    if quat is None and imu is not None and "orientation" in imu and np.ptp(imu["orientation"], axis=0).max() > 1e-6:
        quat = series(imu, "orientation")
    joints, moving = topic(JOINT_STATE, having="position"), topic(JOINT_STATE, having="velocity")
    commands = [
        (kind, found)
        for each in log.of(JOINT_STATE)
        if each.name.startswith("/command") and len(each) > 3
        for kind in ("position", "velocity", "effort")
        if (found := series(each, kind)) is not None and found.values.shape[1]
    ]
    turn = mounting(log, imu)
    return Signals(
        gyro=_turned(series(imu, GYRO), turn),
        acc=_turned(series(imu, ACC), turn),
        mag=series(mag, "magnetic_field"),
        quat=quat,
        position=series(joints, "position"),
        velocity=series(moving, "velocity"),
        commands=tuple(commands),
    )


def mounting(log: Log, imu: TopicLog | None) -> np.ndarray:
    """Return the rotation from the frame of an IMU to its link, (3, 3), as ``/tf_static`` states it; else none."""
    if imu is None or "/tf_static" not in log or not len(imu.texts.get("header.frame_id", ())):
        return np.eye(3)
    static, frame = log["/tf_static"], str(imu.texts["header.frame_id"][0])
    for path, names in static.texts.items():
        if path.endswith(".child_frame_id") and frame and str(names[0]) == frame:
            rotation = path.replace(".child_frame_id", ".transform.rotation")
            w, x, y, z = np.asarray(static[rotation], np.float64)[0]
            return np.array(
                [
                    [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                    [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                    [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
                ]
            )
    return np.eye(3)


def _turned(signal: TimeSeries | None, rotation: np.ndarray) -> TimeSeries | None:
    return None if signal is None else replace(signal, values=signal.values @ rotation.T)


def series(topic: TopicLog | None, path: str) -> TimeSeries | None:
    """Return a field of a topic in the order of its captures, without repeated or invalid rows; None if it is empty."""
    if topic is None or path not in topic:
        return None
    values = np.asarray(topic[path], np.float64)
    values = values.reshape(len(values), -1)
    if not values.shape[1]:
        return None
    order = np.argsort(topic.capture, kind="stable")
    time = topic.capture[order]
    keep = np.r_[True, np.diff(time) > 0] & np.isfinite(values[order]).all(axis=1)
    if keep.sum() < 4:
        return None
    names = tuple(topic.names) if topic.message == JOINT_STATE else ()
    return TimeSeries(f"{topic.name} {path}", time[keep], values[order][keep], names)


def window_means(series: TimeSeries, edges: np.ndarray) -> np.ndarray:
    """Return the mean of a signal between neighbouring edges, (m, k); NaN where there is no sample."""
    index = np.searchsorted(series.time, edges)
    sums = np.vstack([np.zeros(series.values.shape[1]), np.cumsum(series.values, axis=0)])
    count = np.diff(index).astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.diff(sums[index], axis=0) / count[:, None]


def at(series: TimeSeries, times: np.ndarray) -> np.ndarray:
    """Return a signal at given times, by linear interpolation, (m, k)."""
    return np.stack([np.interp(times, series.time, column) for column in series.values.T], axis=1)
