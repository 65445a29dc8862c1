"""``Changes``: which envs changed since a version, e.g. to render only images that are out of date."""

from __future__ import annotations

import numpy as np
import torch

from sensorium.worlds.world import Envs, env_ids


class Changes:
    """Version numbers of the state of a world and of each env. Each world has one; a step costs two additions.

    Attributes:
        version: increases with every change of the state of any env.
        unsettled: whether the poses of some envs are older than their state.
    """

    def __init__(self, n_envs: int) -> None:
        self.version = 1
        self.unsettled = False
        self._n_envs = n_envs
        self._all = 1
        self._of_env = np.zeros(n_envs, np.int64)
        self._written = np.zeros(n_envs, bool)

    def mark(self, envs: Envs = None) -> None:
        """Record that the state of envs (default: all) changed, and that the derived fields are up to date."""
        if envs is None and not self.unsettled:  # every step
            self._all = self.version = self.version + 1
            return
        self._note(envs)
        if self.unsettled:
            ids = self._ids(envs)
            self._written[slice(None) if ids is None else ids] = False
            self.unsettled = bool(self._written.any())

    def write(self, envs: Envs = None) -> None:
        """Record that the positions of envs (default: all) were written, and that the derived fields are older."""
        self._note(envs)
        ids = self._ids(envs)
        self._written[slice(None) if ids is None else ids] = True
        self.unsettled = True

    def repaint(self, envs: Envs = None) -> None:
        """Record that colours or lights of envs (default: all) changed. State and derived fields did not."""
        self._note(envs)

    def unsettle(self) -> None:
        """Record that the poses of all envs are out of date although their state did not change.

        Called by code that writes positions temporarily.
        """
        self._written[:] = True
        self.unsettled = True

    def take_unsettled(self) -> np.ndarray:
        """Return the ids of the envs whose poses are older than their state, and mark them as up to date."""
        ids = np.flatnonzero(self._written).astype(np.int32)
        self._written[:] = False
        self.unsettled = False
        return ids

    def since(self, version: int) -> np.ndarray | None:
        """Return the ids of the envs that changed after ``version``; None for all."""
        return None if version < self._all else np.flatnonzero(self._of_env > version)

    def _note(self, envs: Envs) -> None:
        ids = None if envs is None else self._ids(envs)  # before anything changes, since it may raise
        self.version += 1
        if ids is None:
            self._all = self.version
        else:
            self._of_env[ids] = self.version

    def _ids(self, envs: Envs) -> np.ndarray | None:
        if isinstance(envs, torch.Tensor) and envs.device.type != "cpu":
            return None  # reading the ids would synchronise with the GPU, so all envs count as changed
        return env_ids(envs, self._n_envs)
