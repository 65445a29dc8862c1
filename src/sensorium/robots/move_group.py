"""``MoveGroup``: joints of a robot that are commanded together, such as an arm, a gripper or a base."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from sensorium.options import Options


class MoveGroup(Options):
    """Description of an arm, a gripper or a base. Names are those of the robot's own model.

    Example:
        >>> arm = sn.robots.MoveGroup(
        ...     name="arm", kind="arm", joints=("shoulder", "elbow"), actuators=("shoulder", "elbow"), tcp="tool",
        ...     home=(0.0, 1.0), controller="joint_position",
        ... )
    """

    name: str = Field(pattern=r"^[A-Za-z_]\w*$")
    """Name of the group: "arm", "gripper", "base", "left_arm", ..."""
    kind: Literal["arm", "gripper", "base"]
    """Kind of the group."""
    joints: tuple[str, ...] = Field(min_length=1)
    """Hinges and slides, in order. Arms: from the base to the hand. Bases: the slides x and y and the hinge yaw, along
    and about the axes of the robot's initial pose."""
    actuators: tuple[str, ...] = ()
    """Actuators. Arms and bases: position servos, one for each joint in the same order. Grippers: those that close it.
    Default: servos are added, which replace the actuators that the model has on these joints."""
    tcp: str | None = None
    """Arms: the tool centre point between the finger tips: a site, or a link (its origin). Its z axis points out of the
    hand, and the fingers open along its y axis."""
    gripper: str | None = None
    """Arms: the move group of the gripper that the arm carries."""
    open: float = 0.0
    """Grippers: control of the actuators when open, in their unit."""
    closed: float = 0.0
    """Grippers: control of the actuators when closed, in their unit."""
    width: float = Field(default=0.0, ge=0)
    """Grippers: distance between the fingers when open, at ``home``, m."""
    home: tuple[float, ...]
    """Joint positions after a reset, rad or m. Grippers: the open positions; the closed ones are the other limits."""
    fingers: tuple[str, ...] = ()
    """Grippers: the two links that touch objects, one per side."""
    controller: str
    """Name of the controller; see ``sensorium.robots.controllers``."""

    @model_validator(mode="after")
    def _check(self) -> MoveGroup:
        count = len(self.joints)
        if len(set(self.joints)) < count:
            raise ValueError(f"{self.name}: joints must be distinct, got {self.joints}")
        if len(self.home) != count:
            raise ValueError(f"{self.name}: home must have one position for each of {count} joints, got {self.home}")
        if self.kind != "gripper" and self.actuators and len(self.actuators) != count:
            raise ValueError(
                f"{self.name}: actuators must be one for each of {count} joints, in their order; got {self.actuators}"
            )
        if self.kind == "arm" and self.tcp is None:
            raise ValueError(f"{self.name}: an arm needs tcp, the site between its finger tips")
        if self.kind == "base" and count != 3:
            raise ValueError(f"{self.name}: a base must have the joints x, y and yaw, got {self.joints}")
        if self.kind == "gripper":
            if self.actuators and self.open == self.closed:
                raise ValueError(f"{self.name}: a gripper with actuators needs different controls open and closed")
            if len(self.fingers) != 2 or self.width <= 0:
                raise ValueError(
                    f"{self.name}: a gripper needs fingers, two links, and its width when open in metres; got "
                    f"{self.fingers} and {self.width}"
                )
        return self
