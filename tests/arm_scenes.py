"""Scenes with one robot of the catalogue, and helpers of the tests of manipulators."""

import math
import time

import mujoco
import numpy as np

import sensorium as sn
from sensorium.robots import make

ARMS = ["franka", "mobile_franka", "floating_gripper", "bimanual", "yam", "rby1"]
NEAR = (1e-3, math.radians(0.5))
DOWN = (0.0, 1.0, 0.0, 0.0)


def build(robot, n_envs=1, objects=(), seed=0, **options):
    """Return a scene with a robot on a plane and contacts for grasping, at steps of 20 ms, and the robot."""
    scene = sn.Scene(dt=0.02, substeps=10, cone="elliptic", impratio=10)
    scene.add_terrain(sn.Plane(), name="ground")
    robot = scene.add_robot(make(robot, **options) if isinstance(robot, str) else robot, name="robot")
    for name, (shape, pos) in dict(objects).items():
        scene.add_object(shape, name=name, pos=pos, free=True)
    scene.build(n_envs=n_envs, seed=seed)
    return scene, robot


def arms(robot):
    return [group for group in robot.groups.values() if group.description.kind == "arm"]


def turned(first, second):
    """Return the angle between orientations (w, x, y, z), rad."""
    return 2 * np.arccos(np.clip(np.abs((first * second).sum(axis=-1)), 0, 1))


def draw(group, count, seed=0):
    return np.random.default_rng(seed).uniform(group.limits[:, 0], group.limits[:, 1], (count, len(group.limits)))


def in_base(robot, pose):
    """Return poses in the frame of the robot's base."""
    seen = np.empty_like(pose)
    for row, (base, each) in enumerate(zip(robot.base_pose(), pose, strict=True)):
        back = base[3:] * [1, -1, -1, -1]
        mujoco.mju_rotVecQuat(seen[row, :3], each[:3] - base[:3], back)
        mujoco.mju_mulQuat(seen[row, 3:], back, each[3:])
    return seen


def best(call, repeats=30):
    """Return the min duration of a call, s."""
    call()
    return min(_timed(call) for _ in range(repeats))


def _timed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
