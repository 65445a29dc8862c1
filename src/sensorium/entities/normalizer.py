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
    """

    def __init__(self, width: int, device: torch.device) -> None:
        self._device = device
        self.count = 0.0
        # On the host for arrays, on the device for tensors: whichever updated it last.
        self._mean: np.ndarray | torch.Tensor = np.zeros(width)
        self._variance: np.ndarray | torch.Tensor = np.ones(width)
        self._shift, self._scale = torch.zeros(width, device=device), torch.ones(width, device=device)

    @property
    def mean(self) -> np.ndarray:
        """(k,) float64."""
        return _as_array(self._mean)

    @property
    def variance(self) -> np.ndarray:
        """(k,) float64."""
        return _as_array(self._variance)

    def update(self, values: np.ndarray) -> None:
        """Add vectors (B, k) to the statistics. Values that are not finite count as the current mean."""
        mean, variance = self.mean, self.variance
        values = np.where(np.isfinite(values), values, mean)
        rows, total = len(values), self.count + len(values)
        offset = values.mean(axis=0, dtype=np.float64) - mean
        squares = variance * self.count + values.var(axis=0, dtype=np.float64) * rows
        new = (squares + offset**2 * (self.count * rows / total)) / total
        self.restore(total, mean + offset * (rows / total), new)

    def update_tensors(self, values: torch.Tensor) -> None:
        """Add vectors (B, k) as :meth:`update` does, on the device, without waiting for it."""
        mean, variance = (torch.as_tensor(each, device=self._device) for each in (self._mean, self._variance))
        values = values.to(self._device, torch.float64)
        values = torch.where(torch.isfinite(values), values, mean)
        rows, total = len(values), self.count + len(values)
        offset = values.mean(dim=0) - mean
        squares = variance * self.count + values.var(dim=0, correction=0) * rows
        self._mean = mean + offset * (rows / total)
        self._variance = (squares + offset**2 * (self.count * rows / total)) / total
        self.count = total
        self._shift = self._mean.float()
        self._scale = (1 / self._variance.sqrt().clamp(min=_MIN_STD)).float()

    def restore(self, count: float, mean: np.ndarray, variance: np.ndarray) -> None:
        """Set the statistics."""
        self.count, self._mean, self._variance = count, mean, variance
        self._shift = torch.from_numpy(mean).to(self._device, torch.float32)
        scale = 1 / np.maximum(np.sqrt(variance), _MIN_STD)
        self._scale = torch.from_numpy(scale).to(self._device, torch.float32)

    def normalize(self, values: torch.Tensor) -> torch.Tensor:
        """Return normalised and clipped vectors (B, k) float32 on the device. NaN becomes 0, the mean.

        The argument may be modified in place.
        """
        values = values.to(self._device, torch.float32).sub_(self._shift).mul_(self._scale)
        return values.nan_to_num_(nan=0.0).clamp_(-MAX_NORMALIZED, MAX_NORMALIZED)


def _as_array(values: np.ndarray | torch.Tensor) -> np.ndarray:
    return values if isinstance(values, np.ndarray) else values.numpy(force=True)
