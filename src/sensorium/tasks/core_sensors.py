"""The observation sensors that every task has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sensorium.suites import (
    DictSensor,
    ObservationSensor,
    camera_images,
    camera_parameters,
    env_states,
    object_image_points,
    robot_state,
)

if TYPE_CHECKING:
    from sensorium.tasks.config import TaskConfig
    from sensorium.tasks.task import Task


def get_core_sensors(task: Task[Any], config: TaskConfig) -> list[ObservationSensor]:
    """Return the sensors that every task has.

    In this order: the cameras with their parameters, ``qpos``, ``qvel``, ``robot_base_pose``, ``env_states``,
    ``task_info``, the five ``actions/...`` and ``object_image_points``.
    """
    sensors: list[ObservationSensor] = []
    for camera in config.cameras:
        wanted = {
            camera.name,
            f"{camera.name}_depth" * camera.depth,
            f"{camera.name}_segmentation" * camera.segmentation,
        }
        sensor = task.cameras[camera.name]
        sensors += [image for image in camera_images(camera.name, sensor) if image.uuid in wanted]
        sensors.append(camera_parameters(camera.name, sensor))
    sensors += robot_state(task.robot)
    sensors.append(env_states(task.scene))
    sensors.append(DictSensor("task_info", task.task_info, config.str_max_len))
    sensors += task.actions.sensors(config.str_max_len)
    sensors.append(object_image_points(task.cameras, lambda: _role_table(task), task.roles, task.n_envs))
    return sensors


def _role_table(task: Task[Any]) -> np.ndarray:
    """Return (B, bodies) int: the index of the role that each body plays in each env, or -1."""
    model = task.scene.model
    chosen = task.role_bodies()
    table = np.full((task.n_envs, model.nbody), -1, np.int64)
    for role in range(chosen.shape[1]):
        belongs = model.body_rootid[None, :] == chosen[:, role, None]
        belongs |= np.arange(model.nbody)[None, :] == chosen[:, role, None]
        table[belongs] = role
    return table
