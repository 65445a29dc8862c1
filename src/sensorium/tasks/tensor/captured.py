"""``Captured``: a function of torch operations that a GPU runs as one CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from sensorium.worlds import GpuWorld, World


class Captured:
    """A function without arguments that is called in every step.

    On the CPU a call calls the function. On a GPU the first call does, too, which allocates what it needs; the second
    one captures it, and every later one replays the graph. The function therefore makes the same operations each time,
    keeps its results in tensors that it writes in place, and reads no value from the device.

    Args:
        function: the function.
        world: the running engine.
    """

    def __init__(self, function: Callable[[], None], world: World) -> None:
        self._function, self._world = function, world
        self._calls = 0
        self._launch: Callable[[], None] = function if not world.is_gpu else self._prepare

    def __call__(self) -> None:
        self._launch()

    def _prepare(self) -> None:
        world = cast("GpuWorld", self._world)
        self._calls += 1
        if self._calls == 1:
            world.run(self._function)
        else:
            self._launch = world.record(self._function)
            self._launch()


def run_on_device(function: Callable[[], None], world: World) -> None:
    """Run a function once, on a GPU on the stream that torch currently uses."""
    if world.is_gpu:
        cast("GpuWorld", world).run(function)
    else:
        function()
