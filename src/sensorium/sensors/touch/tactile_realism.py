"""What is wrong with real tactile skins, shared by the classes of touch; on the measured branch alone.

In this order, before the generic imperfections: the skin is viscoelastic, so that a load reads too high at first and
settles; neighbouring taxels hear each other; each taxel has its own gain; some are dead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from pydantic import Field, model_validator

from sensorium.jit import kernel
from sensorium.options import Options
from sensorium.pipeline import formula, kernels
from sensorium.pipeline.launch import launch

_CUT = 3.0
"""Crosstalk reaches this many lengths."""


class TactileRealism(Options):
    """Imperfections of a tactile skin. Taxels are counted in the order of the reading."""

    relaxation_fraction: float = Field(default=0.0, ge=0)
    """Viscoelastic hysteresis: stiffness of a Maxwell branch (spring and dashpot in series) beside the skin's spring,
    over that of the spring. A load x put on at once reads x * (1 + relaxation_fraction * exp(-t / relaxation_time)); a
    static load reads right. The response is linear: a load taken off at once reads below 0 for as long. Can be changed
    per env while running."""
    relaxation_time: float = Field(default=0.2, gt=0)
    """Time constant of that branch, s. Can be changed per env while running."""
    crosstalk_length: float = Field(default=0.0, ge=0)
    """Spatial crosstalk: standard deviation, m, of the Gaussian over the distance between taxels with which each hears
    its neighbours, cut off at three times this. Weights of a taxel add up to 1, so an even load stays even."""
    crosstalk_kernel: tuple[tuple[float, ...], ...] | None = None
    """The same as a measured (n, n) matrix instead: row i says how much taxel i hears of each. Rows are normalised to a
    sum of 1."""
    gain_spread: float = Field(default=0.0, ge=0)
    """Standard deviation of the taxels' gains about 1. Each is drawn once per (seed, uuid, taxel, env), and stays. Can
    be changed per env while running."""
    dead_taxels: tuple[int, ...] = ()
    """Taxels that read 0 in every env."""
    dead_fraction: float = Field(default=0.0, ge=0, le=1)
    """Probability that a taxel is dead and reads 0; drawn like the gains. Can be changed per env while running."""

    @model_validator(mode="after")
    def _check_crosstalk(self) -> TactileRealism:
        if self.crosstalk_kernel is not None:
            if self.crosstalk_length:
                raise ValueError("crosstalk_length and crosstalk_kernel are two ways to say one thing; give one")
            if {len(row) for row in self.crosstalk_kernel} != {len(self.crosstalk_kernel)}:
                raise ValueError("crosstalk_kernel must be a square matrix")
            if min(sum(row) for row in self.crosstalk_kernel) <= 0:
                raise ValueError("every row of crosstalk_kernel must have a sum greater than 0")
        return self

    def _check_taxels(self, count: int) -> None:
        """Raise a ValueError where these do not fit ``count`` taxels."""
        if self.crosstalk_kernel is not None and len(self.crosstalk_kernel) != count:
            raise ValueError(
                f"crosstalk_kernel must be {count} x {count}, one row a taxel, got {len(self.crosstalk_kernel)} rows"
            )
        for taxel in self.dead_taxels:
            if not 0 <= taxel < count:
                raise ValueError(f"dead_taxels must lie in [0, {count}), got {taxel}")


_NOTHING = np.float32(1e-20)
"""What the skin still remembers below this is forgotten: tiny numbers are slow."""
_PARAMETERS = ("relaxation_fraction", "relaxation_time", "gain_spread", "dead_fraction")


def realism_parameters() -> dict[str, tuple[str, slice]]:
    """The options of :class:`TactileRealism` that ``set`` can change."""
    return {name: ("custom", slice(0, 1)) for name in _PARAMETERS}


class Skin:
    """The skins of all sensors of a class.

    Args:
        group: the sensors.
        positions: (n, 3) of the taxels of each sensor.
        width: numbers of one taxel that lie side by side.
        blocks: how many (n, width) blocks follow each other in a sensor's columns; columns behind them stay as they
            are.
    """

    def __init__(self, group: Any, positions: Sequence[np.ndarray], width: int, blocks: int = 1) -> None:
        counts = [len(rows) for rows in positions]
        firsts = np.cumsum([0, *counts])
        self._table = np.array(
            [
                (part.start, first, count, width, blocks)
                for part, first, count in zip(group.slices, firsts[:-1], counts, strict=True)
            ],
            np.int64,
        )
        weights = [_crosstalk(sensor.options, rows) for sensor, rows in zip(group.sensors, positions, strict=True)]
        self._heard, self._weight, self._starts = _packed(weights)
        self._fixed = np.zeros(firsts[-1], np.bool_)
        keys = []
        for sensor, first, count in zip(group.sensors, firsts[:-1], counts, strict=True):
            self._fixed[[first + taxel for taxel in sensor.options.dead_taxels]] = True
            # elements from 0 are columns, -1 is the timing; taxels have those below
            keys += [formula.key(group.seed, sensor.uuid, -2 - taxel) for taxel in range(count)]
        self._gain, self._fate = _draw(np.asarray(keys, np.uint32), group.n_envs)
        for name in _PARAMETERS:
            group.parameters.setdefault(name, torch.zeros(len(group.sensors), group.n_envs))
        self._set = {name: group.parameters[name].numpy() for name in _PARAMETERS}
        # not a number: nothing is remembered yet, and the skin is at rest under what it feels now
        memory = group.state("skin", fill=float("nan"))
        self._group = group
        self._respond = (
            self._table,
            self._heard,
            self._weight,
            self._starts,
            self._set["relaxation_fraction"],
            self._set["relaxation_time"],
            self._set["gain_spread"],
            self._gain,
            memory.numpy(),
            np.zeros(max(counts) * width, np.float32),
            group.dt,
        )
        self._mute = self._table, self._fixed, self._set["dead_fraction"], self._fate
        self._both = (*self._respond, *self._mute[1:])

    def imperfect(self, data: torch.Tensor) -> None:
        """The skin's imperfections and the generic ones, in place on ``data`` (columns, B)."""
        array = self._group.array(data)
        if self._group.is_idle:
            launch(_respond_and_mute, *self._both, array)
        else:
            launch(_respond, *self._respond, array)
            self._group.imperfect(data)
            launch(_mute, *self._mute, array)


def _crosstalk(options: Any, positions: np.ndarray) -> np.ndarray | None:
    """(n, n) weights, rows normalised; None for none."""
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
    """Which taxels hear each taxel, and with what weights: of all sensors, source by source; and where each starts."""
    heard, weight, starts = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)], []
    total = 0
    for matrix in matrices:
        columns = [] if matrix is None else list(matrix.T)
        starts.append([len(columns), total])
        for column in columns:
            by = np.flatnonzero(column)
            heard.append(by)
            weight.append(column[by].astype(np.float32))
            total += len(by)
            starts[-1].append(total)
    longest = max(len(row) for row in starts)
    table = np.zeros((len(starts), longest), np.int64)
    for row, values in zip(table, starts, strict=True):
        row[: len(values)] = values
    return np.concatenate(heard), np.concatenate(weight), table


@kernel
def _draw(keys: np.ndarray, n_envs: int) -> tuple[np.ndarray, np.ndarray]:
    """A standard normal and a uniform number in [0, 1) per taxel and env, from counters (env, 0) and (env, 1)."""
    normal = np.zeros((keys.shape[0], n_envs), np.float32)
    uniform = np.zeros((keys.shape[0], n_envs), np.float32)
    for i in range(keys.shape[0]):
        for env in range(n_envs):
            w0, w1 = kernels.threefry(keys[i, 0], keys[i, 1], np.uint32(env), np.uint32(0))
            normal[i, env] = kernels.normals(w0, w1)[0]
            w0, w1 = kernels.threefry(keys[i, 0], keys[i, 1], np.uint32(env), np.uint32(1))
            uniform[i, env] = np.float32(w0 >> np.uint32(8)) * np.float32(2.0**-24)
    return normal, uniform


@kernel
def _respond(
    table: np.ndarray,
    heard: np.ndarray,
    weight: np.ndarray,
    starts: np.ndarray,
    fraction: np.ndarray,
    time: np.ndarray,
    spread: np.ndarray,
    gain: np.ndarray,
    memory: np.ndarray,
    mixed: np.ndarray,
    dt: float,
    data: np.ndarray,
) -> None:
    """Viscoelasticity, crosstalk and gains."""
    steps = np.empty(data.shape[1], np.float32)
    for s in range(table.shape[0]):
        start, taxel, n, width, blocks = table[s, 0], table[s, 1], table[s, 2], table[s, 3], table[s, 4]
        for env in range(data.shape[1]):
            steps[env] = 1.0 - np.exp(-dt / time[s, env])
        for c in range(start, start + n * width * blocks):
            for env in range(data.shape[1]):
                x, share = data[c, env], fraction[s, env]
                z = x if share == 0 or np.isnan(memory[c, env]) else memory[c, env]
                data[c, env] = x + share * (x - z)
                z = z + steps[env] * (x - z)  # the dashpot, for a load that stays as it is until the next step
                memory[c, env] = z if abs(z) > _NOTHING else np.float32(0)
        for env in range(data.shape[1]):
            for block in range(blocks):
                first = start + block * n * width
                if starts[s, 0] > 0:
                    mixed[: n * width] = 0
                    for j in range(n):
                        source = first + j * width
                        silent = True
                        for k in range(width):
                            silent = silent and data[source + k, env] == 0
                        if silent:
                            continue
                        for entry in range(starts[s, 1 + j], starts[s, 2 + j]):
                            place = heard[entry] * width
                            for k in range(width):
                                mixed[place + k] += weight[entry] * data[source + k, env]
                    for c in range(n * width):
                        data[first + c, env] = mixed[c]
                if spread[s, env] > 0:
                    for i in range(n):
                        own = np.float32(1) + spread[s, env] * gain[taxel + i, env]
                        for k in range(width):
                            data[first + i * width + k, env] *= own


@kernel
def _mute(table: np.ndarray, fixed: np.ndarray, fraction: np.ndarray, fate: np.ndarray, data: np.ndarray) -> None:
    for s in range(table.shape[0]):
        start, taxel, n, width, blocks = table[s, 0], table[s, 1], table[s, 2], table[s, 3], table[s, 4]
        for i in range(n):
            for env in range(data.shape[1]):
                if fixed[taxel + i] or fate[taxel + i, env] < fraction[s, env]:
                    for block in range(blocks):
                        for k in range(width):
                            data[start + (block * n + i) * width + k, env] = 0


@kernel
def _respond_and_mute(
    table: np.ndarray,
    heard: np.ndarray,
    weight: np.ndarray,
    starts: np.ndarray,
    fraction: np.ndarray,
    time: np.ndarray,
    spread: np.ndarray,
    gain: np.ndarray,
    memory: np.ndarray,
    mixed: np.ndarray,
    dt: float,
    fixed: np.ndarray,
    dead: np.ndarray,
    fate: np.ndarray,
    data: np.ndarray,
) -> None:
    """Both in one call: at one env, calling costs more than the work."""
    _respond(table, heard, weight, starts, fraction, time, spread, gain, memory, mixed, dt, data)
    _mute(table, fixed, dead, fate, data)
