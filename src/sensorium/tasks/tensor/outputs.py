"""``Outputs``: what a step returns, in one block of memory, so that one copy keeps all of it."""

from __future__ import annotations

from collections.abc import Sequence

import torch


class Outputs:
    """Observations, rewards and ends of a step in B envs, written in place.

    Args:
        n_envs: number of envs, B.
        n_columns: columns of the observations.
        device: where they are.

    Attributes:
        values: observations, (B, n_columns) float32.
        reward: (B,) float32.
        flags: terminated and truncated, (2, B) bool.
    """

    def __init__(self, n_envs: int, n_columns: int, device: torch.device) -> None:
        self._n_envs, self._n_columns = n_envs, n_columns
        self._sizes = [n_envs * n_columns, n_envs, (2 * n_envs + 3) // 4]  # floats; a flag takes a byte
        rest = 4 * self._sizes[2] - 2 * n_envs
        self._flag_sizes = [n_envs, n_envs, rest] if rest else [n_envs, n_envs]
        self._block = torch.zeros(sum(self._sizes), device=device)
        values, self.reward, flags = divide(self._block, self._sizes, 0)
        self.values = values.view(n_envs, n_columns)
        self.flags = flags.view(torch.bool)[: 2 * n_envs].view(2, n_envs)

    def copy(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return copies of :attr:`values` and :attr:`reward`, and of the two rows of :attr:`flags`."""
        values, reward, flags = divide(self._block.clone(), self._sizes, 0)
        terminated, truncated, *_ = divide(flags.view(torch.bool), self._flag_sizes, 0)
        return values.view(self._n_envs, self._n_columns), reward, terminated, truncated


def divide(values: torch.Tensor, sizes: list[int], dim: int) -> Sequence[torch.Tensor]:
    """Return parts of a tensor that share its memory, and that torch does not track as views of one another.

    As ``values.split(sizes, dim)`` in half of the host time.
    """
    found: Sequence[torch.Tensor] = torch.unsafe_split_with_sizes(values, sizes, dim)
    return found
