"""Runs the Warp kernels over the storage of a layout; the counterpart of ``cpu.py``.

Nothing here reads a value from the device, so every launch can be captured in a CUDA graph. Values that change from
step to step (the step counter, and with it the positions of rings and histories) live on the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import warp as wp

from sensorium.pipeline import warp_kernels
from sensorium.pipeline.blocks import ColumnBlock, GroupSnapshots
from sensorium.pipeline.flags import (
    DEADBAND,
    EXTRA_ROW,
    FIRST,
    GATHER_COPY,
    HELD,
    MIX,
    MIX_FIRST,
    MIX_ROW,
    OP,
    R_HISTORY_LENGTH,
    R_LINEAR,
    R_SOURCE,
    RESOLUTION,
    SATURATION,
    SENSOR,
    UNIFORM,
)
from sensorium.pipeline.group import SensorGroup
from sensorium.pipeline.layout import Layout, Ticks
from sensorium.pipeline.protocols import ResetEnvs
from sensorium.pipeline.storage import DeliveryStore, storage
from sensorium.pipeline.warp_snippets.tables import LANES, THREADS

_ROUNDS = 4
"""Number of times that a thread of the fused step handles ``LANES`` envs."""
_MOST_ROUNDS = 16
_ENOUGH_THREADS = 2**18
"""Threads that fill a GPU. Beyond them, a thread of the general kernel makes up to ``_MOST_ROUNDS`` rounds."""
_SKIPPING_ROUNDS = 64
"""Rounds of the general kernel if the lean kernel handles all columns when the step is captured, so that few threads
find out that they have nothing to do. An option that is set later may leave it columns: it is correct then, but slower
than with more threads."""
_SIMPLE, _COMPLEX = UNIFORM, DEADBAND | RESOLUTION | SATURATION | MIX
"""Flags that a column of the lean kernel has, and has not; see ``warp_snippets/sense.py``."""


class GpuKernels:
    """The generic stages as launches on the device of the tensors, which is Warp's CPU device in tests; see
    ``PipelineKernels``.

    Args:
        data: the engine's sensor data, (n, B) float32.
        steps: steps since each env's reset, (B,) int32, kept by the world.
        layout: storage of the sensors.
        ticks: when the sensors are captured.

    Attributes:
        counter: ticks since build, (2,) int32: before this tick, and with it.
    """

    def __init__(self, data: torch.Tensor, steps: torch.Tensor, layout: Layout, ticks: Ticks) -> None:
        self._device = str(data.device)
        self._n_envs = data.shape[1]
        self._n_sensors = len(layout.timing.flags)
        self._blocks = list(layout.blocks.values())
        self._no_envs = torch.zeros(self._n_envs, dtype=torch.bool, device=data.device)
        self.counter = torch.zeros(2, dtype=torch.int32, device=data.device)
        self._counter = _flat(self.counter)
        stores = [*(block.delivery for block in self._blocks), *(post.delivery for post in layout.posts.values())]
        dtypes = {storage(store.ring).dtype for store in stores}
        structs = {dtype: warp_kernels.make_returns(dtype) for dtype in dtypes}
        self._returns = {id(store): _return_struct(structs[storage(store.ring).dtype], store) for store in stores}
        self._delivery_kernels = {
            dtype: warp_kernels.make_delivery_kernels(dtype, struct) for dtype, struct in structs.items()
        }
        self._column_kernels = {
            dtype: warp_kernels.make_column_kernels(dtype, structs[dtype]) for dtype in layout.blocks
        }
        self._irregular: dict[int, wp.array] = {}
        self._may_be_lean: dict[int, np.ndarray] = {}
        self._sensors: dict[int, np.ndarray] = {}
        self._timing_parameters = layout.timing_parameters
        self._timing = self._timing_struct(steps, layout, ticks)
        self._structs = {id(block): self._block_struct(block, data, steps, layout, ticks) for block in self._blocks}
        self._values = {id(block): self._value_struct(block) for block in self._blocks}

    def _timing_struct(self, steps: torch.Tensor, layout: Layout, ticks: Ticks) -> Any:
        """Create the struct that timing needs. A scene may have sensors but no columns."""
        struct, timing = warp_kernels.ColumnArrays(), layout.timing
        for name in ("flags", "table", "key", "parameters"):
            setattr(struct, f"timing_{name}", _flat(getattr(timing, name)))
        state = ("due", "lag", "part", "stuck", "arrives", "offset")
        for name in (*state, "env", "episode", "tick", "draw", "sample_draw"):
            setattr(struct, name, _flat(getattr(timing, name)))
        struct.steps, struct.counter = _flat(steps), self._counter
        struct.n_sensors, struct.n_envs = self._n_sensors, self._n_envs
        struct.dt, struct.per_dt, struct.ticks_per_step = ticks.dt, 1.0 / ticks.dt, ticks.per_step
        return struct

    def _block_struct(
        self, block: ColumnBlock, data: torch.Tensor, steps: torch.Tensor, layout: Layout, ticks: Ticks
    ) -> Any:
        row = np.full(len(block.store.table), -1, np.int32)
        returns = block.delivery.table[: block.fused_rows].cpu().numpy()
        fused = returns[:, R_SOURCE]
        row[fused] = np.arange(len(fused))
        struct = self._timing_struct(steps, layout, ticks)
        for name in ("table", "sources", "key", "mix", "walk", "parameters", "extra"):
            setattr(struct, name, _flat(getattr(block.store, name)))
        struct.row = _flat(torch.from_numpy(row).to(data.device))
        table = block.store.table.cpu().numpy()
        self._sensors[id(block)] = table[:, SENSOR]
        plain = _plain_columns(table) & (self._n_envs % LANES == 0)
        raw = np.where(plain, block.store.sources.cpu().numpy()[table[:, FIRST]], -1).astype(np.int32)
        struct.plain = _flat(torch.from_numpy(raw).to(data.device))
        keeps = np.zeros(len(row), bool)
        keeps[fused] = (returns[:, R_LINEAR] != 0) | (returns[:, R_HISTORY_LENGTH] > 0)
        struct.keeps = _flat(torch.from_numpy(keeps).to(data.device))
        self._may_be_lean[id(block)] = ~plain | ~keeps  # irregular columns have a kernel of their own
        irregular = np.flatnonzero(~plain[: block.fused]).astype(np.int32)
        self._irregular[id(block)] = _flat(torch.from_numpy(irregular).to(data.device))
        struct.data, struct.n_columns = _flat(data), len(row)
        return struct

    def _value_struct(self, block: ColumnBlock) -> Any:
        struct = self._column_kernels[block.store.truth.dtype]["Values"]()
        struct.truth, struct.reading = _flat(block.store.truth), _flat(block.store.reading)
        return struct

    def _launch(self, kernel: Any, dim: int | tuple[int, int], *inputs: Any) -> None:
        wp.launch(kernel, dim=dim, inputs=list(inputs), device=self._device)

    # -- a step -------------------------------------------------------------------------------------------------------

    def time(self) -> None:
        """Advance the clock of every env, and find out which samples are taken and which have arrived.

        The device counts the ticks itself.
        """
        self._launch(warp_kernels.advance, self._n_envs, self._timing)
        counted = any(block.fused for block in self._blocks)  # by the fused step
        if not counted:
            self._launch(warp_kernels.tick, 1, self._counter)
        if self._n_sensors:
            lanes = LANES if self._n_envs % LANES == 0 else 1
            kernel = warp_kernels.time_sensors_by_lanes if lanes > 1 else warp_kernels.time_sensors
            self._launch(kernel, self._n_sensors * self._n_envs // lanes, self._timing, int(counted))

    def step(self) -> None:
        """Run the fused columns of all blocks, from the engine's sensor data to the return cache."""
        for block in self._blocks:
            if block.fused:
                kernels, irregular = self._column_kernels[block.store.truth.dtype], self._irregular[id(block)]
                if len(irregular) < block.fused:
                    for name, rounds in (("sense_lean", _ROUNDS), ("sense", self._general_rounds(block))):
                        stride = -(-self._n_envs // (LANES * rounds))
                        inputs = [*self._arrays(block), stride]
                        wp.launch(kernels[name], block.fused * stride, inputs, device=self._device, block_dim=THREADS)
                if len(irregular):
                    dim = (len(irregular), self._n_envs)
                    self._launch(kernels["sense_each"], dim, *self._arrays(block), irregular)

    def _general_rounds(self, block: ColumnBlock) -> int:
        flags, fused = block.parameters.flags, slice(block.fused)
        held = np.asarray(self._timing_parameters.flags)[self._sensors[id(block)]] & HELD
        lean = (flags & _SIMPLE == _SIMPLE) & (flags & _COMPLEX == 0) & (held == 0) & self._may_be_lean[id(block)]
        if lean[fused].all():
            return _SKIPPING_ROUNDS
        enough = block.fused * self._n_envs // (LANES * _ENOUGH_THREADS)
        return min(max(_ROUNDS, enough), _MOST_ROUNDS)

    def _arrays(self, block: ColumnBlock) -> tuple[Any, Any, Any]:
        return self._structs[id(block)], self._values[id(block)], self._returns[id(block.delivery)]

    def gather(self, block: ColumnBlock, group: SensorGroup[Any]) -> None:
        """Write the raw signals of one group to its part of ``truth``."""
        kernel = self._column_kernels[block.store.truth.dtype]["gather"]
        self._launch(kernel, (group.n_columns, self._n_envs), *self._arrays(block)[:2], group.columns.start)

    def copy(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Copy one tensor to another."""
        target.copy_(source)

    def hardware(self, block: ColumnBlock, group: SensorGroup[Any], before: torch.Tensor, out: torch.Tensor) -> None:
        """Apply the hardware stage of one group to ``before`` and write the result to ``out``."""
        self._imperfect(block, group, before, out, self._no_envs, False)

    def _imperfect(
        self,
        block: ColumnBlock,
        group: SensorGroup[Any],
        before: torch.Tensor,
        out: torch.Tensor,
        mask: torch.Tensor,
        fresh: bool,
    ) -> None:
        kernel = self._column_kernels[block.store.truth.dtype]["imperfect"]
        inputs = (self._structs[id(block)], _flat(before), _flat(out), _flat(mask), group.columns.start, fresh)
        self._launch(kernel, (group.n_columns, self._n_envs), *inputs)

    def deliver(self, snapshots: GroupSnapshots, rows: slice, serve: bool = True, remember: bool = True) -> None:
        """Write snapshots of return columns ``rows`` to ring, cache and history."""
        kernel = self._delivery_kernels[storage(snapshots.delivery.ring).dtype]["deliver"]
        arrays = self._snapshot_arrays(snapshots)
        self._launch(kernel, (rows.stop - rows.start, self._n_envs), *arrays, rows.start, serve, remember)

    def _snapshot_arrays(self, snapshots: GroupSnapshots) -> tuple[Any, ...]:
        store, measured, truth = snapshots
        return self._structs[id(self._blocks[0])], self._returns[id(store)], _flat(measured), _flat(truth)

    # -- a reset ------------------------------------------------------------------------------------------------------

    def reset_fused(self, block: ColumnBlock, envs: ResetEnvs) -> None:
        """Take the first sample of the fused columns of a block in the reset envs."""
        if block.fused:
            kernel = self._column_kernels[block.store.truth.dtype]["reset"]
            self._launch(kernel, (block.fused, self._n_envs), *self._arrays(block), _flat(envs.mask))

    def reset_timing(self, envs: ResetEnvs) -> None:
        """Start the clock of the reset envs, with one sample that has arrived."""
        dim = (max(self._n_sensors, 1), self._n_envs)
        self._launch(warp_kernels.reset_timing, dim, self._timing, _flat(envs.mask))

    def reset_hardware(
        self,
        block: ColumnBlock,
        group: SensorGroup[Any],
        before: torch.Tensor,
        out: torch.Tensor,
        envs: ResetEnvs,
    ) -> None:
        """Apply the hardware stage of one group in the reset envs."""
        self._imperfect(block, group, before, out, envs.mask, True)

    def reset_delivery(self, snapshots: GroupSnapshots, rows: slice, envs: ResetEnvs) -> None:
        """Fill ring, cache and history of the reset envs with their first snapshot."""
        kernel = self._delivery_kernels[storage(snapshots.delivery.ring).dtype]["reset"]
        arrays = self._snapshot_arrays(snapshots)
        self._launch(kernel, (rows.stop - rows.start, self._n_envs), *arrays, _flat(envs.mask), rows.start)

    def close(self) -> None:
        """Do nothing: there are no threads."""


def _return_struct(struct_type: Any, store: DeliveryStore) -> Any:
    struct = struct_type()
    for name, tensor in vars(store).items():
        setattr(struct, name, _flat(tensor))
    return struct


def _plain_columns(table: np.ndarray) -> np.ndarray:
    """Return which columns the fused step handles ``LANES`` envs at a time, (C,) bool.

    These are the columns that copy one row of sensor data, are mixed only with such columns, and have no further
    imperfections.
    """
    copied = table[:, OP] == GATHER_COPY
    first = np.where(table[:, MIX_ROW] < 0, np.arange(len(table)), table[:, MIX_FIRST])
    last = np.where(table[:, MIX_ROW] < 0, first, first + 2)
    return copied & copied[first] & copied[(first + last) // 2] & copied[last] & (table[:, EXTRA_ROW] < 0)


def _flat(tensor: torch.Tensor) -> wp.array:
    """Return the tensor's memory as a flat Warp array, without a copy."""
    if tensor.dtype == torch.uint32:  # which Warp does not take from torch; the kernels read it as unsigned again
        tensor = tensor.view(torch.int32)
    tensor = storage(tensor)
    return wp.from_torch(tensor.view(-1), dtype=wp.dtype_from_torch(tensor.dtype))
