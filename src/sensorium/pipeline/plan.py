"""Plans of a step: which calls sense the world, on the CPU and on the GPU.

On the CPU, :class:`CpuPlan` lists the calls of a tick once, and merges neighbouring calls that only launch compiled
kernels into one native call (``chain.py``). On the GPU, :class:`GpuPlan` captures them in the CUDA graphs of the world.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import torch

from sensorium.errors import OptionError
from sensorium.pipeline.group import SensorGroup
from sensorium.pipeline.launch import Launch, capture, is_replayable
from sensorium.pipeline.layout import Layout
from sensorium.pipeline.protocols import GraphWorld, GroupSensor, ResetEnvs, StagedSensor
from sensorium.pipeline.tick_pipeline import TickPipeline
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

    @property
    def on_host(self) -> bool:
        """Whether :meth:`step` has work to do. False if the world's graphs do all of it."""

    def start(self) -> None:
        """Compile or capture everything, and take the first readings."""

    def update(self) -> None:
        """Record that parameters changed."""

    def step(self) -> None:
        """Sense the world after a step, and so after its last substep."""

    def reset(self, envs: Envs) -> None:
        """Start the sensors of some envs afresh, and take their first readings."""

    def describe(self, group: Group) -> str:
        """Return how the stages of a group run, for ``scene.describe()``."""


class CpuPlans:
    """The plans of all pipelines on the CPU.

    Args:
        world: the engine.
        pipelines: the pipeline of substeps, if there is one, and that of steps.
    """

    on_host = True

    def __init__(self, world: MujocoWorld, pipelines: Sequence[TickPipeline]) -> None:
        self._plans = [CpuPlan(world, pipeline) for pipeline in pipelines]
        self._of = {id(group): plan for plan in self._plans for group in plan.pipeline.groups}
        fast = [plan for plan in self._plans if plan.pipeline.ticks.per_step > 1]
        self._errors: list[BaseException] = []
        world.on_substep = partial(self._try, fast[0]) if fast else None

    def start(self) -> None:
        """Compile the kernels, and take the first readings."""
        for plan in self._plans:
            plan.start()

    def update(self) -> None:
        """Record that parameters changed."""
        for plan in self._plans:
            plan.update()

    def step(self) -> None:
        """Sense the world after a step. An error of a hook is raised after all sensors were sensed."""
        for plan in self._plans:
            self._try(plan)
        errors, self._errors = self._errors, []
        if errors:
            raise errors[0]

    def _try(self, plan: CpuPlan) -> None:
        """Sense the world after a tick, and keep errors: a substep that raised would stop the physics half-way."""
        try:
            plan.step()
        except Exception as error:
            self._errors.append(error)

    def reset(self, envs: Envs) -> None:
        """Start the sensors of some envs afresh, and take their first readings."""
        for plan in self._plans:
            plan.reset(envs)

    def describe(self, group: Group) -> str:
        """Return how the stages of a group run."""
        return self._of[id(group)].describe(group)


class CpuPlan:
    """The calls of a tick of one pipeline on the CPU.

    Args:
        world: the engine.
        pipeline: the sensors.
    """

    def __init__(self, world: MujocoWorld, pipeline: TickPipeline) -> None:
        self.pipeline = pipeline
        self._world, self._layout, self._stages = world, pipeline.layout, pipeline.stages
        self._kernels = cast("CpuKernels", pipeline.kernels)
        self._clock = pipeline.clock
        self._calls: list[Call] = []  # empty: chosen by the next tick
        self._plans: dict[tuple[object, ...], list[Call]] = {}
        self._failures: list[tuple[Group, torch.Tensor, Exception]] = []

    def start(self) -> None:
        """Compile the kernels, and take the first readings."""
        self._world.forward()  # fills the fields that hooks have bound since the world was created
        self._compile()
        self.reset(None)
        self._choose()

    def update(self) -> None:
        """Record that parameters changed. The next tick chooses its calls, since more changes may follow."""
        self._stages.update_held()
        self._calls = []

    def step(self) -> None:
        """Sense the world after a tick. If a hook raises, the sensors of its class keep their readings, and the
        error is raised after all other calls were made."""
        pipeline = self.pipeline
        pipeline.tick_count = count = pipeline.tick_count + 1
        self._clock.cell[0] = count
        for call in self._calls or self._choose():
            call()
        if self._failures:
            self._hold_failed()

    def _guarded(self, group: Group, call: Call) -> None:
        """Make a call of a hook, and keep its error and what the group read before."""
        try:
            call()
        except Exception as error:
            before = group.ring.at(1) if group.ring is not None and group.ring_slots else group.cache
            self._failures.append((group, before.clone(), error))

    def _hold_failed(self) -> None:
        """Deliver what the groups with a failed hook read before, not what the hook left, and raise its error."""
        failures, self._failures = self._failures, []
        for group, before, _ in failures:
            group.snapshot.copy_(before)
            if group.has_return_storage:
                self._kernels.deliver(self._layout.snapshots(group), group.delivery_rows)
        raise failures[0][2]

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
        key = (frozenset(self._stages.held), idle)
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
        """Return the calls of a tick in order, each with whether it can be captured and replayed."""
        calls: list[tuple[bool, Call]] = [(True, self._kernels.time)]
        for group in self._layout.raw_groups:
            staged: type[StagedSensor] = group.cls
            raw = staged._update_raw_data
            calls.append(self._hook_call(group, is_replayable(raw), partial(raw, group, group.truth)))
        calls.append((True, self._kernels.step))
        for group in self._layout.hook_groups:
            cls: type[GroupSensor] = group.cls
            if group.has_hooks:
                replayable = self._are_hooks_replayable(group)
                run = partial(self._stages.run_hooks, group, may_raise=not replayable)
                calls.append(self._hook_call(group, replayable, run))
            if group.post_processed:
                process = cls._post_process
                replayable = is_replayable(process)
                true = partial(process, group, group.truth, group.return_truth, False)
                measured = partial(process, group, group.reading, group.snapshot, True)
                calls += [self._hook_call(group, replayable, call) for call in (true, measured)]
            if group.has_return_storage:
                calls.append(self._hook_call(group, not group.has_delay_hook, partial(self._stages.deliver, group)))
        return calls

    def _hook_call(self, group: Group, replayable: bool, call: Call) -> tuple[bool, Call]:
        """Return a call with whether it can be replayed. Others run code of the class, which may raise."""
        return replayable, call if replayable else partial(self._guarded, group, call)

    def _merge(self, calls: list[tuple[bool, Call]]) -> list[Call]:
        """Merge neighbouring replayable calls into one native call each."""
        if self._kernels.threaded:  # the work is so large that the cost of calls does not matter
            return [call for _, call in calls]
        from sensorium.pipeline.chain import Calls, chain

        merged: list[Call] = []
        for replayable, members in itertools.groupby(calls, key=lambda item: item[0]):
            if replayable:
                launches: list[Launch] = [one for _, call in members for one in capture(call)]
                # a chain of one kernel, as in a scene with cameras only, saves less than it takes to create
                merged.append(chain(launches) if len(launches) > 1 else Calls(launches))
            else:
                merged += [call for _, call in members]
        return merged

    def _are_hooks_replayable(self, group: Group) -> bool:
        """Return whether everything that a group does before its post-process can be captured and replayed."""
        if not group.in_pipeline or group.is_converted or group.has_response or id(group) in self._stages.held:
            return False
        names = ("_update_shared_cache", "_update_raw_data", "_apply_hardware_imperfections")
        return all(is_replayable(getattr(group.cls, name, None)) for name in names)


class GpuPlan:
    """Sensing in the CUDA graphs of the world, as far as the hooks can be captured.

    Args:
        world: the GPU engine.
        pipelines: the pipeline of substeps, if there is one, and that of steps.

    Raises:
        OptionError: a class cannot be captured, and some of its sensors are captured at substeps.
    """

    def __init__(self, world: GraphWorld, pipelines: Sequence[TickPipeline]) -> None:
        self._world, self._pipelines = world, list(pipelines)
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
        all_envs = torch.ones(self._world.n_envs, dtype=torch.bool, device=self._world.device)
        self._world.run(lambda: self._restart(all_envs, everything=True))
        slow = self._pipelines[-1]
        fast_groups = [] if self._fast is None else self._fast.layout.hook_groups
        hook_groups = slow.layout.hook_groups
        for captured in ([group for group in hook_groups if group.capturable], []):
            self._captured = captured
            self._eager = [group for group in hook_groups if group not in captured]
            on_substep = None if self._fast is None else self._substep
            self._world.attach(self._step, self._after_step, self._restart, on_substep, self._only_engine_signals())
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

    def _restart(self, mask: torch.Tensor, everything: bool = False) -> None:
        envs = ResetEnvs(mask, None)
        for pipeline in self._pipelines:
            groups = self._captured if pipeline is self._pipelines[-1] and not everything else None
            pipeline.stages.restart(envs, pipeline.layout.hook_groups if groups is None else groups)

    def update(self) -> None:
        """Record that parameters changed. The graphs stay: kernels read parameters and flags from the device."""
        for pipeline in self._pipelines:
            pipeline.stages.update_held()

    def step(self) -> None:
        """Run the hooks that are not in the graphs."""
        if self._eager:
            self._world.run(lambda: self._pipelines[-1].stages.run(self._eager))

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


def describe_stages(layout: Layout, group: Group) -> str:
    """Return which stages of a group are fused and which are hooks."""
    if group not in layout.hook_groups:
        return "fused"
    return "hooks" if group.has_hooks else "fused, post-process"
