"""Sensorium: the sensory system of simulated robots. ``import sensorium as sn``."""

from sensorium import presets as presets
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
    Contact,
    ContactForce,
    FramePose,
    JointEncoder,
    Sensor,
    SensorOptions,
    SimpleSensor,
    SimpleSensorOptions,
    Trace,
)
from sensorium.tree import Buffer, Module
from sensorium.worlds import Box, Capsule, Cylinder, Entity, Plane, Scene, Sphere

__version__ = "0.1.0"

__all__ = [
    "IMU",
    "AlreadyBuiltError",
    "Box",
    "Buffer",
    "CapacityError",
    "Capsule",
    "Contact",
    "ContactForce",
    "Cylinder",
    "DeviceError",
    "DivergenceError",
    "DuplicateNameError",
    "Entity",
    "FramePose",
    "JointEncoder",
    "ModelError",
    "Module",
    "NameNotFoundError",
    "NotBuiltError",
    "OptionError",
    "Options",
    "Plane",
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
    "StateDictError",
    "Trace",
    "TreeError",
    "__version__",
    "presets",
]
