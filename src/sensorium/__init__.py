"""Sensorium: the sensory system of simulated robots. ``import sensorium as sn``.

The root has what users type daily: scenes, sensors, cameras, entities and the errors to catch. The rest is in packages:
``sn.sensors`` (to write a sensor), ``sn.robots``, ``sn.tasks``, ``sn.recording``, ``sn.datasets`` and so on.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

from sensorium import errors, gymnasium_ids

if TYPE_CHECKING:
    from sensorium import (
        cameras,
        datasets,
        deploy,
        doctor,
        entities,
        fit,
        generation,
        logs,
        policies,
        presets,
        recording,
        robots,
        ros,
        scenarios,
        sensors,
        suites,
        tasks,
        training,
        units,
    )
    from sensorium.cameras import BatchRendererCamera, Camera, CameraProfile, RasterizerCamera, RaytracerCamera
    from sensorium.entities import SACMLPBrain, TrainableEntity
    from sensorium.errors import (
        CapacityError,
        DatasetError,
        DeviceError,
        DivergenceError,
        EpisodeOverError,
        GenerationError,
        NotBuiltError,
        OptionError,
        SensoriumError,
    )
    from sensorium.options import Options
    from sensorium.pipeline import AxisImperfections, Imperfections
    from sensorium.sensors.rays.depth_camera import DepthCamera
    from sensorium.sensors.rays.moving_patterns import RosettePattern, WeavePattern
    from sensorium.sensors.rays.patterns import (
        ArrayPattern,
        GridPattern,
        Pattern,
        PinholePattern,
        RingPattern,
        SphericalPattern,
    )
    from sensorium.sensors.rays.raycaster import Lidar, Raycaster
    from sensorium.sensors.robot.attitude import Attitude
    from sensorium.sensors.robot.barometer import Barometer
    from sensorium.sensors.robot.battery_state import BatteryState
    from sensorium.sensors.robot.clock import Clock
    from sensorium.sensors.robot.force_torque import ForceTorque
    from sensorium.sensors.robot.frame_pose import FramePose
    from sensorium.sensors.robot.gps import GPS
    from sensorium.sensors.robot.imu import IMU
    from sensorium.sensors.robot.joint_encoder import JointEncoder
    from sensorium.sensors.robot.joint_torque import JointTorque
    from sensorium.sensors.robot.magnetometer import Magnetometer
    from sensorium.sensors.robot.optical_flow import OpticalFlow
    from sensorium.sensors.robot.wheel_odometry import WheelOdometry
    from sensorium.sensors.thermal.material import MATERIALS, Material
    from sensorium.sensors.thermal.temperature_grid import TemperatureGrid
    from sensorium.sensors.touch.contact import Contact
    from sensorium.sensors.touch.contact_force import ContactForce
    from sensorium.sensors.touch.contact_probe import ContactDepthProbe, ContactProbe
    from sensorium.sensors.touch.elastomer import ElastomerDisplacement
    from sensorium.sensors.touch.proximity import Proximity
    from sensorium.sensors.touch.tactile_array import TactileArray
    from sensorium.sensors.trace import Trace
    from sensorium.suites import SensorSuite
    from sensorium.tree import Buffer, Module
    from sensorium.worlds import (
        Box,
        Capsule,
        Cylinder,
        Entity,
        EnvironmentMap,
        Light,
        Plane,
        Scene,
        SceneModule,
        Sphere,
        TileMap,
    )

__version__ = "0.1.0"

_LAZY = {
    "ArrayPattern": "sensors.rays.patterns",
    "Attitude": "sensors.robot.attitude",
    "AxisImperfections": "pipeline",
    "Barometer": "sensors.robot.barometer",
    "BatchRendererCamera": "cameras",
    "BatteryState": "sensors.robot.battery_state",
    "Box": "worlds",
    "Buffer": "tree",
    "Camera": "cameras",
    "CameraProfile": "cameras",
    "CapacityError": "errors",
    "Capsule": "worlds",
    "Clock": "sensors.robot.clock",
    "Contact": "sensors.touch.contact",
    "ContactDepthProbe": "sensors.touch.contact_probe",
    "ContactForce": "sensors.touch.contact_force",
    "ContactProbe": "sensors.touch.contact_probe",
    "Cylinder": "worlds",
    "DatasetError": "errors",
    "DepthCamera": "sensors.rays.depth_camera",
    "DeviceError": "errors",
    "DivergenceError": "errors",
    "ElastomerDisplacement": "sensors.touch.elastomer",
    "Entity": "worlds",
    "EnvironmentMap": "worlds",
    "EpisodeOverError": "errors",
    "ForceTorque": "sensors.robot.force_torque",
    "FramePose": "sensors.robot.frame_pose",
    "GPS": "sensors.robot.gps",
    "GenerationError": "errors",
    "GridPattern": "sensors.rays.patterns",
    "IMU": "sensors.robot.imu",
    "Imperfections": "pipeline",
    "JointEncoder": "sensors.robot.joint_encoder",
    "JointTorque": "sensors.robot.joint_torque",
    "Lidar": "sensors.rays.raycaster",
    "Light": "worlds",
    "MATERIALS": "sensors.thermal.material",
    "Magnetometer": "sensors.robot.magnetometer",
    "Material": "sensors.thermal.material",
    "Module": "tree",
    "NotBuiltError": "errors",
    "OpticalFlow": "sensors.robot.optical_flow",
    "OptionError": "errors",
    "Options": "options",
    "Pattern": "sensors.rays.patterns",
    "PinholePattern": "sensors.rays.patterns",
    "Plane": "worlds",
    "Proximity": "sensors.touch.proximity",
    "RasterizerCamera": "cameras",
    "Raycaster": "sensors.rays.raycaster",
    "RaytracerCamera": "cameras",
    "RingPattern": "sensors.rays.patterns",
    "RosettePattern": "sensors.rays.moving_patterns",
    "SACMLPBrain": "entities",
    "Scene": "worlds",
    "SceneModule": "worlds",
    "SensorSuite": "suites",
    "SensoriumError": "errors",
    "Sphere": "worlds",
    "SphericalPattern": "sensors.rays.patterns",
    "TactileArray": "sensors.touch.tactile_array",
    "TemperatureGrid": "sensors.thermal.temperature_grid",
    "TileMap": "worlds",
    "Trace": "sensors.trace",
    "TrainableEntity": "entities",
    "WeavePattern": "sensors.rays.moving_patterns",
    "WheelOdometry": "sensors.robot.wheel_odometry",
}
"""Name -> module that it is imported from at its first use."""
_PACKAGES = (
    "cameras",
    "datasets",
    "deploy",
    "doctor",
    "entities",
    "fit",
    "generation",
    "logs",
    "policies",
    "presets",
    "recording",
    "robots",
    "ros",
    "scenarios",
    "sensors",
    "suites",
    "tasks",
    "training",
    "units",
)
"""Packages and modules that are imported at their first use."""

if "gymnasium" in sys.modules:  # otherwise when sn.tasks is imported, which imports Gymnasium
    gymnasium_ids.register()

__all__ = [
    "GPS",
    "IMU",
    "MATERIALS",
    "ArrayPattern",
    "Attitude",
    "AxisImperfections",
    "Barometer",
    "BatchRendererCamera",
    "BatteryState",
    "Box",
    "Buffer",
    "Camera",
    "CameraProfile",
    "CapacityError",
    "Capsule",
    "Clock",
    "Contact",
    "ContactDepthProbe",
    "ContactForce",
    "ContactProbe",
    "Cylinder",
    "DatasetError",
    "DepthCamera",
    "DeviceError",
    "DivergenceError",
    "ElastomerDisplacement",
    "Entity",
    "EnvironmentMap",
    "EpisodeOverError",
    "ForceTorque",
    "FramePose",
    "GenerationError",
    "GridPattern",
    "Imperfections",
    "JointEncoder",
    "JointTorque",
    "Lidar",
    "Light",
    "Magnetometer",
    "Material",
    "Module",
    "NotBuiltError",
    "OpticalFlow",
    "OptionError",
    "Options",
    "Pattern",
    "PinholePattern",
    "Plane",
    "Proximity",
    "RasterizerCamera",
    "Raycaster",
    "RaytracerCamera",
    "RingPattern",
    "RosettePattern",
    "SACMLPBrain",
    "Scene",
    "SceneModule",
    "SensorSuite",
    "SensoriumError",
    "Sphere",
    "SphericalPattern",
    "TactileArray",
    "TemperatureGrid",
    "TileMap",
    "Trace",
    "TrainableEntity",
    "WeavePattern",
    "WheelOdometry",
    "__version__",
    "cameras",
    "datasets",
    "deploy",
    "doctor",
    "entities",
    "errors",
    "fit",
    "generation",
    "logs",
    "policies",
    "presets",
    "recording",
    "robots",
    "ros",
    "scenarios",
    "sensors",
    "suites",
    "tasks",
    "training",
    "units",
]


def __getattr__(name: str) -> object:
    if name in _LAZY:
        value: object = getattr(importlib.import_module(f"sensorium.{_LAZY[name]}"), name)
    elif name in _PACKAGES:
        value = importlib.import_module(f"sensorium.{name}")
    else:
        hint = "" if name.startswith("_") else errors.did_you_mean(name, __all__)
        raise AttributeError(f"module 'sensorium' has no attribute {name!r}{hint}")
    globals()[name] = value  # the next access does not come here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
