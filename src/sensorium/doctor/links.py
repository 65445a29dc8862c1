"""Which link the topics of a log belong to, and how sensors are mounted on it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sensorium.json_files import load_json
from sensorium.logs import Log, TopicLog
from sensorium.ros.topics import ODOMETRY, topic

TF_STATIC = "/tf_static"
_WHEELS = "WheelOdometry"


class Mount(NamedTuple):
    """Where the frame of a sensor is."""

    link: str
    """The link; "" if the log does not say."""
    rotation: np.ndarray
    """Rotation from the frame to the link, (3, 3)."""


class Links:
    """The links of a log's topics, as ``/tf_static``, frames of messages, and the metadata of our own logs state them.

    Args:
        log: the log of one robot.
    """

    def __init__(self, log: Log) -> None:
        self._parents = _static_transforms(log)
        self._sensors: dict[str, dict[str, object]] = {}
        for uuid, text in log.metadata.get("sensors", {}).items():
            options = _parsed(text)
            if isinstance(options, dict):
                self._sensors[topic(uuid)] = options

    def mount(self, frame: str) -> Mount:
        """Return the link that a frame is fixed to, through all fixed frames between them."""
        rotation = np.eye(3)
        for _ in range(len(self._parents) + 1):
            if frame not in self._parents:
                break
            frame, own = self._parents[frame]
            rotation = own @ rotation
        return Mount(frame, rotation)

    def of_imu(self, imu: TopicLog) -> Mount:
        """Return how an IMU is mounted."""
        frame = _first(imu, "header.frame_id")
        found = self.mount(frame)
        known = self._sensors.get(imu.name, {}).get("link")
        return Mount(known, found.rotation) if isinstance(known, str) else found

    def is_wheels(self, pose: TopicLog) -> bool:
        """Return whether a pose is that of wheel odometry, as our own logs state it."""
        return self._sensors.get(pose.name, {}).get("kind") == _WHEELS

    def of_pose(self, pose: TopicLog) -> Mount | None:
        """Return whose pose it is; None if it is no pose in the world, but relative to another link."""
        known = self._sensors.get(pose.name)
        if known is not None:
            if known.get("relative_to"):
                return None
            return Mount("" if known.get("kind") == _WHEELS else str(known.get("link", "")), np.eye(3))
        if _first(pose, "header.frame_id") in self._parents:
            return None
        return self.mount(_first(pose, "child_frame_id")) if pose.message == ODOMETRY else Mount("", np.eye(3))


def _parsed(text: str) -> object:
    try:
        return load_json(text)
    except ValueError:
        return None


def _first(topic: TopicLog, path: str) -> str:
    texts = topic.texts.get(path)
    return "" if texts is None or not len(texts) else str(texts[0])


def _static_transforms(log: Log) -> dict[str, tuple[str, np.ndarray]]:
    """Return frame -> its parent, and the rotation from the frame to the parent."""
    found: dict[str, tuple[str, np.ndarray]] = {}
    if TF_STATIC not in log:
        return found
    static = log[TF_STATIC]
    for path, children in static.texts.items():
        if not path.endswith(".child_frame_id"):
            continue
        base = path.removesuffix(".child_frame_id")
        parents = static.texts.get(f"{base}.header.frame_id")
        turns = np.asarray(static[f"{base}.transform.rotation"], np.float64)
        for i, child in enumerate(children):
            if parents is not None and child and str(parents[i]) != str(child):
                found.setdefault(str(child), (str(parents[i]), rotations(turns[i : i + 1])[0]))
    return found


def rotations(quat: np.ndarray) -> np.ndarray:
    """Return rotation matrices from body to world, (n, 3, 3), of quaternions (w, x, y, z)."""
    w, x, y, z = (quat / np.maximum(np.linalg.norm(quat, axis=1, keepdims=True), 1e-12)).T
    return np.stack(
        [
            np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)], axis=1),
            np.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)], axis=1),
            np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], axis=1),
        ],
        axis=1,
    )
