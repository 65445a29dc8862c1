"""Blocks of storage: all columns of one dtype, and the tables that say what each column is.

A column is one scalar of one sensor. A :class:`ColumnBlock` holds the intermediate columns of one dtype, a
:class:`PostBlock` the return columns of one dtype after ``_post_process``. Both have a ``DeliveryStore`` with the
rings, caches and histories of their groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import mujoco
import numpy as np
import torch

from sensorium.pipeline import formula
from sensorium.pipeline.flags import (
    COLUMN_NAMES,
    GATHER_COPY,
    GATHER_NONE,
    GATHER_ROTATE,
    GATHER_SUM,
    GATHER_TIME,
    RETURN_NAMES,
)
from sensorium.pipeline.group import SensorGroup
from sensorium.pipeline.parameters import ColumnParameters
from sensorium.pipeline.protocols import GroupSensor
from sensorium.pipeline.slots import Slots
from sensorium.pipeline.storage import ColumnStore, DeliveryStore
from sensorium.worlds import World


@dataclass(frozen=True)
class SignalSource:
    """The raw signal of one column, taken from the engine's sensors.

    Attributes:
        sensors: names of engine sensors. The values of several are summed.
        component: index of the element of each engine sensor, or several indices, whose values are summed.
        frame: name of an engine sensor that returns a quaternion, or None. With a frame, the first three elements of
            each engine sensor are a vector in the world frame, and the column is component ``component`` of the sum of
            these vectors, expressed in that frame.
    """

    sensors: tuple[str, ...]
    component: int | tuple[int, ...] = 0
    frame: str | None = None


@dataclass
class ColumnBlock:
    """The columns of one dtype: fused groups first, then groups whose stages run as hooks.

    Attributes:
        store: tensors of the columns.
        parameters: writes the imperfection parameters of the columns.
        groups: the groups, in the order of their columns.
        fused: columns [0, fused) go through the fused step, the others through hooks.
        delivery: return storage of the groups without a post-process.
        fused_rows: return rows [0, fused_rows) of ``delivery`` belong to fused columns.
    """

    store: ColumnStore
    parameters: ColumnParameters
    groups: list[SensorGroup[Any]]
    fused: int
    delivery: DeliveryStore
    fused_rows: int


@dataclass
class PostBlock:
    """Return storage of the groups of one return dtype whose readings are not columns of a block: those with a
    post-process, and those with a dtype that columns cannot have.

    Attributes:
        delivery: rings, caches and histories.
        snapshot: measured values after the post-process, if there is one, (return columns, B).
        truth: the same of ground truth.
        groups: the groups, in the order of their return columns.
    """

    delivery: DeliveryStore
    snapshot: torch.Tensor
    truth: torch.Tensor
    groups: list[SensorGroup[Any]]


class GroupSnapshots(NamedTuple):
    """The snapshots of this step that a group delivers, and the storage that they are delivered to."""

    delivery: DeliveryStore
    measured: torch.Tensor
    truth: torch.Tensor


def build_column_block(
    groups: Sequence[SensorGroup[Any]], rows: Mapping[str, int], world: World, seed: int, dt: float
) -> ColumnBlock:
    """Allocate the block of the groups of one column dtype, and set their tensors.

    Args:
        groups: groups of one dtype, with ``slices`` assigned.
        rows: uuid -> row of the sensor in the timing arrays.
        world: the engine that the raw signals come from.
        seed: the scene's seed.
        dt: seconds of one tick.
    """
    groups = sorted(groups, key=lambda group: group.has_hooks)  # a stable sort: fused groups first
    dtype, n_envs, device = groups[0].column_dtype, world.n_envs, world.device
    table, sources, keys, n_mixed, n_extra = _column_tables(groups, rows, world, seed)
    store = ColumnStore.allocate(table, sources, keys, n_mixed, n_extra, n_envs, dtype, device)
    store.mix.copy_(torch.eye(3).repeat(n_mixed // 3, 1)[:, :, None])
    for group in groups:
        group.truth, group.reading = store.truth[group.columns], store.reading[group.columns]
        if group.has_hooks:
            group.before = torch.zeros_like(group.truth)
        if group.is_converted:
            group.truth, group.reading = (torch.zeros_like(group.truth, dtype=group.dtype) for _ in range(2))
        if group.has_hooks:
            group.scratch = torch.zeros_like(group.truth)
    stored = [group for group in groups if group.has_return_storage and not group.returns_apart]
    return ColumnBlock(
        store=store,
        parameters=ColumnParameters(store, dt),
        groups=groups,
        fused=sum(group.n_columns for group in groups if not group.has_hooks),
        delivery=build_delivery(stored, [group.columns.start for group in stored], rows, world, dtype),
        fused_rows=sum(group.n_returns for group in stored if not group.has_hooks),
    )


def _column_tables(
    groups: Sequence[SensorGroup[Any]], rows: Mapping[str, int], world: World, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int, int]:
    """Assign columns to groups; return column table, gather sources, random keys, and the numbers of mixed columns and
    of columns with further imperfections."""
    total = 0
    for group in groups:
        group.columns = slice(total, total + group.columns.stop)
        total = group.columns.stop
    table = np.zeros((total, len(COLUMN_NAMES)), np.int32)
    fields = {name: table[:, i] for i, name in enumerate(COLUMN_NAMES)}
    fields["mix_row"][:] = fields["extra_row"][:] = -1
    keys = np.zeros((total, 2), np.uint32)
    sources = [0]
    n_mixed = n_extra = 0
    for group in groups:
        sensor: GroupSensor
        for sensor, part in zip(group.sensors, group.slices, strict=True):
            first = group.columns.start + part.start
            here = slice(first, group.columns.start + part.stop)
            fields["sensor"][here] = rows[sensor.uuid]
            keys[here] = [formula.key(seed, sensor.uuid, i) for i in range(part.stop - part.start)]
            _fill_gather_fields(fields, here, sensor._sources(), sources, world)
            for extra in sensor._extra_parts():
                columns, count = slice(first + extra.start, first + extra.stop), extra.stop - extra.start
                fields["extra_row"][columns] = np.arange(n_extra, n_extra + count)
                n_extra += count
            for triad in sensor._mixed_parts():
                columns = slice(first + triad.start, first + triad.stop)
                fields["mix_row"][columns] = np.arange(n_mixed, n_mixed + 3)
                fields["mix_first"][columns] = columns.start
                n_mixed += 3
    return table, np.asarray(sources, np.int32), keys, n_mixed, n_extra


def _fill_gather_fields(
    fields: dict[str, np.ndarray],
    here: slice,
    signals: list[SignalSource] | None,
    sources: list[int],
    world: World,
) -> None:
    """Fill the gather fields of columns ``here``, and append the addresses of their signals to ``sources``."""
    if signals is None:
        fields["op"][here] = GATHER_NONE
        return
    model = world.model
    for column, signal in zip(range(here.start, here.stop), signals, strict=True):
        components = signal.component if isinstance(signal.component, tuple) else (signal.component,)
        offsets = (0,) if signal.frame else components
        addresses = [int(model.sensor(name).adr[0]) + offset for name in signal.sensors for offset in offsets]
        fields["first"][column], fields["count"][column] = len(sources), len(addresses)
        sources += addresses
        if signal.frame:
            fields["op"][column] = GATHER_ROTATE
            fields["quat"][column], fields["axis"][column] = int(model.sensor(signal.frame).adr[0]), components[0]
        elif world.is_gpu and model.sensor(signal.sensors[0]).type == mujoco.mjtSensor.mjSENS_CLOCK:
            fields["op"][column] = GATHER_TIME
        else:
            fields["op"][column] = GATHER_COPY if len(addresses) == 1 else GATHER_SUM


def build_post_block(groups: Sequence[SensorGroup[Any]], rows: Mapping[str, int], world: World) -> PostBlock:
    """Allocate the block of the groups of one return dtype that are not in a column block, and set their tensors."""
    dtype = groups[0].return_dtype
    firsts = np.cumsum([0, *(group.n_returns for group in groups)]).tolist()
    shape = (firsts[-1], world.n_envs)
    snapshot, truth = (torch.zeros(shape, dtype=dtype, device=world.device) for _ in range(2))
    for group, first in zip(groups, firsts, strict=False):
        own = slice(first, first + group.n_returns)
        group.snapshot, group.return_truth = snapshot[own], truth[own]
        if not group.post_processed:
            group.reading, group.truth = group.snapshot, group.return_truth
    stored = [(group, first) for group, first in zip(groups, firsts, strict=False) if group.has_return_storage]
    delivery = build_delivery([group for group, _ in stored], [first for _, first in stored], rows, world, dtype)
    return PostBlock(delivery, snapshot, truth, list(groups))


def build_delivery(
    groups: Sequence[SensorGroup[Any]],
    first_source: Sequence[int],
    rows: Mapping[str, int],
    world: World,
    dtype: torch.dtype,
) -> DeliveryStore:
    """Allocate rings, caches and histories, and set those of each group.

    Args:
        groups: groups with return storage.
        first_source: row of each group's first snapshot, in the tensor that snapshots are delivered from.
        rows: uuid -> row of the sensor in the timing arrays.
        world: the engine.
        dtype: dtype of the return columns.
    """
    table = np.zeros((sum(group.n_returns for group in groups), len(RETURN_NAMES)), np.int32)
    fields = {name: table[:, i] for i, name in enumerate(RETURN_NAMES)}
    start = ring_rows = history_rows = 0
    for group, first in zip(groups, first_source, strict=True):
        count = group.n_returns
        local = np.arange(count)
        here = slice(start, start + count)
        group.delivery_rows = here
        fields["source"][here] = first + local
        fields["stride"][here] = count
        fields["ring_slots"][here] = group.ring_slots
        fields["ring_first"][here] = ring_rows + local if group.ring_slots else -1
        group.ring_first = ring_rows
        ring_rows += group.ring_slots * count
        length = group.history_length
        fields["history_length"][here] = length
        fields["history_first"][here] = history_rows + local if length else -1
        group.history_first = history_rows
        history_rows += 2 * length * count
        sensor: GroupSensor
        for sensor, part in zip(group.sensors, group.return_slices, strict=True):
            columns = slice(start + part.start, start + part.stop)
            fields["sensor"][columns] = rows[sensor.uuid]
            fields["linear"][columns] = sensor.options.interpolate
        start += count
    store = DeliveryStore.allocate(table, ring_rows, history_rows, world.n_envs, dtype, world.device)
    for group in groups:
        count, length = group.n_returns, group.history_length
        group.cache = store.cache[group.delivery_rows]
        ring = store.ring[group.ring_first : group.ring_first + group.ring_slots * count]
        group.ring = Slots(ring.view(group.ring_slots, count, world.n_envs), group)
        history = slice(group.history_first, group.history_first + 2 * length * count)
        group.history = store.history[history].view(2 * length, count, world.n_envs)
        group.truth_history = store.truth_history[history].view(2 * length, count, world.n_envs)
    return store
