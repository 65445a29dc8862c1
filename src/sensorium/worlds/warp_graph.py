"""Work of the device that is captured once, and from then on costs the host one call of the driver."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
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

    __slots__ = ("_current_stream", "_driver_launch", "_exec", "_graph", "_index")

    def __init__(self, body: Callable[[], None], device: torch.device, pool: Any) -> None:
        self._index = device.index
        self._exec = ctypes.c_void_p()  # the driver refuses it, until the first launch
        self._driver_launch = _driver_launch()
        self._current_stream = torch._C._cuda_getCurrentRawStream
        torch.cuda.synchronize(device)
        with _no_collection():
            self._graph = _capture(body, device, pool)

    def launch(self) -> None:
        """Run it on the stream that torch uses now, without waiting for it."""
        # torch's replay() asks for devices, generators and streams first, which takes longer than the launch itself.
        # _cuda_getCurrentRawStream(index) is private; it returns the cudaStream_t as an int, 0 for the default stream.
        # Checked with torch 2.13.0.
        stream = self._current_stream(self._index)
        if self._driver_launch(self._exec, ctypes.c_void_p(stream) if stream else None):
            self._replay()

    def _replay(self) -> None:
        """The way by torch: the first time, where it is needed, and where the driver failed, for torch says why."""
        generator = torch.cuda.default_generators[self._index]
        before = generator.get_offset()
        self._graph.replay()
        # replay() advances torch's generator for a body that draws by it, and chooses among several devices
        if generator.get_offset() == before and torch.cuda.device_count() == 1:
            handle = getattr(self._graph, "raw_cuda_graph_exec", None)  # which old torch lacks
            self._exec = ctypes.c_void_p(handle and handle())


@cache
def _driver_launch() -> Callable[[Any, Any], int]:
    """The driver's ``cuGraphLaunch(graph, stream)``, which returns 0 where it worked.

    It is public and keeps its ABI (CUDA 10 and newer). torch's handle is a ``cudaGraphExec_t``, which is the driver's
    ``CUgraphExec`` (checked with torch 2.13.0).
    """
    library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    return library.cuGraphLaunch  # without argtypes, whose conversions take half as long again as the call


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
