"""What to tell a controller so that an arm goes where it is wanted."""

from __future__ import annotations

from typing import Any

import numpy as np

from sensorium.errors import OptionError


def command(robot: Any, group: Any, joints: np.ndarray, pose: np.ndarray, dt: float) -> np.ndarray:
    """Numbers (B, n) for an arm's controller, whichever it is.

    Args:
        robot: whose arm it is.
        group: the arm.
        joints: (B, n) wanted joint positions.
        pose: (B, 7) the pose of the tool at those, in the world frame.
        dt: seconds of one step.
    """
    kind = group.controller.name
    if kind == "joint_position":
        return joints
    if kind == "joint_position_relative":
        return joints - group.target
    if kind == "joint_velocity":
        return (joints - group.target) / dt
    if kind == "ee_pose":
        return robot.in_base_frame(pose)  # type: ignore[no-any-return]
    raise OptionError(f"the planner cannot tell an arm with the controller {kind!r} where to go")
