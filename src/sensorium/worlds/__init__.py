"""Scenes, and the physics engines that simulate them."""

from sensorium.worlds.changes import Changes
from sensorium.worlds.contacts import ContactPair
from sensorium.worlds.device import upload
from sensorium.worlds.entity import Entity
from sensorium.worlds.environments import EnvironmentMap
from sensorium.worlds.lights import Light
from sensorium.worlds.loop import Loop, run_on_device
from sensorium.worlds.mujoco_world import MujocoWorld
from sensorium.worlds.names import Names
from sensorium.worlds.painter import Painter
from sensorium.worlds.primitives import Box, Capsule, Cylinder, Plane, Primitive, Sphere
from sensorium.worlds.rays import RayBatch
from sensorium.worlds.scene import Scene
from sensorium.worlds.scene_module import SceneModule
from sensorium.worlds.scene_options import SceneOptions
from sensorium.worlds.scene_robot import SceneRobot
from sensorium.worlds.sensing import Sensing
from sensorium.worlds.tile_map import TileMap
from sensorium.worlds.world import ArrayLike, CpuWorld, Envs, GpuWorld, World, env_ids, env_index, env_mask

__all__ = [
    "ArrayLike",
    "Box",
    "Capsule",
    "Changes",
    "ContactPair",
    "CpuWorld",
    "Cylinder",
    "Entity",
    "EnvironmentMap",
    "Envs",
    "GpuWorld",
    "Light",
    "Loop",
    "MujocoWorld",
    "Names",
    "Painter",
    "Plane",
    "Primitive",
    "RayBatch",
    "Scene",
    "SceneModule",
    "SceneOptions",
    "SceneRobot",
    "Sensing",
    "Sphere",
    "TileMap",
    "World",
    "env_ids",
    "env_index",
    "env_mask",
    "run_on_device",
    "upload",
]
