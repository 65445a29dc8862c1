"""Runs the Numba kernels over the manager's storage, on one thread or several."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch

from sensorium.pipeline import kernels
from sensorium.pipeline.flags import MIX_ROW, R_SOURCE
from sensorium.pipeline.group import SensorGroup
from sensorium.pipeline.launch import Launch, StepCounter, capture, launch
from sensorium.pipeline.layout import ColumnBlock, PostBlock
from sensorium.pipeline.storage import DeliveryStore, TimingStore
from sensorium.worlds import World

_PARALLEL_FROM = 16_000
"""Elements (columns x envs) from which a second thread pays for waking it."""


class _Share(NamedTuple):
    """What one thread does of a block's fused step."""

    columns: kernels.Columns
    delivery: kernels.Delivery
    scratch: tuple[np.ndarray, np.ndarray]
    bounds: tuple[int, int, int, int]
    """First and last column, first and last return row."""


class CpuKernels:
    """The stages of the fused step, over NumPy views of the tensors. Compiled at first use, cached on disk."""

    def __init__(
        self, world: World, blocks: list[ColumnBlock], posts: list[PostBlock], timing: TimingStore, dt: float
    ) -> None:
        self._data = world.bind("sensordata").numpy()
        self._time = world.time.numpy()
        self._dt = dt
        self._timing_store = timing
        self._timing = kernels.Timing(**timing.views())
        self._delays = (self._timing.flags, self._timing.lag, self._timing.part)
        self._columns = {id(block): _columns(block) for block in blocks}
        self._deliveries: dict[int, kernels.Delivery] = {}
        for delivery in [*(block.direct for block in blocks), *(post.delivery for post in posts)]:
            assert delivery is not None
            self._deliveries[id(delivery)] = kernels.Delivery(**delivery.views())
        threads: int = world.threads  # type: ignore[attr-defined]
        self._scratch: dict[torch.dtype, list[tuple[np.ndarray, np.ndarray]]] = {}
        self._shares: list[list[_Share]] = []  # per block, per thread
        for block in blocks:
            dtype = block.store.truth.numpy().dtype
            scratch = [(np.zeros(world.n_envs, dtype), np.zeros((2, world.n_envs), np.float32)) for _ in range(threads)]
            self._scratch[block.store.truth.dtype] = scratch
            assert block.direct is not None
            arrays = self._columns[id(block)], self._deliveries[id(block.direct)]
            cuts = zip(scratch, _split(block, threads, world.n_envs), strict=False)
            self._shares.append([_Share(*arrays, *cut) for cut in cuts])
        self._arrays = {id(block): _hardware_arrays(self._columns[id(block)], self._timing) for block in blocks}
        self._cuts = {
            id(group): _cut(block, group.columns, threads, world.n_envs) for block in blocks for group in block.groups
        }
        self._views = {
            key: array for block in blocks for group in block.groups for key, array in group._array_of.items()
        }
        several = any(len(each) > 1 for each in self._shares) or any(len(each) > 1 for each in self._cuts.values())
        self._pool = ThreadPoolExecutor(threads - 1, "sensorium") if several else None
        self.timed = True
        """Whether any sensor has a rate, a delay or drop-outs."""

    @property
    def threaded(self) -> bool:
        """Whether any stage is cut into parts for several threads."""
        return self._pool is not None

    def step(self, step: int | StepCounter) -> None:
        """All fused columns of all blocks, from the engine's data to the return cache."""
        if self.timed:
            launch(kernels.time_step, *self._timing, self._time, self._dt, step)
        for shares in self._shares:
            waiting = []
            for share in shares[1:]:
                assert self._pool is not None
                waiting.append(self._pool.submit(self._step_share, share, step))
            if shares:
                self._step_share(shares[0], step)
            for future in waiting:
                future.result()

    def _step_share(self, share: _Share, step: int | StepCounter) -> None:
        columns, (c0, c1, r0, r1) = share.columns, share.bounds
        truth, reading = columns.truth, columns.reading
        launch(kernels.gather, *_gather_arrays(columns), c0, c1, self._data)
        arrays = _hardware_arrays(columns, self._timing)
        launch(kernels.hardware_step, *arrays, *share.scratch, c0, c1, truth, reading, 0, True, step)
        if r0 < r1:
            launch(kernels.deliver, *share.delivery, r0, r1, reading, truth, *self._delays, step, True, True)

    def launches(self, blocks: list[ColumnBlock]) -> list[Launch]:
        """The kernels of a step and of a reset, with arguments of the types that they are called with."""

        def calls() -> None:
            if self.timed:
                launch(kernels.time_step, *self._timing, self._time, self._dt, 0)
            for shares in self._shares:
                if shares:
                    self._step_share(shares[0], 0)
            envs = np.zeros(0, np.int32)
            for block in blocks:
                self.reset_fused(block, 0, envs)
            self.reset_timing(envs)

        return capture(calls)

    def gather(self, block: ColumnBlock, group: SensorGroup) -> None:
        """Raw signals of one group into its part of ``truth``."""
        arrays = _gather_arrays(self._columns[id(block)])
        launch(kernels.gather, *arrays, group.columns.start, group.columns.stop, self._data)

    def hardware(
        self,
        block: ColumnBlock,
        group: SensorGroup,
        before: torch.Tensor,
        out: torch.Tensor,
        step: int | StepCounter,
        hold: bool = False,
    ) -> None:
        """The hardware stage of one group, from ``before`` to ``out``; ``hold`` keeps what is not due."""
        first, arrays = group.columns.start, self._arrays[id(block)]
        common = (self._view(before), self._view(out), first, hold, step)
        waiting = []
        for number, cut in enumerate(self._cuts[id(group)]):
            scratch = self._scratch[block.store.truth.dtype][number]
            if number == 0:
                own = (*scratch, *cut)
            else:
                assert self._pool is not None
                waiting.append(self._pool.submit(launch, kernels.hardware_step, *arrays, *scratch, *cut, *common))
        launch(kernels.hardware_step, *arrays, *own, *common)
        for future in waiting:
            future.result()

    def _view(self, tensor: torch.Tensor) -> np.ndarray:
        """The tensor as an array; looked up for the groups' own, which takes a tenth of the time of making it."""
        found = self._views.get(id(tensor))
        return tensor.numpy() if found is None else found

    def copy(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Copy one of the groups' own tensors to another."""
        launch(kernels.copy, self._view(source), self._view(target))

    def deliver(
        self,
        delivery: DeliveryStore,
        rows: slice,
        measured: torch.Tensor,
        truth: torch.Tensor,
        step: int | StepCounter,
        serve: bool = True,
        remember: bool = True,
    ) -> None:
        """Snapshots of some return columns into rings, cache and histories."""
        launch(
            kernels.deliver,
            *self._deliveries[id(delivery)],
            rows.start,
            rows.stop,
            measured.numpy(),
            truth.numpy(),
            *self._delays,
            step,
            serve,
            remember,
        )

    def reset_fused(self, block: ColumnBlock, step: int, envs: np.ndarray) -> None:
        """All fused columns of a block, at the reset of some envs."""
        columns = self._columns[id(block)]
        arrays = _column_arrays(columns)
        launch(kernels.reset_truth, *_gather_arrays(columns), 0, block.fused, self._data, envs)
        launch(kernels.reset_columns, *arrays, 0, block.fused, columns.truth, columns.reading, 0, step, envs)
        assert block.direct is not None
        delivery = self._deliveries[id(block.direct)]
        launch(kernels.reset_delivery, *delivery, 0, block.fused_rows, columns.reading, columns.truth, envs)

    def reset_timing(self, envs: np.ndarray) -> None:
        """Stuck sensors of some envs recover."""
        launch(kernels.reset_timing, self._timing.stuck, envs)

    def reset_hardware(
        self,
        block: ColumnBlock,
        group: SensorGroup,
        before: torch.Tensor,
        out: torch.Tensor,
        step: int,
        envs: np.ndarray,
    ) -> None:
        """The hardware stage of one group, at the reset of some envs."""
        arrays = _column_arrays(self._columns[id(block)])
        first, last = group.columns.start, group.columns.stop
        launch(kernels.reset_columns, *arrays, first, last, before.numpy(), out.numpy(), first, step, envs)

    def reset_delivery(
        self, delivery: DeliveryStore, rows: slice, measured: torch.Tensor, truth: torch.Tensor, envs: np.ndarray
    ) -> None:
        """Fill rings, cache and histories of some envs with their first snapshot."""
        arrays = *self._deliveries[id(delivery)], rows.start, rows.stop, measured.numpy(), truth.numpy()
        launch(kernels.reset_delivery, *arrays, envs)

    def close(self) -> None:
        """Stop the threads."""
        if self._pool is not None:
            self._pool.shutdown()


def _columns(block: ColumnBlock) -> kernels.Columns:
    """Views of a block's columns; None for imperfections that none of them has, whose code is then not compiled."""
    views: dict[str, Any] = block.store.views()
    for name in ("mix", "extra"):
        if not views[name].shape[0]:
            views[name] = None
    return kernels.Columns(**views)


def _hardware_arrays(columns: kernels.Columns, timing: kernels.Timing) -> tuple[Any, ...]:
    """What the hardware stage takes of a block and of the timing."""
    return (*_column_arrays(columns), timing.flags, timing.due)


def _column_arrays(columns: kernels.Columns) -> tuple[Any, ...]:
    """What a reset takes of a block."""
    return columns.table, columns.key, columns.mix, columns.walk, columns.parameters, columns.extra


def _gather_arrays(columns: kernels.Columns) -> tuple[np.ndarray, ...]:
    """What gathering takes of a block."""
    return columns.table, columns.sources, columns.truth


def _split(block: ColumnBlock, threads: int, n_envs: int) -> list[tuple[int, int, int, int]]:
    """Column and return-row ranges, one a thread; never through three columns that are mixed."""
    assert block.direct is not None
    source = block.direct.table[: block.fused_rows, R_SOURCE].numpy()
    cuts = _cut(block, slice(0, block.fused), threads, n_envs)
    rows = [np.searchsorted(source, cut) for cut in cuts]
    return [(*cut, int(row[0]), int(row[1])) for cut, row in zip(cuts, rows, strict=True) if cut[0] < cut[1]]


def _cut(block: ColumnBlock, columns: slice, threads: int, n_envs: int) -> list[tuple[int, int]]:
    """Ranges of columns, one a thread; never through three columns that are mixed."""
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
