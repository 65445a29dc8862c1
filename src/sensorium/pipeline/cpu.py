"""Runs the Numba kernels over the storage of a layout, on one thread or several."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch

from sensorium.pipeline.blocks import ColumnBlock, GroupSnapshots
from sensorium.pipeline.flags import MIX_ROW, R_SOURCE
from sensorium.pipeline.group import SensorGroup
from sensorium.pipeline.kernels import delivery, gather, hardware, reset, timing
from sensorium.pipeline.kernels.arrays import Columns, Delivery, Timing
from sensorium.pipeline.launch import Launch, StepCounter, capture, launch
from sensorium.pipeline.layout import Layout
from sensorium.pipeline.protocols import ResetEnvs
from sensorium.pipeline.storage import storage
from sensorium.worlds import CpuWorld

_PARALLEL_FROM = 16_000
"""Elements (columns x envs) from which waking a second thread pays."""


class _ThreadShare(NamedTuple):
    """The part of a block's fused step that one thread runs."""

    columns: Columns
    delivery: Delivery
    scratch: tuple[np.ndarray, np.ndarray]
    bounds: tuple[int, int, int, int]
    """Columns [c0, c1) and return rows [r0, r1)."""


class CpuKernels:
    """The generic stages on the CPU, over NumPy views of the tensors; see ``PipelineKernels``.

    Kernels are compiled at first use and cached on disk.

    Args:
        world: the engine.
        layout: storage of the sensors.
        clock: the tick count.
        dt: seconds of one tick.
    """

    def __init__(self, world: CpuWorld, layout: Layout, clock: StepCounter, dt: float) -> None:
        self._data = world.bind("sensordata").numpy()
        self._time = world.time.numpy()
        self._clock = clock
        self._dt = dt
        blocks, threads, n_envs = list(layout.blocks.values()), world.threads, world.n_envs
        self._timing = Timing(**layout.timing.views())
        self._draws = (self._timing.draw, self._timing.sample_draw)
        self._delays = (self._timing.flags, self._timing.lag, self._timing.part)
        self._times = np.zeros((2, n_envs)), np.zeros(n_envs, np.int32), np.zeros(n_envs, np.uint32)
        self._columns = {id(block): _columns(block) for block in blocks}
        stores = [*(block.delivery for block in blocks), *(post.delivery for post in layout.posts.values())]
        self._deliveries = {id(store): Delivery(**store.views()) for store in stores}
        self._scratch: dict[torch.dtype, list[tuple[np.ndarray, np.ndarray]]] = {}
        self._shares: list[list[_ThreadShare]] = []  # per block, per thread
        for block in blocks:
            dtype = block.store.truth.numpy().dtype
            scratch = [(np.zeros(n_envs, dtype), np.zeros((2, n_envs), np.float32)) for _ in range(threads)]
            self._scratch[block.store.truth.dtype] = scratch
            arrays = self._columns[id(block)], self._deliveries[id(block.delivery)]
            cuts = zip(scratch, _split(block, threads, n_envs), strict=False)
            self._shares.append([_ThreadShare(*arrays, *cut) for cut in cuts])
        self._arrays = {id(block): _hardware_arrays(self._columns[id(block)], self._timing) for block in blocks}
        groups = [(block, group) for block in blocks for group in block.groups]
        self._cuts = {id(group): _cut(block, group.columns, threads, n_envs) for block, group in groups}
        self._views = {key: array for _, group in groups for key, array in group.arrays.items()}
        several = max(map(len, self._shares), default=0) > 1 or max(map(len, self._cuts.values()), default=0) > 1
        self._pool = ThreadPoolExecutor(threads - 1, "sensorium") if several else None

    @property
    def threaded(self) -> bool:
        """Whether any stage is split over several threads."""
        return self._pool is not None

    # -- a step -------------------------------------------------------------------------------------------------------

    def time(self) -> None:
        """Advance the clock of every env, and find out which samples are taken and which have arrived."""
        launch(timing.time_step, *self._timing, *self._times, self._dt, self._clock)

    def step(self) -> None:
        """Run the fused columns of all blocks, from the engine's sensor data to the return cache."""
        for shares in self._shares:
            pending = [self._submit(self._step_share, share) for share in shares[1:]]
            if shares:
                self._step_share(shares[0])
            for future in pending:
                future.result()

    def _submit(self, call: Callable[..., None], *arguments: object) -> Future[None]:
        assert self._pool is not None
        return self._pool.submit(call, *arguments)

    def _step_share(self, share: _ThreadShare) -> None:
        columns, (c0, c1, r0, r1) = share.columns, share.bounds
        truth, reading = columns.truth, columns.reading
        launch(gather.gather, *_gather_arrays(columns), c0, c1, self._data)
        arrays = _hardware_arrays(columns, self._timing)
        launch(hardware.hardware_step, *arrays, *share.scratch, c0, c1, truth, reading, 0, True, *self._draws)
        if r0 < r1:
            launch(delivery.deliver, *share.delivery, r0, r1, reading, truth, *self._delays, self._clock, True, True)

    def launches(self, blocks: Sequence[ColumnBlock]) -> list[Launch]:
        """Return the launches of a step and of a reset, for compiling them ahead."""

        def calls() -> None:
            self.time()
            for shares in self._shares:
                if shares:
                    self._step_share(shares[0])
            no_envs = ResetEnvs(torch.zeros(0, dtype=torch.bool), np.zeros(0, np.int32))
            for block in blocks:
                self.reset_fused(block, no_envs)
            self.reset_timing(no_envs)

        return capture(calls)

    def gather(self, block: ColumnBlock, group: SensorGroup[Any]) -> None:
        """Write the raw signals of one group to its part of ``truth``."""
        arrays = _gather_arrays(self._columns[id(block)])
        launch(gather.gather, *arrays, group.columns.start, group.columns.stop, self._data)

    def hardware(self, block: ColumnBlock, group: SensorGroup[Any], before: torch.Tensor, out: torch.Tensor) -> None:
        """Apply the hardware stage of one group to ``before`` and write the result to ``out``."""
        first, arrays = group.columns.start, self._arrays[id(block)]
        common = (self._view(before), self._view(out), first, False, *self._draws)
        scratch, cuts = self._scratch[block.store.truth.dtype], self._cuts[id(group)]
        pending = [
            self._submit(launch, hardware.hardware_step, *arrays, *scratch[number], *cuts[number], *common)
            for number in range(1, len(cuts))
        ]
        launch(hardware.hardware_step, *arrays, *scratch[0], *cuts[0], *common)
        for future in pending:
            future.result()

    def _view(self, tensor: torch.Tensor) -> np.ndarray:
        """Return the tensor as an array. Views of the groups' own tensors are kept, which is ten times faster."""
        found = self._views.get(id(tensor))
        return tensor.numpy() if found is None else found

    def copy(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Copy one of the groups' own tensors to another."""
        launch(hardware.copy, self._view(source), self._view(target))

    def deliver(self, snapshots: GroupSnapshots, rows: slice, serve: bool = True, remember: bool = True) -> None:
        """Write snapshots of return columns ``rows`` to ring, cache and history."""
        arrays = (*self._snapshot_arrays(snapshots, rows), *self._delays)
        launch(delivery.deliver, *arrays, self._clock, serve, remember)

    def _snapshot_arrays(self, snapshots: GroupSnapshots, rows: slice) -> tuple[Any, ...]:
        store, measured, truth = snapshots
        return (*self._deliveries[id(store)], rows.start, rows.stop, storage(measured).numpy(), storage(truth).numpy())

    # -- a reset ------------------------------------------------------------------------------------------------------

    def reset_fused(self, block: ColumnBlock, envs: ResetEnvs) -> None:
        """Take the first sample of the fused columns of a block in the reset envs."""
        columns, ids = self._columns[id(block)], envs.ids
        truth, reading = columns.truth, columns.reading
        launch(reset.reset_truth, *_gather_arrays(columns), 0, block.fused, self._data, ids)
        arrays = (*_column_arrays(columns), self._timing.flags, 0, block.fused, truth, reading, 0)
        launch(reset.reset_columns, *arrays, *self._draws, ids)
        store = self._deliveries[id(block.delivery)]
        launch(reset.reset_delivery, *store, 0, block.fused_rows, reading, truth, ids)

    def reset_timing(self, envs: ResetEnvs) -> None:
        """Start the clock of the reset envs, with one sample that has arrived."""
        timing = self._timing
        options = (timing.flags, timing.table, timing.parameters)
        ages = (timing.lag, timing.part, timing.stuck, timing.arrives, timing.offset)
        clocks = (timing.env, timing.episode, timing.tick, *self._draws, self._time, self._dt, self._clock)
        launch(reset.reset_timing, *options, *ages, *clocks, envs.ids)

    def reset_hardware(
        self,
        block: ColumnBlock,
        group: SensorGroup[Any],
        before: torch.Tensor,
        out: torch.Tensor,
        envs: ResetEnvs,
    ) -> None:
        """Apply the hardware stage of one group in the reset envs."""
        arrays = (*_column_arrays(self._columns[id(block)]), self._timing.flags)
        first, last = group.columns.start, group.columns.stop
        values = (before.numpy(), out.numpy(), first)
        launch(reset.reset_columns, *arrays, first, last, *values, *self._draws, envs.ids)

    def reset_delivery(self, snapshots: GroupSnapshots, rows: slice, envs: ResetEnvs) -> None:
        """Fill ring, cache and history of the reset envs with their first snapshot."""
        launch(reset.reset_delivery, *self._snapshot_arrays(snapshots, rows), envs.ids)

    def close(self) -> None:
        """Stop the threads."""
        if self._pool is not None:
            self._pool.shutdown()


def _columns(block: ColumnBlock) -> Columns:
    """Return views of a block's columns.

    Arrays of imperfections that no column has are None: Numba then does not compile their code.
    """
    views: dict[str, Any] = block.store.views()
    for name in ("mix", "extra"):
        if not views[name].shape[0]:
            views[name] = None
    return Columns(**views)


def _hardware_arrays(columns: Columns, timing: Timing) -> tuple[Any, ...]:
    """Return the arguments of the hardware stage that come from a block and from the timing."""
    return (*_column_arrays(columns), timing.flags, timing.due)


def _column_arrays(columns: Columns) -> tuple[Any, ...]:
    """Return the arguments of a reset that come from a block."""
    return columns.table, columns.key, columns.mix, columns.walk, columns.parameters, columns.extra


def _gather_arrays(columns: Columns) -> tuple[np.ndarray, ...]:
    """Return the arguments of gathering that come from a block."""
    return columns.table, columns.sources, columns.truth


def _split(block: ColumnBlock, threads: int, n_envs: int) -> list[tuple[int, int, int, int]]:
    """Return one range of fused columns and of their return rows per thread."""
    source = block.delivery.table[: block.fused_rows, R_SOURCE].numpy()
    cuts = _cut(block, slice(0, block.fused), threads, n_envs)
    rows = [np.searchsorted(source, cut) for cut in cuts]
    return [(*cut, int(row[0]), int(row[1])) for cut, row in zip(cuts, rows, strict=True) if cut[0] < cut[1]]


def _cut(block: ColumnBlock, columns: slice, threads: int, n_envs: int) -> list[tuple[int, int]]:
    """Return one range of columns per thread. Three columns that are mixed stay together."""
    count = columns.stop - columns.start
    if count * n_envs < _PARALLEL_FROM:
        threads = 1
    mix_row = block.store.table[:, MIX_ROW].numpy()
    bounds = [columns.start]
    for part in range(1, threads):
        cut = columns.start + count * part // threads
        while columns.start < cut < columns.stop and mix_row[cut] > 0 and mix_row[cut] % 3 > 0:  # -1: not mixed
            cut += 1
        bounds.append(cut)
    bounds.append(columns.stop)
    return [(start, stop) for start, stop in itertools.pairwise(bounds) if start < stop]
