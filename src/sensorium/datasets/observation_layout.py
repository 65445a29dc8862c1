"""Where observations are stored in the HDF5 file of an episode.

::

    traj_7/                          attributes: schema, number, seed, task, robot, policy, fps, options, versions, and
                                     privileged: whether the observations include ground truth of sensors
        obs/agent/qpos, qvel         (T + 1, n), move groups side by side; attributes qpos_columns, qvel_columns
        obs/sensor_param/CAM/        intrinsic_cv, extrinsic_cv, cam2world_gl
        obs/sensor_data/CAM          name of the video file beside this file; also CAM_depth, CAM_segmentation
        obs/extra/UUID               every other sensor; nested ones as groups
        env_states/actors/NAME       (T + 1, 13): pose, linear and angular velocity, in the world frame
        env_states/articulations/    NAME (T + 1, 2 n): joint positions, joint velocities
        actions/action               (T, n): the commanded action, in the units of the controllers
        actions/FORM                 (T + 1, bytes): joint_pos, ee_pose, ...: text, decoded by ``suites.decode``
        rewards, terminated, truncated, success, fail        (T,)
        obs_scene                    JSON: the task, its objects, its cameras
        suite                        JSON: uuid -> path, space, owner, and whether it is privileged

Observations have one row more than actions: the first row is the observation at reset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np

SCHEMA = 1
_PARAMETERS = {"intrinsic": "intrinsic_cv", "extrinsic": "extrinsic_cv", "cam2world": "cam2world_gl"}
AGENT = ("qpos", "qvel")
"""Sensors whose move groups are stored side by side."""
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
"""Path -> unit, for arrays that have one."""

Nested: TypeAlias = "np.ndarray | Mapping[str, Nested]"
"""Observation of a sensor: an array (B, ...), or a nested mapping of arrays."""


def path_of(uuid: str) -> str:
    """Return the path of the array or group of a sensor, below ``traj_i``."""
    if uuid in AGENT:
        return f"obs/agent/{uuid}"
    if uuid == "env_states" or uuid.startswith("actions/"):
        return uuid
    if uuid.startswith("sensor_param_"):
        return f"obs/sensor_param/{uuid.removeprefix('sensor_param_')}"
    return f"obs/extra/{uuid}"


def arrays_of(uuid: str, value: Nested) -> Iterator[tuple[str, tuple[str, ...], np.ndarray]]:
    """Yield the path, the keys and the rows (B, ...) of each array in the observation of a sensor."""
    path = path_of(uuid)
    if path.startswith("obs/sensor_param/") and isinstance(value, Mapping):
        for name, part in value.items():
            assert isinstance(part, np.ndarray)
            yield f"{path}/{_PARAMETERS[name]}", (name,), part
    else:
        yield from _nested(path, (), value)


def _nested(path: str, keys: tuple[str, ...], value: Nested) -> Iterator[tuple[str, tuple[str, ...], np.ndarray]]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _nested(f"{path}/{name.replace('/', '%2F')}", (*keys, name), part)
    else:
        yield path, keys, value


def group_columns(value: Mapping[str, np.ndarray]) -> dict[str, list[int]]:
    """Return the columns of each move group in ``obs/agent/...``: name -> [first, last + 1]."""
    result, first = {}, 0
    for name, part in value.items():
        result[name] = [first, first + part.shape[1]]
        first += part.shape[1]
    return result
