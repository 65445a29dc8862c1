"""The arms of the catalogue: their options and move groups."""

from __future__ import annotations

import math
from typing import Any

from sensorium.robots.move_group import MoveGroup

_JOINTS = tuple(f"joint{number}" for number in range(1, 8))
_MOUNT = ("x", "y", "z", "yaw", "pitch", "roll")
_BASE = ("base_x", "base_y", "base_yaw")
_YAM = tuple(f"joint{number}" for number in range(1, 7))
_RBY1 = ("shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow", "wrist_yaw", "wrist_pitch", "wrist_roll")
_VIPERX = ("waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate")


def _franka_arm() -> MoveGroup:
    return MoveGroup(
        name="arm",
        kind="arm",
        joints=_JOINTS,
        actuators=_JOINTS,
        tcp="tcp",
        gripper="gripper",
        home=(0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785),
        controller="joint_position",
    )


def _franka_gripper() -> MoveGroup:
    return MoveGroup(
        name="gripper",
        kind="gripper",
        joints=("finger_joint1", "finger_joint2"),
        actuators=("fingers",),
        open=0.04,
        closed=-0.01,  # beyond the closed position, so that the motor applies its full force to thin objects too
        width=0.08,
        home=(0.04, 0.04),
        fingers=("left_finger", "right_finger"),
        controller="gripper",
    )


def _arm_and_gripper(
    prefix: str, names: tuple[str, ...], home: tuple[float, ...], stroke: float
) -> tuple[MoveGroup, MoveGroup]:
    """Return an arm and its gripper, whose elements have a prefix ("left_"); each finger moves by ``stroke`` metres."""
    joints = tuple(f"{prefix}{name}" for name in names)
    arm = MoveGroup(
        name=f"{prefix}arm",
        kind="arm",
        joints=joints,
        actuators=joints,
        tcp=f"{prefix}tcp",
        gripper=f"{prefix}gripper",
        home=home,
        controller="joint_position",
    )
    fingers = (f"{prefix}left_finger", f"{prefix}right_finger")
    gripper = MoveGroup(
        name=f"{prefix}gripper",
        kind="gripper",
        joints=fingers,
        actuators=(f"{prefix}fingers",),
        open=stroke,
        closed=-0.01,  # beyond the closed position, so that the motor applies its full force to thin objects too
        width=2 * stroke,
        home=(stroke, stroke),
        fingers=fingers,
        controller="gripper",
    )
    return arm, gripper


def _driving_base() -> MoveGroup:
    return MoveGroup(
        name="base", kind="base", joints=_BASE, actuators=_BASE, home=(0.0, 0.0, 0.0), controller="base_velocity"
    )


def franka() -> dict[str, Any]:
    """Options of a 7-joint arm with a parallel gripper, on a table."""
    return {"base": "link0", "move_groups": (_franka_arm(), _franka_gripper())}


def mobile_franka() -> dict[str, Any]:
    """Options of "franka" on a base that drives in any direction."""
    return {"base": "base", "radius": 0.46, "move_groups": (_driving_base(), _franka_arm(), _franka_gripper())}


def floating_gripper() -> dict[str, Any]:
    """Options of the hand of "franka" without the arm, on a mount that moves freely."""
    arm = MoveGroup(
        name="arm",
        kind="arm",
        joints=_MOUNT,
        actuators=_MOUNT,
        tcp="tcp",
        gripper="gripper",
        home=(0.0, 0.0, 0.4, 0.0, 0.0, 0.0),
        controller="joint_position",
    )
    return {
        "base": "mount",
        "move_groups": (arm, _franka_gripper()),
        "placing": ("x", "y", "yaw"),
    }


def bimanual() -> dict[str, Any]:
    """Options of two 6-joint arms side by side, on a table."""
    home = (0.0, -0.3, 0.5, 0.0, math.pi / 2 - 0.2, 0.0)  # the hands point down
    arms = [group for side in ("left_", "right_") for group in _arm_and_gripper(side, _VIPERX, home, 0.036)]
    return {"base": "frame", "move_groups": tuple(arms)}


def yam() -> dict[str, Any]:
    """Options of a 6-joint arm with a parallel gripper, like the I2RT YAM, on a table."""
    home = (0.0, 1.5, 1.0, math.pi / 2 - 0.5, 0.0, 0.0)  # the hand points down
    return {"base": "base", "move_groups": _arm_and_gripper("", _YAM, home, 0.0375)}


def rby1() -> dict[str, Any]:
    """Options of a two-armed robot, like the RB-Y1, on a base that drives in any direction."""
    left = (1.1, 0.2, 0.0, -2.45, 0.0926, 1.3429, 0.1577)  # the hands point down
    right = (1.1, -0.2, 0.0, -2.45, -0.0926, 1.3429, -0.1577)
    arms = (*_arm_and_gripper("left_", _RBY1, left, 0.05), *_arm_and_gripper("right_", _RBY1, right, 0.05))
    return {"base": "base", "radius": 0.4, "move_groups": (_driving_base(), *arms)}


ARMS = {
    "franka": franka,
    "mobile_franka": mobile_franka,
    "floating_gripper": floating_gripper,
    "bimanual": bimanual,
    "yam": yam,
    "rby1": rby1,
}
"""Name -> function that returns the options of the robot."""
