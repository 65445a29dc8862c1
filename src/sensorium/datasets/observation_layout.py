"""Where an observation lies in the file of an episode.

::

    traj_7/                          attributes: schema, number, seed, task, robot, policy, fps, options, versions,
                                     privileged: whether there is ground truth of sensors among the observations
        obs/agent/qpos, qvel         (T + 1, n), move groups side by side; attribute "columns" says which are whose
        obs/sensor_param/CAM/        intrinsic_cv, extrinsic_cv, cam2world_gl
        obs/sensor_data/CAM          name of the video beside this file; also CAM_depth, CAM_segmentation
        obs/extra/UUID               every other sensor; nested ones as groups
        env_states/actors/NAME       (T + 1, 13): pose, linear and angular velocity, in the world frame
        env_states/articulations/    NAME (T + 1, 2 n): joint positions, joint velocities
        actions/action               (T, n): what was told, in the units of the controllers
        actions/FORM                 (T + 1, bytes): joint_pos, ee_pose, ...: text, as ``suites.decode`` reads it
        rewards, terminated, truncated, success, fail        (T,)
        obs_scene                    JSON: the task, its things, its cameras
        suite                        JSON: uuid -> where it lies, its space, its owner, whether it is privileged

Observations have one row more than actions: the first is that of the reset.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

SCHEMA = 1
_PARAMETERS = {"intrinsic": "intrinsic_cv", "extrinsic": "extrinsic_cv", "cam2world": "cam2world_gl"}
AGENT = ("qpos", "qvel")
"""Sensors whose move groups lie side by side."""
UNITS = {
    "obs/agent/qpos": "rad or m",
    "obs/agent/qvel": "rad/s or m/s",
    "obs/extra/robot_base_pose": "m and (w, x, y, z), world frame",
    "obs/extra/tcp_pose": "m and (w, x, y, z), frame of the robot's base",
    "obs/extra/grasp_pose": "m and (w, x, y, z), frame of the robot's base",
    "obs/extra/obj_start_pose": "m and (w, x, y, z), world frame",
    "obs/extra/obj_end_pose": "m and (w, x, y, z), world frame",
    "rewards": "1",
}
"""Units, of what has one."""


def place(uuid: str) -> str:
    """Where a sensor lies below ``traj_i``, or its group."""
    if uuid in AGENT:
        return f"obs/agent/{uuid}"
    if uuid == "env_states" or uuid.startswith("actions/"):
        return uuid
    if uuid.startswith("sensor_param_"):
        return f"obs/sensor_param/{uuid.removeprefix('sensor_param_')}"
    return f"obs/extra/{uuid}"


def leaves(uuid: str, value: Any) -> Iterator[tuple[str, tuple[str, ...], np.ndarray]]:
    """Path, keys and rows (B, ...) of each array of a sensor's observation."""
    at = place(uuid)
    if at.startswith("obs/sensor_param/"):
        for name, part in value.items():
            yield f"{at}/{_PARAMETERS[name]}", (name,), part
    else:
        yield from _nested(at, (), value)


def _nested(at: str, keys: tuple[str, ...], value: Any) -> Iterator[tuple[str, tuple[str, ...], np.ndarray]]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _nested(f"{at}/{name.replace('/', '%2F')}", (*keys, name), part)
    else:
        yield at, keys, value


def columns(value: dict[str, np.ndarray]) -> dict[str, list[int]]:
    """Which columns of ``obs/agent/...`` are whose: move group -> first and last + 1."""
    result, first = {}, 0
    for name, part in value.items():
        result[name] = [first, first + part.shape[1]]
        first += part.shape[1]
    return result
