"""CUDA graphs: launches that are captured once and replayed with one call."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import warp as wp


class Graph:
    """A CUDA graph of the launches of ``body()``, by Warp or by torch.

    Example::

        graph = Graph(body, torch.device("cuda", 0), torch.cuda.MemPool())
        graph.launch()

    Args:
        body: what to capture. It must read no value from the device, and must have run once before, so that its kernels
            are compiled.
        device: the CUDA device, with its index.
        pool: holds the memory that is allocated in the capture. Graphs that do not run concurrently may share one.
    """

    __slots__ = ("_graph",)

    def __init__(self, body: Callable[[], None], device: torch.device, pool: torch.cuda.MemPool) -> None:
        torch.cuda.synchronize(device)
        with _no_collection():
            self._graph = _capture(body, device, pool)

    def launch(self) -> None:
        """Launch the graph on the stream that torch currently uses, without waiting for it."""
        self._graph.replay()


def _capture(body: Callable[[], None], device: torch.device, memory: torch.cuda.MemPool) -> torch.cuda.CUDAGraph:
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
        # After a failed capture torch does not end its allocations to the pool, and aborts when a pool is freed later.
        # It also stays on the stream of the capture, which is not synchronised with other work. The call is private,
        # since there is no public one. Checked with torch 2.13.0.
        with contextlib.suppress(Exception):
            torch._C._cuda_endAllocateToPool(device.index, pool)
        torch.cuda.set_stream(before)
        raise
    return graph


@contextmanager
def _no_collection() -> Iterator[None]:
    """Disable Python's garbage collector: freeing an old graph during a capture would break the capture."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _TorchMemory:
    """Allocator that makes Warp allocate from the pool of a graph, once, rather than in every launch of the graph."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._blocks: dict[int, torch.Tensor] = {}

    def allocate(self, size_in_bytes: int) -> int:
        block = torch.empty(size_in_bytes, dtype=torch.uint8, device=self._device)
        self._blocks[block.data_ptr()] = block
        return block.data_ptr()

    def deallocate(self, ptr: int, size_in_bytes: int) -> None:
        del self._blocks[ptr]
