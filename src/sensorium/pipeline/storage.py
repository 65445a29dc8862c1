"""The tensors of the pipeline, laid out columns x envs. Only the sensor manager allocates them.

=============== ==================== =================================================================================
tensor          shape                holds
=============== ==================== =================================================================================
``truth``       (C, B)               the ground-truth branch of every column of one dtype
``reading``     (C, B)               the measured branch after the hardware stage: the working buffer
timelines       (slots, C', B) twice both branches after the response model, of the C' columns whose class has one
``ring``        (rows, B)            frozen snapshots: max. delay in ticks + 1 slots of each class with a delay
``arrives``     (rows, B)            when the samples of a sensor with a delay arrive; beside it their capture times
``cache``       (R, B)               what ``read()`` returns
``extra``       (E, 21, B)           further parameters and state of the E columns whose options use them
``history``     (rows, B) twice      what ``read()`` and ``read_ground_truth()`` returned in the last N ticks
=============== ==================== =================================================================================

A tick is a step. For sensors that are captured at substeps, it is a substep.

A class without a post-process, delay or history has no return storage: its cache is its part of ``reading``, and its
ground truth is its part of ``truth``. Rotation moves an index, never data: the snapshot of tick k lies in slot
``k % slots``. Example of a ring of 4 slots, with a delay of 2 ticks and a sample that arrives one tick late::

    tick      4    5    6    7
    written   s0   s1   s2   s3      slot = tick % 4
    arrives   2    3    2    2       ticks after its own; the sample of tick 5 is late
    read      s2   s3   s0   s0      the samples of ticks 2, 3, 4, 4

At tick 8 the samples of ticks 5 and 6 arrive, and the younger one is read.

A history of N readings is a ring of 2 N slots. Each reading is written twice, N slots apart, in slots of decreasing
index. So N neighbouring slots always hold the last N readings, newest first, and reading them needs no copy. With
N = 2::

    tick      4      5      6
    written   1, 3   0, 2   1, 3     slots
    view      1:3    0:2    1:3      newest first
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from sensorium.pipeline import formula
from sensorium.pipeline.flags import EXTRA_NAMES

PARAMETERS = ("noise", "bias", "random_walk", "resolution", "deadband", "low", "high")
"""Column parameters, in the order of the ``P_`` constants."""
TIMING_PARAMETERS = ("rate", "delay", "jitter", "dropout", "stuck")
"""Timing parameters, in the order of the ``T_`` constants."""
HALF_DTYPES = (torch.float16, torch.bfloat16)
"""Dtypes that the kernels move but do not compute with."""
EXACT_DTYPES = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool)
"""Intermediate dtypes that imperfections do not act on."""
COLUMN_DTYPES = (torch.float32, torch.float64)
"""Dtypes of columns, which the kernels compute with. The generic stages of other dtypes go by way of float32."""
INTERMEDIATE_DTYPES = (*COLUMN_DTYPES, *HALF_DTYPES, *EXACT_DTYPES)
"""Dtypes that hooks can compute with."""
_DEFAULTS = {"low": -torch.inf, "high": torch.inf}


def storage(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor as the kernels that only move values take it: 16-bit floats, which Numba and NumPy do not
    have, as int16 in the same memory."""
    return tensor.view(torch.int16) if tensor.dtype in HALF_DTYPES else tensor


class Store:
    """Tensors by name."""

    def views(self) -> dict[str, np.ndarray]:
        """Return field name -> NumPy view of the tensor, for the CPU kernels."""
        return {name: storage(tensor).numpy() for name, tensor in vars(self).items()}


@dataclass
class ColumnStore(Store):
    """Tensors of one dtype's block of columns; see ``Columns`` in ``kernels/arrays.py``."""

    table: torch.Tensor
    sources: torch.Tensor
    key: torch.Tensor
    mix: torch.Tensor
    truth: torch.Tensor
    reading: torch.Tensor
    walk: torch.Tensor
    parameters: torch.Tensor
    extra: torch.Tensor

    @classmethod
    def allocate(
        cls,
        table: np.ndarray,
        sources: np.ndarray,
        key: np.ndarray,
        n_mixed: int,
        n_extra: int,
        n_envs: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> ColumnStore:
        """Allocate zeroed storage with parameters that leave the signal unchanged.

        Args:
            table: what each column is, (C, 10) int32.
            sources: addresses in the engine's sensor data, (S,) int32.
            key: random key of each column, (C, 2) uint32.
            n_mixed: columns with an axis matrix.
            n_extra: columns with further imperfections.
            n_envs: number of envs, B.
            dtype: dtype of the signal.
            device: device of the tensors.
        """
        shape = (len(table), n_envs)
        parameters = torch.zeros(len(PARAMETERS), *shape, device=device)
        for name, value in _DEFAULTS.items():
            parameters[PARAMETERS.index(name)] = value
        extra = torch.zeros(n_extra, len(EXTRA_NAMES), n_envs, device=device)
        extra[:, EXTRA_NAMES.index("b0")] = 1.0
        extra[:, EXTRA_NAMES.index("temperature")] = formula.TEMPERATURE
        return cls(
            table=torch.from_numpy(table).to(device),
            sources=torch.from_numpy(sources).to(device),
            key=torch.from_numpy(key).to(device),
            mix=torch.zeros(n_mixed, 3, n_envs, device=device),
            truth=torch.zeros(shape, dtype=dtype, device=device),
            reading=torch.zeros(shape, dtype=dtype, device=device),
            walk=torch.zeros(shape, device=device),
            parameters=parameters,
            extra=extra,
        )

    def parameter(self, name: str) -> torch.Tensor:
        """Return one parameter of all columns, (C, B)."""
        return self.parameters[PARAMETERS.index(name)]


@dataclass
class TimingStore(Store):
    """Tensors of when every sensor samples and its samples arrive; see ``Timing`` in ``kernels/arrays.py``."""

    flags: torch.Tensor
    table: torch.Tensor
    key: torch.Tensor
    parameters: torch.Tensor
    due: torch.Tensor
    lag: torch.Tensor
    part: torch.Tensor
    stuck: torch.Tensor
    arrives: torch.Tensor
    offset: torch.Tensor
    env: torch.Tensor
    episode: torch.Tensor
    tick: torch.Tensor
    draw: torch.Tensor
    sample_draw: torch.Tensor

    @classmethod
    def allocate(cls, slots: Sequence[int], keys: np.ndarray, n_envs: int, device: torch.device) -> TimingStore:
        """Allocate storage for sensors that sample in every tick, without delay, before the first episode.

        Args:
            slots: length of each sensor's ring of sample times; 0 for sensors without delay.
            keys: random key of each sensor, (S, 2) uint32.
            n_envs: number of envs, B.
            device: device of the tensors.
        """
        shape, envs = (len(keys), n_envs), (n_envs,)
        first = np.cumsum([0, *slots])
        table = np.stack([first[:-1], np.asarray(slots, int)], axis=1).astype(np.int32).reshape(-1, 2)
        times = (int(first[-1]), n_envs)
        return cls(
            flags=torch.zeros(len(keys), dtype=torch.int32, device=device),
            table=torch.from_numpy(table).to(device),
            key=torch.from_numpy(keys).to(device),
            parameters=torch.zeros(len(TIMING_PARAMETERS), *shape, dtype=torch.float64, device=device),
            due=torch.ones(shape, dtype=torch.bool, device=device),
            lag=torch.zeros(shape, dtype=torch.int32, device=device),
            part=torch.zeros(shape, device=device),
            stuck=torch.zeros(shape, dtype=torch.bool, device=device),
            arrives=torch.full(times, torch.inf, device=device),
            offset=torch.zeros(times, device=device),
            env=torch.arange(n_envs, dtype=torch.int32, device=device),
            episode=torch.full(envs, -1, dtype=torch.int32, device=device),
            tick=torch.zeros(envs, dtype=torch.int32, device=device),
            draw=torch.zeros(2, n_envs, dtype=torch.uint32, device=device),
            sample_draw=torch.zeros(len(keys), 2, n_envs, dtype=torch.uint32, device=device),
        )

    def parameter(self, name: str) -> torch.Tensor:
        """Return one parameter of all sensors, (S, B)."""
        return self.parameters[TIMING_PARAMETERS.index(name)]


@dataclass
class DeliveryStore(Store):
    """Tensors of rings, caches and histories of one dtype; see ``Delivery`` in ``kernels/arrays.py``."""

    table: torch.Tensor
    ring: torch.Tensor
    cache: torch.Tensor
    history: torch.Tensor
    truth_history: torch.Tensor

    @classmethod
    def allocate(
        cls,
        table: np.ndarray,
        ring_rows: int,
        history_rows: int,
        n_envs: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> DeliveryStore:
        """Allocate zeroed storage.

        Args:
            table: what each return column is, (R, 8) int32.
            ring_rows: rows of all rings together.
            history_rows: rows of all histories together.
            n_envs: number of envs, B.
            dtype: dtype of the readings.
            device: device of the tensors.
        """

        def rows(count: int) -> torch.Tensor:
            return torch.zeros(count, n_envs, dtype=dtype, device=device)

        return cls(
            table=torch.from_numpy(table).to(device),
            ring=rows(ring_rows),
            cache=rows(len(table)),
            history=rows(history_rows),
            truth_history=rows(history_rows),
        )
