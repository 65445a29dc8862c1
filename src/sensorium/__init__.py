"""Sensorium: the sensory system of simulated robots. ``import sensorium as sn``."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sensorium import presets as presets
from sensorium import sensors
from sensorium.errors import (
    AlreadyBuiltError,
    CapacityError,
    DatasetError,
    DeviceError,
    DivergenceError,
    DuplicateNameError,
    EpisodeOverError,
    GenerationError,
    ModelError,
    NameNotFoundError,
    NotBuiltError,
    OptionError,
    SensoriumError,
    StateDictError,
    TreeError,
)
from sensorium.options import Options
from sensorium.pipeline import AxisImperfections, Imperfections, SensorGroup, SignalSource, Slots
from sensorium.sensors import (
    GPS,
    IMU,
    MATERIALS,
    ArrayPattern,
    Barometer,
    BatteryState,
    Clock,
    Contact,
    ContactForce,
    ForceTorque,
    FramePose,
    GridPattern,
    JointEncoder,
    JointTorque,
    Magnetometer,
    Material,
    OpticalFlow,
    Pattern,
    PinholePattern,
    RingPattern,
    Sensor,
    SensorOptions,
    SimpleSensor,
    SimpleSensorOptions,
    SphericalPattern,
    TemperatureGrid,
    Trace,
    WheelOdometry,
)
from sensorium.tree import Buffer, Module
from sensorium.worlds import Box, Capsule, Cylinder, Entity, Light, Plane, Scene, SceneModule, Sphere, TileMap

if TYPE_CHECKING:
    from sensorium import cameras, datasets, entities, generation, policies, recording, robots, scenarios, suites, tasks
    from sensorium.cameras import (
        BatchRendererCamera,
        Camera,
        CameraData,
        CameraProfile,
        RasterizerCamera,
        RaytracerCamera,
    )
    from sensorium.entities import SACMLPBrain, TrainableEntity
    from sensorium.sensors import (
        ContactDepthProbe,
        ContactProbe,
        DepthCamera,
        ElastomerDisplacement,
        ElastomerTaxel,
        KinematicContactProbe,
        KinematicTaxel,
        Lidar,
        Proximity,
        Raycaster,
        SurfaceDistanceProbe,
        TactileArray,
    )

__version__ = "0.1.0"

_CAMERAS = ("BatchRendererCamera", "Camera", "CameraData", "CameraProfile", "RasterizerCamera", "RaytracerCamera")
"""What is imported from ``sensorium.cameras`` when it is used."""
_ENTITIES = ("SACMLPBrain", "TrainableEntity")
"""What is imported from ``sensorium.entities`` when it is used."""
_PACKAGES = (
    "cameras",
    "datasets",
    "entities",
    "generation",
    "policies",
    "recording",
    "robots",
    "scenarios",
    "suites",
    "tasks",
    "training",
)
"""Packages that are imported when they are used."""

__all__ = [
    "GPS",
    "IMU",
    "MATERIALS",
    "AlreadyBuiltError",
    "ArrayPattern",
    "AxisImperfections",
    "Barometer",
    "BatchRendererCamera",
    "BatteryState",
    "Box",
    "Buffer",
    "Camera",
    "CameraData",
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
    "DuplicateNameError",
    "ElastomerDisplacement",
    "ElastomerTaxel",
    "Entity",
    "EpisodeOverError",
    "ForceTorque",
    "FramePose",
    "GenerationError",
    "GridPattern",
    "Imperfections",
    "JointEncoder",
    "JointTorque",
    "KinematicContactProbe",
    "KinematicTaxel",
    "Lidar",
    "Light",
    "Magnetometer",
    "Material",
    "ModelError",
    "Module",
    "NameNotFoundError",
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
    "SACMLPBrain",
    "Scene",
    "SceneModule",
    "Sensor",
    "SensorGroup",
    "SensorOptions",
    "SensoriumError",
    "SignalSource",
    "SimpleSensor",
    "SimpleSensorOptions",
    "Slots",
    "Sphere",
    "SphericalPattern",
    "StateDictError",
    "SurfaceDistanceProbe",
    "TactileArray",
    "TemperatureGrid",
    "TileMap",
    "Trace",
    "TrainableEntity",
    "TreeError",
    "WheelOdometry",
    "__version__",
    "cameras",
    "datasets",
    "entities",
    "generation",
    "policies",
    "presets",
    "recording",
    "robots",
    "scenarios",
    "suites",
    "tasks",
    "training",
]


def __getattr__(name: str) -> Any:
    if name in sensors._LAZY and name in __all__:
        return getattr(sensors, name)
    if name in _CAMERAS:
        return getattr(importlib.import_module("sensorium.cameras"), name)
    if name in _ENTITIES:
        return getattr(importlib.import_module("sensorium.entities"), name)
    if name in _PACKAGES:
        return importlib.import_module(f"sensorium.{name}")
    raise AttributeError(f"module 'sensorium' has no attribute {name!r}")
