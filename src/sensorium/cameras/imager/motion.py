"""The world a little while ago: what motion blur and rolling shutters see."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import mujoco
import torch

from sensorium.worlds import World


class Motion:
    """Positions of the last steps, and the world put back to a time between them, for as long as an image takes.

    Between steps joints move evenly, and rotations along the shortest arc; mocap bodies and cameras that were placed by
    hand are where they are now.

    Args:
        world: the running engine.
        dt: seconds of a step.
        span: seconds that it must reach back.
    """

    def __init__(self, world: World, dt: float, span: float) -> None:
        self._world, self._dt = world, dt
        self._qpos = world.bind("qpos")
        self._slots = math.ceil(span / dt) + 2
        self._past = self._qpos.repeat(self._slots, 1, 1)
        self._step = 0
        model = world.model
        free, ball = int(mujoco.mjtJoint.mjJNT_FREE), int(mujoco.mjtJoint.mjJNT_BALL)
        starts = [
            int(address) + (3 if kind == free else 0)
            for kind, address in zip(model.jnt_type, model.jnt_qposadr, strict=True)
            if kind in (free, ball)
        ]
        self._quats = [slice(start, start + 4) for start in starts]

    def record(self) -> None:
        """A step was made."""
        self._step += 1
        self._past[self._step % self._slots] = self._qpos

    def restart(self, envs: torch.Tensor) -> None:
        """These envs stand still at where they are."""
        self._past[:, envs] = self._qpos[envs]

    def check(self) -> None:
        """Envs whose positions were written by hand since the last step have not moved there: they stand still."""
        written = (self._qpos != self._past[self._step % self._slots]).any(dim=1)
        self._past.copy_(torch.where(written[None, :, None], self._qpos, self._past))

    @contextmanager
    def ago(self, age: float) -> Iterator[None]:
        """Put the world back by ``age`` seconds, and return it as it was."""
        now = self._qpos.clone()
        self._pose(self._at(age))
        try:
            yield
        finally:
            self._pose(now)

    def _pose(self, qpos: torch.Tensor) -> None:
        self._qpos.copy_(qpos)
        self._world.changes.unsettle()
        self._world.settle()

    def _at(self, age: float) -> torch.Tensor:
        steps = age / self._dt
        whole = min(int(steps), self._slots - 2)
        part = min(steps - whole, 1.0)
        newer, older = (self._past[(self._step - whole - back) % self._slots] for back in (0, 1))
        mixed = newer + (older - newer) * part
        for quat in self._quats:
            a, b = newer[:, quat], older[:, quat]
            same = torch.where((a * b).sum(1, keepdim=True) < 0, -b, b)  # both stand for one rotation
            between = a + (same - a) * part
            mixed[:, quat] = between / between.norm(dim=1, keepdim=True)
        return mixed
