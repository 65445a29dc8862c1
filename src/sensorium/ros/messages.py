"""Encoders of what sensors read: one per topic, from arrays of n samples to n messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sensorium.ros import topics
from sensorium.ros.cdr import Encoder, parse
from sensorium.ros.covariance import variance
from sensorium.ros.definitions import schema
from sensorium.ros.topics import RosField, RosSensor, frame, ros_fields, scan_angles, shapes

Columns = dict[str, Any]
Values = Mapping[str, np.ndarray]
"""Field of a reading -> values of n samples, (n, ...)."""

NANO = 1_000_000_000


@dataclass(frozen=True)
class Topic:
    """Messages of one topic.

    Attributes:
        name: the topic.
        message: type of the messages.
        encoder: encodes them.
        columns: returns path -> values of n messages, from the values of n samples.
        fields: fields of the reading that it needs.
    """

    name: str
    message: str
    encoder: Encoder
    columns: Callable[[Values], Columns]
    fields: tuple[str, ...] = ()

    def encode(self, values: Values, stamp: np.ndarray) -> np.ndarray:
        """Return encoded messages, (n, size) uint8.

        Args:
            values: field of the reading -> (n, ...).
            stamp: capture times, (n,) ns.
        """
        return self.encoder.encode({**stamps(stamp), **self.columns(values)})


def make_encoder(message: str, constant: Mapping[str, Any]) -> Encoder:
    """Return an encoder of one of the messages of ``definitions.py``."""
    return Encoder(message, parse(message, schema(message)), constant)


def stamps(time: np.ndarray, path: str = "header.stamp") -> Columns:
    """Return the columns of a time stamp; ``time`` (n,) ns."""
    return {f"{path}.sec": time // NANO, f"{path}.nanosec": time % NANO}


def sensor_topics(sensor: RosSensor, prefix: str = "") -> list[Topic]:
    """Return the topics of a sensor that is no camera.

    Args:
        sensor: the sensor, of a built scene.
        prefix: what all topics begin with, e.g. "/truth".
    """
    by_topic: dict[tuple[str, str], list[RosField]] = {}
    for field in ros_fields(sensor):
        by_topic.setdefault((field.topic, field.message), []).append(field)
    return [_topic(sensor, prefix + name, message, fields) for (name, message), fields in by_topic.items()]


def _topic(sensor: RosSensor, name: str, message: str, fields: list[RosField]) -> Topic:
    make: Callable[[RosSensor, list[RosField]], Made] = _MAKERS.get(message, _plain)
    constant, columns = make(sensor, fields)
    constant = {"header.frame_id": frame(sensor), **constant}
    own = tuple(field.field for field in fields)
    return Topic(name, message, make_encoder(message, constant), columns, own)


Made = tuple[dict[str, Any], Callable[[Values], Columns]]


def vector(path: str, values: np.ndarray, axes: str = "xyz") -> Columns:
    """Return the columns of a vector: its components along the last axis."""
    return {f"{path}.{axis}": values[..., i] for i, axis in enumerate(axes)}


def quaternion(path: str, values: np.ndarray) -> Columns:
    """Return the columns of an orientation (w, x, y, z), (n, 4)."""
    return vector(path, values, "wxyz")


def _diagonal(values: np.ndarray) -> np.ndarray:
    return np.diag(values).ravel()


def _plain(sensor: RosSensor, fields: list[RosField]) -> Made:
    """Messages whose fields are numbers and vectors."""
    layout = shapes(sensor)
    sizes = {field.field: int(np.prod(layout[field.field])) for field in fields}

    def columns(values: Values) -> Columns:
        found: Columns = {}
        for field in fields:
            flat = values[field.field].reshape(len(values[field.field]), -1)
            if field.path == "pose.orientation":
                found |= quaternion(field.path, flat)
            elif sizes[field.field] > 1:
                found |= vector(field.path, flat)
            else:
                found[field.path] = flat[:, 0]
        return found

    return {}, columns


def _imu(sensor: RosSensor, fields: list[RosField]) -> Made:
    constant = {
        "orientation.w": 1.0,
        "orientation_covariance": [-1.0, *[0.0] * 8],  # ROS: there is no orientation
        "linear_acceleration_covariance": _diagonal(variance(sensor, "acc", 3)),
        "angular_velocity_covariance": _diagonal(variance(sensor, "gyro", 3)),
    }
    return constant, _plain(sensor, fields)[1]


def _magnetic_field(sensor: RosSensor, fields: list[RosField]) -> Made:
    channel = "mag" if fields[0].field == "mag" else ""
    return {"magnetic_field_covariance": _diagonal(variance(sensor, channel, 3))}, _plain(sensor, fields)[1]


def _joint_state(sensor: RosSensor, fields: list[RosField]) -> Made:
    joints: list[str] = getattr(sensor, "joint_names")  # noqa: B009  # all sensors with this message have it
    names = [name.split("/")[-1] for name in joints]
    constant: dict[str, Any] = {"name": len(names)} | {f"name.{i}": name for i, name in enumerate(names)}
    constant |= {field.path: len(names) for field in fields}
    return constant, lambda values: {field.path: values[field.field] for field in fields}


def _pressure(sensor: RosSensor, fields: list[RosField]) -> Made:
    return {"variance": float(variance(sensor, "", 1)[0])}, _plain(sensor, fields)[1]


def _nav_sat_fix(sensor: RosSensor, fields: list[RosField]) -> Made:
    options = sensor.options
    own = variance(sensor, "", 3) + np.square([options.horizontal_error] * 2 + [options.vertical_error])
    constant = {"position_covariance": _diagonal(own), "position_covariance_type": 2, "status.service": 1}
    plain = _plain(sensor, fields)[1]

    def columns(values: Values) -> Columns:
        found = plain(values)
        found["status.status"] = np.where(found["status.status"] > 0, 0, -1)  # ROS: fix or none
        return found

    return constant, columns


def _battery(sensor: RosSensor, fields: list[RosField]) -> Made:
    nan = float("nan")
    capacity = sensor.options.capacity
    constant = {"temperature": nan, "capacity": capacity, "design_capacity": capacity, "present": True}

    def columns(values: Values) -> Columns:
        charge, current = values["charge"][:, 0], values["current"][:, 0]
        return {
            "voltage": values["voltage"][:, 0],
            "current": -current,  # ROS: negative while it discharges
            "charge": charge * capacity,
            "percentage": charge,
            "power_supply_status": np.where(current < 0, 1, 2),
        }

    return constant, columns


def _odometry(sensor: RosSensor, fields: list[RosField]) -> Made:
    twist = np.zeros(36)
    twist[0], twist[35] = variance(sensor, "vel", 2)
    constant = {"child_frame_id": "base", "twist.covariance": twist}

    def columns(values: Values) -> Columns:
        half = values["yaw"][:, 0] / 2
        return {
            **vector("pose.pose.position", values["pos"], "xy"),
            "pose.pose.orientation.z": np.sin(half),
            "pose.pose.orientation.w": np.cos(half),
            "twist.twist.linear.x": values["speed"][:, 0],
            "twist.twist.angular.z": values["yaw_rate"][:, 0],
        }

    return constant, columns


def _time_reference(sensor: RosSensor, fields: list[RosField]) -> Made:
    def columns(values: Values) -> Columns:
        return stamps(np.rint(values[""][:, 0].astype(np.float64) * NANO).astype(np.int64), "time_ref")

    return {"source": sensor.uuid}, columns


def _range(sensor: RosSensor, fields: list[RosField]) -> Made:
    constant = {
        "radiation_type": 1,
        "max_range": sensor.options.max_range,
        "variance": float(variance(sensor, "", 1)[0]),
    }
    return constant, _plain(sensor, fields)[1]


def _laser_scan(sensor: RosSensor, fields: list[RosField]) -> Made:
    angles = scan_angles(sensor)
    assert angles is not None
    options, n = sensor.options, int(np.prod(shapes(sensor)["distances"]))
    constant: dict[str, Any] = {
        "angle_min": angles[0],
        "angle_max": angles[1],
        "angle_increment": angles[2],
        "range_min": options.min_range,
        "range_max": options.max_range,
        **{field.path: n for field in fields},
    }
    if options.scan_rate is not None:
        constant |= {"scan_time": 1 / options.scan_rate, "time_increment": 1 / options.scan_rate / n}
    no_hit = options.max_range if options.no_hit is None else options.no_hit

    def columns(values: Values) -> Columns:
        found = {field.path: values[field.field].reshape(-1, n) for field in fields}
        far = found["ranges"]
        found["ranges"] = np.where((far == no_hit) | ~(far >= 0), np.inf, far)  # REP 117: no return
        return found

    return constant, columns


def _image(sensor: RosSensor, fields: list[RosField]) -> Made:
    height, width = shapes(sensor)[""]
    constant = {"height": height, "width": width, "encoding": "32FC1", "step": 4 * width, "data": 4 * width * height}
    return constant, lambda values: {"data": _bytes(values[""].astype("<f4"))}


_POINT_NAMES = {
    "points": ("x", "y", "z"),
    "normals": ("normal_x", "normal_y", "normal_z"),
    "distances": ("range",),
    "body_ids": ("body_id",),
    "intensity": ("intensity",),
    "times": ("t",),
}


def _point_cloud(sensor: RosSensor, fields: list[RosField]) -> Made:
    """One point per ray, or per element of a value that no other message has."""
    layout = shapes(sensor)
    own = {field.field: layout[field.field] for field in fields}
    is_cloud = fields[0].path != topics.NO_MESSAGE
    names: dict[str, tuple[str, ...]] = {}
    for name, shape in own.items():
        is_vector = len(shape) > 0 and shape[-1] == 3 and (is_cloud is False or name in ("points", "normals"))
        names[name] = _POINT_NAMES[name] if is_cloud else ("x", "y", "z") if is_vector else ("value",)
    order = sorted(names, key=lambda name: (name != "points", list(names).index(name)))
    labels = [label for name in order for label in names[name]]
    first = order[0]
    n = int(np.prod(own[first])) // len(names[first])
    constant: dict[str, Any] = {
        "height": 1,
        "width": n,
        "point_step": 4 * len(labels),
        "row_step": 4 * len(labels) * n,
        "is_dense": not is_cloud,
        "fields": len(labels),
        "data": 4 * len(labels) * n,
    }
    for i, label in enumerate(labels):
        constant |= {f"fields.{i}.name": label, f"fields.{i}.offset": 4 * i, f"fields.{i}.datatype": 7}
        constant[f"fields.{i}.count"] = 1

    def columns(values: Values) -> Columns:
        parts = [values[name].reshape(len(values[name]), n, -1).astype("<f4") for name in order]
        return {"data": _bytes(np.concatenate(parts, axis=2))}

    return constant, columns


def _bytes(values: np.ndarray) -> np.ndarray:
    """Return values (n, ...) as bytes, (n, m) uint8."""
    return np.ascontiguousarray(values).reshape(len(values), -1).view(np.uint8)


_MAKERS: dict[str, Callable[[RosSensor, list[RosField]], Made]] = {
    topics.IMU: _imu,
    topics.MAGNETIC_FIELD: _magnetic_field,
    topics.JOINT_STATE: _joint_state,
    topics.FLUID_PRESSURE: _pressure,
    topics.TEMPERATURE: _pressure,
    topics.NAV_SAT_FIX: _nav_sat_fix,
    topics.BATTERY_STATE: _battery,
    topics.ODOMETRY: _odometry,
    topics.TIME_REFERENCE: _time_reference,
    topics.RANGE: _range,
    topics.LASER_SCAN: _laser_scan,
    topics.IMAGE: _image,
    topics.POINT_CLOUD: _point_cloud,
}
