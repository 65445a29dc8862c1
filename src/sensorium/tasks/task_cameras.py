"""The cameras of a task: adding them to the scene, and drawing their poses and the look of the scene per episode."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import mujoco
import numpy as np

from sensorium.cameras import Camera
from sensorium.cameras.randomize import randomize_look
from sensorium.errors import NameNotFoundError, did_you_mean, shorten
from sensorium.options import checked_integer
from sensorium.robots import Robot
from sensorium.tasks.hook_results import checked_bodies
from sensorium.tasks.task_camera import TaskCamera
from sensorium.worlds import Scene

if TYPE_CHECKING:
    from sensorium.cameras.camera import CameraSensor
    from sensorium.tasks.episodes import EpisodeLoop

ROBOT = "robot"
"""Name of a task's robot in its scene."""
_MAX_DRAWS = 50
"""How many random poses are tried for a camera that must see something."""
_NEAR = 0.1
"""A ray hit within this distance of a point does not hide it, m: it is the object whose centre the point is."""


class CameraConfig(Protocol):
    """The options of a task."""

    @property
    def cameras(self) -> tuple[TaskCamera, ...]: ...


class CameraTask(Protocol):
    """What :func:`add_cameras` needs of a task."""

    @property
    def config(self) -> CameraConfig: ...
    @property
    def scene(self) -> Scene: ...
    @property
    def robot(self) -> Robot: ...


def add_cameras(task: CameraTask, roles: Sequence[str] = (), segmentation: bool = True) -> dict[str, CameraSensor]:
    """Add the cameras of a task's options to its scene, before it is built; returns them by name.

    Args:
        task: the task.
        roles: roles of its objects.
        segmentation: whether segmentation is rendered even if it is not observed.
    """
    sensors = {
        camera.name: task.scene.add_sensor(_options(task, camera, roles, segmentation))
        for camera in task.config.cameras
    }
    return cast("dict[str, CameraSensor]", sensors)


def randomize_cameras(task: EpisodeLoop[Any], envs: np.ndarray, rngs: Sequence[np.random.Generator]) -> None:
    """Draw the colours and lights of the scene and the poses of the cameras for new episodes.

    Args:
        task: the task.
        envs: (n,) ids of the envs whose episodes begin.
        rngs: one random generator per env.
    """
    options = task.config.randomize
    changed = bool(task.cameras) and bool(options.colors or options.lights)
    if changed:
        randomize_look(
            task.scene,
            intensity=(1 - options.lights, 1 + options.lights),
            direction=options.lights,
            colors=options.colors,
            envs=envs,
            seeds=[int(rng.integers(2**31)) for rng in rngs],
        )
    for camera in task.config.cameras:
        if camera.pose_jitter or camera.must_see:
            _aim(task, camera, envs, rngs)
            changed = True
    if changed and any(camera.is_timed for camera in task.cameras.values()):
        task.scene.forward(envs)  # frames that timed cameras captured at the reset show the old poses and colours


def _options(task: CameraTask, camera: TaskCamera, roles: Sequence[str], segmentation: bool) -> Camera:
    link = None
    if camera.link is not None:
        links = task.robot.link_names
        if camera.link not in links:
            hint = did_you_mean(camera.link, links) or f"; it has {shorten(links)}"
            raise NameNotFoundError(f"camera {camera.name!r}: the robot has no link {camera.link!r}{hint}")
        link = f"{task.robot.name}/{camera.link}"
    for role in camera.must_see:
        if role not in roles:
            hint = did_you_mean(role, roles) or (f"; it has {shorten(roles)}" if roles else "; it has no roles")
            raise NameNotFoundError(f"camera {camera.name!r}: must_see: the task has no role {role!r}{hint}")
    return camera.to_camera(link, segmentation)


def _aim(task: EpisodeLoop[Any], camera: TaskCamera, envs: np.ndarray, rngs: Sequence[np.random.Generator]) -> None:
    """Draw a camera's pose in each env until it sees what it must; after too many draws use the pose of the options."""
    sensor = task.cameras[camera.name]
    bodies = checked_bodies(task)
    targets = [task.body_poses(bodies[:, task.roles.index(role)])[:, :3] for role in camera.must_see]
    waiting = list(range(len(envs)))
    base_pos, base_lookat = np.asarray(camera.pos), np.asarray(camera.lookat)
    for attempt in range(_MAX_DRAWS + 1):
        offset = np.stack([rngs[i].uniform(-camera.pose_jitter, camera.pose_jitter, (2, 3)) for i in waiting])
        offset *= attempt < _MAX_DRAWS
        sensor.set_pose(pos=base_pos + offset[:, 0], lookat=base_lookat + offset[:, 1] / 2, envs=envs[waiting])
        seen = np.all([sees(task.scene, sensor, target) for target in targets], axis=0) | np.zeros(task.n_envs, bool)
        waiting = [i for i in waiting if not seen[envs[i]]]
        if not waiting:
            return
    warnings.warn(
        f"camera {camera.name!r} does not see {', '.join(camera.must_see)} in the envs {envs[waiting].tolist()} at any "
        f"of {_MAX_DRAWS} poses within {camera.pose_jitter} m; raise its pose_jitter, or change its pos and lookat",
        stacklevel=6,
    )


_TALL = 0.7
"""Height of a robot's base up to which a view of it is widened, m. Higher ones stand on something."""
_ARM = 0.55
"""Size of the view of an arm, m; other robots are seen by their radius."""


def render_env(scene: Scene, robots: Sequence[Robot], env: int) -> np.ndarray:
    """Return an image of one env with its robots in view, (480, 640, 3) uint8."""
    env = checked_integer("env", env, 0, scene.n_envs - 1)
    return scene.snapshot(env, width=640, height=480, camera=view_of(robots, env))


def view_of(robots: Sequence[Robot], env: int) -> mujoco.MjvCamera:
    """Return a free camera that shows the robots of one env."""
    places = np.array([robot.base_pose()[env, :3] for robot in robots])
    view = mujoco.MjvCamera()
    mujoco.mjv_defaultCamera(view)
    has_arm = any("arm" in name for robot in robots for name in robot.groups)
    view.lookat[:] = places.mean(axis=0) + np.array([0.0, 0.0, 0.35 if has_arm else 0.1])
    spread = float(np.linalg.norm(places - places.mean(axis=0), axis=1).max())
    height = float(places[:, 2].clip(0.0, _TALL).max())  # the base of a humanoid is at half of its height
    size = max(height, _ARM if has_arm else 0.0, *(robot.radius for robot in robots))
    view.distance = 0.6 + 3.0 * size + 2.2 * spread
    view.azimuth, view.elevation = 150.0, -20.0
    return view


def sees(scene: Scene, camera: CameraSensor, points: np.ndarray) -> np.ndarray:
    """Return in which envs a camera sees a point, (B,) bool: the point is in view and nothing hides it.

    Args:
        scene: the built scene.
        camera: the camera in it.
        points: (B, 3) m in the world frame.
    """
    matrices = camera.extrinsics_cv.numpy().astype(np.float64)
    local = (matrices[:, :, :3] @ points[:, :, None])[:, :, 0] + matrices[:, :, 3]
    pixels = (camera.intrinsics.numpy() @ local[:, :, None])[:, :2, 0] / np.maximum(local[:, 2:], 1e-9)
    size = np.array(camera.resolution)
    within = (local[:, 2] > 0) & ((pixels > 0.05 * size) & (pixels < 0.95 * size)).all(axis=1)
    eyes = camera.cam2world_gl[:, :3, 3].numpy().astype(np.float64)
    rays = points - eyes
    length = np.linalg.norm(rays, axis=1)
    hit = scene.world.rays(eyes[:, None], (rays / length[:, None])[:, None])[0].numpy()[:, 0]
    return within & ((hit < 0) | (hit > length - _NEAR))
