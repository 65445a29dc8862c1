"""Which envs changed, and when: how what is computed on demand (images) knows what is stale."""

from __future__ import annotations

import numpy as np
import torch

from sensorium.worlds.world import Envs, env_ids


class Changes:
    """A version of the whole world, and of each env. Kept by every World; a step costs it two additions.

    Attributes:
        version: goes up with every change of any env's state.
        unsettled: whether poses of some envs are older than their state.
    """

    def __init__(self, n_envs: int) -> None:
        self.version = 1
        self.unsettled = False
        self._n_envs = n_envs
        self._all = 1
        self._of_env = np.zeros(n_envs, np.int64)
        self._written = np.zeros(n_envs, bool)

    def mark(self, envs: Envs = None) -> None:
        """The state of these envs (default: all) changed, and what is derived from it is up to date."""
        if envs is None and not self.unsettled:  # every step
            self._all = self.version = self.version + 1
            return
        self._note(envs)
        if self.unsettled:
            ids = self._ids(envs)
            self._written[slice(None) if ids is None else ids] = False
            self.unsettled = bool(self._written.any())

    def write(self, envs: Envs = None) -> None:
        """The positions of these envs (default: all) were written, and nothing else knows yet."""
        self._note(envs)
        ids = self._ids(envs)
        self._written[slice(None) if ids is None else ids] = True
        self.unsettled = True

    def unsettle(self) -> None:
        """Positions of all envs were written for a moment, which is no change of state."""
        self._written[:] = True
        self.unsettled = True

    def take_unsettled(self) -> np.ndarray:
        """Ids of the envs whose poses are older than their state; from now on they count as up to date."""
        ids = np.flatnonzero(self._written).astype(np.int32)
        self._written[:] = False
        self.unsettled = False
        return ids

    def since(self, version: int) -> np.ndarray | None:
        """Ids of the envs that changed after ``version``; None for all."""
        return None if version < self._all else np.flatnonzero(self._of_env > version)

    def _note(self, envs: Envs) -> None:
        self.version += 1
        ids = None if envs is None else self._ids(envs)
        if ids is None:
            self._all = self.version
        else:
            self._of_env[ids] = self.version

    def _ids(self, envs: Envs) -> np.ndarray | None:
        if isinstance(envs, torch.Tensor) and envs.device.type != "cpu":
            return None  # looking at them would wait for the device
        return env_ids(envs, self._n_envs)
