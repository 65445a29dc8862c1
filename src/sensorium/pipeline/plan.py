"""Plans of a step: which calls sense the world.

On the CPU, :class:`CpuPlan` lists the calls of a tick once, and merges neighbouring calls that only launch compiled
kernels into one native call (``chain.py``). On the GPU, ``gpu_plan.py`` captures them in the CUDA graphs of the world.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import torch

from sensorium.pipeline.group import SensorGroup
from sensorium.pipeline.launch import Launch, capture, is_replayable
from sensorium.pipeline.layout import Layout
from sensorium.pipeline.lost_samples import LostSamples
from sensorium.pipeline.protocols import GroupSensor, ResetEnvs, StagedSensor
from sensorium.pipeline.tick_pipeline import TickPipeline
from sensorium.worlds import CpuWorld, Envs, env_ids

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

    def __init__(self, world: CpuWorld, pipelines: Sequence[TickPipeline]) -> None:
        self._plans = [CpuPlan(world, pipeline) for pipeline in pipelines]
        self._of = {id(group): plan for plan in self._plans for group in plan.pipeline.groups}
        fast = [plan for plan in self._plans if plan.pipeline.ticks.per_step > 1]
        self._errors: list[BaseException] = []
        world.on_substep = partial(self._try, fast[0].step) if fast else None

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
            self._try(plan.step)
        self._raise()

    def _try(self, call: Call) -> None:
        """Sense the world, and keep errors: a substep that raised would stop the physics half-way."""
        try:
            call()
        except Exception as error:
            self._errors.append(error)

    def _raise(self) -> None:
        errors, self._errors = self._errors, []
        if errors:
            raise errors[0]

    def reset(self, envs: Envs) -> None:
        """Start the sensors of some envs afresh, and take their first readings."""
        for plan in self._plans:
            self._try(partial(plan.reset, envs))
        self._raise()

    def describe(self, group: Group) -> str:
        """Return how the stages of a group run."""
        return self._of[id(group)].describe(group)


class CpuPlan:
    """The calls of a tick of one pipeline on the CPU.

    Args:
        world: the engine.
        pipeline: the sensors.
    """

    def __init__(self, world: CpuWorld, pipeline: TickPipeline) -> None:
        self.pipeline = pipeline
        self._world, self._layout, self._stages = world, pipeline.layout, pipeline.stages
        self._kernels = cast("CpuKernels", pipeline.kernels)
        self._clock = pipeline.clock
        self._calls: list[Call] | None = None  # None: chosen by the next tick
        self._plans: dict[tuple[object, ...], list[Call]] = {}
        self._lost = LostSamples(pipeline.layout)
        self._failures: dict[int, tuple[Group, torch.Tensor, Exception]] = {}
        self._before: dict[int, torch.Tensor] = {}

    def start(self) -> None:
        """Compile the kernels, and take the first readings."""
        self._world.forward()  # fills the fields that hooks have bound since the world was created
        self._compile()
        self.reset(None)
        self._choose()

    def update(self) -> None:
        """Record that parameters changed. The next tick chooses its calls, since more changes may follow."""
        self._stages.update_held()
        self._calls = None

    def step(self) -> None:
        """Sense the world after a tick. If a hook raises, the samples of its class are lost: its sensors keep their
        readings and ground truth, and the error is raised after all other calls were made."""
        pipeline = self.pipeline
        pipeline.tick_count = count = pipeline.tick_count + 1
        self._clock.cell[0] = count
        for call in self._choose() if self._calls is None else self._calls:
            call()
        if self._failures:
            self._hold_failed()

    def _guarded(self, group: Group, changed: torch.Tensor, call: Call) -> None:
        """Make a call of a hook. If it raises, keep its error and what the group read before, and undo what it wrote.

        Args:
            group: the group of the hook.
            changed: the tensor that the hook fills.
            call: the call.
        """
        if id(group) in self._failures:
            return
        kept = self._before.setdefault(id(changed), torch.empty_like(changed))
        kept.copy_(changed)
        try:
            call()
        except Exception as error:
            changed.copy_(kept)
            before = group.ring.at(1) if group.ring is not None and group.ring_slots else group.cache
            self._failures[id(group)] = group, before.clone(), error

    def _hold_failed(self) -> None:
        """Deliver what the groups with a failed hook read before, not what the hook left, and raise its error."""
        failures, self._failures = list(self._failures.values()), {}
        for group, before, _ in failures:
            self._lost.lose(group, self.pipeline.tick_count)
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
            groups = [*self._stages.fused_groups, *self._layout.hook_groups]
            self._stages.restart(ResetEnvs(mask, ids), groups)

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
        launches += [Launch(*call) for call in self._world.free_links.calls()]
        if not self._kernels.threaded:
            launches += [one for replayable, call in self._list_calls() if replayable for one in capture(call)]
        prepare(launches)

    def _list_calls(self) -> list[tuple[bool, Call]]:
        """Return the calls of a tick in order, each with whether it can be captured and replayed."""
        if not self.pipeline.groups:  # all sensors of the scene are captured at substeps
            return []
        calls: list[tuple[bool, Call]] = [(True, self._kernels.time)]
        for group in self._layout.raw_groups:
            staged: type[StagedSensor] = group.cls
            raw = staged._update_raw_data
            call = partial(raw, group, group.truth)
            calls.append(self._hook_call(group, is_replayable(raw), group.truth, call))
        calls.append((True, self._kernels.step))
        for group in self._layout.hook_groups:
            cls: type[GroupSensor] = group.cls
            if group.has_hooks:
                replayable = self._are_hooks_replayable(group)
                run = partial(self._stages.run_hooks, group, may_raise=not replayable)
                calls.append(self._hook_call(group, replayable, group.truth, run))
            if group.post_processed:
                replayable = is_replayable(cls._post_process)
                for is_measured, out in ((False, group.return_truth), (True, group.snapshot)):
                    call = partial(self._stages.post_process, group, is_measured)
                    calls.append(self._hook_call(group, replayable, out, call))
            if group.has_return_storage:
                deliver = partial(self._stages.deliver, group)
                calls.append(self._hook_call(group, not group.has_delay_hook, group.cache, deliver))
        if not all(replayable for replayable, _ in calls):
            calls.insert(0, (False, self._lost.begin))
        return calls

    def _hook_call(self, group: Group, replayable: bool, changed: torch.Tensor, call: Call) -> tuple[bool, Call]:
        """Return a call with whether it can be replayed. Others run code of the class, which may raise."""
        return replayable, call if replayable else partial(self._guarded, group, changed, call)

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


def describe_stages(layout: Layout, group: Group) -> str:
    """Return which stages of a group are fused and which are hooks."""
    if group not in layout.hook_groups:
        return "fused"
    return "hooks" if group.has_hooks else "fused, post-process"
