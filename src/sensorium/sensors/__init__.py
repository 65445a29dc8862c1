"""Sensors: the hooks that make one, and every concrete sensor.

Those with kernels of their own are loaded when they are first asked for: importing Numba takes as long as all the rest.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sensorium.sensors.base import Sensor, SimpleSensor
from sensorium.sensors.options import ChannelOptions, Mounted, SensorOptions, SimpleSensorOptions
from sensorium.sensors.plotting import Trace
from sensorium.sensors.rays.patterns import (
    ArrayPattern,
    GridPattern,
    Pattern,
    PinholePattern,
    RingPattern,
    SphericalPattern,
)
from sensorium.sensors.robot.barometer import Barometer, BarometerData
from sensorium.sensors.robot.battery_state import BatteryState, BatteryStateData
from sensorium.sensors.robot.clock import Clock
from sensorium.sensors.robot.force_torque import ForceTorque, ForceTorqueData
from sensorium.sensors.robot.frame_pose import FramePose, FramePoseData, FramePoseSensor
from sensorium.sensors.robot.gps import GPS, GPSData
from sensorium.sensors.robot.imu import IMU, IMUData, IMUSensor
from sensorium.sensors.robot.joint_encoder import JointEncoder, JointEncoderData, JointEncoderSensor
from sensorium.sensors.robot.joint_torque import JointTorque
from sensorium.sensors.robot.magnetometer import Magnetometer, MagnetometerData
from sensorium.sensors.robot.optical_flow import OpticalFlow, OpticalFlowData
from sensorium.sensors.robot.wheel_odometry import WheelOdometry, WheelOdometryData
from sensorium.sensors.thermal.material import MATERIALS, Material
from sensorium.sensors.thermal.temperature_grid import TemperatureGrid
from sensorium.sensors.touch.contact import Contact, ContactSensor
from sensorium.sensors.touch.contact_force import ContactForce, ContactForceSensor

if TYPE_CHECKING:
    from sensorium.sensors.rays.depth_camera import DepthCamera
    from sensorium.sensors.rays.raycaster import Lidar, Raycaster, RayData
    from sensorium.sensors.touch.contact_probe import ContactDepthProbe, ContactProbe, KinematicContactProbe
    from sensorium.sensors.touch.elastomer import ElastomerDisplacement, ElastomerTaxel
    from sensorium.sensors.touch.proximity import Proximity, ProximityData, SurfaceDistanceProbe
    from sensorium.sensors.touch.tactile_array import KinematicTaxel, TactileArray, TactileArrayData

_LAZY = {
    "ContactDepthProbe": "touch.contact_probe",
    "ContactProbe": "touch.contact_probe",
    "DepthCamera": "rays.depth_camera",
    "ElastomerDisplacement": "touch.elastomer",
    "ElastomerTaxel": "touch.elastomer",
    "KinematicContactProbe": "touch.contact_probe",
    "KinematicTaxel": "touch.tactile_array",
    "Lidar": "rays.raycaster",
    "Proximity": "touch.proximity",
    "ProximityData": "touch.proximity",
    "RayData": "rays.raycaster",
    "Raycaster": "rays.raycaster",
    "SurfaceDistanceProbe": "touch.proximity",
    "TactileArray": "touch.tactile_array",
    "TactileArrayData": "touch.tactile_array",
}
"""Name -> module of this package that has it."""

__all__ = [
    "GPS",
    "IMU",
    "MATERIALS",
    "ArrayPattern",
    "Barometer",
    "BarometerData",
    "BatteryState",
    "BatteryStateData",
    "ChannelOptions",
    "Clock",
    "Contact",
    "ContactDepthProbe",
    "ContactForce",
    "ContactForceSensor",
    "ContactProbe",
    "ContactSensor",
    "DepthCamera",
    "ElastomerDisplacement",
    "ElastomerTaxel",
    "ForceTorque",
    "ForceTorqueData",
    "FramePose",
    "FramePoseData",
    "FramePoseSensor",
    "GPSData",
    "GridPattern",
    "IMUData",
    "IMUSensor",
    "JointEncoder",
    "JointEncoderData",
    "JointEncoderSensor",
    "JointTorque",
    "KinematicContactProbe",
    "KinematicTaxel",
    "Lidar",
    "Magnetometer",
    "MagnetometerData",
    "Material",
    "Mounted",
    "OpticalFlow",
    "OpticalFlowData",
    "Pattern",
    "PinholePattern",
    "Proximity",
    "ProximityData",
    "RayData",
    "Raycaster",
    "RingPattern",
    "Sensor",
    "SensorOptions",
    "SimpleSensor",
    "SimpleSensorOptions",
    "SphericalPattern",
    "SurfaceDistanceProbe",
    "TactileArray",
    "TactileArrayData",
    "TemperatureGrid",
    "Trace",
    "WheelOdometry",
    "WheelOdometryData",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f"sensorium.sensors.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'sensorium.sensors' has no attribute {name!r}")
