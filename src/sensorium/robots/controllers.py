"""Controllers: what the actions of a move group mean. Each turns actions of a batch into joint targets.

============================ ==========================================================================================
name                         actions
============================ ==========================================================================================
``joint_position``           where each joint shall be, rad or m
``joint_position_relative``  by how much its target changes in this step, rad or m
``joint_velocity``           how fast its target moves, rad/s or m/s
``ee_pose``                  pose of the tool centre point in the frame of the robot's base: x, y, z in m, (w, x, y, z)
``gripper``                  0 closed, 1 open
``base_velocity``            forward and left in m/s, turn in rad/s, in the frame of the base as it stands
============================ ==========================================================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sensorium.errors import NameNotFoundError, OptionError, did_you_mean, shorten

if TYPE_CHECKING:
    from sensorium.robots.group import GroupHandle

_RELATIVE = 0.1
"""Greatest change of a joint's target in one step, rad or m."""
_SPEED = 2.0
"""Greatest speed of a joint's target, rad/s or m/s."""
_ITERATIONS = 10
"""Of inverse kinematics in one step."""
_DRIVE = (1.0, 1.0, 2.0)
"""Greatest speeds of a base: forward and left in m/s, turn in rad/s."""
_LEAD = (0.1, 0.1, 0.3)
"""How far the target of a base that is blocked runs ahead of it, m and rad."""


class Controller(ABC):
    """What the actions of one move group mean.

    Attributes:
        names: what its actions are called.
        limits: least and greatest values, (n_actions, 2).
    """

    name: ClassVar[str]
    """What ``controllers={"arm": ...}`` calls it."""
    kinds: ClassVar[tuple[str, ...]] = ("arm",)
    """Kinds of move groups that it can control."""

    def __init__(self, group: GroupHandle) -> None:
        self.group = group
        self.names: tuple[str, ...] = group.description.joints
        self.limits: np.ndarray = group.limits

    @abstractmethod
    def decide(self, action: np.ndarray, rows: np.ndarray | slice, dt: float) -> np.ndarray:
        """New joint targets (m, n).

        Args:
            action: (m, n_actions), within limits.
            rows: which envs these are.
            dt: seconds until the next ones.
        """

    def _within(self, target: np.ndarray) -> np.ndarray:
        low, high = self.group.limits.T
        return np.clip(target, low, high)


class JointPosition(Controller):
    """Where each joint shall be."""

    name = "joint_position"

    def decide(self, action: np.ndarray, rows: np.ndarray | slice, dt: float) -> np.ndarray:
        return action


class RelativeJointPosition(Controller):
    """By how much the target of each joint changes. It is added to the target, not to where the joint is, so that
    what a servo falls short of does not add up."""

    name = "joint_position_relative"

    def __init__(self, group: GroupHandle) -> None:
        super().__init__(group)
        self.limits = np.tile([-_RELATIVE, _RELATIVE], (len(self.names), 1))

    def decide(self, action: np.ndarray, rows: np.ndarray | slice, dt: float) -> np.ndarray:
        return self._within(self.group.target[rows] + action)


class JointVelocity(Controller):
    """How fast the target of each joint moves."""

    name = "joint_velocity"

    def __init__(self, group: GroupHandle) -> None:
        super().__init__(group)
        self.limits = np.tile([-_SPEED, _SPEED], (len(self.names), 1))

    def decide(self, action: np.ndarray, rows: np.ndarray | slice, dt: float) -> np.ndarray:
        return self._within(self.group.target[rows] + action * dt)


class ToolPose(Controller):
    """Where the tool centre point shall be, by inverse kinematics from the targets of the step before."""

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
    """How far a gripper opens."""

    name = "gripper"
    kinds = ("gripper",)

    def __init__(self, group: GroupHandle) -> None:
        super().__init__(group)
        self.names = ("opening",)
        self.limits = np.array([[0.0, 1.0]])

    def decide(self, action: np.ndarray, rows: np.ndarray | slice, dt: float) -> np.ndarray:
        return self.group.joints_at(action[:, 0])


class BaseVelocity(Controller):
    """How fast a base drives. Its joints follow a target that moves so, and that waits for a base which is blocked."""

    name = "base_velocity"
    kinds = ("base",)

    def __init__(self, group: GroupHandle) -> None:
        super().__init__(group)
        self.names = ("forward", "left", "turn")
        self.limits = np.array([[-speed, speed] for speed in _DRIVE])

    def decide(self, action: np.ndarray, rows: np.ndarray | slice, dt: float) -> np.ndarray:
        now, target = self.group.qpos[rows], self.group.target[rows]
        heading = target[:, 2] + 0.5 * dt * action[:, 2]
        cosine, sine = np.cos(heading), np.sin(heading)
        target[:, 0] += dt * (cosine * action[:, 0] - sine * action[:, 1])
        target[:, 1] += dt * (sine * action[:, 0] + cosine * action[:, 1])
        target[:, 2] += dt * action[:, 2]
        return self._within(np.clip(target, now - _LEAD, now + _LEAD))


_CONTROLLERS: dict[str, type[Controller]] = {
    each.name: each for each in (JointPosition, RelativeJointPosition, JointVelocity, ToolPose, Gripper, BaseVelocity)
}


def find(name: str, group: str, kind: str) -> type[Controller]:
    """The controller of that name for a move group of that kind."""
    fitting = [each for each, cls in _CONTROLLERS.items() if kind in cls.kinds]
    if name not in _CONTROLLERS:
        hint = did_you_mean(name, fitting)
        raise NameNotFoundError(
            f"there is no controller {name!r} for {group!r}{hint}; those of a move group of kind {kind!r} are "
            f"{shorten(fitting)}"
        )
    if name not in fitting:
        raise OptionError(
            f"controller {name!r} cannot control {group!r}, which is of kind {kind!r}; choose {shorten(fitting)}"
        )
    return _CONTROLLERS[name]
