"""Robots that act in units of their own and carry a rig of sensors: ``sn.robots.make("diffdrive")``."""

from sensorium.robots.catalogue import make, names
from sensorium.robots.drive import Drive
from sensorium.robots.group import GroupHandle
from sensorium.robots.manipulator import Manipulator, ManipulatorOptions
from sensorium.robots.move_group import MoveGroup
from sensorium.robots.rig import Rig, RigSensor, SensorMount, SensorRig
from sensorium.robots.robot import Action, Robot, RobotOptions

__all__ = [
    "Action",
    "Drive",
    "GroupHandle",
    "Manipulator",
    "ManipulatorOptions",
    "MoveGroup",
    "Rig",
    "RigSensor",
    "Robot",
    "RobotOptions",
    "SensorMount",
    "SensorRig",
    "make",
    "names",
]
