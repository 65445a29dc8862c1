"""The stages of sensor groups that have hooks: in a step, and in a reset of some envs.

Order per step: raw -> physics imperfections -> transform (response) -> hardware imperfections -> post-process -> return
ring -> delay sampling -> return cache. Classes that override none of the first four run in one fused kernel per dtype
instead. The hooks of the others run once per step, for all sensors of the class and all envs at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from sensorium.pipeline.flags import HELD
from sensorium.pipeline.group import SensorGroup, Slots
from sensorium.pipeline.layout import Layout
from sensorium.pipeline.protocols import GroupSensor, PipelineKernels, ResetEnvs, StagedSensor
from sensorium.worlds import World

Group = SensorGroup[Any]


class Stages:
    """Runs hooks, post-process and delivery of groups, over the storage of a layout.

    Attributes:
        resetting: the envs of the reset that is under way; None in a step.
        held: ``id(group)`` of the groups with hooks whose readings may have to be held because a sensor has a rate,
            drop-outs or sticks.
    """

    def __init__(self, world: World, layout: Layout, kernels: PipelineKernels) -> None:
        self.resetting: ResetEnvs | None = None
        self.held: set[int] = set()
        self._is_gpu = world.is_gpu
        self._layout = layout
        self._kernels = kernels
        # the fused kernel holds the readings of the other groups
        self._hooked_rows = {
            id(group): [layout.rows[sensor.uuid] for sensor in group.sensors]
            for group in layout.hook_groups
            if group.has_hooks
        }

    def update_held(self) -> None:
        """Update ``held`` after timing parameters changed.

        On the GPU every group counts as held: a graph is captured once, and a rate or drop-outs may be set later.
        """
        flags = self._layout.timing_parameters.flags
        self.held = {
            key for key, rows in self._hooked_rows.items() if self._is_gpu or any(flags[row] & HELD for row in rows)
        }

    # -- a step -------------------------------------------------------------------------------------------------------

    def run(self, groups: Sequence[Group]) -> None:
        """Run all stages of groups with hooks."""
        for group in groups:
            if group.has_hooks:
                self.run_hooks(group)
            if group.post_processed:
                self._post_process(group)
            if group.has_return_storage:
                self.deliver(group)

    def run_hooks(self, group: Group) -> None:
        """Fill both branches of a group by its hooks; hold the reading where no sample is due."""
        cls: type[GroupSensor] = group.cls
        if not group.in_pipeline:
            cls._update_shared_cache(group, group.truth, group.reading)
            return
        held = self.resetting is None and id(group) in self.held
        measured = group.scratch if held else group.reading
        if self.resetting is None:
            for timeline in _timelines(group):
                timeline.advance()
        cls._update_shared_cache(group, group.truth, measured)
        if held:
            due = self._layout.timing.due
            for row, part in zip(self._hooked_rows[id(group)], group.slices, strict=True):
                torch.where(due[row], measured[part], group.reading[part], out=group.reading[part])

    def _post_process(self, group: Group) -> None:
        cls: type[GroupSensor] = group.cls
        cls._post_process(group, group.truth, group.return_truth, False)
        cls._post_process(group, group.reading, group.snapshot, True)

    def deliver(self, group: Group) -> None:
        """Write the snapshots of a group to ring, cache and history."""
        snapshots, rows = self._layout.snapshots(group), group.delivery_rows
        if group.has_delay_hook:
            self._kernels.deliver(snapshots, rows, serve=False, remember=False)
            self._apply_delay(group)
            self._kernels.deliver(snapshots, rows, serve=False, remember=True)
        else:
            self._kernels.deliver(snapshots, rows)

    def _apply_delay(self, group: Group) -> None:
        assert group.ring is not None
        cls: type[GroupSensor] = group.cls
        cls._apply_delay(group, group.ring, group.cache)

    # -- the generic stages, for hooks --------------------------------------------------------------------------------

    def gather(self, group: Group, out: torch.Tensor) -> None:
        """Write the raw signals of one group to ``out``."""
        self._kernels.gather(self._layout.block(group), group)
        if out.data_ptr() != group.truth.data_ptr():
            self._kernels.copy(group.truth, out)

    def copy(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Copy one of the groups' own tensors to another."""
        self._kernels.copy(source, target)

    def is_idle(self, group: Group) -> bool:
        """Return whether the hardware stage of a group has nothing to do with the current parameters.

        Always False on the GPU, since a graph is captured once and parameters may be set later, and in a reset.
        """
        if self._is_gpu or self.resetting is not None:
            return False
        return self._layout.block(group).parameters.is_idle(group.columns)

    def imperfect(self, group: Group, data: torch.Tensor) -> None:
        """Apply the generic hardware stage of one group to ``data``, in place."""
        if self.is_idle(group):
            return
        block, before = self._layout.block(group), group.before
        self._kernels.copy(data, before)
        if self.resetting is None:
            self._kernels.hardware(block, group, before, data)
        else:
            self._kernels.reset_hardware(block, group, before, data, self.resetting)

    # -- a reset ------------------------------------------------------------------------------------------------------

    def restart(self, envs: ResetEnvs, groups: Sequence[Group], fused: bool = True) -> None:
        """Take the first sample of the reset envs, in ``groups`` and, with ``fused``, in all fused columns."""
        self.resetting = envs
        try:
            if fused:
                for group in self._layout.raw_groups:
                    self._reset_raw(group, envs.mask)
                for block in self._layout.blocks.values():
                    self._kernels.reset_fused(block, envs)
                self._kernels.reset_timing(envs)
            for group in groups:
                if group.has_hooks:
                    self._reset_hooks(group, envs.mask)
                if group.in_pipeline:
                    self._reset_returns(group, envs)
        finally:
            self.resetting = None

    def _reset_raw(self, group: Group, mask: torch.Tensor) -> None:
        """Compute the raw signal for all envs, as in a step, and keep it in the reset envs only."""
        kept = [group.truth, *(state for state, _ in group.states())]
        saved = [tensor.clone() for tensor in kept]
        self._reset_states(group, mask)
        cls: type[StagedSensor] = group.cls
        cls._update_raw_data(group, group.truth)
        _restore(kept, saved, mask)

    def _reset_hooks(self, group: Group, mask: torch.Tensor) -> None:
        """Run the hooks for all envs, as in a step, and keep their results in the reset envs only."""
        cls: type[GroupSensor] = group.cls
        if not group.in_pipeline:
            cls._reset_group(group, mask)
            return
        timelines = _timelines(group)
        kept = [*(line.ring for line in timelines), group.truth, group.reading, *(state for state, _ in group.states())]
        saved = [tensor.clone() for tensor in kept]
        self._reset_states(group, mask)
        own_update = cls._overrides("_update_shared_cache")
        if timelines:
            # the response starts at rest: its past is filled with the signal of now
            staged: type[StagedSensor] = group.cls
            staged._update_current_timestep_data(group, group.truth, group.scratch)
            for line, now in zip(timelines, (group.truth, group.scratch), strict=True):
                line.ring.copy_(torch.where(mask, now, line.ring))
            if not own_update:
                staged._respond(group, group.truth, group.scratch)
                group.reading.copy_(group.scratch)
        if not timelines or own_update:
            self.run_hooks(group)
        for line in timelines:
            line.ring.copy_(torch.where(mask, line[0].clone(), line.ring))
        _restore(kept, saved, mask)

    @staticmethod
    def _reset_states(group: Group, mask: torch.Tensor) -> None:
        for state, fill in group.states():
            state.masked_fill_(mask, fill)
        cls: type[GroupSensor] = group.cls
        cls._reset_group(group, mask)

    def _reset_returns(self, group: Group, envs: ResetEnvs) -> None:
        """Fill snapshots, ring, cache and history of the reset envs with the first snapshot."""
        mask = envs.mask
        if group.post_processed:
            kept = [group.return_truth, group.snapshot]
            saved = [tensor.clone() for tensor in kept]
            self._post_process(group)
            _restore(kept, saved, mask)
        if group.has_return_storage:
            self._kernels.reset_delivery(self._layout.snapshots(group), group.delivery_rows, envs)
        if group.has_delay_hook:
            before = group.cache.clone()
            self._apply_delay(group)
            group.cache.copy_(torch.where(mask, group.cache, before))
            group.history.copy_(torch.where(mask, group.cache, group.history))


def _timelines(group: Group) -> list[Slots]:
    """The ground-truth and the measured timeline of a class with a response model, else none."""
    return [line for line in (group.truth_timeline, group.measured_timeline) if line is not None]


def _restore(tensors: Sequence[torch.Tensor], saved: Sequence[torch.Tensor], mask: torch.Tensor) -> None:
    """Put saved values back into the envs that are not in ``mask``."""
    for tensor, old in zip(tensors, saved, strict=True):
        tensor.copy_(torch.where(mask, tensor, old))
