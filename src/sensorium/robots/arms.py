"""The arms of the catalogue: their options and move groups."""

from __future__ import annotations

import math
from typing import Any

from sensorium.robots.move_group import MoveGroup

_JOINTS = tuple(f"joint{number}" for number in range(1, 8))
_MOUNT = ("x", "y", "z", "yaw", "pitch", "roll")
_BASE = ("base_x", "base_y", "base_yaw")
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


def _viperx(side: str) -> tuple[MoveGroup, MoveGroup]:
    joints = tuple(f"{side}_{name}" for name in _VIPERX)
    arm = MoveGroup(
        name=f"{side}_arm",
        kind="arm",
        joints=joints,
        actuators=joints,
        tcp=f"{side}_tcp",
        gripper=f"{side}_gripper",
        home=(0.0, -0.3, 0.5, 0.0, math.pi / 2 - 0.2, 0.0),  # the hand points down
        controller="joint_position",
    )
    fingers = (f"{side}_left_finger", f"{side}_right_finger")
    gripper = MoveGroup(
        name=f"{side}_gripper",
        kind="gripper",
        joints=fingers,
        actuators=(f"{side}_fingers",),
        open=0.036,
        closed=-0.01,
        width=0.072,
        home=(0.036, 0.036),
        fingers=fingers,
        controller="gripper",
    )
    return arm, gripper


def franka() -> dict[str, Any]:
    """Options of a 7-joint arm with a parallel gripper, on a table."""
    return {"base": "link0", "move_groups": (_franka_arm(), _franka_gripper())}


def mobile_franka() -> dict[str, Any]:
    """Options of "franka" on a base that drives in any direction."""
    base = MoveGroup(
        name="base", kind="base", joints=_BASE, actuators=_BASE, home=(0.0, 0.0, 0.0), controller="base_velocity"
    )
    return {"base": "base", "radius": 0.46, "move_groups": (base, _franka_arm(), _franka_gripper())}


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
    return {"base": "frame", "move_groups": (*_viperx("left"), *_viperx("right"))}


ARMS = {
    "franka": franka,
    "mobile_franka": mobile_franka,
    "floating_gripper": floating_gripper,
    "bimanual": bimanual,
}
"""Name -> function that returns the options of the robot."""
