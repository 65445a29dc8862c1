"""Independent normal distributions of actions, whose standard deviation does not depend on what is observed.

rsl_rl computes logarithms of the standard deviation for each row, which takes a tenth of an update on a CPU. Here they
are computed once.
"""

from __future__ import annotations

import math

import torch

_LOG_ROOT_2_PI = 0.5 * math.log(2 * math.pi)


def log_density(actions: torch.Tensor, mean: torch.Tensor, std: torch.Tensor) -> torch.Tensor:
    """Return the logarithms of the probability densities of actions, (rows,).

    Args:
        actions, mean: (rows, n).
        std: (n,).
    """
    constant = std.log().sum() + len(std) * _LOG_ROOT_2_PI
    return ((actions - mean) / std).square().sum(dim=1) * -0.5 - constant


def entropy(std: torch.Tensor) -> torch.Tensor:
    """Return the entropy, which does not depend on the mean."""
    return std.log().sum() + len(std) * (0.5 + _LOG_ROOT_2_PI)


def divergence(mean: torch.Tensor, std: torch.Tensor, old_mean: torch.Tensor, old_std: torch.Tensor) -> torch.Tensor:
    """Return the Kullback-Leibler divergence from the old distributions, as a mean over the rows."""
    change = (old_mean - mean).square().mean(dim=0)
    return (std.log() - old_std.log() + (old_std.square() + change) / (2 * std.square()) - 0.5).sum()
