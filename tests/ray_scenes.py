"""Scenes for the tests of ray-casting sensors: a room with known walls, and a scanning lidar before a wall."""

import math

import numpy as np

import sensorium as sn

SIZE = np.array([6.0, 4.0, 3.0])
ROLLED = (math.cos(0.2), math.sin(0.2), 0.0, 0.0)
TURNED = (0.8, 0.1, -0.3, 0.5)
ALL = ("distances", "points", "normals", "body_ids", "intensity")


def room(walls=True, at=(0, 0, 0), **options) -> sn.Scene:
    """Return a box room of SIZE around the origin without gravity, with a small free body ``base`` at a position."""
    scene = sn.Scene(**{"dt": 0.01, "substeps": 2, "gravity": (0, 0, 0), **options})
    for axis in range(3) if walls else ():
        for side in (-1, 1):
            extent, pos = SIZE + 2.0, np.zeros(3)
            extent[axis], pos[axis] = 0.5, side * (SIZE[axis] / 2 + 0.25)
            name = "wall" + "xyz"[axis] + ("+" if side > 0 else "-")
            scene.add_object(sn.Box(size=tuple(extent), collide=False), name=name, pos=tuple(pos))
    scene.add_object(sn.Sphere(radius=0.1), name="base", pos=at, free=True)
    return scene


def to_walls(origins, directions):
    """Return the distances to the walls of the room along unit directions."""
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = (np.sign(directions) * SIZE / 2 - origins) / directions
    return np.nanmin(np.where(directions == 0, np.inf, reach), axis=-1)


def matrix(quat):
    """Return the rotation matrix of a quaternion (w, x, y, z)."""
    w, x, y, z = np.array(quat) / np.linalg.norm(quat)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def place(scene, pos=None, quat=None, name="base"):
    """Set the pose of a body in all envs."""
    scene[name].set_pose(pos=pos, quat=quat)
    scene.forward()


def scanning_scene(n_envs=2, **options):
    """Return a scene with a movable wall 3 m ahead, its lidar, and the directions of the rays.

    The lidar scans 20 columns in 0.1 s: two columns per step.
    """
    scene = sn.Scene(dt=0.01, substeps=2, gravity=(0, 0, 0))
    scene.add_object(sn.Box(size=(0.2, 40, 40)), name="wall", pos=(3.1, 0, 0), free=True)
    scene.add_object(sn.Sphere(radius=0.1), name="base", free=True)
    pattern = sn.SphericalPattern(fov=(60, 10), n_points=(20, 3))
    lidar = scene.add_sensor(sn.Lidar(link="base", pattern=pattern, scan_rate=10.0, uuid="lidar", **options))
    scene.build(n_envs=n_envs, seed=2)
    return scene, lidar, pattern.rays()[1].reshape(3, 20, 3)
