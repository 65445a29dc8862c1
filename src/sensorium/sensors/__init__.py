"""Sensors: the hooks that make one, and every concrete sensor."""

from sensorium.sensors.base import Sensor, SimpleSensor
from sensorium.sensors.contact import Contact, ContactSensor
from sensorium.sensors.contact_force import ContactForce, ContactForceSensor
from sensorium.sensors.frame_pose import FramePose, FramePoseData, FramePoseSensor
from sensorium.sensors.imu import IMU, IMUData, IMUSensor
from sensorium.sensors.joint_encoder import JointEncoder, JointEncoderData, JointEncoderSensor
from sensorium.sensors.options import Mounted, SensorOptions, SimpleSensorOptions
from sensorium.sensors.plotting import Trace

__all__ = [
    "IMU",
    "Contact",
    "ContactForce",
    "ContactForceSensor",
    "ContactSensor",
    "FramePose",
    "FramePoseData",
    "FramePoseSensor",
    "IMUData",
    "IMUSensor",
    "JointEncoder",
    "JointEncoderData",
    "JointEncoderSensor",
    "Mounted",
    "Sensor",
    "SensorOptions",
    "SimpleSensor",
    "SimpleSensorOptions",
    "Trace",
]
