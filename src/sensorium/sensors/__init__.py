"""Sensors: the classes to write one with, and every concrete sensor.

Options of sensors are exported at the root (``sn.IMU``). This package exports what sensor authors need
(``SimpleSensor``, ``SimpleSensorOptions``, ``SensorGroup``, ...), the sensor classes and the types of their readings.
Sensors with Numba kernels of their own are imported at their first use, since importing Numba takes about a second.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from sensorium.pipeline import SensorGroup, SignalSource, Slots
from sensorium.pipeline.hold import holds_output
from sensorium.pipeline.launch import launch, replayable
from sensorium.sensors.base import Format, Sensor, SimpleSensor, add_site
from sensorium.sensors.options import ChannelOptions, Mounted, SensorOptions, SimpleSensorOptions
from sensorium.sensors.robot.attitude import AttitudeSensor
from sensorium.sensors.robot.barometer import BarometerData, BarometerSensor
from sensorium.sensors.robot.battery_state import BatteryStateData, BatteryStateSensor
from sensorium.sensors.robot.clock import ClockSensor
from sensorium.sensors.robot.force_torque import ForceTorqueData, ForceTorqueSensor
from sensorium.sensors.robot.frame_pose import FramePoseData, FramePoseSensor
from sensorium.sensors.robot.gps import GPSData, GPSSensor
from sensorium.sensors.robot.imu import IMUData, IMUSensor
from sensorium.sensors.robot.joint_encoder import JointEncoderData, JointEncoderSensor
from sensorium.sensors.robot.joint_torque import JointTorqueSensor
from sensorium.sensors.robot.magnetometer import MagnetometerData, MagnetometerSensor
from sensorium.sensors.robot.optical_flow import OpticalFlowData, OpticalFlowSensor
from sensorium.sensors.robot.wheel_odometry import WheelOdometryData, WheelOdometrySensor
from sensorium.sensors.samples import Samples
from sensorium.sensors.touch.contact import ContactSensor
from sensorium.sensors.touch.contact_force import ContactForceSensor

if TYPE_CHECKING:
    from sensorium.sensors.rays.depth_camera import DepthCameraSensor
    from sensorium.sensors.rays.raycaster import LidarSensor, RaycasterSensor, RayData
    from sensorium.sensors.thermal.temperature_grid import TemperatureGridSensor
    from sensorium.sensors.touch.contact_probe import ContactDepthProbeSensor, ContactProbeSensor, KinematicContactProbe
    from sensorium.sensors.touch.elastomer import ElastomerDisplacementSensor, ElastomerTaxel
    from sensorium.sensors.touch.proximity import ProximityData, ProximitySensor, SurfaceDistanceProbe
    from sensorium.sensors.touch.tactile_array import KinematicTaxel, TactileArrayData, TactileArraySensor

_LAZY = {
    "ContactDepthProbeSensor": "touch.contact_probe",
    "ContactProbeSensor": "touch.contact_probe",
    "DepthCameraSensor": "rays.depth_camera",
    "ElastomerDisplacementSensor": "touch.elastomer",
    "ElastomerTaxel": "touch.elastomer",
    "KinematicContactProbe": "touch.contact_probe",
    "KinematicTaxel": "touch.tactile_array",
    "LidarSensor": "rays.raycaster",
    "ProximityData": "touch.proximity",
    "ProximitySensor": "touch.proximity",
    "RayData": "rays.raycaster",
    "RaycasterSensor": "rays.raycaster",
    "SurfaceDistanceProbe": "touch.proximity",
    "TactileArrayData": "touch.tactile_array",
    "TactileArraySensor": "touch.tactile_array",
    "TemperatureGridSensor": "thermal.temperature_grid",
}
"""Name -> module of this package that has it."""

__all__ = [
    "AttitudeSensor",
    "BarometerData",
    "BarometerSensor",
    "BatteryStateData",
    "BatteryStateSensor",
    "ChannelOptions",
    "ClockSensor",
    "ContactDepthProbeSensor",
    "ContactForceSensor",
    "ContactProbeSensor",
    "ContactSensor",
    "DepthCameraSensor",
    "ElastomerDisplacementSensor",
    "ElastomerTaxel",
    "ForceTorqueData",
    "ForceTorqueSensor",
    "Format",
    "FramePoseData",
    "FramePoseSensor",
    "GPSData",
    "GPSSensor",
    "IMUData",
    "IMUSensor",
    "JointEncoderData",
    "JointEncoderSensor",
    "JointTorqueSensor",
    "KinematicContactProbe",
    "KinematicTaxel",
    "LidarSensor",
    "MagnetometerData",
    "MagnetometerSensor",
    "Mounted",
    "OpticalFlowData",
    "OpticalFlowSensor",
    "ProximityData",
    "ProximitySensor",
    "RayData",
    "RaycasterSensor",
    "Samples",
    "Sensor",
    "SensorGroup",
    "SensorOptions",
    "SignalSource",
    "SimpleSensor",
    "SimpleSensorOptions",
    "Slots",
    "SurfaceDistanceProbe",
    "TactileArrayData",
    "TactileArraySensor",
    "TemperatureGridSensor",
    "WheelOdometryData",
    "WheelOdometrySensor",
    "add_site",
    "holds_output",
    "launch",
    "replayable",
]


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(importlib.import_module(f"sensorium.sensors.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'sensorium.sensors' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
