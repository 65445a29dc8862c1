"""The cameras of a task: where they stand in each episode, and what the scene looks like to them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from sensorium.cameras import Camera
from sensorium.cameras.randomize import randomize_look
from sensorium.errors import NameNotFoundError, did_you_mean, shorten
from sensorium.tasks.config import TaskCamera
from sensorium.worlds import Scene

if TYPE_CHECKING:
    from sensorium.tasks.task import Task

ROBOT = "robot"
"""What a task's robot is called in its scene."""
_DRAWS = 50
"""How often a camera's pose is drawn before giving up on seeing what it must."""
_NEAR = 0.1
"""Metres around a point in which something may hide it: the thing whose middle it is."""


def add_cameras(task: Task[Any]) -> dict[str, Any]:
    """Add the cameras of a task's options to its scene, before build."""
    return {camera.name: task.scene.add_sensor(_options(task, camera)) for camera in task.config.cameras}


def renew(task: Task[Any], envs: np.ndarray, draws: Sequence[np.random.Generator]) -> None:
    """New looks and new poses of cameras, for episodes that begin in these envs."""
    look = task.config.randomize
    if task.cameras and (look.colors or look.lights):
        randomize_look(
            task.scene,
            intensity=(1 - look.lights, 1 + look.lights),
            direction=look.lights,
            colors=look.colors,
            envs=envs,
            seeds=[int(draw.integers(2**31)) for draw in draws],
        )
    for camera in task.config.cameras:
        if camera.jitter or camera.must_see:
            _aim(task, camera, envs, draws)


def _options(task: Task[Any], camera: TaskCamera) -> Camera:
    link = None
    if camera.link is not None:
        links = task.robot.link_names
        if camera.link not in links:
            hint = did_you_mean(camera.link, links) or f"; it has {shorten(links)}"
            raise NameNotFoundError(f"camera {camera.name!r}: the robot has no link {camera.link!r}{hint}")
        link = f"{task.robot.name}/{camera.link}"
    for role in camera.must_see:
        if role not in task.roles:
            hint = did_you_mean(role, task.roles) or f"; there are {shorten(task.roles)}"
            raise NameNotFoundError(f"camera {camera.name!r} must see {role!r}, which the task has not{hint}")
    return Camera(
        uuid=camera.name,
        link=link,
        pos=camera.pos,
        lookat=camera.lookat,
        fov=camera.fov,
        resolution=camera.resolution,
        outputs=("rgb", "depth", "segmentation") if camera.depth else ("rgb", "segmentation"),
    )


def _aim(task: Task[Any], camera: TaskCamera, envs: np.ndarray, draws: Sequence[np.random.Generator]) -> None:
    """Draw a camera's pose in each env until it sees what it must; the pose of the options is the last resort."""
    sensor = task.cameras[camera.name]
    bodies = task.role_bodies()
    targets = [task.body_poses(bodies[:, task.roles.index(role)])[:, :3] for role in camera.must_see]
    waiting = list(range(len(envs)))
    for attempt in range(_DRAWS + 1):
        off = np.stack([draws[i].uniform(-camera.jitter, camera.jitter, (2, 3)) for i in waiting])
        off *= attempt < _DRAWS
        sensor.set_pose(pos=camera.pos + off[:, 0], lookat=camera.lookat + off[:, 1] / 2, envs=envs[waiting])
        seen = np.all([sees(task, sensor, target) for target in targets], axis=0) | np.zeros(task.n_envs, bool)
        waiting = [i for i in waiting if not seen[envs[i]]]
        if not waiting:
            return
    warnings.warn(
        f"camera {camera.name!r} does not see {', '.join(camera.must_see)} in the envs {envs[waiting].tolist()}, at any"
        f" of {_DRAWS} poses within {camera.jitter} m; give it more room, or another place",
        stacklevel=6,
    )


def picture(scene: Scene, robots: Sequence[Any], env: int) -> np.ndarray:
    """One env as it is now, with its robots in view, (480, 640, 3) uint8."""
    places = np.array([robot.base_pose()[env, :3] for robot in robots])
    view = mujoco.MjvCamera()
    mujoco.mjv_defaultCamera(view)
    view.lookat[:] = places.mean(axis=0) + np.array([0.0, 0.0, 0.1])
    apart = float(np.linalg.norm(places - places.mean(axis=0), axis=1).max())
    view.distance = 0.6 + 3.0 * max(robot.radius for robot in robots) + 2.2 * apart
    view.azimuth, view.elevation = 150.0, -20.0
    return scene.snapshot(env, camera=view)


def sees(task: Task[Any], camera: Any, points: np.ndarray) -> np.ndarray:
    """In which envs a point, (B, 3) in the world, lies in view of a camera and nothing hides it, (B,) bool."""
    matrices = camera.extrinsics_cv.numpy().astype(np.float64)
    there = (matrices[:, :, :3] @ points[:, :, None])[:, :, 0] + matrices[:, :, 3]
    pixels = (camera.intrinsics.numpy() @ there[:, :, None])[:, :2, 0] / np.maximum(there[:, 2:], 1e-9)
    size = np.array(camera.resolution)
    within = (there[:, 2] > 0) & ((pixels > 0.05 * size) & (pixels < 0.95 * size)).all(axis=1)
    eyes = camera.cam2world_gl[:, :3, 3].numpy().astype(np.float64)
    way = points - eyes
    length = np.linalg.norm(way, axis=1)
    hit = task.scene.world.rays(eyes[:, None], (way / length[:, None])[:, None])[0].numpy()[:, 0]
    return within & ((hit < 0) | (hit > length - _NEAR))
