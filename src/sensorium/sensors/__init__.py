"""Sensors: the hooks that make one, and every concrete sensor.

Those with kernels of their own are loaded when they are first asked for: importing Numba takes as long as all the rest.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sensorium.sensors.base import Sensor, SimpleSensor
from sensorium.sensors.contact import Contact, ContactSensor
from sensorium.sensors.contact_force import ContactForce, ContactForceSensor
from sensorium.sensors.frame_pose import FramePose, FramePoseData, FramePoseSensor
from sensorium.sensors.imu import IMU, IMUData, IMUSensor
from sensorium.sensors.joint_encoder import JointEncoder, JointEncoderData, JointEncoderSensor
from sensorium.sensors.options import Mounted, SensorOptions, SimpleSensorOptions
from sensorium.sensors.patterns import ArrayPattern, GridPattern, PinholePattern, RingPattern, SphericalPattern
from sensorium.sensors.plotting import Trace

if TYPE_CHECKING:
    from sensorium.sensors.depth_camera import DepthCamera
    from sensorium.sensors.raycaster import Lidar, Raycaster, RayData

_LAZY = {
    "DepthCamera": "depth_camera",
    "Lidar": "raycaster",
    "RayData": "raycaster",
    "Raycaster": "raycaster",
}
"""Name -> module of this package that has it."""

__all__ = [
    "IMU",
    "ArrayPattern",
    "Contact",
    "ContactForce",
    "ContactForceSensor",
    "ContactSensor",
    "DepthCamera",
    "FramePose",
    "FramePoseData",
    "FramePoseSensor",
    "GridPattern",
    "IMUData",
    "IMUSensor",
    "JointEncoder",
    "JointEncoderData",
    "JointEncoderSensor",
    "Lidar",
    "Mounted",
    "PinholePattern",
    "RayData",
    "Raycaster",
    "RingPattern",
    "Sensor",
    "SensorOptions",
    "SimpleSensor",
    "SimpleSensorOptions",
    "SphericalPattern",
    "Trace",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f"sensorium.sensors.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'sensorium.sensors' has no attribute {name!r}")
