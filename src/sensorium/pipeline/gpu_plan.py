"""``GpuPlan``: the calls of a step that sense the world, captured in the CUDA graphs of the GPU engine."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from sensorium.errors import OptionError
from sensorium.pipeline.group import SensorGroup
from sensorium.pipeline.plan import describe_stages
from sensorium.pipeline.protocols import ResetEnvs
from sensorium.pipeline.tick_pipeline import TickPipeline
from sensorium.worlds import Envs, GpuWorld
from sensorium.worlds.device import is_out_of_memory

Group = SensorGroup[Any]


class GpuPlan:
    """Sensing in the CUDA graphs of the world, as far as the hooks can be captured.

    Args:
        world: the GPU engine.
        pipelines: the pipeline of substeps, if there is one, and that of steps.
        begin: begins the next episode of the envs of a mask, (B,) bool.

    Raises:
        OptionError: a class cannot be captured, and some of its sensors are captured at substeps.
    """

    def __init__(
        self, world: GpuWorld, pipelines: Sequence[TickPipeline], begin: Callable[[torch.Tensor], None]
    ) -> None:
        self._world, self._pipelines, self._begin = world, list(pipelines), begin
        self._fast = next((one for one in pipelines if one.ticks.per_step > 1), None)
        self._captured: list[Group] = []
        self._eager: list[Group] = []
        for group in [] if self._fast is None else self._fast.layout.hook_groups:
            if not group.capturable:
                raise OptionError(
                    f"{group.cls.options_type.__name__}: the hooks of {group.cls.__name__} cannot be captured in a "
                    "CUDA graph, so they cannot run at substeps on a GPU; lower the rate to one sample per step, omit "
                    "substeps=True, or build with device='cpu'"
                )

    @property
    def on_host(self) -> bool:
        """Whether some hooks run after the graphs."""
        return bool(self._eager)

    def start(self) -> None:
        """Take the first readings, and capture the graphs: with all hooks, or without if they cannot be captured."""
        self._world.run(self._restart_all)
        slow = self._pipelines[-1]
        fast_groups = [] if self._fast is None else self._fast.layout.hook_groups
        hook_groups = slow.layout.hook_groups
        for captured in ([group for group in hook_groups if group.capturable], []):
            self._captured = captured
            self._eager = [group for group in hook_groups if group not in captured]
            on_substep = None if self._fast is None else self._substep
            restart = (self._begin, self._restart, self._after_restart)
            self._world.attach(self._step, self._after_step, *restart, on_substep, self._only_engine_signals())
            try:
                self._world.capture()
                return
            except RuntimeError as error:
                if not captured or fast_groups or is_out_of_memory(error):
                    raise
                names = ", ".join(group.cls.__name__ for group in captured)
                warnings.warn(
                    f"the hooks of {names} cannot be captured in a CUDA graph ({error}); they run after it, which is "
                    "slower. Set capturable = False in the class that causes this, so that the others are captured",
                    stacklevel=4,
                )

    def _only_engine_signals(self) -> bool:
        """Return whether all signals at substeps come from the engine's sensors, and from no other field."""
        hooks = ("_update_shared_cache", "_update_raw_data", "_update_current_timestep_data")
        return self._fast is not None and not any(group.cls._overrides(*hooks) for group in self._fast.groups)

    def _substep(self) -> None:
        """Sense the world after any substep but the last."""
        assert self._fast is not None
        self._fast.kernels.time()
        self._fast.kernels.step()
        self._fast.stages.run(self._fast.layout.hook_groups)

    def _step(self) -> None:
        for pipeline in self._pipelines:
            pipeline.kernels.time()
            pipeline.kernels.step()

    def _after_step(self) -> None:
        if self._fast is not None:
            self._fast.stages.run(self._fast.layout.hook_groups)
        self._pipelines[-1].stages.run(self._captured)

    def _restart_all(self) -> None:
        """Take the first readings of all envs, outside the graphs."""
        envs = ResetEnvs(torch.ones(self._world.n_envs, dtype=torch.bool, device=self._world.device), None)
        for pipeline in self._pipelines:
            pipeline.stages.restart(envs, [*pipeline.stages.fused_groups, *pipeline.layout.hook_groups])

    def _restart(self, mask: torch.Tensor) -> None:
        """Restart the fused columns and the classes of the package, whose hooks are known to be captured."""
        for pipeline in self._pipelines:
            groups = [group for group in self._restarted(pipeline) if _is_own(group)]
            pipeline.stages.restart(ResetEnvs(mask, None), groups)

    def _after_restart(self, mask: torch.Tensor) -> None:
        """Restart the classes of other authors."""
        for pipeline in self._pipelines:
            groups = [group for group in self._restarted(pipeline) if not _is_own(group)]
            pipeline.stages.restart(ResetEnvs(mask, None), groups, fused=False)

    def _restarted(self, pipeline: TickPipeline) -> list[Group]:
        """Return the groups that the graphs restart."""
        hooked = self._captured if pipeline is self._pipelines[-1] else pipeline.layout.hook_groups
        return [*pipeline.stages.fused_groups, *hooked]

    def update(self) -> None:
        """Record that parameters changed. The graphs stay: kernels read parameters and flags from the device."""
        for pipeline in self._pipelines:
            pipeline.stages.update_held()

    def step(self) -> None:
        """Run the hooks that are not in the graphs. If one raises, the error is raised after the other classes ran."""
        errors: list[Exception] = []
        for group in self._eager:
            try:
                self._world.run(partial(self._pipelines[-1].stages.run, [group]))
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def reset(self, envs: Envs) -> None:
        """Reset what is not in the graphs, for the envs that the world has just reset."""
        if self._eager:
            envs_reset = ResetEnvs(self._world.mask, None)
            self._world.run(lambda: self._pipelines[-1].stages.restart(envs_reset, self._eager, fused=False))

    def describe(self, group: Group) -> str:
        """Return how the stages of a group run."""
        if self._fast is not None and group in self._fast.groups:
            stages = describe_stages(self._fast.layout, group)
            return stages if stages == "fused" else f"{stages}, in the graph"
        layout = self._pipelines[-1].layout
        if group not in layout.hook_groups:
            return "fused"
        where = "in the graph" if group in self._captured else "after the graph"
        return f"{describe_stages(layout, group)}, {where}"


def _is_own(group: Group) -> bool:
    """Return whether a class belongs to the package. In a conditional node, torch does not recover from a hook that
    cannot be captured, so the hooks of other classes run outside."""
    return str(group.cls.__module__).startswith("sensorium.")
