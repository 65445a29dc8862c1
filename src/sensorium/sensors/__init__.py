"""Sensors: the hooks that make one, and every concrete sensor.

Those with kernels of their own are loaded when they are first asked for: importing Numba takes as long as all the rest.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sensorium.sensors.barometer import Barometer, BarometerData
from sensorium.sensors.base import Sensor, SimpleSensor
from sensorium.sensors.battery_state import BatteryState, BatteryStateData
from sensorium.sensors.clock import Clock
from sensorium.sensors.contact import Contact, ContactSensor
from sensorium.sensors.contact_force import ContactForce, ContactForceSensor
from sensorium.sensors.force_torque import ForceTorque, ForceTorqueData
from sensorium.sensors.frame_pose import FramePose, FramePoseData, FramePoseSensor
from sensorium.sensors.gps import GPS, GPSData
from sensorium.sensors.imu import IMU, IMUData, IMUSensor
from sensorium.sensors.joint_encoder import JointEncoder, JointEncoderData, JointEncoderSensor
from sensorium.sensors.joint_torque import JointTorque
from sensorium.sensors.magnetometer import Magnetometer, MagnetometerData
from sensorium.sensors.material import MATERIALS, Material
from sensorium.sensors.optical_flow import OpticalFlow, OpticalFlowData
from sensorium.sensors.options import Mounted, SensorOptions, SimpleSensorOptions
from sensorium.sensors.patterns import ArrayPattern, GridPattern, Pattern, PinholePattern, RingPattern, SphericalPattern
from sensorium.sensors.plotting import Trace
from sensorium.sensors.temperature_grid import TemperatureGrid
from sensorium.sensors.wheel_odometry import WheelOdometry, WheelOdometryData

if TYPE_CHECKING:
    from sensorium.sensors.contact_probe import ContactDepthProbe, ContactProbe, KinematicContactProbe
    from sensorium.sensors.depth_camera import DepthCamera
    from sensorium.sensors.elastomer import ElastomerDisplacement, ElastomerTaxel
    from sensorium.sensors.proximity import Proximity, ProximityData, SurfaceDistanceProbe
    from sensorium.sensors.raycaster import Lidar, Raycaster, RayData
    from sensorium.sensors.tactile_array import KinematicTaxel, TactileArray, TactileArrayData

_LAZY = {
    "ContactDepthProbe": "contact_probe",
    "ContactProbe": "contact_probe",
    "DepthCamera": "depth_camera",
    "ElastomerDisplacement": "elastomer",
    "ElastomerTaxel": "elastomer",
    "KinematicContactProbe": "contact_probe",
    "KinematicTaxel": "tactile_array",
    "Lidar": "raycaster",
    "Proximity": "proximity",
    "ProximityData": "proximity",
    "RayData": "raycaster",
    "Raycaster": "raycaster",
    "SurfaceDistanceProbe": "proximity",
    "TactileArray": "tactile_array",
    "TactileArrayData": "tactile_array",
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
