"""Runs the Warp kernels over the manager's storage; the counterpart of ``cpu.py``.

Nothing here looks at a value on the device, so every launch can be captured in a CUDA graph. What changes from step to
step (the step counter, and with it where rings and histories stand) lives on the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import warp as wp

from sensorium.pipeline import warp_kernels
from sensorium.pipeline.flags import (
    EXTRA_ROW,
    FIRST,
    GATHER_COPY,
    MIX_FIRST,
    MIX_ROW,
    OP,
    R_HISTORY_LENGTH,
    R_LINEAR,
    R_SOURCE,
)
from sensorium.pipeline.group import SensorGroup
from sensorium.pipeline.layout import ColumnBlock, PostBlock
from sensorium.pipeline.storage import DeliveryStore, TimingStore
from sensorium.pipeline.warp_snippets import LANES, THREADS

_ROUNDS = 4
"""How many times a thread of the fused step handles ``LANES`` envs."""


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
        blocks: list[ColumnBlock],
        posts: list[PostBlock],
        timing: TimingStore,
        dt: float,
    ) -> None:
        self.timed = True  # of no use here: a graph is captured once, and a rate may be set later
        self._device = str(data.device)
        self._n_envs = data.shape[1]
        self._n_sensors = len(timing.flags)
        self._blocks = blocks
        self._nobody = torch.zeros(self._n_envs, dtype=torch.bool, device=data.device)
        self.counter = torch.zeros(2, dtype=torch.int32, device=data.device)
        self._counter = _flat(self.counter)
        self._stores = [block.direct for block in blocks if block.direct] + [post.delivery for post in posts]
        self._struct_of = {dtype: warp_kernels.make_returns(dtype) for dtype in {s.ring.dtype for s in self._stores}}
        self._returns = {id(store): self._return_struct(store) for store in self._stores}
        self._delivery = {
            dtype: warp_kernels.make_delivery_kernels(dtype, struct) for dtype, struct in self._struct_of.items()
        }
        self._kernels = {
            dtype: warp_kernels.make_column_kernels(dtype, self._struct_of[dtype])
            for dtype in {block.store.truth.dtype for block in blocks}
        }
        self._odd: dict[int, wp.array] = {}
        self._timing = self._timing_struct(steps, timing, dt)
        self._structs = {id(block): self._block_struct(block, data, steps, timing, dt) for block in blocks}
        self._values = {id(block): self._value_struct(block) for block in blocks}

    def _return_struct(self, store: DeliveryStore) -> Any:
        struct = self._struct_of[store.ring.dtype]()
        for name, tensor in vars(store).items():
            setattr(struct, name, _flat(tensor))
        return struct

    def _timing_struct(self, steps: torch.Tensor, timing: TimingStore, dt: float) -> Any:
        """What timing alone needs of a block: there may be sensors, but no columns."""
        struct = warp_kernels.ColumnArrays()
        for name in ("flags", "key", "parameters"):
            setattr(struct, f"timing_{name}", _flat(getattr(timing, name)))
        for name in ("due", "lag", "part", "stuck"):
            setattr(struct, name, _flat(getattr(timing, name)))
        struct.steps, struct.counter = _flat(steps), self._counter
        struct.n_sensors, struct.n_envs = self._n_sensors, self._n_envs
        struct.dt, struct.per_dt = dt, 1.0 / dt
        return struct

    def _block_struct(
        self, block: ColumnBlock, data: torch.Tensor, steps: torch.Tensor, timing: TimingStore, dt: float
    ) -> Any:
        assert block.direct is not None
        row = np.full(len(block.store.table), -1, np.int32)
        fused = block.direct.table[: block.fused_rows, R_SOURCE].cpu().numpy()
        row[fused] = np.arange(len(fused))
        struct = self._timing_struct(steps, timing, dt)
        for name in ("table", "sources", "key", "mix", "walk", "parameters", "extra"):
            setattr(struct, name, _flat(getattr(block.store, name)))
        struct.row = _flat(torch.from_numpy(row).to(data.device))
        table, returns = block.store.table.cpu().numpy(), block.direct.table[: block.fused_rows].cpu().numpy()
        plain = _plain_columns(table) & (self._n_envs % LANES == 0)
        raw = np.where(plain, block.store.sources.cpu().numpy()[table[:, FIRST]], -1).astype(np.int32)
        struct.plain = _flat(torch.from_numpy(raw).to(data.device))
        keeps = np.zeros(len(row), bool)
        keeps[fused] = (returns[:, R_LINEAR] != 0) | (returns[:, R_HISTORY_LENGTH] > 0)
        struct.keeps = _flat(torch.from_numpy(keeps).to(data.device))
        odd = np.flatnonzero(~plain[: block.fused]).astype(np.int32)
        self._odd[id(block)] = _flat(torch.from_numpy(odd).to(data.device))
        struct.data, struct.n_columns = _flat(data), len(row)
        return struct

    def _value_struct(self, block: ColumnBlock) -> Any:
        struct = self._kernels[block.store.truth.dtype]["Values"]()
        struct.truth, struct.reading = _flat(block.store.truth), _flat(block.store.reading)
        return struct

    def _launch(self, kernel: Any, dim: Any, *inputs: Any) -> None:
        wp.launch(kernel, dim=dim, inputs=list(inputs), device=self._device)

    # -- a step -------------------------------------------------------------------------------------------------------

    def step(self, step: int) -> None:
        """All fused columns of all blocks, from the engine's data to the return cache. The device counts itself."""
        counted = any(block.fused for block in self._blocks)  # by the fused step
        if not counted:
            self._launch(warp_kernels.tick, 1, self._counter)
        if self._n_sensors:
            threads = self._n_sensors * -(-self._n_envs // LANES)
            self._launch(warp_kernels.time_sensors, threads, self._timing, int(counted))
        for block in self._blocks:
            if block.fused:
                kernels, odd = self._kernels[block.store.truth.dtype], self._odd[id(block)]
                if len(odd) < block.fused:
                    stride = -(-self._n_envs // (LANES * _ROUNDS))
                    inputs = [*self._arrays(block), stride]
                    for kernel in (kernels["sense_lean"], kernels["sense"]):
                        wp.launch(kernel, block.fused * stride, inputs, device=self._device, block_dim=THREADS)
                if len(odd):
                    self._launch(kernels["sense_each"], (len(odd), self._n_envs), *self._arrays(block), odd)

    def _arrays(self, block: ColumnBlock) -> tuple[Any, Any, Any]:
        return self._structs[id(block)], self._values[id(block)], self._returns[id(block.direct)]

    def gather(self, block: ColumnBlock, group: SensorGroup) -> None:
        """Raw signals of one group into its part of ``truth``."""
        kernel = self._kernels[block.store.truth.dtype]["gather"]
        self._launch(kernel, (group.n_columns, self._n_envs), *self._arrays(block)[:2], group.columns.start)

    def copy(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Copy one tensor to another."""
        target.copy_(source)

    def hardware(
        self, block: ColumnBlock, group: SensorGroup, before: torch.Tensor, out: torch.Tensor, step: int
    ) -> None:
        """The hardware stage of one group, from ``before`` to ``out``."""
        self._imperfect(block, group, before, out, self._nobody, False)

    def _imperfect(
        self,
        block: ColumnBlock,
        group: SensorGroup,
        before: torch.Tensor,
        out: torch.Tensor,
        mask: torch.Tensor,
        fresh: bool,
    ) -> None:
        kernel = self._kernels[block.store.truth.dtype]["imperfect"]
        inputs = (self._structs[id(block)], _flat(before), _flat(out), _flat(mask), group.columns.start, fresh)
        self._launch(kernel, (group.n_columns, self._n_envs), *inputs)

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
        kernel = self._delivery[delivery.ring.dtype]["deliver"]
        arrays = (self._structs[id(self._blocks[0])], self._returns[id(delivery)], _flat(measured), _flat(truth))
        self._launch(kernel, (rows.stop - rows.start, self._n_envs), *arrays, rows.start, serve, remember)

    # -- a reset: ``envs`` is a mask (B,) -----------------------------------------------------------------------------

    def reset_fused(self, block: ColumnBlock, step: int, envs: torch.Tensor) -> None:
        """All fused columns of a block, at the reset of some envs."""
        if block.fused:
            kernel = self._kernels[block.store.truth.dtype]["reset"]
            self._launch(kernel, (block.fused, self._n_envs), *self._arrays(block), _flat(envs))

    def reset_timing(self, envs: torch.Tensor) -> None:
        """What is stuck comes loose."""
        if self._n_sensors:
            self._launch(warp_kernels.reset_timing, (self._n_sensors, self._n_envs), self._timing, _flat(envs))

    def reset_hardware(
        self,
        block: ColumnBlock,
        group: SensorGroup,
        before: torch.Tensor,
        out: torch.Tensor,
        step: int,
        envs: torch.Tensor,
    ) -> None:
        """The hardware stage of one group, at the reset of some envs."""
        self._imperfect(block, group, before, out, envs, True)

    def reset_delivery(
        self, delivery: DeliveryStore, rows: slice, measured: torch.Tensor, truth: torch.Tensor, envs: torch.Tensor
    ) -> None:
        """Fill rings, cache and histories of some envs with their first snapshot."""
        kernel = self._delivery[delivery.ring.dtype]["reset"]
        arrays = (self._structs[id(self._blocks[0])], self._returns[id(delivery)], _flat(measured), _flat(truth))
        self._launch(kernel, (rows.stop - rows.start, self._n_envs), *arrays, _flat(envs), rows.start)

    def close(self) -> None:
        """Nothing to stop."""


def _plain_columns(table: np.ndarray) -> np.ndarray:
    """Which columns are copies of one row of sensor data each, mixed with such copies if at all, with no further
    imperfections: (C,) bool."""
    copied = table[:, OP] == GATHER_COPY
    first = np.where(table[:, MIX_ROW] < 0, np.arange(len(table)), table[:, MIX_FIRST])
    last = np.where(table[:, MIX_ROW] < 0, first, first + 2)
    return copied & copied[first] & copied[(first + last) // 2] & copied[last] & (table[:, EXTRA_ROW] < 0)


def _flat(tensor: torch.Tensor) -> wp.array:
    """The tensor's memory as a flat Warp array, without a copy."""
    if tensor.dtype == torch.uint32:  # which Warp does not take from torch; the kernels read it as unsigned again
        tensor = tensor.view(torch.int32)
    return wp.from_torch(tensor.view(-1), dtype=wp.dtype_from_torch(tensor.dtype))
