"""What tasks of both kinds, :class:`Task` and tensor tasks, say about their scenes, episodes and cameras."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from pydantic import BaseModel

from sensorium.errors import OptionError
from sensorium.options import checked_integer
from sensorium.robots import Robot
from sensorium.suites import ObservationSensor, camera_images, camera_parameters
from sensorium.tasks.hook_results import description_of
from sensorium.tasks.protocols import PolicyLike
from sensorium.worlds import Scene

if TYPE_CHECKING:
    from sensorium.cameras.camera import CameraSensor
    from sensorium.tasks.task_camera import TaskCamera


class EpisodicTask(Protocol):
    """The part of a task that is described."""

    @property
    def name(self) -> str:
        """Name of the task."""

    @property
    def config(self) -> BaseModel:
        """The options."""

    @property
    def scene(self) -> Scene:
        """The built scene."""

    policy: PolicyLike | None
    episode: np.ndarray
    step_count: np.ndarray
    succeeded: np.ndarray

    def describe_env(self, env: int) -> dict[str, Any]:
        """Return the task-specific part of ``task_info`` for one env."""


def task_info(task: EpisodicTask) -> list[dict[str, Any]]:
    """Return one dict per env: the task, its description of the env, and the episode, step and success."""
    columns = (values.tolist() for values in (task.episode, task.step_count, task.succeeded))
    return [
        {"task": task.name, **description_of(task, env), "episode": episode, "step": step, "success": success}
        for env, (episode, step, success) in enumerate(zip(*columns, strict=True))
    ]


def scene_info(
    task: EpisodicTask,
    env: int,
    robot: Robot,
    roles: Sequence[str],
    cameras: Iterable[str],
    rig_cameras: Mapping[str, dict[str, Any]],
) -> dict[str, Any]:
    """Return a JSON-able description of one env: the task, its objects and cameras, and its options.

    Args:
        task: the task.
        env: the env.
        robot: its robot.
        roles: roles of objects in the task.
        cameras: names of all cameras.
        rig_cameras: options of the cameras of the robot's rig, by name.
    """
    env = checked_integer("env", env, 0, task.scene.n_envs - 1)
    groups, model, config = robot.groups, task.scene.model, task.config.model_dump(mode="json")
    return {
        "task": task.name,
        **description_of(task, env),
        "robot": config["robot"],
        "move_groups": {name: list(group.description.joints) for name, group in groups.items()},
        "group_kinds": {name: group.description.kind for name, group in groups.items()},
        "entities": list(task.scene.entities),
        "roles": list(roles),
        "cameras": list(cameras),
        "rig_cameras": dict(rig_cameras),
        "bodies": [model.body(body).name for body in range(model.nbody)],
        "config": config,
    }


def camera_sensors(cameras: Iterable[TaskCamera], built: Mapping[str, CameraSensor]) -> list[ObservationSensor]:
    """Return the sensors of the images and parameters of the cameras of a task's options.

    Args:
        cameras: the options.
        built: name -> camera in the scene.
    """
    sensors: list[ObservationSensor] = []
    for camera in cameras:
        sensors += camera_images(camera.name, built[camera.name], camera.observed)
        sensors.append(camera_parameters(camera.name, built[camera.name]))
    return sensors


def check_policy(task: EpisodicTask, policy: PolicyLike) -> None:
    """Check that a policy can be registered in a task.

    Raises:
        OptionError: the task has a policy already, or this one was made for another task.
    """
    if task.policy is not None:
        raise OptionError(
            f"the task has the policy {type(task.policy).__name__} already; make another task for another policy"
        )
    if not hasattr(policy, "create_policy_sensors") or getattr(policy, "task", task) is not task:
        raise OptionError(
            f"a policy must be made for this task, for example by policies.make('planner', task); got {policy!r}"
        )
