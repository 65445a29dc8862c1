"""Plans of a step: which calls sense the world, on the CPU and on the GPU.

On the CPU, :class:`CpuPlan` lists the calls of a step once, and merges neighbouring calls that only launch compiled
kernels into one native call (``chain.py``). On the GPU, :class:`GpuPlan` captures them in the CUDA graphs of the world.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from sensorium.pipeline.group import SensorGroup
from sensorium.pipeline.launch import Launch, StepCounter, capture, is_replayable
from sensorium.pipeline.layout import Layout
from sensorium.pipeline.protocols import GraphWorld, GroupSensor, PipelineKernels, ResetEnvs, StagedSensor
from sensorium.pipeline.stages import Stages
from sensorium.worlds import Envs, MujocoWorld, env_ids
from sensorium.worlds.device import is_out_of_memory

if TYPE_CHECKING:
    from sensorium.pipeline.cpu import CpuKernels  # imports Numba

Group = SensorGroup[Any]
Call = Callable[[], None]

_MAX_PLANS = 32
"""Plans that are kept. Each takes about a megabyte of memory, and a tenth of a second to create."""


class StepPlan(Protocol):
    """Calls that step and reset the sensors of a scene, on one engine."""

    step_count: int
    """Steps since build. It can be set on the CPU only."""

    @property
    def on_host(self) -> bool:
        """Whether :meth:`step` has work to do. False if the world's graphs do all of it."""

    def start(self) -> None:
        """Compile or capture everything, and take the first readings."""

    def update(self) -> None:
        """Record that parameters changed."""

    def step(self) -> None:
        """Sense the world after a step."""

    def reset(self, envs: Envs) -> None:
        """Start the sensors of some envs afresh, and take their first readings."""

    def describe(self, group: Group) -> str:
        """Return how the stages of a group run, for ``scene.describe()``."""


class CpuPlan:
    """The calls of a step on the CPU.

    Args:
        world: the engine.
        layout: storage of the sensors.
        stages: runs hooks.
        kernels: runs the generic stages.
        clock: the step count as the kernels read it.
    """

    on_host = True

    def __init__(
        self, world: MujocoWorld, layout: Layout, stages: Stages, kernels: CpuKernels, clock: StepCounter
    ) -> None:
        self._world, self._layout, self._stages, self._kernels = world, layout, stages, kernels
        self._clock = clock
        self._step_count = 0
        self._calls: list[Call] = []  # empty: chosen by the next step
        self._plans: dict[tuple[object, ...], list[Call]] = {}

    @property
    def step_count(self) -> int:
        """Steps since build."""
        return self._step_count

    @step_count.setter
    def step_count(self, count: int) -> None:
        self._step_count = self._clock.cell[0] = count

    def start(self) -> None:
        """Compile the kernels, and take the first readings."""
        self._world.forward()  # fills the fields that hooks have bound since the world was created
        self._compile()
        self.reset(None)
        self._choose()

    def update(self) -> None:
        """Record that parameters changed. The next step chooses its calls, since more changes may follow."""
        self._stages.update_held()
        self._kernels.timed = self._layout.timing_parameters.timed
        self._calls = []

    def step(self) -> None:
        """Sense the world after a step."""
        self._step_count = count = self._step_count + 1
        self._clock.cell[0] = count
        for call in self._calls or self._choose():
            call()

    def reset(self, envs: Envs) -> None:
        """Start the sensors of some envs afresh, and take their first readings."""
        n_envs = self._world.n_envs
        ids = env_ids(envs, n_envs)
        if ids is None:
            ids = np.arange(n_envs, dtype=np.int32)
        if len(ids):
            mask = torch.zeros(n_envs, dtype=torch.bool)
            mask[torch.from_numpy(ids.astype(np.int64))] = True
            self._stages.restart(ResetEnvs(mask, ids), self._layout.hook_groups)

    def describe(self, group: Group) -> str:
        """Return how the stages of a group run."""
        if group in self._layout.raw_groups:
            return "hook, fused, post-process" if group.post_processed else "hook, fused"
        return describe_stages(self._layout, group)

    def _choose(self) -> list[Call]:
        """Return the calls for the current settings, from the kept plans if they were used before."""
        # everything that _list_calls depends on
        idle = tuple(
            self._stages.is_idle(group) for group in self._layout.hook_groups if group.has_hooks and group.in_pipeline
        )
        key = (self._kernels.timed, frozenset(self._stages.held), idle)
        if key not in self._plans:
            if len(self._plans) == _MAX_PLANS:
                del self._plans[next(iter(self._plans))]
            self._plans[key] = self._merge(self._list_calls())
        self._calls = self._plans[key]
        return self._calls

    def _compile(self) -> None:
        """Compile the kernels of steps and resets on all cores, instead of each at its first call."""
        from sensorium.pipeline.chain import prepare

        launches = self._kernels.launches(list(self._layout.blocks.values()))
        if not self._kernels.threaded:
            launches += [one for replayable, call in self._list_calls() if replayable for one in capture(call)]
        prepare(launches)

    def _list_calls(self) -> list[tuple[bool, Call]]:
        """Return the calls of a step in order, each with whether it can be captured and replayed."""
        calls: list[tuple[bool, Call]] = []
        for group in self._layout.raw_groups:
            staged: type[StagedSensor] = group.cls
            raw = staged._update_raw_data
            calls.append((is_replayable(raw), partial(raw, group, group.truth)))
        calls.append((True, self._kernels.step))
        for group in self._layout.hook_groups:
            cls: type[GroupSensor] = group.cls
            if group.has_hooks:
                calls.append((self._are_hooks_replayable(group), partial(self._stages.run_hooks, group)))
            if group.post_processed:
                process = cls._post_process
                replayable = is_replayable(process)
                calls.append((replayable, partial(process, group, group.truth, group.return_truth, False)))
                calls.append((replayable, partial(process, group, group.reading, group.snapshot, True)))
            if group.has_return_storage:
                calls.append((not group.has_delay_hook, partial(self._stages.deliver, group)))
        return calls

    def _merge(self, calls: list[tuple[bool, Call]]) -> list[Call]:
        """Merge neighbouring replayable calls into one native call each."""
        if self._kernels.threaded:  # the work is so large that the cost of calls does not matter
            return [call for _, call in calls]
        from sensorium.pipeline.chain import chain

        merged: list[Call] = []
        for replayable, members in itertools.groupby(calls, key=lambda item: item[0]):
            if replayable:
                launches: list[Launch] = [one for _, call in members for one in capture(call)]
                merged.append(chain(launches))
            else:
                merged += [call for _, call in members]
        return merged

    def _are_hooks_replayable(self, group: Group) -> bool:
        """Return whether everything that a group does before its post-process can be captured and replayed."""
        if not group.in_pipeline or group.has_response or id(group) in self._stages.held:
            return False
        names = ("_update_shared_cache", "_update_raw_data", "_apply_hardware_imperfections")
        return all(is_replayable(getattr(group.cls, name, None)) for name in names)


class GpuPlan:
    """Sensing in the CUDA graphs of the world, as far as the hooks can be captured.

    Args:
        world: the GPU engine.
        layout: storage of the sensors.
        stages: runs hooks.
        kernels: runs the generic stages.
    """

    def __init__(self, world: GraphWorld, layout: Layout, stages: Stages, kernels: PipelineKernels) -> None:
        self._world, self._layout, self._stages, self._kernels = world, layout, stages, kernels
        self._captured: list[Group] = []
        self._eager: list[Group] = []

    @property
    def step_count(self) -> int:
        """Steps since build, as counted by the world."""
        return self._world.step_count

    @step_count.setter
    def step_count(self, count: int) -> None:
        pass  # the graphs count on the device, which cannot be set

    @property
    def on_host(self) -> bool:
        """Whether some hooks run after the graphs."""
        return bool(self._eager)

    def start(self) -> None:
        """Take the first readings, and capture the graphs: with all hooks, or without if they cannot be captured."""
        all_envs = torch.ones(self._world.n_envs, dtype=torch.bool, device=self._world.device)
        self._world.run(lambda: self._stages.restart(ResetEnvs(all_envs, None), self._layout.hook_groups))
        hook_groups = self._layout.hook_groups
        for captured in ([group for group in hook_groups if group.capturable], []):
            self._captured = captured
            self._eager = [group for group in hook_groups if group not in captured]
            self._world.attach(
                self._kernels.step,
                lambda: self._stages.run(self._captured),
                lambda mask: self._stages.restart(ResetEnvs(mask, None), self._captured),
            )
            try:
                self._world.capture()
                return
            except RuntimeError as error:
                if not captured or is_out_of_memory(error):
                    raise
                names = ", ".join(group.cls.__name__ for group in captured)
                warnings.warn(
                    f"the hooks of {names} cannot be captured in a CUDA graph ({error}); they run after it, which is "
                    "slower. Set capturable = False in the class that causes this, so that the others are captured",
                    stacklevel=4,
                )

    def update(self) -> None:
        """Record that parameters changed. The graphs stay: kernels read parameters and flags from the device."""
        self._stages.update_held()

    def step(self) -> None:
        """Run the hooks that are not in the graphs."""
        if self._eager:
            self._world.run(lambda: self._stages.run(self._eager))

    def reset(self, envs: Envs) -> None:
        """Reset what is not in the graphs, for the envs that the world has just reset."""
        if self._eager:
            envs_reset = ResetEnvs(self._world.mask, None)
            self._world.run(lambda: self._stages.restart(envs_reset, self._eager, fused=False))

    def describe(self, group: Group) -> str:
        """Return how the stages of a group run."""
        if group not in self._layout.hook_groups:
            return "fused"
        where = "in the graph" if group in self._captured else "after the graph"
        return f"{describe_stages(self._layout, group)}, {where}"


def describe_stages(layout: Layout, group: Group) -> str:
    """Return which stages of a group are fused and which are hooks."""
    if group not in layout.hook_groups:
        return "fused"
    return "hooks" if group.has_hooks else "fused, post-process"
