"""The memory of a scene's sensors, computed from their options before any of it is allocated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sensorium._system import check_memory
from sensorium.pipeline.group import SensorGroup
from sensorium.pipeline.protocols import GroupSensor
from sensorium.worlds import World

_TABLE_BYTES = 200
"""Bytes of one column in host memory that do not depend on the number of envs: its rows of the tables, and its random
key while the tables are made."""
_TIMING_BYTES = 8
"""Bytes of a sample in flight beside its values: when it was captured and when it arrives."""


class MemoryPart(NamedTuple):
    """Memory that grows with one size of a sensor."""

    option: str
    """The size, for messages: "IMU(uuid='imu').history_length"."""
    value: int
    """Its value."""
    per_env: int
    """Bytes per env."""
    fixed: int = 0
    """Bytes that do not depend on the number of envs."""


def check_sensor_memory(groups: Sequence[SensorGroup[Any]], world: World, seconds: float) -> None:
    """Check that the memory of all sensors is free. On a GPU only the tables, which are in host memory, are counted.

    Args:
        groups: the groups, with ``ring_slots`` assigned.
        world: the engine.
        seconds: duration of one tick, s.

    Raises:
        OptionError: the memory is too small. The message names ``n_envs`` if one env fits, and otherwise the size that
            needs most of the memory.
    """
    parts = [part for group in groups for sensor in group.sensors for part in _parts(sensor, group)]
    if not parts:
        return
    n_envs = 0 if world.is_gpu else world.n_envs
    fixed, per_env = sum(part.fixed for part in parts), sum(part.per_env for part in parts)
    largest = max(parts, key=lambda part: part.fixed + part.per_env)
    own = largest.fixed + largest.per_env * min(n_envs, 1)
    rest = fixed + per_env * min(n_envs, 1) - own
    what = f"the sensors of one env (steps of {seconds:g} s)" if "delay" in largest.option else "the sensors of one env"
    check_memory(largest.option, largest.value, what, own / largest.value, rest)
    if per_env and n_envs:
        check_memory("n_envs", n_envs, f"the sensors, most of all {largest.option}={largest.value},", per_env, fixed)


def _parts(sensor: GroupSensor, group: SensorGroup[Any]) -> Iterator[MemoryPart]:
    """Yield the memory of a sensor, each part with the size that it grows with."""
    name = f"{group.cls.options_type.__name__}(uuid={sensor.uuid!r})"
    values, reading, other = sensor._memory_per_env()
    yield MemoryPart(f"values per env of {name}", values, other, _TABLE_BYTES * values * group.in_pipeline)
    if sensor.options.history_length:  # every reading and its ground truth are written twice
        yield MemoryPart(f"{name}.history_length", sensor.options.history_length, 4 * group.history_length * reading)
    if group.ring_slots:
        per_env = group.ring_slots * (reading + _TIMING_BYTES)
        yield MemoryPart(f"steps of the delay of {name}", group.ring_slots, per_env)
