"""The arms of our own: their models, and what their controllers must know of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sensorium.robots.move_group import MoveGroup

MODELS = Path(__file__).parent / "models"
"""Where the models of our own robots lie."""

_JOINTS = tuple(f"joint{number}" for number in range(1, 8))


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
        closed=-0.01,  # so that the motor pushes by all its force, however thin what it holds is
        width=0.08,
        home=(0.04, 0.04),
        fingers=("left_finger", "right_finger"),
        controller="gripper",
    )


def franka() -> dict[str, Any]:
    """A 7-joint arm with a parallel gripper, on a table."""
    return {"base": "link0", "radius": 0.14, "move_groups": (_franka_arm(), _franka_gripper())}


ARMS = {"franka": franka}
"""Name -> what makes its options."""
