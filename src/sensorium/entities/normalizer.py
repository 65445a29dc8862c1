"""``RunningNormalizer``: normalisation of vectors by their running mean and standard deviation."""

from __future__ import annotations

import numpy as np
import torch

MAX_NORMALIZED = 10.0
"""Normalised values are clipped to +-MAX_NORMALIZED standard deviations."""
_MIN_STD = 1e-6
"""Minimum standard deviation, in the unit of the value. It keeps the rounding errors of values that hardly change from
being amplified, and is small enough for, say, 1 µT."""


class RunningNormalizer:
    """The running mean and variance of vectors, and the normalisation by them.

    Args:
        width: size of the vectors, k.
        device: device of the vectors to normalise.

    Attributes:
        count: number of vectors so far.
        mean: (k,) float64.
        variance: (k,) float64.
    """

    def __init__(self, width: int, device: torch.device) -> None:
        self._device = device
        self.count = 0.0
        self.mean, self.variance = np.zeros(width), np.ones(width)
        self._shift, self._scale = torch.zeros(width, device=device), torch.ones(width, device=device)

    def update(self, values: np.ndarray) -> None:
        """Add vectors (B, k) to the statistics. Values that are not finite count as the current mean."""
        values = np.where(np.isfinite(values), values, self.mean)
        rows, total = len(values), self.count + len(values)
        offset = values.mean(axis=0, dtype=np.float64) - self.mean
        squares = self.variance * self.count + values.var(axis=0, dtype=np.float64) * rows
        self.mean += offset * (rows / total)
        self.variance = (squares + offset**2 * (self.count * rows / total)) / total
        self.count = total
        self._refresh()

    def restore(self, count: float, mean: np.ndarray, variance: np.ndarray) -> None:
        """Set the statistics."""
        self.count, self.mean, self.variance = count, mean, variance
        self._refresh()

    def _refresh(self) -> None:
        self._shift = torch.from_numpy(self.mean).to(self._device, torch.float32)
        scale = 1 / np.maximum(np.sqrt(self.variance), _MIN_STD)
        self._scale = torch.from_numpy(scale).to(self._device, torch.float32)

    def normalize(self, values: torch.Tensor) -> torch.Tensor:
        """Return normalised and clipped vectors (B, k) float32 on the device. NaN becomes 0, the mean.

        The argument may be modified in place.
        """
        values = values.to(self._device, torch.float32).sub_(self._shift).mul_(self._scale)
        return values.nan_to_num_(nan=0.0).clamp_(-MAX_NORMALIZED, MAX_NORMALIZED)
