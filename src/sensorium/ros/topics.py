"""Which ROS 2 topic, message and field each value of a sensor is.

A sensor with the uuid "robot/imu" has the topic ``/robot/imu``. Values that its message has no field for have topics of
their own below it, e.g. ``/robot/imu/mag``. Values that no standard message has are a ``sensor_msgs/msg/PointCloud2``
with the fields x, y and z for vectors, and value otherwise: it is the only standard message with a header that
describes its own content. Units are those of ROS (REP 103) everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    import torch

IMU = "sensor_msgs/msg/Imu"
MAGNETIC_FIELD = "sensor_msgs/msg/MagneticField"
JOINT_STATE = "sensor_msgs/msg/JointState"
IMAGE = "sensor_msgs/msg/Image"
COMPRESSED_IMAGE = "sensor_msgs/msg/CompressedImage"
CAMERA_INFO = "sensor_msgs/msg/CameraInfo"
POINT_CLOUD = "sensor_msgs/msg/PointCloud2"
LASER_SCAN = "sensor_msgs/msg/LaserScan"
RANGE = "sensor_msgs/msg/Range"
NAV_SAT_FIX = "sensor_msgs/msg/NavSatFix"
FLUID_PRESSURE = "sensor_msgs/msg/FluidPressure"
TEMPERATURE = "sensor_msgs/msg/Temperature"
BATTERY_STATE = "sensor_msgs/msg/BatteryState"
WRENCH = "geometry_msgs/msg/WrenchStamped"
POSE = "geometry_msgs/msg/PoseStamped"
TWIST = "geometry_msgs/msg/TwistStamped"
VECTOR = "geometry_msgs/msg/Vector3Stamped"
ODOMETRY = "nav_msgs/msg/Odometry"
CLOCK = "rosgraph_msgs/msg/Clock"
TIME_REFERENCE = "sensor_msgs/msg/TimeReference"
TF = "tf2_msgs/msg/TFMessage"
STRING = "std_msgs/msg/String"
FLOAT = "std_msgs/msg/Float64"


class SensorSpreads(Protocol):
    """The noise of a sensor."""

    def spreads(self) -> Mapping[str, tuple[torch.Tensor, torch.Tensor]]:
        """Return channel -> standard deviations of a sample's noise and of the drift, (axes,)."""
        ...


class RosSensor(Protocol):
    """What messages need of a sensor: one of a built scene, or one that a dataset describes."""

    @property
    def uuid(self) -> str: ...
    @property
    def options(self) -> Any: ...
    @property
    def _parameters(self) -> SensorSpreads: ...
    def _get_return_format(self) -> tuple[int, ...] | Mapping[str, tuple[int, ...]]: ...


NO_MESSAGE = "value"
"""Path of a value in a point cloud that stands for a message that does not exist."""


class RosField(NamedTuple):
    """Where one field of a sensor's reading is in ROS 2."""

    field: str
    """Field of the reading, e.g. "lin_acc"; "" if the reading is one array."""
    topic: str
    """The topic, e.g. "/robot/imu"."""
    message: str
    """Type of the message, e.g. "sensor_msgs/msg/Imu"."""
    path: str
    """Field of the message, e.g. "linear_acceleration"."""
    unit: str
    """Unit of the values, e.g. "m/s²"; "1" for numbers without one."""


_KNOWN: dict[str, tuple[tuple[str, str, str, str, str], ...]] = {
    "IMU": (
        ("lin_acc", "", IMU, "linear_acceleration", "m/s²"),
        ("ang_vel", "", IMU, "angular_velocity", "rad/s"),
        ("mag", "/mag", MAGNETIC_FIELD, "magnetic_field", "T"),
    ),
    "Attitude": (("", "", VECTOR, "vector", "1"),),
    "Magnetometer": (
        ("field", "", MAGNETIC_FIELD, "magnetic_field", "T"),
        ("heading", "/heading", POINT_CLOUD, NO_MESSAGE, "rad"),
    ),
    "JointEncoder": (
        ("positions", "", JOINT_STATE, "position", "rad"),
        ("velocities", "", JOINT_STATE, "velocity", "rad/s"),
    ),
    "JointTorque": (("", "", JOINT_STATE, "effort", "N·m"),),
    "ForceTorque": (("force", "", WRENCH, "wrench.force", "N"), ("torque", "", WRENCH, "wrench.torque", "N·m")),
    "ContactForce": (("", "", WRENCH, "wrench.force", "N"),),
    "Barometer": (
        ("pressure", "", FLUID_PRESSURE, "fluid_pressure", "Pa"),
        ("altitude", "/altitude", POINT_CLOUD, NO_MESSAGE, "m"),
    ),
    "GPS": (
        ("latitude", "", NAV_SAT_FIX, "latitude", "°"),
        ("longitude", "", NAV_SAT_FIX, "longitude", "°"),
        ("altitude", "", NAV_SAT_FIX, "altitude", "m"),
        ("fix", "", NAV_SAT_FIX, "status.status", "1"),
        ("velocity", "/velocity", TWIST, "twist.linear", "m/s"),
    ),
    "BatteryState": (
        ("voltage", "", BATTERY_STATE, "voltage", "V"),
        ("current", "", BATTERY_STATE, "current", "A"),
        ("charge", "", BATTERY_STATE, "percentage", "1"),
        ("power", "/power", POINT_CLOUD, NO_MESSAGE, "W"),
        ("energy", "/energy", POINT_CLOUD, NO_MESSAGE, "J"),
    ),
    "FramePose": (
        ("pos", "", POSE, "pose.position", "m"),
        ("quat", "", POSE, "pose.orientation", "1"),
        ("lin_vel", "/twist", TWIST, "twist.linear", "m/s"),
        ("ang_vel", "/twist", TWIST, "twist.angular", "rad/s"),
    ),
    "WheelOdometry": (
        ("pos", "", ODOMETRY, "pose.pose.position", "m"),
        ("yaw", "", ODOMETRY, "pose.pose.orientation", "rad"),
        ("speed", "", ODOMETRY, "twist.twist.linear.x", "m/s"),
        ("yaw_rate", "", ODOMETRY, "twist.twist.angular.z", "rad/s"),
    ),
    "Clock": (("", "", TIME_REFERENCE, "time_ref", "s"),),
    "DepthCamera": (("", "", IMAGE, "data", "m"),),
}
"""Options class -> (field of the reading, end of the topic, message, path, unit) of every value with a home in ROS."""

_UNITS = {
    ("OpticalFlow", "flow"): "rad/s",
    ("OpticalFlow", "distance"): "m",
    ("OpticalFlow", "quality"): "1",
    ("Proximity", "distances"): "m",
    ("Proximity", "points"): "m",
    ("ContactProbe", ""): "1",
    ("TactileArray", "force"): "N",
    ("TactileArray", "torque"): "N·m",
    ("TemperatureGrid", ""): "°C",
    ("ElastomerDisplacement", ""): "m",
    ("ContactDepthProbe", ""): "m",
    ("Contact", ""): "1",
}
"""Units of values without a home in ROS."""

_RAY_FIELDS = {
    "distances": "m",
    "points": "m",
    "normals": "1",
    "body_ids": "1",
    "intensity": "1",
    "times": "s",
}


def topic(uuid: str, end: str = "") -> str:
    """Return the topic of a sensor: its uuid with the characters that ROS does not allow replaced by "_".

    Example:
        >>> topic("robot/imu.1")
        '/robot/imu_1'
    """
    parts = [re.sub(r"[^A-Za-z0-9_]", "_", part) for part in uuid.split("/") if part]
    return "/" + "/".join(f"_{part}" if part[0].isdigit() else part for part in parts) + end


def shapes(sensor: RosSensor) -> dict[str, tuple[int, ...]]:
    """Return field -> shape of a reading without the env axis; a reading that is one array has the field ""."""
    layout = sensor._get_return_format()
    return dict(layout) if isinstance(layout, Mapping) else {"": layout}


def ros_fields(sensor: RosSensor) -> list[RosField]:
    """Return where every field of a sensor's reading is in ROS 2.

    Args:
        sensor: a sensor that is no camera.
    """
    kinds = [kind.__name__ for kind in type(sensor.options).__mro__]
    layout = shapes(sensor)
    names = list(layout)
    if "Raycaster" in kinds:
        message = LASER_SCAN if is_laser_scan(sensor) else POINT_CLOUD
        paths = {"distances": "ranges", "intensity": "intensities"} if message == LASER_SCAN else {}
        found = []
        for name in names:
            own = name in paths or message == POINT_CLOUD
            end = "" if own else f"/{name}"
            found.append(
                RosField(
                    name,
                    topic(sensor.uuid, end),
                    message if own else POINT_CLOUD,
                    paths.get(name, name),
                    _RAY_FIELDS.get(name, "1"),
                )
            )
        return found
    if "Proximity" in kinds and layout["distances"] == (1,):
        return [
            RosField("distances", topic(sensor.uuid), RANGE, "range", "m"),
            RosField("points", topic(sensor.uuid, "/points"), POINT_CLOUD, NO_MESSAGE, "m"),
        ]
    if "TemperatureGrid" in kinds and layout[""] == (1, 1, 1):
        return [RosField("", topic(sensor.uuid), TEMPERATURE, "temperature", "°C")]
    known = next((_KNOWN[kind] for kind in kinds if kind in _KNOWN), ())
    homes = {name: (end, *rest) for name, end, *rest in known}
    found = []
    for name in names:
        if name in homes:
            end, message, path, unit = homes[name]
            found.append(RosField(name, topic(sensor.uuid, end), message, path, unit))
        else:
            unit = next((_UNITS[kind, name] for kind in kinds if (kind, name) in _UNITS), "1")
            end = f"/{name}" if name else ""
            found.append(RosField(name, topic(sensor.uuid, end), POINT_CLOUD, NO_MESSAGE, unit))
    return found


def is_laser_scan(sensor: RosSensor) -> bool:
    """Return whether a ray sensor scans as a LaserScan describes it: level, from one point, in equal steps."""
    return bool(scan_angles(sensor))


def scan_angles(sensor: RosSensor) -> tuple[float, float, float] | None:
    """Return the first and the last azimuth and the step, rad, of a scan that a LaserScan can describe; else None."""
    options = sensor.options
    if not hasattr(options.pattern, "rays") or getattr(options, "echoes", None) not in (
        None,
        ("strongest",),
        ("first",),
    ):
        return None
    if sum(size > 1 for size in options.pattern.shape) != 1:
        return None
    origins, directions = options.pattern.rays()
    angles = np.unwrap(np.arctan2(directions[:, 1], directions[:, 0]))
    steps = np.diff(angles)
    level = np.abs(directions[:, 2]).max() < 1e-6 and np.ptp(origins, axis=0).max() < 1e-9
    if not level or steps.min() <= 0 or np.ptp(steps) > 1e-6:
        return None
    return float(angles[0]), float(angles[-1]), float(steps.mean())


def frame(sensor: RosSensor) -> str:
    """Return the ROS frame of a sensor's values: its own frame where it is mounted on a link, else "world".

    Values of joints, clocks and batteries have no frame in space: "".
    """
    options = sensor.options
    kinds = {kind.__name__ for kind in type(options).__mro__}
    if "FramePose" in kinds:
        return getattr(options, "relative_to", None) or "world"
    if "WheelOdometry" in kinds:
        return "odom"
    if hasattr(sensor, "joint_names") or kinds & {"Clock", "BatteryState"}:
        return ""
    return topic(sensor.uuid)[1:] if getattr(options, "link", None) else "world"
