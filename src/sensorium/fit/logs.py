"""``SensorLog``: the readings of a real sensor with time stamps, from arrays or from a file."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from sensorium._arguments import checked, checked_rows
from sensorium.errors import OptionError, did_you_mean, shorten
from sensorium.fit import log_files
from sensorium.fit.field_names import ALIASES, RATE_NAMES, channel_of, factor, group_columns, split_unit
from sensorium.fit.problems import Problem

_VECTORS = ("gyro", "acc", "mag", "pos", "quat")
"""Channels with at least 3 columns."""


@dataclass(frozen=True)
class SensorLog:
    """Readings of a sensor, in Sensorium's units: s, rad/s, m/s², T, m, rad, N, Pa. Missing readings are NaN.

    Example:
        >>> log = sn.fit.as_log("imu.h5", units={"acc": "g"})
        >>> log.rate, log.channels["acc"].shape
    """

    time: np.ndarray
    """Time stamps, (n,) s, as they were logged: they may jump or repeat."""
    channels: dict[str, np.ndarray]
    """Channel -> readings, (n, k): "gyro", "acc" and "mag" of an IMU, "quat" (w, x, y, z) and "pos" of a pose."""
    rate: float
    """Sampling rate, Hz: the inverse of the median interval."""
    source: str
    """Path of the file, or "arrays"."""
    hash: str
    """SHA-256 of the file or of the arrays, as hexadecimal digits."""
    units: dict[str, str] = field(default_factory=dict)
    """Channel -> unit that was stated and converted from."""
    problems: tuple[Problem, ...] = ()
    """What was noticed while reading."""

    def __len__(self) -> int:
        return len(self.time)

    @property
    def duration(self) -> float:
        """Time between the lowest and the highest time stamp, s."""
        return float(np.ptp(self.time)) if len(self) else 0.0

    def part(self, rows: slice | np.ndarray) -> SensorLog:
        """Return some rows of the log: a slice, a mask or indices.

        Raises:
            OptionError: ``rows`` is of another type.
            IndexRangeError: there is no such row.
        """
        rows = checked_rows(self.source, "row", rows, len(self))
        return replace(self, time=self.time[rows], channels={name: all_[rows] for name, all_ in self.channels.items()})

    @checked
    def need(self, channel: str) -> np.ndarray:
        """Return the readings of a channel, (n, k).

        Raises:
            OptionError: the log has no such channel; the message says how to name its field.
        """
        if channel not in self.channels:
            names = ", ".join(ALIASES.get(channel, (channel,))[:4])
            raise OptionError(
                f"{self.source} has no channel {channel!r}{did_you_mean(channel, self.channels)}; it has "
                f'{shorten(self.channels)}. Name the field {names}, or pass fields={{"{channel}": "ITS_NAME"}}'
            )
        return self.channels[channel]


LogSource = SensorLog | Mapping[str, ArrayLike] | str | os.PathLike[str]
"""What :func:`as_log` takes: a log, a mapping of names to arrays, or the path of a file."""


@checked
def as_log(
    source: LogSource,
    *,
    fields: Mapping[str, str | Sequence[str]] | None = None,
    units: Mapping[str, str] | None = None,
    rate: float | None = None,
    group: str | None = None,
) -> SensorLog:
    """Return a log from arrays or from a file (HDF5, NPZ, CSV; MCAP if its packages are installed).

    Field names are recognised: ``imu_gyr``, ``gyro``, ``angular_velocity`` and others are the channel "gyro"; columns
    ``wx, wy, wz`` are its axes. Fields with other names keep theirs. A unit in brackets after a name ("gyro_x [deg/s]")
    or in an HDF5 attribute ``units`` is converted.

    Args:
        source: a mapping of names to arrays, the path of a file, or a log, which is returned as it is.
        fields: channel -> name of its field, or names of its columns, for names that are not recognised.
        units: channel -> unit of its readings, if it is not Sensorium's: "deg/s", "g", "uT", "ms".
        rate: sampling rate in Hz, for logs without time stamps. Default: the attribute ``sampling_rate``.

        group: HDF5 group or MCAP topic to read, if the file has several: "imu0". Default: all fields.

    Raises:
        OptionError: the source, a field or a unit cannot be used; the message says what to pass.
        DatasetError: the file cannot be read.

    Example:
        >>> log = sn.fit.as_log({"time": time, "gyro": gyro, "acc": acc}, units={"gyro": "deg/s"})
    """
    if isinstance(source, SensorLog):
        if fields or units or rate is not None or group is not None:
            raise OptionError("fields, units, rate and group are for arrays and files; this log has been read already")
        return source
    if isinstance(source, Mapping):
        raw = {str(name): _array(str(name), value) for name, value in source.items()}
        name, digest = "arrays", _hash_arrays(raw)
    else:
        path = Path(source)
        raw, name = log_files.read(path), str(path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if group is not None:
        raw = _group(raw, group, name)
    found, stated = _assign(raw, fields or {}, name)
    for channel in units or {}:
        if channel not in found:
            raise OptionError(f"units: {name} has no channel {channel!r}{did_you_mean(channel, found)}")
    stated |= dict(units or {})
    for channel, unit in stated.items():
        found[channel] = found[channel] * factor(channel, unit)
    time = _time(found, raw, rate, name)
    channels, problems = {}, []
    for channel, values in found.items():
        if len(values) == len(time):
            flat = values if values.ndim == 2 else values.reshape(len(values), math.prod(values.shape[1:]))
            channels[channel] = np.where(np.isinf(flat), np.nan, flat)
        else:
            text = f"{channel!r} has {len(values)} rows and the time stamps {len(time)}; it is ignored"
            turned = values.ndim == 2 and values.shape[1] == len(time)
            fix = "transpose it: rows are samples, columns are axes" if turned else "store it in a log of its own"
            problems.append(Problem(f"{channel}.length", text, fix))
    if not channels:
        raise OptionError(f"{name} has no channel with as many rows as time stamps ({len(time)})")
    return _log(time, channels, name, digest, stated, problems)


def _log(
    time: np.ndarray,
    channels: dict[str, np.ndarray],
    source: str,
    digest: str,
    units: dict[str, str],
    problems: list[Problem],
) -> SensorLog:
    """Return a log of the rows that have a time stamp."""
    stamped = np.isfinite(time)
    if not stamped.all():
        text = f"{int((~stamped).sum())} of {len(time)} time stamps are NaN; these rows are not used"
        problems.append(Problem("time.missing", text, "log a time stamp with every sample"))
        time, channels = time[stamped], {name: values[stamped] for name, values in channels.items()}
    if len(time) < 2:
        raise OptionError(f"{source}: a log needs at least 2 samples, got {len(time)}; record at least 1 minute")
    steps = np.diff(time)
    if not (steps > 0).any():
        raise OptionError(f"{source}: the time stamps never increase; log the time of every sample, in seconds")
    rate = float(1 / np.median(steps[steps > 0]))
    return SensorLog(time, channels, rate, source, digest, units, tuple(problems))


def _array(name: str, value: object) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise OptionError(f"the field {name!r} is not an array: {error}") from error
    if array.dtype.kind not in "fiub":
        raise OptionError(f"the field {name!r} must be numbers, got {array.dtype}")
    return array


def _group(raw: Mapping[str, np.ndarray], group: str, source: str) -> dict[str, np.ndarray]:
    """Return the fields of a group under their names in it, and the scalars of the file."""
    prefix = group.strip("/") + "/"
    inside = {name.removeprefix(prefix): values for name, values in raw.items() if name.startswith(prefix)}
    if not inside:
        groups = sorted({name.rpartition("/")[0] for name in raw if "/" in name})
        hint = did_you_mean(group, groups) or f"; it has {shorten(groups)}"
        raise OptionError(f"{source} has no group {group!r}{hint}")
    return {name: values for name, values in raw.items() if values.ndim == 0} | inside


def _assign(
    raw: Mapping[str, np.ndarray], given: Mapping[str, str | Sequence[str]], source: str
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return channel -> values, and channel -> unit that the name of its field states."""
    out: dict[str, np.ndarray] = {}
    units: dict[str, str] = {}
    used: set[str] = set()
    for channel, names in given.items():
        columns = [_find(raw, each, channel, source) for each in ([names] if isinstance(names, str) else names)]
        out[channel] = _stack(raw, columns)
        used |= set(columns)
        _note_unit(units, channel, columns)
    rows = {name: values for name, values in raw.items() if values.ndim > 0 and name not in used}
    flat = [name for name, values in rows.items() if values.ndim == 1]
    groups = {name: [name] for name in rows if name not in flat} | group_columns(flat)
    candidates: dict[str, list[tuple[int, str]]] = {}
    for stem, columns in groups.items():
        channel, rank = channel_of(split_unit(stem)[0]) or (stem, 0)
        if channel in _VECTORS and channel != stem and _width(rows, columns) < 3:
            channel, rank = stem, 0  # one column named "a" is not an accelerometer
        candidates.setdefault(channel, []).append((rank, stem))
    for channel, stems in candidates.items():
        top = max(rank for rank, _ in stems)
        best = [stem for rank, stem in stems if rank == top]
        best = [stem for stem in best if not stem.startswith("truth/")] or best  # a recording has both
        if all(np.array_equal(_stack(raw, groups[stem]), _stack(raw, groups[best[0]])) for stem in best[1:]):
            best = best[:1]  # such as the time stamps of two topics of one sensor
        if channel in out:
            best = []  # named by the user
        elif len(best) > 1:
            plain = [split_unit(stem)[0] for stem in best]
            named, fix = " and ".join(map(repr, plain[:3])), f'pass fields={{"{channel}": "{plain[0]}"}}'
            group = plain[0].rpartition("/")[0]
            fix += f' or group="{group}"' if group else ""
            raise OptionError(f"{source}: {named} all look like {channel!r}; {fix}")
        for _, stem in stems:
            name = channel if stem in best else split_unit(stem)[0]
            out[name] = _stack(raw, groups[stem])
            _note_unit(units, name, groups[stem])
    return out, units


def _find(raw: Mapping[str, np.ndarray], name: str, channel: str, source: str) -> str:
    """Return the field of that name, with or without the unit at its end."""
    fitting = [name] if name in raw else [each for each in raw if split_unit(each)[0] == name]
    if len(fitting) != 1:
        plain = [split_unit(each)[0] for each in raw]
        hint = did_you_mean(name, plain) or f"; it has {shorten(plain)}"
        raise OptionError(f"fields[{channel!r}]: {source} has no field {name!r}{hint}")
    return fitting[0]


def _width(rows: Mapping[str, np.ndarray], columns: list[str]) -> int:
    return sum(1 if rows[name].ndim == 1 else rows[name].shape[1] for name in columns)


def _stack(raw: Mapping[str, np.ndarray], columns: list[str]) -> np.ndarray:
    values = raw[columns[0]] if len(columns) == 1 else np.column_stack([raw[name] for name in columns])
    return np.asarray(values, np.float64)


def _note_unit(units: dict[str, str], channel: str, columns: list[str]) -> None:
    """Store the unit that the names of the columns state, if it is a unit of the channel."""
    unit = split_unit(columns[0])[1]
    if unit is not None:
        try:
            factor(channel, unit)
        except OptionError:
            return
        units[channel] = unit


def _time(found: dict[str, np.ndarray], raw: Mapping[str, np.ndarray], rate: float | None, source: str) -> np.ndarray:
    """Return the time stamps, taken out of ``found``, or made from the sampling rate."""
    time = found.pop("time", None)
    if time is not None and rate is None:
        if time.ndim != 1 and time.size != len(time):
            raise OptionError(f"{source}: time must have one number per sample, got the shape {time.shape}")
        return time.reshape(-1)
    if rate is None:
        scalars = {name.lower(): float(value) for name, value in raw.items() if value.ndim == 0}
        rate = next((scalars[name] for name in RATE_NAMES if name in scalars), None)
    if rate is None:
        raise OptionError(f"{source} has no time stamps; add a field 'time' in seconds, or pass rate=HZ")
    if not 0 < rate < float("inf"):
        raise OptionError(f"rate must be finite and > 0, got {rate}")
    rows = [len(values) for values in found.values()]
    if not rows:
        raise OptionError(f"{source} has no readings")
    return np.arange(max(set(rows), key=rows.count)) / rate


def _hash_arrays(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}:{array.dtype.str}:{array.shape};".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
