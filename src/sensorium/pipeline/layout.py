"""From a list of sensors to storage: which column of which block belongs to whom."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import mujoco
import numpy as np
import torch

from sensorium.errors import OptionError
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
from sensorium.pipeline.group import SensorGroup, Slots
from sensorium.pipeline.parameters import ColumnParameters
from sensorium.pipeline.storage import ColumnStore, DeliveryStore, TimingStore


@dataclass(frozen=True)
class SignalSource:
    """Where the raw signal of one column comes from: the engine's sensors, by name.

    Attributes:
        sensors: names of engine sensors; several are summed.
        component: which element of them, or several, which are summed too.
        frame: name of an engine sensor that gives a quaternion: then the (first three elements of the) sensors are
            world-frame vectors, and the column is component ``component`` of their sum in that frame.
    """

    sensors: tuple[str, ...]
    component: int | tuple[int, ...] = 0
    frame: str | None = None


@dataclass
class ColumnBlock:
    """The columns of one intermediate dtype: fused groups first, then those with hooks of their own."""

    store: ColumnStore
    parameters: ColumnParameters
    groups: list[SensorGroup]
    fused: int
    """Columns [0, fused) go through the fused step; the rest through hooks."""
    direct: DeliveryStore | None = None
    """Return storage of groups without a post-process; rows [0, fused_rows) belong to fused columns."""
    fused_rows: int = 0


@dataclass
class PostBlock:
    """Return storage of the groups of one return dtype that have a post-process."""

    delivery: DeliveryStore
    snapshot: torch.Tensor
    truth: torch.Tensor
    groups: list[SensorGroup] = field(default_factory=list)


def n_columns(shape: Any) -> int:
    """Scalars in a format: a shape, or a dict of shapes."""
    shapes = shape.values() if isinstance(shape, dict) else [shape]
    return sum(int(np.prod(one, dtype=int)) for one in shapes)


def assign_columns(groups: Iterable[SensorGroup]) -> None:
    """Give every sensor its intermediate and return columns within its group."""
    for group in groups:
        start = return_start = 0
        for sensor in group.sensors:
            columns = n_columns(sensor._get_intermediate_format())
            returns = n_columns(sensor._get_return_format())
            if columns != returns and not group.post_processed:
                raise OptionError(
                    f"{group.cls.__name__}: intermediate and return formats differ ({columns} and {returns} scalars), "
                    "so the class must override _post_process"
                )
            group.slices.append(slice(start, start + columns))
            group.return_slices.append(slice(return_start, return_start + returns))
            start, return_start = start + columns, return_start + returns
        group.columns = slice(0, start)


def build_block(
    groups: list[SensorGroup],
    rows: dict[str, int],
    model: mujoco.MjModel,
    n_envs: int,
    dt: float,
    seed: int,
    device: Any,
) -> ColumnBlock:
    """Storage of the groups of one intermediate dtype; ``rows`` maps uuid -> row of the timing arrays."""
    groups = sorted(groups, key=lambda group: group.hooked)  # stable: fused groups first
    total = 0
    for group in groups:
        group.columns = slice(total, total + group.columns.stop)
        total = group.columns.stop
    table = np.zeros((total, len(COLUMN_NAMES)), np.int32)
    tables = {name: table[:, i] for i, name in enumerate(COLUMN_NAMES)}
    tables["mix_row"][:] = tables["extra_row"][:] = -1
    keys = np.zeros((total, 2), np.uint32)
    sources: list[int] = [0]
    mixed = extra = 0
    for group in groups:
        for sensor, part in zip(group.sensors, group.slices, strict=True):
            first = group.columns.start + part.start
            here = slice(first, group.columns.start + part.stop)
            tables["sensor"][here] = rows[sensor.uuid]
            keys[here] = [formula.key(seed, sensor.uuid, i) for i in range(part.stop - part.start)]
            _gather_tables(tables, here, sensor._sources(), sources, model, group.world.is_gpu)
            for asked in sensor._extra_parts():
                columns = slice(first + asked.start, first + asked.stop)
                tables["extra_row"][columns] = np.arange(extra, extra + asked.stop - asked.start)
                extra += asked.stop - asked.start
            for triad in sensor._mixed_parts():
                columns = slice(first + triad.start, first + triad.stop)
                tables["mix_row"][columns] = np.arange(mixed, mixed + 3)
                tables["mix_first"][columns] = columns.start
                mixed += 3
    dtype = groups[0].dtype
    store = ColumnStore.allocate(table, np.asarray(sources, np.int32), keys, mixed, extra, n_envs, dtype, device)
    store.mix.copy_(torch.eye(3).repeat(mixed // 3, 1)[:, :, None])
    for group in groups:
        group.truth, group.reading = store.truth[group.columns], store.reading[group.columns]
        if group.hooked:
            group.scratch, group.before = torch.zeros_like(group.truth), torch.zeros_like(group.truth)
        if group.responds:
            slots = max(2, *(sensor.options.history_length or 0 for sensor in group.sensors))
            shape = (slots, group.n_columns, n_envs)
            rings = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(2)]
            shifts = group.world.is_gpu
            group.truth_timeline, group.measured_timeline = (Slots(ring, group, shifts) for ring in rings)
    fused = sum(group.n_columns for group in groups if not group.hooked)
    return ColumnBlock(store, ColumnParameters(store, dt), groups, fused)


def _gather_tables(
    tables: dict[str, np.ndarray],
    here: slice,
    gathered: list[SignalSource] | None,
    sources: list[int],
    model: mujoco.MjModel,
    is_gpu: bool,
) -> None:
    if gathered is None:
        tables["op"][here] = GATHER_NONE
        return
    for column, source in zip(range(here.start, here.stop), gathered, strict=True):
        components = source.component if isinstance(source.component, tuple) else (source.component,)
        offsets = (0,) if source.frame else components
        addresses = [int(model.sensor(name).adr[0]) + offset for name in source.sensors for offset in offsets]
        tables["first"][column], tables["count"][column] = len(sources), len(addresses)
        sources += addresses
        if source.frame:
            tables["op"][column] = GATHER_ROTATE
            tables["quat"][column], tables["axis"][column] = int(model.sensor(source.frame).adr[0]), components[0]
        elif is_gpu and model.sensor(source.sensors[0]).type == mujoco.mjtSensor.mjSENS_CLOCK:
            tables["op"][column] = GATHER_TIME
        else:
            tables["op"][column] = GATHER_COPY if len(addresses) == 1 else GATHER_SUM


def build_delivery(
    groups: list[SensorGroup],
    first_source: list[int],
    rows: dict[str, int],
    n_envs: int,
    dtype: Any,
    dt: float,
    device: Any,
) -> DeliveryStore:
    """Return storage of ``groups``, whose snapshots start at ``first_source``; sets each group's cache."""
    table = np.zeros((sum(group.n_returns for group in groups), len(RETURN_NAMES)), np.int32)
    tables = {name: table[:, i] for i, name in enumerate(RETURN_NAMES)}
    start = ring_rows = history_rows = 0
    for group, first in zip(groups, first_source, strict=True):
        count = group.n_returns
        local = np.arange(count)
        here = slice(start, start + count)
        group.delivery_rows = here
        tables["source"][here] = first + local
        tables["stride"][here] = count
        group.ring_slots = max(formula.delay_slots(sensor.max_delay, dt) for sensor in group.sensors) + 1
        late = group.ring_slots > 1 or group.delayed
        group.ring_slots = max(group.ring_slots, 2) if late else 0
        tables["ring_slots"][here] = group.ring_slots
        tables["ring_first"][here] = ring_rows + local if late else -1
        group.ring_first = ring_rows
        ring_rows += group.ring_slots * count
        length = group.history_length
        tables["history_length"][here] = length
        tables["history_first"][here] = history_rows + local if length else -1
        group.history_first = history_rows
        history_rows += 2 * length * count
        for sensor, part in zip(group.sensors, group.return_slices, strict=True):
            columns = slice(start + part.start, start + part.stop)
            tables["sensor"][columns] = rows[sensor.uuid]
            tables["linear"][columns] = sensor.options.interpolate
        start += count
    store = DeliveryStore.allocate(table, ring_rows, history_rows, n_envs, dtype, device)
    for group in groups:
        count, length = group.n_returns, group.history_length
        group.cache = store.cache[group.delivery_rows]
        ring = store.ring[group.ring_first : group.ring_first + group.ring_slots * count]
        group.ring = Slots(ring.view(group.ring_slots, count, n_envs), group)
        rows_of = slice(group.history_first, group.history_first + 2 * length * count)
        group.history = store.history[rows_of].view(2 * length, count, n_envs)
        group.truth_history = store.truth_history[rows_of].view(2 * length, count, n_envs)
    return store


def build_timing(sensors: Iterable[Any], seed: int, n_envs: int, device: Any) -> TimingStore:
    """Timing storage, one row a sensor."""
    keys = [formula.key(seed, sensor.uuid, formula.TIMING) for sensor in sensors]
    return TimingStore.allocate(np.asarray(keys, np.uint32).reshape(-1, 2), n_envs, device)
