"""Strict loading of URDF models; the public entry point is ``sn.robots.register_urdf``.

A file passes through these modules, in order:

===================== ================================================================================
module                task
===================== ================================================================================
``grammar``           checks elements and attributes
``description``       converts elements to links, joints and shapes
``inertia``           checks or repairs masses and inertias
``checks``            checks that links and joints form one robot
``meshes``            finds mesh files and reads their vertices
``collada``           reads .dae files
``mesh_files``        reads text STL, writes meshes for MuJoCo
``fitting``           fits the smallest box or cylinder around a convex hull
``approximate``       replaces collision shapes by simpler ones; defines the report
``servos``            adds motors and servos
``convert``           creates MuJoCo's model
``registry``          stores models by name
===================== ================================================================================
"""

from sensorium.worlds.urdf.approximate import Replacement, UrdfReport
from sensorium.worlds.urdf.convert import UrdfModel, read_urdf
from sensorium.worlds.urdf.registry import Registration, find, register, registered
from sensorium.worlds.urdf.servos import Servos

__all__ = [
    "Registration",
    "Replacement",
    "Servos",
    "UrdfModel",
    "UrdfReport",
    "find",
    "read_urdf",
    "register",
    "registered",
]
