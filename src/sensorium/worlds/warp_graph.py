"""Work of the device that is captured once, and from then on costs the host one call."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import warp as wp


class Graph:
    """A CUDA graph of what ``body()`` launches, by Warp or by torch; ``body`` must look at no value.

    Example::

        graph = Graph(body, torch.device("cuda", 0), torch.cuda.MemPool())
        graph.launch()

    Args:
        body: what to capture. It must have run once before, so that its kernels are compiled.
        device: the CUDA device, with its index.
        pool: where what is allocated in the capture lives; graphs that do not run at once may share one.
    """

    __slots__ = ("_graph",)

    def __init__(self, body: Callable[[], None], device: torch.device, pool: Any) -> None:
        torch.cuda.synchronize(device)
        with _no_collection():
            self._graph = _capture(body, device, pool)

    def launch(self) -> None:
        """Run it on the stream that torch uses now, without waiting for it."""
        self._graph.replay()


def _capture(body: Callable[[], None], device: torch.device, memory: Any) -> torch.cuda.CUDAGraph:
    before = torch.cuda.current_stream(device)
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream(device)
    stream, pool, warp_device = wp.stream_from_torch(side), torch.cuda.graph_pool_handle(), wp.device_from_torch(device)
    try:
        with (
            torch.cuda.graph(graph, pool, stream=side, capture_error_mode="thread_local"),
            wp.ScopedDevice(warp_device),
            wp.ScopedStream(stream, sync_enter=False),
            torch.cuda.use_mem_pool(memory, device),
            wp.ScopedAllocator(warp_device, _TorchMemory(device)),
        ):
            wp.capture_begin(stream=stream, external=True)
            try:
                body()
            finally:
                wp.capture_end(stream=stream)
    except RuntimeError:
        # torch forgets to end the allocations of a capture that failed, and aborts when a pool is freed later; and it
        # stays on the capture's stream, where nothing that others do would be waited for. The call is private: there is
        # no public one. Checked with torch 2.13.0.
        with contextlib.suppress(Exception):
            torch._C._cuda_endAllocateToPool(device.index, pool)
        torch.cuda.set_stream(before)
        raise
    return graph


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python's garbage collector from freeing an old graph in the midst of a capture, which would break it."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _TorchMemory:
    """Has Warp allocate through torch: from a graph's pool, once, and not by nodes of the graph at every launch."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._blocks: dict[int, torch.Tensor] = {}

    def allocate(self, size_in_bytes: int) -> int:
        block = torch.empty(size_in_bytes, dtype=torch.uint8, device=self._device)
        self._blocks[block.data_ptr()] = block
        return block.data_ptr()

    def deallocate(self, ptr: int, size_in_bytes: int) -> None:
        del self._blocks[ptr]
