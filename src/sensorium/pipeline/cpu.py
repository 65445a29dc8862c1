"""Runs the Numba kernels over the manager's storage, on one thread or several."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from sensorium.pipeline import kernels
from sensorium.pipeline.group import SensorGroup
from sensorium.pipeline.layout import Block, PostBlock
from sensorium.pipeline.storage import DeliveryStore, TimingStore
from sensorium.worlds import World

_PARALLEL_FROM = 16_000
"""Elements (columns x envs) from which a second thread pays for waking it."""


class CpuKernels:
    """The stages of the fused step, over NumPy views of the tensors. Compiled at first use, cached on disk."""

    def __init__(self, world: World, blocks: list[Block], posts: list[PostBlock], timing: TimingStore, dt: float) -> None:
        self._data = world.bind("sensordata").numpy()
        self._time = world.time.numpy()
        self._dt = dt
        self._timing_store = timing
        self._timing = kernels.Timing(**timing.views())
        self._columns = {id(block): kernels.Columns(**block.store.views()) for block in blocks}
        self._deliveries: dict[int, kernels.Delivery] = {}
        for delivery in [*(block.direct for block in blocks), *(post.delivery for post in posts)]:
            assert delivery is not None
            self._deliveries[id(delivery)] = kernels.Delivery(**delivery.views())
        threads = len(os.sched_getaffinity(0))
        self._scratch: dict[torch.dtype, list[tuple[np.ndarray, np.ndarray]]] = {}
        for block in blocks:
            dtype = block.store.truth.numpy().dtype
            rows = [(np.zeros(world.n_envs, dtype), np.zeros((2, world.n_envs), np.float32)) for _ in range(threads)]
            self._scratch[block.store.truth.dtype] = rows
        self._parts = {id(block): self._split(block, threads, world.n_envs) for block in blocks}
        several = any(len(parts) > 1 for parts in self._parts.values())
        self._pool = ThreadPoolExecutor(threads - 1, "sensorium") if several else None

    @staticmethod
    def _split(block: Block, threads: int, n_envs: int) -> list[tuple[int, int, int, int]]:
        """Column and return-row ranges, one a thread; never through three columns that are mixed."""
        assert block.direct is not None
        if block.fused * n_envs < _PARALLEL_FROM:
            threads = 1
        mix_row = block.store.mix_row.numpy()
        bounds = [0]
        for part in range(1, threads):
            cut = block.fused * part // threads
            while 0 < cut < block.fused and mix_row[cut] % 3 > 0:
                cut += 1
            bounds.append(cut)
        bounds.append(block.fused)
        source = block.direct.source.numpy()[: block.fused_rows]
        rows = np.searchsorted(source, bounds)
        cuts = range(len(bounds) - 1)
        return [(bounds[i], bounds[i + 1], int(rows[i]), int(rows[i + 1])) for i in cuts if bounds[i] < bounds[i + 1]]

    def time(self, step: int) -> None:
        """When every sensor samples, and how late it is read, this step."""
        kernels.time_sensors(self._timing, self._time, self._dt, np.uint32(step))

    def fused(self, block: Block, step: int) -> None:
        """All fused columns of a block, from the engine's data to the return cache."""
        columns, delivery = self._columns[id(block)], self._deliveries[id(block.direct)]
        scratch = self._scratch[block.store.truth.dtype]
        parts = self._parts[id(block)]
        waiting = []
        for i in range(1, len(parts)):
            assert self._pool is not None
            waiting.append(
                self._pool.submit(
                    kernels.fused_step, columns, self._timing, delivery, self._data, *parts[i], step, *scratch[i]
                )
            )
        if parts:
            kernels.fused_step(columns, self._timing, delivery, self._data, *parts[0], step, *scratch[0])
        for future in waiting:
            future.result()

    def gather(self, block: Block, group: SensorGroup) -> None:
        """Raw signals of one group into its part of ``truth``."""
        kernels.gather(self._columns[id(block)], group.columns.start, group.columns.stop, self._data)

    def hardware(self, block: Block, group: SensorGroup, before: torch.Tensor, out: torch.Tensor, step: int) -> None:
        """The hardware stage of one group, from ``before`` to ``out``."""
        x, normal = self._scratch[block.store.truth.dtype][0]
        columns = self._columns[id(block)]
        first, last = group.columns.start, group.columns.stop
        kernels.hardware(
            columns, first, last, before.numpy(), out.numpy(), first, False, self._timing, np.uint32(step), x, normal
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
        kernels.deliver(
            self._deliveries[id(delivery)],
            rows.start,
            rows.stop,
            measured.numpy(),
            truth.numpy(),
            self._timing,
            step,
            serve,
            remember,
        )

    def reset_fused(self, block: Block, step: int, envs: np.ndarray) -> None:
        """All fused columns of a block, at the reset of some envs."""
        columns = self._columns[id(block)]
        kernels.reset_truth(columns, 0, block.fused, self._data, envs)
        kernels.reset_columns(columns, 0, block.fused, columns.truth, columns.reading, 0, step, envs)
        assert block.direct is not None
        delivery = self._deliveries[id(block.direct)]
        kernels.reset_delivery(delivery, 0, block.fused_rows, columns.reading, columns.truth, envs)

    def reset_hardware(
        self, block: Block, group: SensorGroup, before: torch.Tensor, out: torch.Tensor, step: int, envs: np.ndarray
    ) -> None:
        """The hardware stage of one group, at the reset of some envs."""
        columns = self._columns[id(block)]
        first, last = group.columns.start, group.columns.stop
        kernels.reset_columns(columns, first, last, before.numpy(), out.numpy(), first, step, envs)

    def reset_delivery(
        self, delivery: DeliveryStore, rows: slice, measured: torch.Tensor, truth: torch.Tensor, envs: np.ndarray
    ) -> None:
        """Fill rings, cache and histories of some envs with their first snapshot."""
        kernels.reset_delivery(
            self._deliveries[id(delivery)], rows.start, rows.stop, measured.numpy(), truth.numpy(), envs
        )

    def close(self) -> None:
        """Stop the threads."""
        if self._pool is not None:
            self._pool.shutdown()
