"""Runs the Warp kernels over the manager's storage; the counterpart of ``cpu.py``.

Nothing here looks at a value on the device, so every launch can be captured in a CUDA graph. What changes from step to
step (the counter of random numbers, where rings and histories stand) lives on the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import warp as wp

from sensorium.pipeline import warp_kernels
from sensorium.pipeline.flags import R_HISTORY_LENGTH, R_SOURCE
from sensorium.pipeline.group import SensorGroup
from sensorium.pipeline.layout import Block, PostBlock
from sensorium.pipeline.storage import DeliveryStore, TimingStore

_COLUMN_ARRAYS = ("table", "sources", "key", "mix", "truth", "reading", "walk", "parameters")
_STORAGE = ("ring", "cache", "history", "truth_history")


class GpuKernels:
    """The stages of the fused step as launches on the device of the tensors (Warp's CPU device in tests).

    Args:
        data: the engine's sensor data, (n, B) float32.
        steps: steps since each env's reset, (B,) int32, kept by the world.
        blocks: storage of columns.
        posts: storage of post-processed returns.
        timing: when sensors sample.
        dt: seconds of a step.
    """

    def __init__(
        self,
        data: torch.Tensor,
        steps: torch.Tensor,
        blocks: list[Block],
        posts: list[PostBlock],
        timing: TimingStore,
        dt: float,
    ) -> None:
        self.timed = True
        self._device = str(data.device)
        self._n_envs = data.shape[1]
        self._dt = dt
        self._blocks = blocks
        self._data, self._steps = _flat(data), _flat(steps)
        self._counter = _flat(torch.zeros(1, dtype=torch.int32, device=data.device))
        self._nobody = torch.zeros(self._n_envs, dtype=torch.bool, device=data.device)
        self._timing = {name: _flat(tensor) for name, tensor in vars(timing).items()}
        self._n_sensors = len(timing.flags)
        self._columns = {id(block): {k: _flat(v) for k, v in vars(block.store).items()} for block in blocks}
        self._rows: dict[int, wp.array] = {}  # per block: column -> return row, or -1
        self._stores = [block.direct for block in blocks if block.direct] + [post.delivery for post in posts]
        self._returns = {id(store): self._arrays(store) for store in self._stores}
        for block in blocks:
            assert block.direct is not None
            row = np.full(len(block.store.table), -1, np.int32)
            fused = block.direct.table[: block.fused_rows, R_SOURCE].cpu().numpy()
            row[fused] = np.arange(len(fused))
            self._rows[id(block)] = _flat(torch.from_numpy(row).to(data.device))
        dtypes = dict.fromkeys(block.store.truth.dtype for block in blocks)
        self._kernels = {dtype: warp_kernels.make_column_kernels(dtype) for dtype in dtypes}
        dtypes = dict.fromkeys(store.ring.dtype for store in self._stores)
        self._delivery = {dtype: warp_kernels.make_delivery_kernels(dtype) for dtype in dtypes}

    @staticmethod
    def _arrays(store: DeliveryStore) -> dict[str, Any]:
        heads = torch.zeros(len(store.table), 2, dtype=torch.int32)
        heads[:, 1] = (store.table[:, R_HISTORY_LENGTH].cpu() - 1).clamp(min=0)
        arrays = {name: _flat(tensor) for name, tensor in vars(store).items()}
        return arrays | {"heads": _flat(heads.to(store.table.device))}

    def _launch(self, kernel: Any, dim: Any, *inputs: Any) -> None:
        wp.launch(kernel, dim=dim, inputs=list(inputs), device=self._device)

    # -- a step -------------------------------------------------------------------------------------------------------

    def step(self, step: int) -> None:
        """All fused columns of all blocks, from the engine's data to the return cache. The device counts itself."""
        for number, store in enumerate(self._stores):
            returns, rows = self._returns[id(store)], len(store.table)
            inputs = (returns["table"], rows, returns["heads"], self._counter, number == 0)
            self._launch(warp_kernels.tick, max(rows, 1), *inputs)
        timing = self._timing
        if self.timed:
            self._launch(
                warp_kernels.time_sensors,
                (self._n_sensors, self._n_envs),
                *(timing[name] for name in ("flags", "key", "parameters", "due", "lag", "part")),
                self._steps,
                self._counter,
                self._dt,
                self._n_sensors,
                self._n_envs,
            )
        for block in self._blocks:
            returns = self._returns[id(block.direct)]
            if block.fused:
                self._launch(
                    self._kernels[block.store.truth.dtype]["sense"],
                    (block.fused, self._n_envs),
                    *(self._columns[id(block)][name] for name in _COLUMN_ARRAYS),
                    *(timing[name] for name in ("flags", "due", "lag", "part")),
                    returns["table"],
                    self._rows[id(block)],
                    returns["heads"],
                    *(returns[name] for name in _STORAGE),
                    self._data,
                    self._counter,
                    len(block.store.table),
                    self._n_envs,
                )

    def gather(self, block: Block, group: SensorGroup) -> None:
        """Raw signals of one group into its part of ``truth``."""
        columns = self._columns[id(block)]
        self._launch(
            self._kernels[block.store.truth.dtype]["gather"],
            (group.n_columns, self._n_envs),
            *(columns[name] for name in ("table", "sources", "mix", "truth")),
            self._data,
            len(block.store.table),
            self._n_envs,
            group.columns.start,
        )

    def hardware(self, block: Block, group: SensorGroup, before: torch.Tensor, out: torch.Tensor, step: int) -> None:
        """The hardware stage of one group, from ``before`` to ``out``."""
        self._imperfect(block, group, before, out, self._nobody, False)

    def _imperfect(
        self, block: Block, group: SensorGroup, before: torch.Tensor, out: torch.Tensor, mask: torch.Tensor, fresh: bool
    ) -> None:
        columns = self._columns[id(block)]
        self._launch(
            self._kernels[block.store.truth.dtype]["imperfect"],
            (group.n_columns, self._n_envs),
            *(columns[name] for name in ("table", "key", "mix", "walk", "parameters")),
            _flat(before),
            _flat(out),
            self._counter,
            _flat(mask),
            len(block.store.table),
            self._n_envs,
            group.columns.start,
            fresh,
        )

    def deliver(
        self,
        delivery: DeliveryStore,
        rows: slice,
        measured: torch.Tensor,
        truth: torch.Tensor,
        step: int,
        serve: bool = True,
        remember: bool = True,
    ) -> None:
        """Snapshots of some return columns into rings, cache and histories."""
        returns, timing = self._returns[id(delivery)], self._timing
        self._launch(
            self._delivery[delivery.ring.dtype]["deliver"],
            (rows.stop - rows.start, self._n_envs),
            returns["table"],
            returns["heads"],
            *(returns[name] for name in _STORAGE),
            _flat(measured),
            _flat(truth),
            *(timing[name] for name in ("flags", "lag", "part")),
            self._n_envs,
            rows.start,
            serve,
            remember,
        )

    # -- a reset: ``envs`` is a mask (B,) -----------------------------------------------------------------------------

    def reset_fused(self, block: Block, step: int, envs: torch.Tensor) -> None:
        """All fused columns of a block, at the reset of some envs."""
        returns = self._returns[id(block.direct)]
        if block.fused:
            self._launch(
                self._kernels[block.store.truth.dtype]["reset"],
                (block.fused, self._n_envs),
                *(self._columns[id(block)][name] for name in _COLUMN_ARRAYS),
                returns["table"],
                self._rows[id(block)],
                *(returns[name] for name in _STORAGE),
                self._data,
                self._counter,
                _flat(envs),
                len(block.store.table),
                self._n_envs,
            )

    def reset_hardware(
        self, block: Block, group: SensorGroup, before: torch.Tensor, out: torch.Tensor, step: int, envs: torch.Tensor
    ) -> None:
        """The hardware stage of one group, at the reset of some envs."""
        self._imperfect(block, group, before, out, envs, True)

    def reset_delivery(
        self, delivery: DeliveryStore, rows: slice, measured: torch.Tensor, truth: torch.Tensor, envs: torch.Tensor
    ) -> None:
        """Fill rings, cache and histories of some envs with their first snapshot."""
        returns = self._returns[id(delivery)]
        self._launch(
            self._delivery[delivery.ring.dtype]["reset"],
            (rows.stop - rows.start, self._n_envs),
            returns["table"],
            *(returns[name] for name in _STORAGE),
            _flat(measured),
            _flat(truth),
            _flat(envs),
            self._n_envs,
            rows.start,
        )

    def close(self) -> None:
        """Nothing to stop."""


def _flat(tensor: torch.Tensor) -> wp.array:
    """The tensor's memory as a flat Warp array, without a copy."""
    if tensor.dtype == torch.uint32:  # which Warp does not take from torch; the kernels read it as unsigned again
        tensor = tensor.view(torch.int32)
    return wp.from_torch(tensor.view(-1), dtype=wp.dtype_from_torch(tensor.dtype))
