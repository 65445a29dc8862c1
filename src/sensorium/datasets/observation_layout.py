"""Where observations are stored in the HDF5 file of an episode.

::

    traj_7/                          attributes: schema, number, seed, task, robot, policy, fps, options, versions, and
                                     privileged: whether the observations include ground truth of sensors
        obs/agent/qpos, qvel         (T + 1, n), move groups side by side; attributes qpos_columns, qvel_columns
        obs/sensor_param/CAM/        intrinsic_cv, extrinsic_cv, cam2world_gl
        obs/sensor_data/CAM          name of the video file beside this file; also CAM_depth, CAM_segmentation, and the
                                     images of other sensors; attributes: codec, unit, scale, kind, shape, dtype
        obs/extra/UUID               every other sensor; nested ones as groups
        env_states/actors/NAME       (T + 1, 13): pose, linear and angular velocity, in the world frame
        env_states/articulations/    NAME (T + 1, 2 n): joint positions, joint velocities
        actions/action               (T, n): the commanded action, in the units of the controllers
        actions/FORM                 (T + 1, bytes): joint_pos, ee_pose, ...: text, decoded by ``suites.decode``
        rewards, terminated, truncated, success, fail        (T,)
        obs_scene                    JSON: the task, its objects, its cameras
        suite                        JSON: uuid -> path, space, owner, purpose, whether it is privileged, and type and
                                     options of a sensor of the scene

Observations have one row more than actions: the first row is the observation at reset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

from sensorium.datasets.image_formats import SensorImages
from sensorium.errors import OptionError
from sensorium.suites import SensorSuite

SCHEMA = 1
STEP_PATHS = ("actions/action", "rewards", "terminated", "truncated", "success", "fail")
"""Arrays with one row per step; all others have one row per observation."""
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
    return _nested(path_of(uuid), (), value, _PARAMETERS if uuid.startswith("sensor_param_") else {})


def _nested(
    path: str, keys: tuple[str, ...], value: object, names: Mapping[str, str]
) -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """Yield the path, the keys and the value of each leaf of nested mappings; ``names`` renames the top keys."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _nested(f"{path}/{escape(names.get(name, name))}", (*keys, name), part, {})
    else:
        yield path, keys, value


def escape(name: str) -> str:
    """Return a name without slashes, for one part of a path or a file name."""
    return name.replace("/", "%2F")


def video_path_of(name: str) -> str:
    """Return the path of the entry of a video, below ``traj_i``."""
    return f"obs/sensor_data/{name}"


def check_paths(suite: SensorSuite, streams: Sequence[SensorImages]) -> None:
    """Check that every sensor of a suite has its own place in a file.

    Raises:
        OptionError: a uuid is no path, is a path of the file itself, or two sensors would share a path.
    """
    videos = {(stream.uuid, stream.keys) for stream in streams}
    found = [(video_path_of(stream.name), f"the sensor {stream.uuid!r}") for stream in streams]
    for uuid, sensor in suite.items():
        if any(part in ("", ".", "..") or "\0" in part for part in uuid.split("/")):
            raise OptionError(f"the uuid {uuid!r} cannot be stored: it must consist of names, separated by single '/'")
        if uuid in AGENT and isinstance(sensor.space, spaces.Dict):  # its move groups are columns of one array
            found.append((path_of(uuid), f"the sensor {uuid!r}"))
            continue
        names = _PARAMETERS if uuid.startswith("sensor_param_") else {}
        leaves = _nested(path_of(uuid), (), sensor.space, names) if not sensor.is_dict else [(path_of(uuid), (), None)]
        found += [(path, f"the sensor {uuid!r}") for path, keys, _ in leaves if (uuid, keys) not in videos]
    arrays = dict.fromkeys((*STEP_PATHS, "obs_scene", "suite"), "the file itself")
    groups = dict.fromkeys(("obs", "obs/agent", "obs/extra", "obs/sensor_data", "obs/sensor_param"), "the file itself")
    for path, who in found:
        parts = path.split("/")
        above = ["/".join(parts[:end]) for end in range(1, len(parts))]
        other = arrays.get(path) or groups.get(path) or next((arrays[each] for each in above if each in arrays), None)
        if other is not None:
            raise OptionError(f"{who} would be stored at {path!r}, which {other} uses; rename the sensor")
        arrays[path] = who
        groups |= {each: who for each in above if each not in groups}


def group_columns(value: Mapping[str, np.ndarray]) -> dict[str, list[int]]:
    """Return the columns of each move group in ``obs/agent/...``: name -> [first, last + 1]."""
    result, first = {}, 0
    for name, part in value.items():
        result[name] = [first, first + part.shape[1]]
        first += part.shape[1]
    return result
