"""``Loop``: a step of a scene with code around it and the reset of the envs whose episodes end, as one CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch

from sensorium.errors import CapacityError, DivergenceError, OptionError
from sensorium.worlds.simulation import Simulation
from sensorium.worlds.world import GpuWorld


class Loop:
    """The step of a training loop. A call does the same as::

        before()
        scene.step()
        end()                # writes the mask ``ended``
        scene.reset(ended)
        after()

    On a GPU the first call runs these one after another, which allocates what they need. The second call captures all
    of them as one CUDA graph, and every later call replays it. The functions therefore make the same operations each
    time, keep their results in tensors that they write in place, and read no value from the device. If some hooks of
    sensors or modules must run on the host, all calls are like the first. ``sensor.read_final()`` is not updated.

    Args:
        scene: the scene, built.
        before: applies actions.
        end: evaluates the step, and writes ``ended``.
        ended: the envs that are reset, (B,) bool on the device of the scene.
        after: reads the sensors.

    Raises:
        NotBuiltError: the scene is not built, or was closed.
        OptionError: ``ended`` is no mask of the envs on the device of the scene, or a function cannot be called.

    Example:
        >>> loop = Loop(scene, act, judge, ended, observe)
        >>> loop()
    """

    def __init__(
        self,
        scene: Simulation,
        before: Callable[[], None],
        end: Callable[[], None],
        ended: torch.Tensor,
        after: Callable[[], None],
    ) -> None:
        for name, function in (("before", before), ("end", end), ("after", after)):
            if not callable(function):
                raise OptionError(f"Loop: {name} must be a function without arguments, got {function!r}")
        world = scene.world
        if not isinstance(ended, torch.Tensor):
            raise OptionError(f"Loop: ended must be a tensor that end() writes in place, got {ended!r}")
        if ended.dtype != torch.bool or ended.shape != (world.n_envs,) or ended.device != world.device:
            raise OptionError(
                f"Loop: ended must be a mask of torch.bool, ({world.n_envs},), on {world.device}; got {ended.dtype} "
                f"of shape {tuple(ended.shape)} on {ended.device}"
            )
        self._scene = scene
        self._before, self._end, self._ended, self._after = before, end, ended, after
        self._launch: Callable[[], dict[int, str]] | None = None
        self._is_warm = False

    def __call__(self) -> None:
        """Make a step.

        Raises:
            DivergenceError, CapacityError: as :meth:`sensorium.Scene.step` raises them, after everything else was done.
            OptionError: a function cannot be captured, since it reads a value from the device.
            NotBuiltError: the scene was closed.
        """
        if self._scene._world is None:
            self._scene._unbuilt("Loop")
        if self._launch is not None:
            self._replay(self._launch)
        elif self._is_warm and self._can_be_captured():
            world = cast("GpuWorld", self._scene.world)
            self._launch = world.record_loop(self._before, self._end, self._ended, self._reset_modules_and_observe)
            self._replay(self._launch)
        else:
            self._run()

    def _can_be_captured(self) -> bool:
        scene = self._scene
        if not scene.world.is_gpu or (scene._sensing is not None and scene._sensing.on_host):
            return False
        return all(getattr(module.on_reset, "is_capturable", False) for module in scene._modules.values())

    def _reset_modules_and_observe(self) -> None:
        for module in self._scene._modules.values():
            module.on_reset(self._ended)
        self._after()

    def _run(self) -> None:
        scene, world = self._scene, self._scene.world
        run_on_device(self._before, scene)
        error: Exception | None = None
        try:
            scene.step()
        except (DivergenceError, CapacityError) as found:  # the step itself was made
            error = found
        run_on_device(self._end, scene)
        if world.is_gpu or bool(self._ended.any()):
            scene.reset(self._ended)
        run_on_device(self._after, scene)
        self._is_warm = True  # all functions have run
        if error is not None:
            raise error

    def _replay(self, launch: Callable[[], dict[int, str]]) -> None:
        scene = self._scene
        failed: dict[int, str] = {}
        crowded: CapacityError | None = None
        if scene._failures.messages:  # of a step before, which this scene may have reset since
            scene._failures.forget(set((scene.world.diverged == 0).nonzero().flatten().tolist()))
        try:
            failed = launch()
        except CapacityError as error:  # the step itself was made
            crowded = error
        if scene._journal.fresh:
            scene._journal.step()
        if scene._viewer is not None:
            scene._viewer.after_step()
        if failed or crowded:
            scene._failures.report(failed, crowded)


def run_on_device(function: Callable[[], None], scene: Simulation) -> None:
    """Run a function once, on a GPU on the stream that torch currently uses."""
    if scene.world.is_gpu:
        cast("GpuWorld", scene.world).run(function)
    else:
        function()
