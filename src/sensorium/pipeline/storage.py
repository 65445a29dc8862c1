"""The tensors of the pipeline, laid out columns x envs, and owned by the manager alone.

=============== ==================== =================================================================================
tensor          shape                holds
=============== ==================== =================================================================================
``truth``       (C, B)               the ground-truth branch of every column of one dtype
``reading``     (C, B)               the measured branch after the hardware stage: the working buffer
timelines       (slots, C', B) twice both branches after the response model, of the C' columns whose class has one
``ring``        (rows, B)            frozen snapshots: ``max_delay + 1`` slots of each class that is ever late
``cache``       (R, B)               what ``read()`` shows
``history``     (rows, B) twice      what ``read()`` and ``read_ground_truth()`` showed in the last N steps
=============== ==================== =================================================================================

Aliasing: a class without a post-process, delay or history has no return storage of its own: its cache *is* its part of
``reading``, and its ground truth its part of ``truth``. Rotation moves an index, never data: the snapshot of step k lies
in slot ``k % slots``. A worked trace of a ring of 4 slots, for a delay of 2 steps::

    step      4    5    6
    written   s0   s1   s2       slot = step % 4
    read      s2   s3   s0       slot = (step - 2) % 4, the snapshots of steps 2, 3, 4

A history of N is a ring of 2 N slots in which each reading is written twice, N slots apart and walking downwards, so
that N neighbouring slots always hold the last N readings, newest first: reading it is a view. With N = 2::

    step      4      5      6
    written   1, 3   0, 2   1, 3     slots
    view      1:3    0:2    1:3      newest first
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch

PARAMETERS = ("noise", "bias", "random_walk", "resolution", "deadband", "low", "high")
"""Column parameters, each a (C, B) float32 tensor of the column store."""

_DEFAULTS = {"low": -torch.inf, "high": torch.inf}


@dataclass
class Store:
    """Tensors by name; ``views()`` gives the same memory as NumPy arrays for the CPU kernels."""

    def views(self) -> dict[str, np.ndarray]:
        """Field name -> NumPy view of the tensor."""
        return {field.name: getattr(self, field.name).numpy() for field in fields(self)}


@dataclass
class ColumnStore(Store):
    """One dtype's block of columns; the fields are those of ``kernels.Columns``."""

    op: torch.Tensor
    first: torch.Tensor
    count: torch.Tensor
    extra: torch.Tensor
    sources: torch.Tensor
    flags: torch.Tensor
    sensor: torch.Tensor
    key: torch.Tensor
    mix_row: torch.Tensor
    mix_first: torch.Tensor
    mix: torch.Tensor
    truth: torch.Tensor
    reading: torch.Tensor
    walk: torch.Tensor
    noise: torch.Tensor
    bias: torch.Tensor
    random_walk: torch.Tensor
    resolution: torch.Tensor
    deadband: torch.Tensor
    low: torch.Tensor
    high: torch.Tensor

    @classmethod
    def allocate(
        cls,
        n_columns: int,
        n_mixed: int,
        n_envs: int,
        dtype: torch.dtype,
        tables: dict[str, np.ndarray],
        device: torch.device,
    ) -> ColumnStore:
        """Zeroed storage; ``tables`` holds the per-column index tables by field name."""
        values = {name: torch.from_numpy(table).to(device) for name, table in tables.items()}
        for name in ("truth", "reading"):
            values[name] = torch.zeros(n_columns, n_envs, dtype=dtype, device=device)
        values["walk"] = torch.zeros(n_columns, n_envs, device=device)
        for name in PARAMETERS:
            values[name] = torch.full((n_columns, n_envs), _DEFAULTS.get(name, 0.0), device=device)
        values["mix"] = torch.zeros(n_mixed, 3, n_envs, device=device)
        return cls(**values)


@dataclass
class TimingStore(Store):
    """When every sensor samples and how late it is read; the fields are those of ``kernels.Timing``."""

    flags: torch.Tensor
    key: torch.Tensor
    rate: torch.Tensor
    delay: torch.Tensor
    jitter: torch.Tensor
    dropout: torch.Tensor
    due: torch.Tensor
    lag: torch.Tensor
    part: torch.Tensor

    @classmethod
    def allocate(cls, keys: np.ndarray, n_envs: int, device: torch.device) -> TimingStore:
        """Storage for ``len(keys)`` sensors: always due, never late."""
        shape = (len(keys), n_envs)
        return cls(
            flags=torch.zeros(len(keys), dtype=torch.int32, device=device),
            key=torch.from_numpy(keys).to(device),
            **{
                name: torch.zeros(shape, dtype=torch.float64, device=device)
                for name in ("rate", "delay", "jitter", "dropout")
            },
            due=torch.ones(shape, dtype=torch.bool, device=device),
            lag=torch.zeros(shape, dtype=torch.int32, device=device),
            part=torch.zeros(shape, device=device),
        )


@dataclass
class DeliveryStore(Store):
    """Rings, caches and histories of one dtype; the fields are those of ``kernels.Delivery``."""

    source: torch.Tensor
    sensor: torch.Tensor
    linear: torch.Tensor
    ring_first: torch.Tensor
    ring_slots: torch.Tensor
    history_first: torch.Tensor
    history_length: torch.Tensor
    stride: torch.Tensor
    ring: torch.Tensor
    cache: torch.Tensor
    history: torch.Tensor
    truth_history: torch.Tensor

    @classmethod
    def allocate(
        cls,
        tables: dict[str, np.ndarray],
        ring_rows: int,
        history_rows: int,
        n_envs: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> DeliveryStore:
        """Zeroed storage; ``tables`` holds the per-column index tables by field name."""
        values = {name: torch.from_numpy(table).to(device) for name, table in tables.items()}

        def rows(count: int) -> torch.Tensor:
            return torch.zeros(count, n_envs, dtype=dtype, device=device)

        return cls(
            **values,
            ring=rows(ring_rows),
            cache=rows(len(tables["source"])),
            history=rows(history_rows),
            truth_history=rows(history_rows),
        )
