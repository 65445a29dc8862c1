"""``BasePose``: the pose of a robot's base link, read once for each state of the world."""

from __future__ import annotations

import numpy as np
import torch

from sensorium.worlds import World


class BasePose:
    """The pose of one link in all envs. Several sensors of a suite need that of the base link in every step.

    Args:
        world: the running engine.
        positions, orientations: bound fields of the poses of all links, (B, n, 3) and (B, n, 4).
        body: id of the link.
    """

    def __init__(self, world: World, positions: torch.Tensor, orientations: torch.Tensor, body: int) -> None:
        self._world, self._body = world, body
        self._fields = positions, orientations
        self._pose = np.zeros((0, 7))
        self._version = -1

    def read(self) -> np.ndarray:
        """Return the poses in the world frame, (B, 7) float64, not writable: x, y, z in m and (w, x, y, z)."""
        world, body = self._world, self._body
        world.settle()
        if self._version != world.changes.version:
            pose = np.empty((world.n_envs, 7))
            for field, part in zip(self._fields, (pose[:, :3], pose[:, 3:]), strict=True):
                if field.device.type == "cpu":  # NumPy selects a column several times faster than torch
                    part[:] = field.numpy()[:, body]
                else:
                    part[:] = field[:, body].numpy(force=True)
            pose.flags.writeable = False
            self._pose, self._version = pose, world.changes.version
        return self._pose
