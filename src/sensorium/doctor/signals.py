"""What a log says about motion: inertial signals, orientation, joints and commands."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sensorium.deploy.contract import Contract
from sensorium.doctor.links import Links, Mount
from sensorium.json_files import load_json
from sensorium.logs import Log, TopicLog
from sensorium.ros.topics import IMU, JOINT_STATE, ODOMETRY, POSE

GYRO, ACC = "angular_velocity", "linear_acceleration"
EARTH = np.array([0.0, 0.0, -9.81])
LARGEST = 1e9
"""Magnitude from which a value is no reading."""


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
class InertialSignals:
    """Signals of one IMU and the orientation of its link, in one frame on that link."""

    gyro: TimeSeries | None
    acc: TimeSeries | None
    quat: TimeSeries | None
    """Orientation of that frame in the world; None if the log has none. Then the frame is that of the link."""
    is_own: bool = True
    """Whether findings about the IMU are reported: False for one that was judged by another orientation before."""


@dataclass(frozen=True)
class JointSignals:
    """Signals of joints on one topic."""

    position: TimeSeries
    velocity: TimeSeries | None


@dataclass(frozen=True)
class Signals:
    """The signals of a log of one robot."""

    imus: tuple[InertialSignals, ...]
    """All IMUs, each with an orientation of its link; further orientations follow with the IMU of their link."""
    joints: tuple[JointSignals, ...]
    commands: tuple[tuple[str, TimeSeries], ...]
    """("position", "velocity" or "effort", commands of joints)."""
    gravity: np.ndarray
    """Gravity, (3,) m/s²: that of the scene in our own logs, else that of the Earth."""
    resets: np.ndarray
    """Times of resets, s: values before and after one do not belong together."""


def is_measured(name: str) -> bool:
    """Return whether a topic is that of a sensor: neither ground truth nor commands nor the recorder's own."""
    return name.split("/")[1:2] not in (["truth"], ["command"], ["tf"], ["tf_static"], ["clock"], ["episode"])


def find_signals(log: Log, contract: Contract | None) -> Signals:
    """Return the signals of a log of one robot: those of the contract's topics first."""
    wanted = set() if contract is None else set(contract.topics)

    def topics(*messages: str) -> list[TopicLog]:
        own = [part for each in log.of(*messages) for part in each.split_joints()]
        own = [each for each in own if is_measured(each.name) and len(each) > 3]
        return sorted(own, key=lambda each: each.name not in wanted)

    commands = [
        (kind, found)
        for each in log.of(JOINT_STATE)
        if each.name.split("/")[1:2] == ["command"] and len(each) > 3
        for kind in ("position", "velocity", "effort")
        if (found := series(each, kind)) is not None and found.values.shape[1]
    ]
    moving = [found for each in topics(JOINT_STATE) if (found := series(each, "velocity")) is not None]
    joints = []
    for each in topics(JOINT_STATE):
        if (position := series(each, "position")) is not None:
            own = [other for other in moving if other.names == position.names]
            own.sort(key=lambda other: other.subject.split(" ")[0] != each.name)
            joints.append(JointSignals(position, own[0] if own else None))
    imus = _inertial(log, topics(IMU), [*topics(POSE), *topics(ODOMETRY)])
    return Signals(tuple(imus), tuple(joints), tuple(commands), gravity_of(log), resets_of(log))


def _inertial(log: Log, imus: list[TopicLog], poses: list[TopicLog]) -> list[InertialSignals]:
    """Return every IMU with an orientation of its link, then every other orientation with an IMU of its link."""
    links = Links(log)
    mounts = [links.of_imu(imu) for imu in imus]
    turns = [(series(pose, orientation_path(pose)), links.of_pose(pose)) for pose in poses]
    oriented = [(quat, where) for quat, where in turns if quat is not None and where is not None]

    def fits(number: int, where: Mount) -> bool:
        """A pose of a link that the log does not name is that of the first IMU."""
        return where.link == mounts[number].link if where.link and mounts[number].link else number == 0

    def signals(number: int, quat: TimeSeries | None, frame: np.ndarray, is_own: bool) -> InertialSignals:
        turn = frame.T @ mounts[number].rotation
        gyro, acc = (_turned(series(imus[number], path), turn) for path in (GYRO, ACC))
        return InertialSignals(gyro, acc, quat, is_own)

    found, used = [], set()
    for number, imu in enumerate(imus):
        quat, where = next((pair for pair in oriented if fits(number, pair[1])), (None, None))
        frame = np.eye(3) if where is None else where.rotation
        if quat is None and has_orientation(imu):
            quat, frame = series(imu, orientation_path(imu)), mounts[number].rotation
        used |= {quat.subject} if quat is not None else set()
        found.append(signals(number, quat, frame, True))
    for quat, where in oriented:
        number = next((i for i in range(len(imus)) if fits(i, where)), -1)
        if quat.subject not in used and number >= 0:
            found.append(signals(number, quat, where.rotation, False))
    return found


def orientation_path(topic: TopicLog) -> str:
    """Return the field of the orientation in a PoseStamped, an Odometry or an Imu."""
    return {POSE: "pose.orientation", ODOMETRY: "pose.pose.orientation"}.get(topic.message, "orientation")


def has_orientation(imu: TopicLog) -> bool:
    """Return whether an IMU reports an orientation."""
    if "orientation" not in imu or np.ptp(imu["orientation"], axis=0).max() <= 1e-6:
        return False
    covariance = np.asarray(imu.fields.get("orientation_covariance", [[0.0]]), np.float64)
    return bool(covariance[0, 0] != -1)  # ROS: there is no orientation


def gravity_of(log: Log) -> np.ndarray:
    """Return the gravity of the world of a log, (3,) m/s²."""
    try:
        stated = np.array(load_json(log.metadata.get("sensorium", {}).get("gravity", "")), np.float64)
    except ValueError:
        return EARTH
    return stated if stated.shape == (3,) and np.isfinite(stated).all() else EARTH


def resets_of(log: Log) -> np.ndarray:
    """Return the times of all marks of episodes but the first."""
    return np.sort(log["/episode"].capture)[1:] if "/episode" in log else np.zeros(0)


def spans(times: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """Return which of the intervals from start to stop hold one of the times, (n,) bool."""
    return np.searchsorted(times, start, "left") < np.searchsorted(times, stop, "right")


def _turned(signal: TimeSeries | None, rotation: np.ndarray) -> TimeSeries | None:
    return None if signal is None else replace(signal, values=signal.values @ rotation.T)


def usable(values: np.ndarray) -> np.ndarray:
    """Return which rows of (n, k) hold readings: finite numbers below 1e9, which no driver uses as a mark."""
    with np.errstate(invalid="ignore"):
        return (np.abs(values) < LARGEST).all(axis=1)


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
    keep = np.r_[True, np.diff(time) > 0] & usable(values[order])
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
