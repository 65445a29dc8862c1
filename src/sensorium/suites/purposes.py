"""Purposes of observation sensors: what a robot could sense, the true state, and annotations of the data."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Literal, get_args

from sensorium.errors import OptionError

Purpose = Literal["observation", "privileged", "annotation"]
"""Who may use a sensor.

"observation": policies; a robot could sense it. "privileged": teachers, critics and rewards; it is the true state of
the simulation. "annotation": no policy; it labels the data."""

PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
_NAMED: dict[str, Purpose] = {
    "privileged/*": "privileged",
    "env_states": "privileged",
    "robot_base_pose": "privileged",
    "object_poses": "privileged",
    "obj_start_pose": "privileged",
    "obj_end_pose": "privileged",
    "grasp_pose": "privileged",
    "grasp_state_*": "privileged",
    "nav_state": "privileged",
    "door_state": "privileged",
    "sensor_param_*": "annotation",
    "object_image_points": "annotation",
    "*_segmentation": "annotation",
    "*_instance": "annotation",
    "*_normals": "annotation",
    "task_info": "annotation",
    "actions/*": "annotation",
    "policy_phase": "annotation",
    "policy_phase_*": "annotation",
    "policy_num_retries": "annotation",
}
"""Pattern of a uuid -> purpose, for the sensors of tasks, robots and policies. All others are observations."""


def default_purpose(uuid: str) -> Purpose:
    """Return the purpose of a sensor that has not set one, from its uuid."""
    return next((purpose for pattern, purpose in _NAMED.items() if fnmatchcase(uuid, pattern)), "observation")


def check_purpose(uuid: str, purpose: str) -> None:
    """Check the purpose of a sensor.

    Raises:
        OptionError: it is not one of :data:`PURPOSES`.
    """
    if purpose not in PURPOSES:
        raise OptionError(f"{uuid!r}: purpose must be one of {', '.join(PURPOSES)}; got {purpose!r}")
