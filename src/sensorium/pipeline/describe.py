"""Descriptions of sensors as text, for ``scene.describe()``."""

from __future__ import annotations

from typing import Any

from sensorium.pipeline.flags import EXTRA_NAMES
from sensorium.pipeline.group import SensorGroup
from sensorium.pipeline.protocols import GroupSensor


def describe_group(group: SensorGroup[Any], runs: str) -> list[dict[str, str]]:
    """Return one row per sensor of a group: uuid, class, shape, dtype, rate, delay, memory, and how it runs."""
    rows = []
    sensor: GroupSensor
    for number, sensor in enumerate(group.sensors):
        options, layout = sensor.options, sensor._get_return_format() if group.in_pipeline else ()
        shapes = layout.values() if isinstance(layout, dict) else [layout]
        past = () if options.history_length is None else (options.history_length,)
        jitter = f" + {options.jitter * 1e3:g}" if options.jitter else ""
        rows.append(
            {
                "uuid": sensor.uuid,
                "class": group.cls.options_type.__name__,
                "shape": " ".join(str((group.n_envs, *past, *shape)) for shape in shapes),
                "dtype": str(group.return_dtype).removeprefix("torch."),
                "rate": "every step" if options.rate is None else f"{options.rate:g} Hz",
                "delay": f"{options.delay * 1e3:g} ms{jitter}",
                "memory": size(_n_bytes(group, number)) if group.in_pipeline else "",
                "runs": runs,
            }
            | sensor._describe()
        )
    return rows


def _n_bytes(group: SensorGroup[Any], number: int) -> int:
    """Return the memory of one sensor: both branches, walk, parameters, and its share of rings, cache and histories."""
    part, returns = group.slices[number], group.return_slices[number]
    columns, return_columns = part.stop - part.start, returns.stop - returns.start
    slots = group.ring_slots + 1 + 4 * group.history_length if group.has_return_storage else 0
    slots += 2 if group.post_processed else 0
    timelines = sum(len(line) for line in group.timelines) * group.dtype.itemsize
    own = columns * (2 * group.dtype.itemsize + 8 * 4 + timelines)
    n_extra = sum(extra.stop - extra.start for extra in group.sensors[number]._extra_parts())
    own += n_extra * len(EXTRA_NAMES) * 4
    return group.n_envs * (own + return_columns * group.return_dtype.itemsize * slots)


def size(count: int) -> str:
    """Return a number of bytes as text, in KiB or MiB."""
    return f"{count / 2**10:.1f} KiB" if count < 2**20 else f"{count / 2**20:.1f} MiB"
