"""``MoveGroup``: joints of a robot that are told together, such as an arm, its gripper, or the base under it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from sensorium.options import Options


class MoveGroup(Options):
    """What a robot's controllers must know of an arm, a gripper or a base; names are those of the robot's own model.

    Example:
        >>> arm = MoveGroup(
        ...     name="arm", kind="arm", joints=("shoulder", "elbow"), actuators=("shoulder", "elbow"), tcp="tool",
        ...     home=(0.0, 1.0), controller="joint_position",
        ... )
    """

    name: str = Field(pattern=r"^[A-Za-z_]\w*$")
    """What it is called: "arm", "gripper", "base", "left_arm", ..."""
    kind: Literal["arm", "gripper", "base"]
    """What it is."""
    joints: tuple[str, ...] = Field(min_length=1)
    """Its hinges and slides, in order: of an arm from the base to the hand, of a base the slides x and y and the hinge
    yaw, along and about the axes of the robot's start."""
    actuators: tuple[str, ...] = ()
    """What moves it. Arms and bases: position servos, one a joint in the same order; grippers: those that close it.
    Default: servos are added to the joints, in place of what the model has there."""
    tcp: str | None = None
    """Arms: the tool centre point between the finger tips, a site (or a link, whose origin it is then). Its z axis
    points out of the hand, and its y axis is the direction in which the fingers open."""
    gripper: str | None = None
    """Arms: the move group of the gripper that it carries."""
    open: float = 0.0
    """Grippers: control of the actuators when open, in their unit."""
    closed: float = 0.0
    """Grippers: control when closed."""
    width: float = Field(default=0.0, ge=0)
    """Grippers: metres between the fingers when open, at ``home``."""
    home: tuple[float, ...]
    """Joint positions after a reset, rad or m; of grippers, the open ones: closed they are at their other limits."""
    fingers: tuple[str, ...] = ()
    """Grippers: the links that touch objects, one for each of the two sides."""
    controller: str
    """Name of the controller that takes its actions; see ``sensorium.robots.controllers``."""

    @model_validator(mode="after")
    def _check(self) -> MoveGroup:
        count = len(self.joints)
        if len(set(self.joints)) < count:
            raise ValueError(f"{self.name}: joints must not name one twice, got {self.joints}")
        if len(self.home) != count:
            raise ValueError(f"{self.name}: home must hold one position for each of {count} joints, got {self.home}")
        if self.kind != "gripper" and self.actuators and len(self.actuators) != count:
            raise ValueError(
                f"{self.name}: actuators must be one for each of {count} joints, in their order; got {self.actuators}"
            )
        if self.kind == "arm" and self.tcp is None:
            raise ValueError(f"{self.name}: an arm needs tcp, the site between its finger tips")
        if self.kind == "base" and count != 3:
            raise ValueError(f"{self.name}: a base has the joints x, y and yaw, got {self.joints}")
        if self.kind == "gripper":
            if self.actuators and self.open == self.closed:
                raise ValueError(f"{self.name}: a gripper's actuators need their controls when open and when closed")
            if len(self.fingers) != 2 or self.width <= 0:
                raise ValueError(
                    f"{self.name}: a gripper needs fingers, two links, and its width when open in metres; got "
                    f"{self.fingers} and {self.width}"
                )
        return self
