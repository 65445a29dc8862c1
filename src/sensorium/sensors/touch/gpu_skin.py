"""Imperfections of tactile skins on the GPU: launches of Warp kernels; see ``skin.py``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import warp as wp

from sensorium.pipeline import SensorGroup
from sensorium.sensors.touch import warp_skin_kernels as kernels
from sensorium.sensors.touch.skin import skin_memory, skin_tables
from sensorium.sensors.touch.tactile_realism import PARAMETERS


class GpuSkin:
    """Skins of all sensors of a class on the GPU; for the arguments see :func:`~sensorium.sensors.touch.skin.
    skin_tables`."""

    def __init__(self, group: SensorGroup, positions: Sequence[np.ndarray], width: int, blocks: int = 1) -> None:
        self._group = group
        table, weights, dead, keys = skin_tables(group, positions, width, blocks)
        taxel, sensor = np.full(group.n_columns, -1), np.zeros(group.n_columns, int)
        for s, (start, first, count, *_) in enumerate(table.tolist()):
            columns = slice(start, start + count * width * blocks)
            taxel[columns] = np.tile(np.repeat(first + np.arange(count), width), blocks)
            sensor[columns] = s
        starts, away, weight = _rows(weights, table[:, 2].tolist(), width)
        self._skins = kernels.Skins()
        for name, values in {"taxel": taxel, "sensor": sensor, "starts": starts, "away": away}.items():
            setattr(self._skins, name, self._upload(values.astype(np.int32)))
        self._skins.keys, self._skins.dead = self._upload(keys.view(np.int32)), self._upload(dead)
        self._skins.weight, self._skins.env = self._upload(weight), wp.from_torch(group.env_ids)
        for field, name in zip(("fraction", "time", "spread", "dead_fraction"), PARAMETERS, strict=True):
            setattr(self._skins, field, wp.from_torch(group.parameters[name]))
        self._memory, self._mixes = wp.from_torch(skin_memory(group)), len(weight) > 0
        shape = (group.n_columns, group.n_envs) if self._mixes else (0, 0)
        self._mixed = wp.from_torch(torch.zeros(shape, device=group.device))

    def _upload(self, values: np.ndarray) -> wp.array:
        return wp.from_torch(torch.from_numpy(np.ascontiguousarray(values)).to(self._group.device))

    def _launch(self, kernel: object, *inputs: object) -> None:
        dim = (self._group.n_columns, self._group.n_envs)
        wp.launch(kernel, dim=dim, inputs=[self._skins, *inputs], device=str(self._group.device))

    def imperfect(self, data: torch.Tensor) -> None:
        """Apply the imperfections of the skin and the generic ones in place on ``data`` (columns, B)."""
        array = wp.from_torch(data)
        self._launch(kernels.respond, self._memory, wp.float64(self._group.dt), array, self._mixed)
        if self._mixes:
            self._launch(kernels.mix, self._mixed, array)
        self._group.imperfect(data)
        self._launch(kernels.mute, array)


def _rows(
    matrices: Sequence[np.ndarray | None], counts: Sequence[int], width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the crosstalk of all sensors as sparse rows.

    Returns:
        Where the entries of each taxel begin, and where the last ones end; the number of columns from a taxel to each
        taxel that it reads, in their order; their weights.
    """
    away, weights, lengths = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)], [0]
    for matrix, count in zip(matrices, counts, strict=True):
        for i in range(count):
            read = np.zeros(0, np.int64) if matrix is None else np.flatnonzero(matrix[i])
            away.append((read - i) * width)
            if matrix is not None:
                weights.append(matrix[i, read].astype(np.float32))
            lengths.append(len(read))
    return np.cumsum(lengths), np.concatenate(away), np.concatenate(weights)
