"""Commands of arm controllers that move an arm to given joint positions."""

from __future__ import annotations

import numpy as np

from sensorium.errors import OptionError
from sensorium.robots import GroupHandle, Robot


def arm_command(robot: Robot, arm: GroupHandle, joints: np.ndarray, pose: np.ndarray, dt: float) -> np.ndarray:
    """Return the command (B, n) of an arm's controller that moves the arm to joint positions in one step.

    Args:
        robot: the robot.
        arm: the arm.
        joints: (B, n) joint positions, rad or m.
        pose: (B, 7) pose of the tool at those positions, in the world frame.
        dt: duration of one step, s.

    Raises:
        OptionError: the planner does not support the arm's controller.
    """
    kind = arm.controller.name
    if kind == "joint_position":
        return joints
    if kind == "joint_position_relative":
        return joints - arm.target
    if kind == "joint_velocity":
        return (joints - arm.target) / dt
    if kind == "ee_pose":
        return robot.in_base_frame(pose)
    raise OptionError(
        f"the planner does not support the arm controller {kind!r}; use joint_position, joint_position_relative, "
        "joint_velocity or ee_pose"
    )
