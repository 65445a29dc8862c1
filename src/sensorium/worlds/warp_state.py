"""The physics state of the GPU engine: reading and writing it as one tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import warp as wp

from sensorium._tensors import plain_tensor
from sensorium.errors import OptionError
from sensorium.worlds.device import upload
from sensorium.worlds.model_fields import STATE
from sensorium.worlds.world import Envs, env_index, real_states


class WarpState:
    """The methods of :class:`~sensorium.worlds.warp_world.WarpWorld` that read and write the physics state."""

    n_envs: int
    device: torch.device
    d: Any
    """MuJoCo Warp's data."""

    def bind(self, field: str) -> torch.Tensor:
        """Return a live tensor of a field of the engine."""
        raise NotImplementedError

    def _select(self, envs: Envs) -> None:
        """Choose the envs that restart."""
        raise NotImplementedError

    def _restart_from_state(self, envs: Envs) -> dict[int, str]:
        """Recompute what depends on the state of the chosen envs."""
        raise NotImplementedError

    def _state_parts(self) -> list[torch.Tensor]:
        parts = [self.bind(name) for name in STATE if isinstance(getattr(self.d, name, None), wp.array)]
        return [part for part in parts if part.numel()]

    def get_state(self) -> torch.Tensor:
        return torch.cat([part.reshape(self.n_envs, -1).float() for part in self._state_parts()], dim=1)

    def checked_states(self, name: str, states: np.ndarray) -> np.ndarray:
        width = sum(part[0].numel() for part in self._state_parts())
        return real_states(name, states, (self.n_envs, width))

    def check_state(self, state: torch.Tensor, envs: Envs = None) -> None:
        self._state_rows(state, envs)

    def _state_rows(self, state: torch.Tensor, envs: Envs) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the checked values of a state, and the ids of its envs; None for all."""
        if isinstance(state, torch.Tensor) and not state.is_complex():
            given = plain_tensor("state", state).to(torch.float32)
        else:
            given = torch.from_numpy(real_states("state", state, None).astype(np.float32))
        index = env_index(envs, self.n_envs, self.device)
        rows = self.n_envs if index is None else len(index)
        width = sum(part[0].numel() for part in self._state_parts())
        if given.shape != (rows, width):
            raise OptionError(f"state must have shape {(rows, width)} for these envs, got {tuple(given.shape)}")
        if given.device.type == "cpu" and not bool(given.isfinite().all()):
            raise OptionError("state must be finite, got NaN or infinity")
        return given, index

    def set_state(self, state: torch.Tensor, envs: Envs = None) -> dict[int, str]:
        given, index = self._state_rows(state, envs)
        values = upload(given, self.device)
        self._select(envs)
        if index is None:
            full = values
        else:
            full = self.get_state()
            full[index] = values
        start = 0
        for part in self._state_parts():
            count = part[0].numel()
            part.copy_(full[:, start : start + count].reshape(part.shape))
            start += count
        return self._restart_from_state(envs)
