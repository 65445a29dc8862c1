"""``KinematicChain``: forward and inverse kinematics of the joints between a link and a tool, for a whole batch."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from sensorium.errors import OptionError

_SLIDE, _HINGE = int(mujoco.mjtJoint.mjJNT_SLIDE), int(mujoco.mjtJoint.mjJNT_HINGE)
_RESTARTS = 16
"""Number of other starts for goals that are not reached from the given one."""


class KinematicChain:
    """A serial chain of hinges and slides, read from a compiled model.

    Poses are (m, 7): x, y, z in metres and a unit quaternion (w, x, y, z), in the frame of :attr:`root`.

    Args:
        model: the compiled model.
        joints: ids of all joints between the root and the tool, in that order.
        limits: lower and upper bounds of the joint positions, (n, 2) rad or m.
        home: preferred joint positions (n,), which joints approach as far as the goal leaves them free.
        link: id of the body that carries the tool.
        pos, quat: pose of the tool in the frame of that body.

    Attributes:
        root: id of the body that carries the first joint's link.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        joints: Sequence[int],
        limits: np.ndarray,
        home: np.ndarray,
        link: int,
        pos: np.ndarray,
        quat: np.ndarray,
    ) -> None:
        self.root = int(model.body_parentid[model.jnt_bodyid[joints[0]]])
        bodies: list[int] = []
        found: list[int] = []
        body = link
        while body not in (self.root, 0):
            bodies.insert(0, body)
            first = int(model.body_jntadr[body])
            found[:0] = range(first, first + int(model.body_jntnum[body])) if first >= 0 else ()
            body = int(model.body_parentid[body])
        if body != self.root or found != list(joints):
            names = [model.joint(joint).name for joint in found]
            raise OptionError(
                f"joints must be all joints between link {model.body(self.root).name!r} and the tool, in order: {names}"
            )
        for joint in found:
            if model.jnt_type[joint] not in (_SLIDE, _HINGE):
                raise OptionError(f"joint {model.joint(joint).name!r} must be a hinge or a slide")
        n = len(found)
        at, turn = np.zeros((n + 1, 3)), np.zeros((n + 1, 4))
        turn[:, 0] = 1
        number = 0
        for body in bodies:
            _append(at[number], turn[number], model.body_pos[body], model.body_quat[body])
            number += int(model.body_jntnum[body])
        _append(at[n], turn[n], pos, quat)
        self._arrays = (
            model.jnt_type[found] == _SLIDE,
            model.jnt_axis[found].copy(),
            model.jnt_pos[found].copy(),
            model.qpos0[model.jnt_qposadr[found]].copy(),
            at,
            turn,
        )
        self._limits = np.ascontiguousarray(limits, dtype=np.float64)
        self._home = home
        self.reach = float(np.linalg.norm(at[1:], axis=1).sum() + np.ptp(self._limits, axis=1)[self._arrays[0]].sum())
        """Upper bound of the distance from the first joint to the tool, m."""
        self._starts = self._spread(_RESTARTS)

    def _spread(self, count: int) -> np.ndarray:
        """Return home and further joint positions spread evenly over the limits, (count, n).

        They are a Kronecker sequence with powers of the generalised golden ratio in n dimensions, which has low
        discrepancy.
        """
        n = len(self._home)
        ratio = 2.0
        for _ in range(40):
            ratio = (1 + ratio) ** (1 / (n + 1))
        parts = np.outer(np.arange(1, count), ratio ** -np.arange(1.0, n + 1)) % 1.0
        low, high = self._limits.T
        return np.vstack([self._home, low + parts * (high - low)])

    def forward(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return poses (m, 7) of the tool and Jacobians (m, 6, n), linear then angular, at joint positions (m, n)."""
        from sensorium.robots import chain_kernels

        positions = np.ascontiguousarray(q, dtype=np.float64)
        pose, jacobian = np.empty((len(q), 7)), np.empty((len(q), 6, len(self._home)))
        chain_kernels.forward(self._arrays, positions, pose, jacobian)
        return pose, jacobian

    def solve(
        self, goal: np.ndarray, start: np.ndarray, iterations: int, restart: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Solve inverse kinematics.

        Args:
            goal: poses of the tool, (m, 7).
            start: joint positions to start from, (m, n).
            iterations: iterations from each start.
            restart: whether to try other starts for goals that are not reached.

        Returns:
            Joint positions (m, n) within limits, and the remaining errors, (m, 2): m, rad.
        """
        from sensorium.robots import chain_kernels

        q, miss = np.array(start, dtype=np.float64, order="C"), np.empty((len(goal), 2))
        starts = self._starts if restart else self._starts[:0]
        chain_kernels.solve(self._arrays, self._limits, self._home, goal, q, miss, iterations, starts)
        return q, miss


def _append(at: np.ndarray, turn: np.ndarray, pos: np.ndarray, quat: np.ndarray) -> None:
    """Append a transform to a fixed transform, in place."""
    moved, turned = np.empty(3), np.empty(4)
    mujoco.mju_rotVecQuat(moved, pos, turn)
    mujoco.mju_mulQuat(turned, turn, quat)
    at += moved
    turn[:] = turned
