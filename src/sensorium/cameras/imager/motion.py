"""``Motion``: recent positions of the world, from which sub-frames of shutters are rendered."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import mujoco
import torch

from sensorium.worlds import World

STILL = 1e-6
"""Displacement (m or rad) up to which an env is at rest. It is far below what an image resolves: 0.001 pixels at a
distance of 1 m and a focal length of 1,000 pixels. Bodies that rest on others move less, but not by 0."""


class Motion:
    """Positions of the last steps; it can temporarily rewind the world to a time between them.

    Positions are interpolated linearly between steps, and rotations along the shortest arc. Mocap bodies and cameras
    that were placed by ``set_pose`` do not move: they are at their current poses.

    Args:
        world: the running engine.
        dt: seconds per step.
        span: how far back it must reach, s.

    Attributes:
        on_cpu: whether the positions are in the memory of the host.
    """

    def __init__(self, world: World, dt: float, span: float) -> None:
        self._world, self._dt = world, dt
        self._qpos = world.bind("qpos")
        self.on_cpu = self._qpos.device.type == "cpu"
        self._slots = math.ceil(span / dt) + 2
        self._history = self._qpos.repeat(self._slots, 1, 1)
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
        """Record the positions after a step."""
        self._step += 1
        self._history[self._step % self._slots] = self._qpos

    def restart(self, envs: torch.Tensor) -> None:
        """Clear the history of these envs: they have not moved."""
        self._history[:, envs] = self._qpos[envs]

    def check_written(self) -> None:
        """Clear the history of envs whose positions were written since the last step, which is not a motion."""
        written = (self._qpos != self._history[self._step % self._slots]).any(dim=1)
        self._history.copy_(torch.where(written[None, :, None], self._qpos, self._history))

    def moved(self) -> torch.Tensor:
        """Return the mask (B,) of envs that moved within the recorded steps, see ``STILL``."""
        return ((self._history - self._qpos).abs() > STILL).any(dim=2).any(dim=0)

    @contextmanager
    def rewind(self, age: float) -> Iterator[None]:
        """Set the world back by ``age`` seconds, and restore it at the end."""
        now = self._qpos.clone()
        self._write(self._positions_at(age))
        try:
            yield
        finally:
            self._write(now)

    def _write(self, qpos: torch.Tensor) -> None:
        self._qpos.copy_(qpos)
        self._world.changes.unsettle()
        self._world.settle()

    def _positions_at(self, age: float) -> torch.Tensor:
        steps = age / self._dt
        whole = min(int(steps), self._slots - 2)
        part = min(steps - whole, 1.0)
        newer, older = (self._history[(self._step - whole - back) % self._slots] for back in (0, 1))
        mixed = newer + (older - newer) * part
        for quat in self._quats:
            a, b = newer[:, quat], older[:, quat]
            same = torch.where((a * b).sum(1, keepdim=True) < 0, -b, b)  # q and -q are the same rotation
            between = a + (same - a) * part
            mixed[:, quat] = between / between.norm(dim=1, keepdim=True)
        return mixed
