"""``Drive``: a base that is told velocities, as a move group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sensorium.robots.move_group import MoveGroup

if TYPE_CHECKING:
    from sensorium.robots.robot import Robot

MOVES = ("forward", "left", "turn")
"""Actions that move a base: m/s, m/s and rad/s, in its own frame. One that cannot drive sideways has no "left"."""


class Drive:
    """The move group "base" of a robot that has the actions "forward" and "turn". Arrays are float64, (B, 3).

    Its joints are those of a point on the ground: x and y in metres and the heading yaw in rad, in the world. What
    wheels do is in ``env_states``.

    Attributes:
        description: what all move groups have.
    """

    description = MoveGroup(
        name="base", kind="base", joints=("x", "y", "yaw"), home=(0.0, 0.0, 0.0), controller="base_velocity"
    )

    def __init__(self, robot: Robot) -> None:
        self._robot = robot
        names = [action.name for action in robot.options.actions]
        self._moves = [(column, names.index(name)) for column, name in enumerate(MOVES) if name in names]

    @property
    def qpos(self) -> np.ndarray:
        """x and y in metres and yaw in (-pi, pi], now."""
        pose = self._robot.base_pose()
        w, x, y, z = pose[:, 3:].T
        return np.column_stack([pose[:, :2], np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))])

    @property
    def qvel(self) -> np.ndarray:
        """Their rates: m/s along x and y of the world, and rad/s."""
        linear, angular = (part.numpy(force=True).astype(np.float64) for part in self._robot.get_velocity())
        return np.column_stack([linear[:, :2], angular[:, 2]])

    @property
    def target(self) -> np.ndarray:
        """Where the base is in one step, if it moves as it was told last."""
        told = self._robot.action.value.numpy(force=True)
        moves = np.zeros((len(told), 3))
        for column, number in self._moves:
            moves[:, column] = told[:, number]
        target, moves = self.qpos, moves * self._robot._dt
        heading = target[:, 2] + moves[:, 2] / 2
        cosine, sine = np.cos(heading), np.sin(heading)
        target[:, 0] += cosine * moves[:, 0] - sine * moves[:, 1]
        target[:, 1] += sine * moves[:, 0] + cosine * moves[:, 1]
        target[:, 2] += moves[:, 2]
        return target
