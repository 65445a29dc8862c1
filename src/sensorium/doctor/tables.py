"""Logs in files without messages (HDF5, NPZ, CSV), as topics of the messages that they would be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from sensorium.errors import DatasetError, OptionError
from sensorium.logs import Log, TopicLog, read
from sensorium.ros.topics import IMU, JOINT_STATE, MAGNETIC_FIELD, POSE

_VECTORS = {
    "gyro": ("/imu", IMU, "angular_velocity", "xyz"),
    "acc": ("/imu", IMU, "linear_acceleration", "xyz"),
    "mag": ("/imu/mag", MAGNETIC_FIELD, "magnetic_field", "xyz"),
    "quat": ("/pose", POSE, "pose.orientation", "wxyz"),
    "pos": ("/pose", POSE, "pose.position", "xyz"),
}
_JOINTS = {
    "joint_pos": ("/joint_states", "position"),
    "joint_vel": ("/joint_states", "velocity"),
    "joint_torque": ("/joint_states", "effort"),
    "joint_command": ("/command/position", "position"),
}


def read_any(path: Path, partial: bool = False, units: Mapping[str, str] | None = None) -> Log:
    """Read a log of any format. Other formats than MCAP have one time per row, which is capture and arrival.

    Args:
        path: the file.
        partial: whether a truncated MCAP file is read as far as it goes.
        units: units of fields of other formats, if they are not SI: ``{"mag": "uT"}``.

    Raises:
        OptionError: there is no such file, or its format is not known.
        DatasetError: it cannot be read, or has no field that is known.
    """
    if ".mcap" in path.suffixes:
        if units:
            raise OptionError("units is for logs without messages; messages of ROS have SI units")
        return read(path, partial=partial, strict=False)
    from sensorium.fit import as_log

    table = as_log(path, units=units)
    return topics_of(dict(table.channels), table.time, str(path))


def topics_of(channels: dict[str, np.ndarray], time: np.ndarray, source: str) -> Log:
    """Return channels of a table as topics; names of joints are ``joint_0``, ``joint_1``, ..."""
    fields: dict[str, dict[str, np.ndarray]] = {}
    messages: dict[str, str] = {}
    texts: dict[str, dict[str, np.ndarray]] = {}
    for channel, values in channels.items():
        if channel in _VECTORS:
            topic, message, where, axes = _VECTORS[channel]
            own = fields.setdefault(topic, {})
            own |= {f"{where}.{axis}": values[:, i] for i, axis in enumerate(axes)}
        elif channel in _JOINTS:
            topic, where = _JOINTS[channel]
            message = JOINT_STATE
            fields.setdefault(topic, {})[where] = values
            names = texts.setdefault(topic, {})
            names |= {f"name.{i}": np.full(len(time), f"joint_{i}") for i in range(values.shape[1])}
        else:
            continue
        messages[topic] = message
    if "/imu" in fields:
        still = np.zeros(len(time))
        for where in ("orientation", "angular_velocity", "linear_acceleration"):
            for axis in "xyzw" if where == "orientation" else "xyz":
                fields["/imu"].setdefault(f"{where}.{axis}", still)
    if not fields:
        raise DatasetError(f"{source} has no field that the doctor knows: gyro, acc, mag, quat, joint_pos, ...")
    topics = {name: TopicLog(name, messages[name], time, time, own, texts.get(name)) for name, own in fields.items()}
    return Log(topics, source)
