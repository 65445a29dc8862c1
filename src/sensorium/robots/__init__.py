"""Robots with actions in their own units and a rig of sensors: ``scene.add_robot("diffdrive")``."""

from sensorium.robots.catalogue import make, names
from sensorium.robots.drive import Drive
from sensorium.robots.group import GroupHandle
from sensorium.robots.manipulator import Manipulator, ManipulatorOptions
from sensorium.robots.move_group import MoveGroup
from sensorium.robots.rig import Rig, RigSensor, SensorMount, SensorRig
from sensorium.robots.robot import Robot
from sensorium.robots.robot_options import Action, RobotOptions
from sensorium.robots.urdf import register_urdf

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
    "register_urdf",
]
