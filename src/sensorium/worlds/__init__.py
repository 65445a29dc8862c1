"""Worlds: what is there (Scene), and the engines that move it."""

from sensorium.worlds.changes import Changes
from sensorium.worlds.device import upload
from sensorium.worlds.entity import Entity
from sensorium.worlds.lights import Light
from sensorium.worlds.mujoco_world import MujocoWorld
from sensorium.worlds.names import Names
from sensorium.worlds.painter import Painter
from sensorium.worlds.part import Part
from sensorium.worlds.primitives import Box, Capsule, Cylinder, Plane, Primitive, Sphere
from sensorium.worlds.rays import RayBatch
from sensorium.worlds.scene import Scene
from sensorium.worlds.scene_options import SceneOptions
from sensorium.worlds.sensing import Sensing
from sensorium.worlds.tile_map import TileMap
from sensorium.worlds.world import CapturingWorld, Envs, World, env_ids, env_index

__all__ = [
    "Box",
    "Capsule",
    "CapturingWorld",
    "Changes",
    "Cylinder",
    "Entity",
    "Envs",
    "Light",
    "MujocoWorld",
    "Names",
    "Painter",
    "Part",
    "Plane",
    "Primitive",
    "RayBatch",
    "Scene",
    "SceneOptions",
    "Sensing",
    "Sphere",
    "TileMap",
    "World",
    "env_ids",
    "env_index",
    "upload",
]
