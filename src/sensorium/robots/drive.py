"""``Drive``: the base of a driving robot as a move group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sensorium._arguments import checked
from sensorium.robots.move_group import MoveGroup

if TYPE_CHECKING:
    from sensorium.robots.robot import Robot

MOVES = ("forward", "left", "turn")
"""Actions that move a base: m/s, m/s and rad/s, in its own frame. A base that cannot drive sideways has no "left"."""


class Drive:
    """The move group "base" of a robot with the actions "forward" and "turn". Arrays are float64, (B, 3).

    Its joints are x and y in metres and the heading yaw in rad, world frame. The joints of the wheels are in
    ``env_states``.

    Attributes:
        description: joints and controller of the group.
    """

    description = MoveGroup(
        name="base", kind="base", joints=("x", "y", "yaw"), home=(0.0, 0.0, 0.0), controller="base_velocity"
    )

    @checked
    def __init__(self, robot: Robot) -> None:
        self._robot = robot
        names = [action.name for action in robot.options.actions]
        self._moves = [(column, names.index(name)) for column, name in enumerate(MOVES) if name in names]

    @property
    def qpos(self) -> np.ndarray:
        """Current x and y in m and yaw in (-pi, pi]."""
        pose = self._robot.base_pose()
        w, x, y, z = pose[:, 3:].T
        return np.column_stack([pose[:, :2], np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))])

    @property
    def qvel(self) -> np.ndarray:
        """Current velocities: along x and y of the world frame in m/s, and yaw rate in rad/s."""
        linear, angular = (part.numpy(force=True).astype(np.float64) for part in self._robot.get_velocity())
        return np.column_stack([linear[:, :2], angular[:, 2]])

    @property
    def target(self) -> np.ndarray:
        """Pose of the base after one step at the commanded velocity."""
        command = self._robot.action.value.numpy(force=True)
        moves = np.zeros((len(command), 3))
        for column, number in self._moves:
            moves[:, column] = command[:, number]
        target, moves = self.qpos, moves * self._robot._dt
        heading = target[:, 2] + moves[:, 2] / 2
        cosine, sine = np.cos(heading), np.sin(heading)
        target[:, 0] += cosine * moves[:, 0] - sine * moves[:, 1]
        target[:, 1] += sine * moves[:, 0] + cosine * moves[:, 1]
        target[:, 2] += moves[:, 2]
        return target
