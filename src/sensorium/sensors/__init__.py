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
from sensorium.sensors.robot.barometer import BarometerData
from sensorium.sensors.robot.battery_state import BatteryStateData
from sensorium.sensors.robot.force_torque import ForceTorqueData
from sensorium.sensors.robot.frame_pose import FramePoseData, FramePoseSensor
from sensorium.sensors.robot.gps import GPSData
from sensorium.sensors.robot.imu import IMUData, IMUSensor
from sensorium.sensors.robot.joint_encoder import JointEncoderData, JointEncoderSensor
from sensorium.sensors.robot.magnetometer import MagnetometerData
from sensorium.sensors.robot.optical_flow import OpticalFlowData
from sensorium.sensors.robot.wheel_odometry import WheelOdometryData
from sensorium.sensors.samples import Samples
from sensorium.sensors.touch.contact import ContactSensor
from sensorium.sensors.touch.contact_force import ContactForceSensor

if TYPE_CHECKING:
    from sensorium.sensors.rays.raycaster import RayData
    from sensorium.sensors.touch.contact_probe import KinematicContactProbe
    from sensorium.sensors.touch.elastomer import ElastomerTaxel
    from sensorium.sensors.touch.proximity import ProximityData, SurfaceDistanceProbe
    from sensorium.sensors.touch.tactile_array import KinematicTaxel, TactileArrayData

_LAZY = {
    "ElastomerTaxel": "touch.elastomer",
    "KinematicContactProbe": "touch.contact_probe",
    "KinematicTaxel": "touch.tactile_array",
    "ProximityData": "touch.proximity",
    "RayData": "rays.raycaster",
    "SurfaceDistanceProbe": "touch.proximity",
    "TactileArrayData": "touch.tactile_array",
}
"""Name -> module of this package that has it."""

__all__ = [
    "BarometerData",
    "BatteryStateData",
    "ChannelOptions",
    "ContactForceSensor",
    "ContactSensor",
    "ElastomerTaxel",
    "ForceTorqueData",
    "Format",
    "FramePoseData",
    "FramePoseSensor",
    "GPSData",
    "IMUData",
    "IMUSensor",
    "JointEncoderData",
    "JointEncoderSensor",
    "KinematicContactProbe",
    "KinematicTaxel",
    "MagnetometerData",
    "Mounted",
    "OpticalFlowData",
    "ProximityData",
    "RayData",
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
    "WheelOdometryData",
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
