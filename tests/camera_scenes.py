"""Scenes and options that several camera tests share."""

import gc
import threading

from conftest import ARM

import sensorium as sn

ALL = ("rgb", "depth", "segmentation", "instance", "normals", "points")


def room(**options):
    """Return a scene with a wall 3 m in front of the camera, a box that falls past it, and an arm."""
    scene = sn.Scene(**{"dt": 0.01, "substeps": 2, **options})
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(size=(0.2, 6, 6)), name="wall", pos=(3.1, 0, 1))
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), rgba=(1, 0, 0, 1)), name="box", pos=(1, 0, 1.2), free=True)
    scene.add_robot(ARM, name="arm", pos=(1.5, 0.5, 0))
    return scene


def n_threads():
    """Return the number of threads, after freeing the scenes of other tests."""
    gc.collect()
    return threading.active_count()


def front(**options):
    """Return the options of a camera that looks at the wall."""
    return sn.Camera(
        **{"uuid": "front", "pos": (0, 0, 1), "lookat": (3, 0, 1), "resolution": (32, 24), "fov": 60, **options}
    )


def build_room(*cameras, n_envs=3, **options):
    """Build the room with these cameras, and return the scene and the sensors."""
    scene = room(**options)
    sensors = [scene.add_sensor(camera) for camera in cameras]
    scene.build(n_envs=n_envs)
    return scene, *sensors
