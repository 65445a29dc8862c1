"""Boxes of positions as options, and positions that are drawn in them."""

from __future__ import annotations

from typing import TypeAlias

import torch

from sensorium.options import Options
from sensorium.tasks.tensor.episode_draws import EpisodeDraws

Corner: TypeAlias = tuple[float, float, float]
"""x, y and z in m."""


def check_box(options: Options, low: str, high: str) -> None:
    """Raise ValueError if the option ``high`` is below the option ``low`` along an axis."""
    lower, upper = getattr(options, low), getattr(options, high)
    if any(a > b for a, b in zip(lower, upper, strict=True)):
        raise ValueError(f"{high} must be >= {low} {lower} along each axis, got {upper}")


def draw_in_box(draws: EpisodeDraws, name: str, low: Corner, high: Corner) -> torch.Tensor:
    """Return positions (B, 3) in a box, m: other ones in each episode."""
    unit = draws.uniform(name, 3)
    rows = [lower + (upper - lower) * unit[:, axis] for axis, (lower, upper) in enumerate(zip(low, high, strict=True))]
    return torch.stack(rows, dim=1)
