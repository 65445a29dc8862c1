"""Runs the GPU engine on Warp's CPU device, where there is no GPU: the same kernels and data, without CUDA graphs.

A graph then is its body, run at every launch. What needs CUDA is not tested by this: capturing, streams, memory, speed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch.overrides import TorchFunctionMode


class _CpuForCuda(TorchFunctionMode):
    """Creates tensors on the CPU where "cuda" is asked for."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function is torch.device:  # the scene asks which engine "cuda" is
            return function(*args, **kwargs)
        if str(kwargs.get("device")).startswith("cuda"):
            kwargs["device"] = "cpu"
        args = tuple("cpu" if isinstance(one, str) and one.startswith("cuda") else one for one in args)
        return function(*args, **kwargs)


@contextmanager
def warp_on_cpu() -> Iterator[None]:
    """Let ``device="cuda"`` build the GPU engine on the CPU."""
    import warp as wp

    from sensorium.worlds import warp_world

    class EagerGraph:
        """What the engine uses of a graph."""

        def __init__(self, body, device, pool):
            self._body = body

        def launch(self):
            with wp.ScopedDevice("cpu"):
                self._body()

    with pytest.MonkeyPatch.context() as patch, _CpuForCuda():
        patch.setattr(torch.cuda, "is_available", lambda: True)
        patch.setattr(torch.cuda, "MemPool", object)
        patch.setattr(torch.cuda, "synchronize", lambda *_: None)
        patch.setattr(warp_world, "check_cuda", lambda device: torch.device("cpu"))
        patch.setattr(warp_world, "Graph", EagerGraph)
        patch.setattr(warp_world.WarpWorld, "_stream", lambda self: wp.ScopedDevice("cpu"))
        yield
