"""``Outputs``: what a step returns, in one block of memory, so that one copy keeps all of it."""

from __future__ import annotations

import torch


class Outputs:
    """Observations, rewards and ends of a step in B envs, written in place.

    Args:
        n_envs: B.
        n_columns: columns of the observations.
        device: where they are.

    Attributes:
        values: observations, (B, n_columns) float32.
        reward: (B,) float32.
        flags: terminated and truncated, (2, B) bool.
    """

    def __init__(self, n_envs: int, n_columns: int, device: torch.device) -> None:
        self._shape = n_envs, n_columns
        self._block = torch.zeros(n_envs * (4 * n_columns + 6), dtype=torch.uint8, device=device)
        self.values, self.reward, self.flags = self._views(self._block)

    def copy(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return copies of :attr:`values`, :attr:`reward` and :attr:`flags`."""
        return self._views(self._block.clone())

    def _views(self, block: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        n_envs, n_columns = self._shape
        values, reward, flags = block.split((4 * n_envs * n_columns, 4 * n_envs, 2 * n_envs))
        return (
            values.view(torch.float32).view(n_envs, n_columns),
            reward.view(torch.float32),
            flags.view(torch.bool).view(2, n_envs),
        )
