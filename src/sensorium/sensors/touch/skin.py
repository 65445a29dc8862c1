"""Imperfections of tactile skins on the measured branch, for all sensors of a class.

They act before the generic imperfections, in this order: viscoelasticity (a load reads too high at first and settles),
crosstalk between neighbouring taxels, and the gain of each taxel. Dead taxels are set to 0 last, after the generic
imperfections.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from sensorium.pipeline import SensorGroup, formula
from sensorium.pipeline.launch import launch
from sensorium.sensors.touch.tactile_realism import PARAMETERS, TactileRealism

_CUT = 3.0
"""Range of the crosstalk in multiples of its length."""


class SkinTables(NamedTuple):
    """Constants of the skins of all sensors of a class."""

    table: np.ndarray
    """First column, first taxel, number of taxels, numbers per taxel, and blocks of each sensor, (S, 5)."""
    weights: list[np.ndarray | None]
    """Weights of the crosstalk of each sensor with normalised rows, (n, n), or None without crosstalk."""
    dead: np.ndarray
    """Which taxels are dead in every env, (N,) bool."""
    keys: np.ndarray
    """Random key of each taxel, (N, 2) uint32."""


def skin_tables(group: SensorGroup, positions: Sequence[np.ndarray], width: int, blocks: int = 1) -> SkinTables:
    """Return the constants of the skins of a group, and allocate their parameters.

    Args:
        group: the sensors; their options are :class:`TactileRealism`.
        positions: positions (n, 3) of the taxels of each sensor, m.
        width: numbers per taxel, in neighbouring columns.
        blocks: number of (n, width) blocks at the start of a sensor's columns; further columns are not changed.
    """
    counts = [len(rows) for rows in positions]
    firsts = np.cumsum([0, *counts])
    table = np.array(
        [
            (part.start, first, count, width, blocks)
            for part, first, count in zip(group.slices, firsts[:-1], counts, strict=True)
        ],
        np.int64,
    )
    weights = [_crosstalk(sensor.options, rows) for sensor, rows in zip(group.sensors, positions, strict=True)]
    dead = np.zeros(firsts[-1], np.bool_)
    keys = []
    for sensor, first, count in zip(group.sensors, firsts[:-1], counts, strict=True):
        dead[[first + taxel for taxel in sensor.options.dead_taxels]] = True
        # elements from 0 are columns, -1 is the timing; taxels have the elements below
        keys += [formula.key(group.seed, sensor.uuid, -2 - taxel) for taxel in range(count)]
    for name in PARAMETERS:
        group.parameters.setdefault(name, torch.zeros(len(group.sensors), group.n_envs, device=group.device))
    return SkinTables(table, weights, dead, np.asarray(keys, np.uint32))


class Skin:
    """Skins of all sensors of a class on the CPU; for the arguments see :func:`skin_tables`."""

    def __init__(self, group: SensorGroup, positions: Sequence[np.ndarray], width: int, blocks: int = 1) -> None:
        from sensorium.sensors.touch import skin_kernels

        self._kernels, self._group = skin_kernels, group
        tables = skin_tables(group, positions, width, blocks)
        self._env_ids = group.env_ids.numpy().copy()
        gain, fate = (np.zeros((len(tables.keys), group.n_envs), np.float32) for _ in range(2))
        self._draws = (tables.keys, self._env_ids, gain, fate)
        skin_kernels.draw_taxels(*self._draws)
        fraction, time, spread, dead_fraction = (group.parameters[name].numpy() for name in PARAMETERS)
        memory = skin_memory(group).numpy()
        mixed = np.zeros(max(map(len, positions)) * width, np.float32)
        crosstalk = _packed(tables.weights)
        self._respond = (tables.table, *crosstalk, fraction, time, spread, gain, memory, mixed, group.dt)
        self._mute = (tables.table, tables.dead, dead_fraction, fate)
        self._both = (*self._respond, *self._mute[1:])

    def imperfect(self, data: torch.Tensor) -> None:
        """Apply the imperfections of the skin and the generic ones in place on ``data`` (columns, B)."""
        array, kernels = self._group.array(data), self._kernels
        if not self._group.advancing and (self._group.env_ids.numpy() != self._env_ids).any():
            self._env_ids[:] = self._group.env_ids.numpy()  # episodes of other envs are made again: with their skins
            kernels.draw_taxels(*self._draws)
        if self._group.is_idle:
            launch(kernels.respond_and_mute, *self._both, array)
        else:
            launch(kernels.respond, *self._respond, array)
            self._group.imperfect(data)
            launch(kernels.mute, *self._mute, array)


def skin_memory(group: SensorGroup) -> torch.Tensor:
    """Allocate the memory of viscoelastic skins; NaN: the skin has none yet, and is at rest under its current load."""
    return group.state("skin", fill=float("nan"))


def _crosstalk(options: TactileRealism, positions: np.ndarray) -> np.ndarray | None:
    """Return the (n, n) weights of a sensor with normalised rows, or None without crosstalk."""
    if options.crosstalk_kernel is not None:
        weights = np.asarray(options.crosstalk_kernel, np.float64)
    elif options.crosstalk_length:
        apart = np.linalg.norm(positions[:, None] - positions[None], axis=2)
        length = options.crosstalk_length
        weights = np.where(apart <= _CUT * length, np.exp(-(apart**2) / (2 * length**2)), 0.0)
    else:
        return None
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _packed(matrices: Sequence[np.ndarray | None]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the crosstalk of all sensors as sparse columns.

    Returns:
        For each source taxel of each sensor, the taxels that read it; their weights; and a table (sensors, ...) of the
        number of source taxels, followed by where the entries of each begin and where the last ones end.
    """
    readers, weights, starts = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)], []
    total = 0
    for matrix in matrices:
        columns = [] if matrix is None else list(matrix.T)
        starts.append([len(columns), total])
        for column in columns:
            by = np.flatnonzero(column)
            readers.append(by)
            weights.append(column[by].astype(np.float32))
            total += len(by)
            starts[-1].append(total)
    longest = max(len(row) for row in starts)
    table = np.zeros((len(starts), longest), np.int64)
    for row, values in zip(table, starts, strict=True):
        row[: len(values)] = values
    return np.concatenate(readers), np.concatenate(weights), table
