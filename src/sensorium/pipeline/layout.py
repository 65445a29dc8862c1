"""The layout of a scene's sensors: groups, their columns, and the storage of every block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from sensorium.errors import OptionError
from sensorium.pipeline import formula
from sensorium.pipeline.blocks import (
    ColumnBlock,
    GroupSnapshots,
    PostBlock,
    build_column_block,
    build_post_block,
)
from sensorium.pipeline.group import SensorGroup
from sensorium.pipeline.memory_check import check_sensor_memory
from sensorium.pipeline.protocols import Format, GroupSensor
from sensorium.pipeline.storage import COLUMN_DTYPES, TimingStore
from sensorium.pipeline.timing import TimingParameters
from sensorium.worlds import World

_NOT_ON_GPU = (torch.uint16, torch.uint32, torch.uint64)
"""Return dtypes that the Warp kernels do not have."""


class Ticks(NamedTuple):
    """When the sensors of a pipeline are captured: at the end of every step, or of every substep."""

    dt: float
    """Seconds of one tick."""
    per_step: int
    """Ticks in one step."""


@dataclass
class Layout:
    """Everything that the pipeline allocates for the sensors of one scene.

    Attributes:
        groups: one per sensor class.
        rows: uuid -> row of the sensor in the timing arrays.
        timing: tensors of rate, delay, jitter and drop-outs, one row per sensor.
        timing_parameters: checks and writes ``timing``.
        blocks: float32 and float64 -> its columns.
        posts: return dtype -> return storage of the groups whose readings are not columns of a block.
        raw_groups: groups that compute their raw signal in a hook and then go through the fused step.
        hook_groups: groups that have hooks or a post-process of their own after or instead of the fused step.
    """

    groups: list[SensorGroup[Any]]
    rows: dict[str, int]
    timing: TimingStore
    timing_parameters: TimingParameters
    blocks: dict[torch.dtype, ColumnBlock]
    posts: dict[torch.dtype, PostBlock]
    raw_groups: list[SensorGroup[Any]]
    hook_groups: list[SensorGroup[Any]]

    def block(self, group: SensorGroup[Any]) -> ColumnBlock:
        """Return the block that holds the columns of a group."""
        return self.blocks[group.column_dtype]

    def snapshots(self, group: SensorGroup[Any]) -> GroupSnapshots:
        """Return what a group delivers from and to."""
        if group.returns_apart:
            post = self.posts[group.return_dtype]
            return GroupSnapshots(post.delivery, post.snapshot, post.truth)
        block = self.block(group)
        return GroupSnapshots(block.delivery, block.store.reading, block.store.truth)


def build_layout(
    groups: Sequence[SensorGroup[Any]], sensors: Sequence[GroupSensor], world: World, seed: int, ticks: Ticks
) -> Layout:
    """Check the groups, assign their columns and allocate their storage.

    Args:
        groups: the sensors by class.
        sensors: all sensors, in the order in which they were added.
        world: the engine.
        seed: the scene's seed.
        ticks: when the sensors are captured.

    Raises:
        OptionError: a class cannot run on this device, its formats and dtypes contradict each other, or there is too
            little memory.
    """
    for group in groups:
        _check_device(group, world)
    piped = [group for group in groups if group.in_pipeline]
    for group in piped:
        _check_dtypes(group, world)
        _assign_columns(group)
    rows = {sensor.uuid: row for row, sensor in enumerate(sensors)}
    for group in groups:
        group.ring_slots = _ring_slots(group, ticks)
    check_sensor_memory(groups, world, ticks.dt)
    delayed = [sensor.max_delay > 0 or ticks.per_step > 1 for sensor in sensors]
    timing = _build_timing(groups, sensors, delayed, seed, world)
    blocks = {}
    for dtype in dict.fromkeys(group.column_dtype for group in piped):
        members = [group for group in piped if group.column_dtype == dtype]
        blocks[dtype] = build_column_block(members, rows, world, seed, ticks.dt)
    posts = {}
    apart = [group for group in piped if group.returns_apart]
    for dtype in dict.fromkeys(group.return_dtype for group in apart):
        members = [group for group in apart if group.return_dtype == dtype]
        posts[dtype] = build_post_block(members, rows, world)
    for group in piped:
        _alias_returns(group)
        if world.device.type == "cpu":
            group.keep_arrays()
    return Layout(
        groups=list(groups),
        rows=rows,
        timing=timing,
        timing_parameters=TimingParameters(
            timing,
            [sensor.max_delay for sensor in sensors],
            delayed,
            [sensor.options.interpolate for sensor in sensors],
            ticks.dt,
        ),
        blocks=blocks,
        posts=posts,
        raw_groups=[group for group in groups if group.has_raw_hook and not group.has_hooks],
        hook_groups=[group for group in groups if group.has_hooks or group.post_processed],
    )


def n_columns(shape: Format) -> int:
    """Return the number of scalars in a format: a shape, or a dict of shapes."""
    shapes = shape.values() if isinstance(shape, dict) else [shape]
    return sum(int(np.prod(one, dtype=int)) for one in shapes)


def _check_device(group: SensorGroup[Any], world: World) -> None:
    if group.cls.cpu_only and world.is_gpu:
        raise OptionError(
            f"{group.cls.options_type.__name__} needs the CPU engine and cannot run on {world.device}. Build with "
            f"device='cpu', or remove the sensor {group.sensors[0].uuid!r}"
        )


def _check_dtypes(group: SensorGroup[Any], world: World) -> None:
    for sensor in group.sensors:
        sensor._check_format()
    if not group.post_processed and group.return_dtype != group.dtype:
        raise OptionError(
            f"{group.cls.__name__}: _get_cache_dtype is {group.return_dtype} but _get_intermediate_dtype is "
            f"{group.dtype}, so the class must override _post_process"
        )
    if any(sensor.options.interpolate for sensor in group.sensors) and group.return_dtype not in COLUMN_DTYPES:
        raise OptionError(
            f"{group.cls.options_type.__name__}.interpolate: readings of dtype {group.return_dtype} cannot be "
            "interpolated; omit this option"
        )
    if world.is_gpu and group.return_dtype in _NOT_ON_GPU:
        raise OptionError(
            f"{group.cls.__name__}: readings of dtype {group.return_dtype} are not supported on a GPU; return a signed "
            "integer dtype from _get_cache_dtype, or build with device='cpu'"
        )


def _assign_columns(group: SensorGroup[Any]) -> None:
    """Give every sensor its intermediate and return columns within its group."""
    start = return_start = 0
    sensor: GroupSensor
    for sensor in group.sensors:
        columns = n_columns(sensor._get_intermediate_format())
        returns = n_columns(sensor._get_return_format())
        if columns != returns and not group.post_processed:
            raise OptionError(
                f"{group.cls.__name__}: intermediate and return formats differ ({columns} and {returns} scalars), so "
                "the class must override _post_process"
            )
        group.slices.append(slice(start, start + columns))
        group.return_slices.append(slice(return_start, return_start + returns))
        start, return_start = start + columns, return_start + returns
    group.columns = slice(0, start)


def _ring_slots(group: SensorGroup[Any], ticks: Ticks) -> int:
    """Return the length of the ring of a group: the ticks that a sample can be in flight, and those of a step in which
    it may have arrived."""
    max_lag = max(formula.delay_slots(sensor.max_delay, ticks.dt) for sensor in group.sensors)
    if not group.has_ring and (group.in_pipeline or max_lag == 0):  # cameras have sample times, and frames of their own
        return 0
    return max(max_lag + ticks.per_step, 2)


def _build_timing(
    groups: Sequence[SensorGroup[Any]], sensors: Sequence[GroupSensor], delayed: Sequence[bool], seed: int, world: World
) -> TimingStore:
    keys = [formula.key(seed, sensor.uuid, formula.TIMING) for sensor in sensors]
    lengths = {sensor.uuid: group.ring_slots for group in groups for sensor in group.sensors}
    slots = [lengths[sensor.uuid] if ring else 0 for sensor, ring in zip(sensors, delayed, strict=True)]
    return TimingStore.allocate(slots, np.asarray(keys, np.uint32).reshape(-1, 2), world.n_envs, world.device)


def _alias_returns(group: SensorGroup[Any]) -> None:
    """Let the cache of a group without return storage be its part of the working buffer or of the snapshots."""
    if not group.post_processed:
        group.snapshot, group.return_truth = group.reading, group.truth
    if not group.has_return_storage:
        group.cache = group.snapshot
