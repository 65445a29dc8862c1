"""``SignalMean``: the mean of the raw signal between two samples, for sensors with ``window="mean"``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch


class SignalMean:
    """Running means of the columns of one group.

    Args:
        rows: row of the sensor of each column in ``due``.
        averaged: whether each column is averaged.
        due: (rows of all sensors, B) bool: whether a sensor takes a sample in this tick, live.
        dtype: dtype of the signal.
        is_gpu: whether torch operations are used, which a CUDA graph can capture, instead of a compiled kernel.
    """

    def __init__(
        self, rows: Sequence[int], averaged: Sequence[bool], due: torch.Tensor, dtype: torch.dtype, is_gpu: bool
    ) -> None:
        shape, device = (len(rows), due.shape[1]), due.device
        self._rows, self._averaged = torch.tensor(rows, device=device), torch.tensor(averaged, device=device)
        self._due, self._is_gpu = due, is_gpu
        self._total = torch.zeros(shape, dtype=dtype, device=device)
        self._count = torch.zeros(shape, dtype=torch.int32, device=device)
        self._arrays: tuple[np.ndarray, ...] = ()
        if not is_gpu:
            tensors = (self._rows, self._averaged, due, self._total, self._count)
            self._arrays = tuple(tensor.numpy() for tensor in tensors)

    def restart(self, mask: torch.Tensor) -> None:
        """Begin an interval in the envs of ``mask`` (B,)."""
        self._total.masked_fill_(mask, 0)
        self._count.masked_fill_(mask, 0)

    def average(self, data: torch.Tensor) -> None:
        """Replace averaged columns of ``data`` (columns, B) by their mean since the last sample, in place."""
        if self._is_gpu:
            self._count += 1
            self._total += data
            torch.where(self._averaged[:, None], self._total / self._count, data, out=data)
            ends = self._due[self._rows]
            self._total.masked_fill_(ends, 0)
            self._count.masked_fill_(ends, 0)
        else:
            from sensorium.pipeline.kernels.window import average  # imports Numba
            from sensorium.pipeline.launch import launch

            launch(average, *self._arrays, data.numpy())
