"""The stages of sensor groups that have hooks: in a step, and in a reset of some envs.

Order per tick: raw -> physics imperfections -> transform (response) -> hardware imperfections -> post-process -> return
ring -> delay sampling -> return cache. Classes that override none of the first four run in one fused kernel per dtype
instead. The hooks of the others run once per tick, for all sensors of the class and all envs at once. A tick is a
step, or a substep for sensors that are captured at substeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch

from sensorium.pipeline.flags import HELD
from sensorium.pipeline.group import SensorGroup
from sensorium.pipeline.hold import SampleHold, does_hold_output
from sensorium.pipeline.layout import Layout
from sensorium.pipeline.protocols import GroupSensor, PipelineKernels, ResetEnvs, StagedSensor
from sensorium.pipeline.run_hook import run_hook
from sensorium.pipeline.window import SignalMean
from sensorium.worlds import World

Group = SensorGroup[Any]


class Stages:
    """Runs hooks, post-process and delivery of groups, over the storage of a layout.

    Attributes:
        resetting: the envs of the reset that is under way; None in a tick.
        held: ``id(group)`` of the groups with hooks or a post-process whose readings may have to be held because a
            sensor has a rate, drop-outs or sticks.
        fused_groups: the groups of which only ``_reset_group`` is not done by the fused kernels.
    """

    def __init__(self, world: World, layout: Layout, kernels: PipelineKernels) -> None:
        self.resetting: ResetEnvs | None = None
        self.held: set[int] = set()
        self._is_gpu = world.is_gpu
        self._layout = layout
        self._kernels = kernels
        self._windows: dict[int, SignalMean] = {}
        # the fused kernel holds the readings of the other groups
        self._hooked_rows = {
            id(group): [layout.rows[sensor.uuid] for sensor in group.sensors] for group in layout.hook_groups
        }
        self._holds = {
            id(group): SampleHold(group, self._hooked_rows[id(group)], layout.timing.due, world.is_gpu)
            for group in layout.hook_groups
            if group.post_processed and not does_hold_output(group.cls._post_process)
        }
        self.fused_groups = [
            group
            for group in layout.groups
            if group.in_pipeline and group not in layout.hook_groups and group not in layout.raw_groups
        ]

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
                for is_measured in (False, True):
                    self.post_process(group, is_measured)
            if group.has_return_storage:
                self.deliver(group)

    def run_hooks(self, group: Group, may_raise: bool = False) -> None:
        """Fill both branches of a group by its hooks; hold the reading where no sample is due.

        Args:
            group: the group.
            may_raise: whether to keep the reading if a hook raises, at the cost of a copy.
        """
        cls: type[GroupSensor] = group.cls
        if not group.in_pipeline:
            run_hook(cls._update_shared_cache, group, group.truth, group.reading)
            return
        held = self.resetting is None and id(group) in self.held
        measured = group.scratch if held or may_raise else group.reading
        if self.resetting is None:
            for timeline in group.timelines:
                timeline.advance()
        run_hook(cls._update_shared_cache, group, group.truth, measured)
        if held:
            due = self._layout.timing.due
            for row, part in zip(self._hooked_rows[id(group)], group.slices, strict=True):
                torch.where(due[row], measured[part], group.reading[part], out=group.reading[part])
        elif may_raise:
            group.reading.copy_(measured)

    def post_process(self, group: Group, is_measured: bool) -> None:
        """Fill the snapshot of one branch; on the measured branch, hold it where no sample is due."""
        cls: type[GroupSensor] = group.cls
        if not is_measured:
            run_hook(cls._post_process, group, group.truth, group.return_truth, False)
            return
        measure = partial(cls._post_process, group, group.reading, group.snapshot, True)
        if self.resetting is None and id(group) in self.held and id(group) in self._holds:
            self._holds[id(group)](measure)
        else:
            measure()

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
        run_hook(cls._apply_delay, group, group.ring, group.cache)

    def serve(self, group: Group, out: torch.Tensor) -> None:
        """Fill ``out`` (return columns, B) with the samples that have arrived: the default of ``_apply_delay``."""
        snapshots = self._layout.snapshots(group)
        kept = group.cache.clone() if out is not group.cache else None
        self._kernels.deliver(snapshots, group.delivery_rows, serve=True, remember=False)
        if kept is not None:
            out.copy_(group.cache)
            group.cache.copy_(kept)

    # -- the generic stages, for hooks --------------------------------------------------------------------------------

    def gather(self, group: Group, out: torch.Tensor) -> None:
        """Write the raw signals of one group to ``out``."""
        block = self._layout.block(group)
        self._kernels.gather(block, group)
        if group.is_converted:
            out.copy_(block.store.truth[group.columns])
        elif out.data_ptr() != group.truth.data_ptr():
            self._kernels.copy(group.truth, out)

    def copy(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Copy one of the groups' own tensors to another."""
        self._kernels.copy(source, target)

    def average(self, group: Group, data: torch.Tensor) -> None:
        """Replace averaged columns of ``data`` by their mean since the last sample, in place."""
        if id(group) not in self._windows:
            self._windows[id(group)] = self._make_window(group)
        window = self._windows[id(group)]
        if self.resetting is not None:  # the first sample is the signal of now
            window.restart(self.resetting.mask)
        elif group.is_converted:
            mean = data.to(group.column_dtype)
            window.average(mean)
            data.copy_(mean)
        else:
            window.average(data)

    def _make_window(self, group: Group) -> SignalMean:
        rows = [self._layout.rows[sensor.uuid] for sensor in group.sensors]
        widths = [part.stop - part.start for part in group.slices]
        averaged = [getattr(sensor.options, "window", "instant") == "mean" for sensor in group.sensors]
        return SignalMean(
            np.repeat(rows, widths).tolist(),
            np.repeat(averaged, widths).tolist(),
            self._layout.timing.due,
            group.column_dtype,
            self._is_gpu,
        )

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
        block, before, out = self._layout.block(group), group.before, data
        if group.is_converted:
            out = block.store.reading[group.columns]
            before.copy_(data)
            out.copy_(data)
        else:
            self._kernels.copy(data, before)
        if self.resetting is None:
            self._kernels.hardware(block, group, before, out)
        else:
            self._kernels.reset_hardware(block, group, before, out, self.resetting)
        if out is not data:
            data.copy_(out)

    # -- a reset ------------------------------------------------------------------------------------------------------

    def restart(self, envs: ResetEnvs, groups: Sequence[Group], fused: bool = True) -> None:
        """Take the first sample of the reset envs, in ``groups`` and, with ``fused``, in all fused columns.

        Every group in the pipeline has its states cleared and its ``_reset_group`` called once.
        """
        self.resetting = envs
        errors: list[Exception] = []
        reset = partial(self._try_reset, envs, errors)
        try:
            if fused:
                self._kernels.reset_timing(envs)
                for group in self._layout.raw_groups:
                    reset(group, partial(self._reset_raw, group, envs.mask))
                for block in self._layout.blocks.values():
                    self._kernels.reset_fused(block, envs)
            for group in groups:
                reset(group, partial(self._reset_stages, group, envs))
        finally:
            self.resetting = None
        if errors:
            raise errors[0]

    def _try_reset(self, envs: ResetEnvs, errors: list[Exception], group: Group, call: Callable[[], None]) -> None:
        """Reset a group. If a hook raises, the sensors of the reset envs read 0, and the other groups go on.

        On the GPU the error is raised at once: it has ended the capture of a graph.
        """
        try:
            call()
        except Exception as error:
            if self._is_gpu:
                raise
            errors.append(error)
            if group.in_pipeline:
                for tensor in (group.truth, group.reading, group.return_truth, group.snapshot):
                    tensor.masked_fill_(envs.mask, 0)
                if group.has_return_storage:
                    self._kernels.reset_delivery(self._layout.snapshots(group), group.delivery_rows, envs)

    def _reset_stages(self, group: Group, envs: ResetEnvs) -> None:
        """Clear the states of a group, and take the first sample of its hooks, if it has some, in the reset envs."""
        if group in self.fused_groups:
            self._reset_states(group, envs.mask)
            return
        if group.has_hooks:
            self._reset_hooks(group, envs.mask)
        elif group not in self._layout.raw_groups:
            self._reset_states(group, envs.mask)
        if group.in_pipeline:
            self._reset_returns(group, envs)

    def _reset_raw(self, group: Group, mask: torch.Tensor) -> None:
        """Compute the raw signal for all envs, as in a tick, and keep it in the reset envs only."""
        with _kept(group, [group.truth], mask):
            self._reset_states(group, mask)
            cls: type[StagedSensor] = group.cls
            run_hook(cls._update_raw_data, group, group.truth)

    def _reset_hooks(self, group: Group, mask: torch.Tensor) -> None:
        """Run the hooks for all envs, as in a tick, and keep their results in the reset envs only."""
        cls: type[GroupSensor] = group.cls
        if not group.in_pipeline:
            cls._reset_group(group, mask)
            return
        with _kept(group, [*(line.ring for line in group.timelines), group.truth, group.reading], mask):
            self._reset_states(group, mask)
            for line in group.timelines:
                line.ring.masked_fill_(mask, 0)
            self.run_hooks(group)
            group.rest_timelines()

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
            with _kept(group, [group.return_truth, group.snapshot], mask):
                for out, data in ((group.return_truth, group.truth), (group.snapshot, group.reading)):
                    rest = data.to(out.dtype) if out.shape == data.shape else torch.zeros_like(out)
                    out.copy_(torch.where(mask, rest, out))
                for is_measured in (False, True):
                    self.post_process(group, is_measured)
        if group.has_return_storage:
            self._kernels.reset_delivery(self._layout.snapshots(group), group.delivery_rows, envs)
        if group.has_delay_hook:
            before = group.cache.clone()
            self._apply_delay(group)
            group.cache.copy_(torch.where(mask, group.cache, before))
            group.history.copy_(torch.where(mask, group.cache, group.history))


@contextmanager
def _kept(group: Group, tensors: Sequence[torch.Tensor], mask: torch.Tensor) -> Iterator[None]:
    """Undo changes of ``tensors`` and of the group's states in the envs that are not in ``mask``."""
    states = [state for state, _ in group.states()]
    saved = [(tensor, tensor.clone()) for tensor in (*tensors, *states)]
    try:
        yield
    finally:  # also if a hook raised
        for tensor, old in saved:
            tensor.copy_(torch.where(mask, tensor, old))
