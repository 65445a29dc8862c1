"""The observation sensors that every task has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sensorium._arguments import checked
from sensorium.suites import (
    ArraySensor,
    DictSensor,
    ObservationSensor,
    env_states,
    object_image_points,
    robot_state,
)
from sensorium.tasks.descriptions import camera_sensors
from sensorium.tasks.hook_results import checked_bodies

if TYPE_CHECKING:
    from sensorium.tasks.config import TaskConfig
    from sensorium.tasks.task import Task


@checked
def get_core_sensors(task: Task[Any], config: TaskConfig) -> list[ObservationSensor]:
    """Return the sensors that every task has.

    In this order: the cameras with their parameters, ``qpos``, ``qvel``, ``robot_base_pose``, ``env_states``,
    ``task_info``, the five ``actions/...`` and ``object_image_points``.
    """
    sensors = camera_sensors(config.cameras, task.cameras)
    sensors += robot_state(task.robot)
    sensors.append(env_states(task.scene))
    sensors.append(DictSensor("task_info", task.task_info, config.str_max_len))
    sensors += task.actions.sensors(config.str_max_len)
    seeing = {name: camera for name, camera in task.cameras.items() if "segmentation" in camera.outputs}
    sensors.append(object_image_points(seeing, lambda: _role_table(task), task.roles, task.n_envs))
    return sensors


def target_poses(
    task: Task[Any], start: Callable[[], np.ndarray], end: Callable[[], np.ndarray]
) -> list[ObservationSensor]:
    """Return the sensors of tasks that move an object.

    ``object_poses`` (7,) by role, in the frame of the robot's base; ``obj_start_pose`` and ``obj_end_pose`` (7,) of the
    object that the task moves, in the world frame.

    Args:
        task: the task.
        start: returns the poses (B, 7) at the start of the episodes.
        end: returns the goal poses (B, 7).
    """

    def object_poses() -> dict[str, np.ndarray]:
        bodies = checked_bodies(task)
        return {role: task.robot.in_base_frame(task.body_poses(bodies[:, i])) for i, role in enumerate(task.roles)}

    return [
        ArraySensor("object_poses", object_poses, dict.fromkeys(task.roles, (7,))),
        ArraySensor("obj_start_pose", start, (7,)),
        ArraySensor("obj_end_pose", end, (7,)),
    ]


def _role_table(task: Task[Any]) -> np.ndarray:
    """Return (B, bodies) int: the index of the role that each body plays in each env, or -1."""
    model = task.scene.model
    chosen = checked_bodies(task)
    table = np.full((task.n_envs, model.nbody), -1, np.int64)
    for role in range(chosen.shape[1]):
        belongs = model.body_rootid[None, :] == chosen[:, role, None]
        belongs |= np.arange(model.nbody)[None, :] == chosen[:, role, None]
        table[belongs] = role
    return table
