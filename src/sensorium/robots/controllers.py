"""Controllers of move groups: each defines what the actions mean and converts them to joint targets.

============================ ==========================================================================================
name                         actions
============================ ==========================================================================================
``joint_position``           joint targets, rad or m
``joint_position_relative``  changes of the joint targets in this step, rad or m
``joint_velocity``           velocities of the joint targets, rad/s or m/s
``ee_pose``                  pose of the tool centre point in the frame of the robot's base: x, y, z in m, (w, x, y, z)
``gripper``                  opening: 0 closed, 1 open
``base_velocity``            forward and left in m/s, turn in rad/s, in the current frame of the base
============================ ==========================================================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sensorium.errors import NameNotFoundError, OptionError, did_you_mean, shorten

if TYPE_CHECKING:
    from sensorium.robots.group import GroupHandle

_MAX_CHANGE = 0.1
"""Max change of a joint target in one step, rad or m."""
_MAX_SPEED = 2.0
"""Max speed of a joint target, rad/s or m/s."""
_ITERATIONS = 10
"""Iterations of inverse kinematics per step."""
_MAX_BASE_SPEED = (1.0, 1.0, 2.0)
"""Max speeds of a base: forward and left in m/s, turn in rad/s."""
_MAX_LEAD = (0.1, 0.1, 0.3)
"""Max distance of the target of a blocked base from the base: x and y in m, yaw in rad."""


class Controller(ABC):
    """Base class of controllers.

    Attributes:
        names: names of the actions.
        limits: lower and upper bounds of the actions, (n_actions, 2).
    """

    name: ClassVar[str]
    """Name in ``controllers={"arm": ...}``."""
    kinds: ClassVar[tuple[str, ...]] = ("arm",)
    """Kinds of move groups that it can control."""

    def __init__(self, group: GroupHandle) -> None:
        self.group = group
        self.names: tuple[str, ...] = group.description.joints
        self.limits: np.ndarray = group.limits

    @abstractmethod
    def decide(self, action: np.ndarray, rows: np.ndarray | slice, dt: float) -> np.ndarray:
        """Return new joint targets (m, n).

        Args:
            action: (m, n_actions), within limits.
            rows: the envs of the m rows.
            dt: seconds until the next action.
        """

    def _within(self, target: np.ndarray) -> np.ndarray:
        low, high = self.group.limits.T
        return np.clip(target, low, high)


class JointPosition(Controller):
    """Actions are joint targets."""

    name = "joint_position"

    def decide(self, action: np.ndarray, rows: np.ndarray | slice, dt: float) -> np.ndarray:
        return action


class RelativeJointPosition(Controller):
    """Actions are changes of the joint targets.

    They are added to the target rather than to the joint position, so that tracking errors of servos do not add up.
    """

    name = "joint_position_relative"

    def __init__(self, group: GroupHandle) -> None:
        super().__init__(group)
        self.limits = np.tile([-_MAX_CHANGE, _MAX_CHANGE], (len(self.names), 1))

    def decide(self, action: np.ndarray, rows: np.ndarray | slice, dt: float) -> np.ndarray:
        return self._within(self.group.target[rows] + action)


class JointVelocity(Controller):
    """Actions are velocities of the joint targets."""

    name = "joint_velocity"

    def __init__(self, group: GroupHandle) -> None:
        super().__init__(group)
        self.limits = np.tile([-_MAX_SPEED, _MAX_SPEED], (len(self.names), 1))

    def decide(self, action: np.ndarray, rows: np.ndarray | slice, dt: float) -> np.ndarray:
        return self._within(self.group.target[rows] + action * dt)


class ToolPose(Controller):
    """Actions are the pose of the tool centre point. Inverse kinematics starts from the previous targets."""

    name = "ee_pose"

    def __init__(self, group: GroupHandle) -> None:
        super().__init__(group)
        self.names = ("x", "y", "z", "qw", "qx", "qy", "qz")
        self.limits = np.array([[-group.reach, group.reach]] * 3 + [[-1.0, 1.0]] * 4)

    def decide(self, action: np.ndarray, rows: np.ndarray | slice, dt: float) -> np.ndarray:
        norm = np.sqrt((action[:, 3:] * action[:, 3:]).sum(axis=1, keepdims=True))
        if norm.min() < 1e-6:
            raise OptionError(
                f"{self.group.description.name}: the quaternion (qw, qx, qy, qz) of an ee_pose must not be zero"
            )
        pose = action.copy()
        pose[:, 3:] /= norm
        return self.group.solve_from_base(pose, rows, _ITERATIONS)


class Gripper(Controller):
    """The action is the opening of a gripper."""

    name = "gripper"
    kinds = ("gripper",)

    def __init__(self, group: GroupHandle) -> None:
        super().__init__(group)
        self.names = ("opening",)
        self.limits = np.array([[0.0, 1.0]])

    def decide(self, action: np.ndarray, rows: np.ndarray | slice, dt: float) -> np.ndarray:
        return self.group.joints_at(action[:, 0])


class BaseVelocity(Controller):
    """Actions are the velocity of a base. Its joints follow a moving target, which waits if the base is blocked."""

    name = "base_velocity"
    kinds = ("base",)

    def __init__(self, group: GroupHandle) -> None:
        super().__init__(group)
        self.names = ("forward", "left", "turn")
        self.limits = np.array([[-speed, speed] for speed in _MAX_BASE_SPEED])

    def decide(self, action: np.ndarray, rows: np.ndarray | slice, dt: float) -> np.ndarray:
        now, target = self.group.qpos[rows], self.group.target[rows]
        heading = target[:, 2] + 0.5 * dt * action[:, 2]
        cosine, sine = np.cos(heading), np.sin(heading)
        target[:, 0] += dt * (cosine * action[:, 0] - sine * action[:, 1])
        target[:, 1] += dt * (sine * action[:, 0] + cosine * action[:, 1])
        target[:, 2] += dt * action[:, 2]
        return self._within(np.clip(target, now - _MAX_LEAD, now + _MAX_LEAD))


_CONTROLLERS: dict[str, type[Controller]] = {
    each.name: each for each in (JointPosition, RelativeJointPosition, JointVelocity, ToolPose, Gripper, BaseVelocity)
}


def find(name: str, group: str, kind: str) -> type[Controller]:
    """Return the controller class of that name.

    Args:
        name: name of the controller.
        group: name of the move group, for messages.
        kind: kind of the move group.

    Raises:
        NameNotFoundError: there is no such controller.
        OptionError: it cannot control groups of that kind.
    """
    fitting = [each for each, cls in _CONTROLLERS.items() if kind in cls.kinds]
    if name not in _CONTROLLERS:
        hint = did_you_mean(name, fitting)
        raise NameNotFoundError(
            f"there is no controller {name!r} for {group!r}{hint}; controllers of a move group of kind {kind!r} are "
            f"{shorten(fitting)}"
        )
    if name not in fitting:
        raise OptionError(
            f"controller {name!r} cannot control {group!r}, which is of kind {kind!r}; choose {shorten(fitting)}"
        )
    return _CONTROLLERS[name]
