"""Names and units of the fields of logs: which field is the gyroscope, which columns belong together.

A field name is matched as a whole (``gyr``), then by its end (``imu_gyr``, ``imu/angular_velocity``). A unit in
brackets at the end of a name (``w_x [deg/s]``) or after the name of a time (``time_ns``) is used.
"""

from __future__ import annotations

import math
import re

from sensorium.errors import OptionError, did_you_mean

ALIASES: dict[str, tuple[str, ...]] = {
    "time": ("time", "t", "timestamp", "timestamps", "stamp", "times", "seconds", "sec", "elapsed_time"),
    "gyro": ("gyro", "gyr", "gyroscope", "angular_velocity", "ang_vel", "angular_rate", "omega", "w", "g", "w_rs_s"),
    "acc": ("acc", "accel", "accelerometer", "acceleration", "linear_acceleration", "lin_acc", "a", "a_rs_s"),
    "mag": ("mag", "magnetometer", "magnetic_field", "m"),
    "quat": ("quat", "quaternion", "orientation", "rotation", "q", "q_rs"),
    "pos": ("pos", "position", "translation", "xyz", "p", "p_rs_r", ""),
    "joint_pos": ("joint_pos", "joint_position", "joint_positions", "dof_pos", "qpos", "encoder"),
    "joint_vel": ("joint_vel", "joint_velocity", "joint_velocities", "dof_vel", "qvel"),
    "joint_torque": ("joint_torque", "joint_effort", "effort", "dof_torque", "tau"),
    "joint_command": ("joint_command", "des_dof_pos", "joint_pos_des", "desired_position", "target_position", "q_des"),
    "force": ("force", "f"),
    "torque": ("torque", "moment"),
    "distance": ("distance", "range", "ranges", "depth"),
    "pressure": ("pressure", "fluid_pressure", "baro", "barometer"),
    "temperature": ("temperature", "temp"),
}
"""Name in :class:`~sensorium.fit.logs.SensorLog` -> names that fields of logs have, in lower case."""
RATE_NAMES = ("sampling_rate", "sample_rate", "sampling_frequency", "rate", "fs", "frequency")
"""Names of attributes and scalars that hold the sampling rate, Hz."""

_SI: dict[str, dict[str, float]] = {
    "time": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0},
    "gyro": {"rad/s": 1.0, "deg/s": 0.017453292519943295, "mrad/s": 1e-3},
    "acc": {"m/s^2": 1.0, "g": 9.80665, "mg": 9.80665e-3},
    "mag": {"T": 1.0, "mT": 1e-3, "uT": 1e-6, "nT": 1e-9, "gauss": 1e-4, "mgauss": 1e-7},
    "pos": {"m": 1.0, "cm": 1e-2, "mm": 1e-3},
    "distance": {"m": 1.0, "cm": 1e-2, "mm": 1e-3},
    "joint_pos": {"rad": 1.0, "deg": 0.017453292519943295, "m": 1.0, "turn": 6.283185307179586},
    "joint_vel": {"rad/s": 1.0, "deg/s": 0.017453292519943295, "m/s": 1.0, "rpm": 0.10471975511965977},
    "joint_torque": {"N m": 1.0, "N": 1.0},
    "force": {"N": 1.0, "kN": 1e3},
    "torque": {"N m": 1.0, "N mm": 1e-3},
    "pressure": {"Pa": 1.0, "hPa": 100.0, "kPa": 1e3, "mbar": 100.0, "bar": 1e5},
}
"""Channel -> unit -> factor to the unit of Sensorium, which comes first."""
_SI["joint_command"] = _SI["joint_pos"]
_SPELLINGS = {
    "rad s^-1": "rad/s",
    "rad/sec": "rad/s",
    "°/s": "deg/s",
    "dps": "deg/s",
    "m s^-2": "m/s^2",
    "m/s2": "m/s^2",
    "m/s²": "m/s^2",
    "µT": "uT",
    "μT": "uT",
    "Gauss": "gauss",
    "µs": "us",
    "sec": "s",
    "Nm": "N m",
    "degree": "deg",
    "degrees": "deg",
}
_AXIS = re.compile(r"(?P<stem>.*?)[_.\[ /]*(?P<axis>[wxyz]|\d+)\]?$", re.IGNORECASE)
_UNIT = re.compile(r"^(?P<name>.*?)\s*[\[(](?P<unit>[^\])]*)[\])]\s*$")
_TIME_UNIT = re.compile(r"^(?P<name>t|time|timestamps?|stamp)_(?P<unit>ns|us|ms|s)$")


def split_unit(name: str) -> tuple[str, str | None]:
    """Return the name of a field without its unit, and the unit: ("time", "ns") for "time_ns" and for "time [ns]".

    Brackets that hold an index ("dof_pos[3]") stay in the name.
    """
    text = name.strip().lstrip("#").strip()
    found = _UNIT.match(text) or _TIME_UNIT.match(text.lower())
    if found is None or found["unit"].isdigit():
        return text, None
    unit = found["unit"].strip()
    return found["name"], _SPELLINGS.get(unit, unit) or None


def channel_of(name: str) -> tuple[str, int] | None:
    """Return the channel that a field name means and how well it fits (2: whole name, 1: its end), or None."""
    text = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    whole = [channel for channel, aliases in ALIASES.items() if text in aliases]
    if whole:
        return whole[0], 2
    # a single letter means something as a whole name only: "imu_w" may be anything
    ends = [
        (len(alias), channel)
        for channel, aliases in ALIASES.items()
        for alias in aliases
        if len(alias) > 2 and text.endswith(f"_{alias}")
    ]
    return (max(ends)[1], 1) if ends else None


def group_columns(names: list[str]) -> dict[str, list[str]]:
    """Return stem -> its columns in order, for columns that are axes of one field; single columns stand for themselves.

    Quaternions are ordered w, x, y, z by the names of their columns.

    Example:
        >>> group_columns(["t", "wx", "wy", "wz", "q_x", "q_y", "q_z", "q_w"])
        {'t': ['t'], 'w': ['wx', 'wy', 'wz'], 'q': ['q_w', 'q_x', 'q_y', 'q_z']}
    """
    groups: dict[str, dict[str, str]] = {}
    for name in names:
        found = _AXIS.match(split_unit(name)[0])
        if found is not None:
            groups.setdefault(found["stem"], {})[found["axis"].lower()] = name
    out: dict[str, list[str]] = {}
    for name in names:
        found = _AXIS.match(split_unit(name)[0])
        axes = groups[found["stem"]] if found is not None else {}
        letters = set(axes) in ({"x", "y"}, {"x", "y", "z"}, {"w", "x", "y", "z"})
        if found is not None and (letters or (len(axes) > 1 and all(axis.isdigit() for axis in axes))):
            order = sorted(axes, key=lambda axis: int(axis) if axis.isdigit() else ord(axis))
            out[found["stem"]] = [axes[axis] for axis in order]
        else:
            out[name] = [name]
    return out


def factor(channel: str, unit: str) -> float:
    """Return the factor from a unit to Sensorium's unit of a channel.

    Raises:
        OptionError: the channel has no such unit.
    """
    known = _SI.get(channel)
    if known is None:
        raise OptionError(f"units: {channel!r} has no known units; convert it before the fit")
    unit = _SPELLINGS.get(unit, unit)
    if unit not in known:
        hint = did_you_mean(unit, known)
        raise OptionError(f"units[{channel!r}] must be one of {', '.join(known)}, got {unit!r}{hint}")
    return known[unit]


def si_unit(channel: str) -> str:
    """Return Sensorium's unit of a channel; empty if it has none."""
    return next(iter(_SI.get(channel, {"": 1.0})))


def unit_of_ratio(channel: str, ratio: float, tolerance: float = 0.15) -> str | None:
    """Return the unit in which readings are ``ratio`` times what they should be; None if no unit fits."""
    for unit, factor in _SI.get(channel, {}).items():
        if factor != 1 and abs(math.log(ratio * factor)) < math.log1p(tolerance):
            return unit
    return None


def axis_name(channel: str, axis: int, axes: int) -> str:
    """Return the name of an axis: x, y or z of a vector, none of a single one, otherwise the number of joint or ray."""
    if axes == 1:
        return ""
    return "xyz"[axis] if axes == 3 and channel not in ("distance", "joint_pos", "joint_vel") else str(axis)
