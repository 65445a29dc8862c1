"""Random numbers for the hooks of sensor classes, keyed like those of the pipeline; see ``formula.py``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from sensorium.pipeline import formula


class SampleDraws(NamedTuple):
    """What numbers that belong to samples instead of ticks depend on."""

    rows: Sequence[int]
    """The row of each sensor in ``flags`` and ``draw``."""
    flags: torch.Tensor
    """Timing flags, (S,) int32, live."""
    draw: torch.Tensor
    """The counter of the newest sample of each sensor, (S, 2, B) uint32, live."""


class Draws:
    """Named random numbers of one sensor group: (columns, B) float32 tensors that are filled anew in every tick.

    Args:
        seed: the scene's seed.
        name: name of the draw within the class.
        uuids: the sensors of the group.
        counts: columns of each sensor.
        draw: the counter of this tick, (2, B) uint32, live.
        is_gpu: whether the tensors are filled by Warp kernels.
        samples: where the draws of samples are; None for numbers that belong to ticks.
    """

    def __init__(
        self,
        seed: int,
        name: str,
        uuids: Sequence[str],
        counts: Sequence[int],
        draw: torch.Tensor,
        is_gpu: bool,
        samples: SampleDraws | None = None,
    ) -> None:
        self._columns = [
            (uuid, f"{name}:{column}") for uuid, count in zip(uuids, counts, strict=True) for column in range(count)
        ]
        self._keys = self._make_keys(seed).to(draw.device)
        self._out = torch.zeros(len(self._keys), draw.shape[1], device=draw.device)
        if samples is None:
            rows = np.full(len(self._keys), -1, np.int32)
            none = torch.zeros(1, dtype=torch.int32, device=draw.device), draw.new_zeros(1, *draw.shape)
            samples = SampleDraws((), *none)
        else:
            rows = np.repeat(samples.rows, counts).astype(np.int32)
        fill = self._warp_fill if is_gpu else self._numba_fill
        self._fill: Callable[[bool], None] = fill(rows, samples.flags, draw, samples.draw)

    def _make_keys(self, seed: int) -> torch.Tensor:
        """Return the keys of all columns, (columns, 2) int32 with the bits of uint32."""
        keys = [formula.key(seed, uuid, column) for uuid, column in self._columns]
        return torch.from_numpy(np.asarray(keys, np.uint32).reshape(-1, 2).view(np.int32))

    def set_seed(self, seed: int) -> None:
        """Set the seed of all later numbers."""
        self._keys.copy_(self._make_keys(seed))  # in place: compiled calls and CUDA graphs have the address

    def normal(self) -> torch.Tensor:
        """Return standard normals of this tick or sample."""
        self._fill(True)
        return self._out

    def uniform(self) -> torch.Tensor:
        """Return numbers in [0, 1) of this tick or sample."""
        self._fill(False)
        return self._out

    def _numba_fill(
        self, rows: np.ndarray, flags: torch.Tensor, draw: torch.Tensor, sample_draw: torch.Tensor
    ) -> Callable[[bool], None]:
        from sensorium.pipeline.kernels.draws import fill_normal, fill_uniform  # imports Numba
        from sensorium.pipeline.launch import launch

        keys = self._keys.numpy().view(np.uint32)
        arguments = (keys, rows, flags.numpy(), draw.numpy(), sample_draw.numpy(), self._out.numpy())
        return lambda normal: launch(fill_normal if normal else fill_uniform, *arguments)

    def _warp_fill(
        self, rows: np.ndarray, flags: torch.Tensor, draw: torch.Tensor, sample_draw: torch.Tensor
    ) -> Callable[[bool], None]:
        import warp as wp

        from sensorium.pipeline.warp_draws import fill_normal, fill_uniform

        row = torch.from_numpy(rows).to(draw.device)
        counters = (draw.view(torch.int32), sample_draw.view(torch.int32))
        inputs: list[Any] = [wp.from_torch(tensor) for tensor in (self._keys, row, flags, *counters, self._out)]
        device, shape = str(draw.device), tuple(self._out.shape)
        return lambda normal: wp.launch(fill_normal if normal else fill_uniform, shape, inputs, device=device)
