"""URDF models, checked strictly before MuJoCo reads them; ``sn.robots.register_urdf`` is the way in.

===================== ================================================================================
module                what it does with a file, in order
===================== ================================================================================
``grammar``           which elements and attributes there may be
``description``       links, joints and shapes as values
``inertia``           masses and inertias that a body can have
``checks``            whether they make one robot
``meshes``            where mesh files are, and their vertices
``fitting``           the smallest box or cylinder around a convex hull
``approximate``       simpler shapes in place of others, and the report of it
``convert``           MuJoCo's model of it
``registry``          models by name
===================== ================================================================================
"""

from sensorium.worlds.urdf.approximate import Replacement, UrdfReport
from sensorium.worlds.urdf.convert import UrdfModel, read_urdf
from sensorium.worlds.urdf.registry import Registration, find, register, registered

__all__ = ["Registration", "Replacement", "UrdfModel", "UrdfReport", "find", "read_urdf", "register", "registered"]
