"""Sensorium: the sensory system of simulated robots. ``import sensorium as sn``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sensorium import presets as presets
from sensorium import sensors
from sensorium.errors import (
    AlreadyBuiltError,
    CapacityError,
    DeviceError,
    DivergenceError,
    DuplicateNameError,
    ModelError,
    NameNotFoundError,
    NotBuiltError,
    OptionError,
    SensoriumError,
    StateDictError,
    TreeError,
)
from sensorium.options import Options
from sensorium.pipeline import SensorGroup, Slots, Source
from sensorium.sensors import (
    IMU,
    ArrayPattern,
    Contact,
    ContactForce,
    FramePose,
    GridPattern,
    JointEncoder,
    PinholePattern,
    RingPattern,
    Sensor,
    SensorOptions,
    SimpleSensor,
    SimpleSensorOptions,
    SphericalPattern,
    Trace,
)
from sensorium.tree import Buffer, Module
from sensorium.worlds import Box, Capsule, Cylinder, Entity, Plane, Scene, Sphere

if TYPE_CHECKING:
    from sensorium.sensors import (
        DepthCamera,
        Lidar,
        Raycaster,
    )

__version__ = "0.1.0"

__all__ = [
    "IMU",
    "AlreadyBuiltError",
    "ArrayPattern",
    "Box",
    "Buffer",
    "CapacityError",
    "Capsule",
    "Contact",
    "ContactForce",
    "Cylinder",
    "DepthCamera",
    "DeviceError",
    "DivergenceError",
    "DuplicateNameError",
    "Entity",
    "FramePose",
    "GridPattern",
    "JointEncoder",
    "Lidar",
    "ModelError",
    "Module",
    "NameNotFoundError",
    "NotBuiltError",
    "OptionError",
    "Options",
    "PinholePattern",
    "Plane",
    "Raycaster",
    "RingPattern",
    "Scene",
    "Sensor",
    "SensorGroup",
    "SensorOptions",
    "SensoriumError",
    "SimpleSensor",
    "SimpleSensorOptions",
    "Slots",
    "Source",
    "Sphere",
    "SphericalPattern",
    "StateDictError",
    "Trace",
    "TreeError",
    "__version__",
    "presets",
]


def __getattr__(name: str) -> Any:
    if name in sensors._LAZY and name in __all__:
        return getattr(sensors, name)
    raise AttributeError(f"module 'sensorium' has no attribute {name!r}")
