"""Checks of a log before a fit: length, clock, missing samples, units, rest and motion. Each problem has a fix."""

from __future__ import annotations

import numpy as np

from sensorium import units as unit_conversions
from sensorium.fit.axis_checks import check_axes
from sensorium.fit.field_names import si_unit, unit_of_ratio
from sensorium.fit.logs import SensorLog
from sensorium.fit.pose_checks import check_pose
from sensorium.fit.problems import Problem
from sensorium.fit.references import PoseReference, SignalReference
from sensorium.fit.rest import rest_segments

MIN_DURATION = 10.0
"""Shortest log that gives useful figures, s."""
MIN_REST = 5.0
"""Shortest total rest for bias and noise, s."""
DRIFT_REST = 60.0
"""Shortest total rest for the drift of the bias, s."""
JUMP = 1.0
"""Step of the time stamps that counts as a jump of the clock rather than as missing samples, s."""
_G = unit_conversions.STANDARD_GRAVITY
_EARTH_FIELD = (15e-6, 90e-6)
"""Magnitude of the Earth's field indoors, T; 22 to 67 µT outdoors."""
_PRESSURE = (3e4, 1.1e5)
"""Pressure of the air where robots are, Pa."""


def check(log: SensorLog, reference: object = None, kind: str = "imu", max_lag: float = 0.5) -> list[Problem]:
    """Return what limits a fit of a log, or makes it wrong.

    Nothing is corrected: a wrong unit is named, with the argument that converts it.

    Args:
        log: the log.
        reference: a reference, or None.
        kind: kind of sensor, as in :class:`~sensorium.fit.estimate.Twin`.
        max_lag: largest lag between log and reference that the fit searches for, s.

    Example:
        >>> for problem in check(as_log("imu.h5")):
        ...     print(problem)
    """
    problems = list(log.problems) + check_time(log) + check_readings(log)
    rest = rest_segments(log)
    if kind in ("imu", "magnetometer"):
        problems += check_rest(log, rest) + check_units(log, rest) + check_axes(log)
    if "pressure" in log.channels:
        problems += _check_pressure(log)
    if isinstance(reference, PoseReference) and {"gyro", "acc"} & log.channels.keys():
        problems += reference.problems + check_pose(log, reference, max_lag)
    elif isinstance(reference, SignalReference):
        problems += reference.problems
    return list({problem.name: problem for problem in problems}.values())  # the later check of a name knows more


def check_time(log: SensorLog) -> list[Problem]:
    """Return problems of the time stamps: length, order, jumps, missing samples, unit."""
    steps, typical = np.diff(log.time), 1 / log.rate
    found = []
    fast = {"gyro", "acc", "joint_pos", "force", "torque"} & log.channels.keys()
    back = int(np.sum(steps < 0))
    shuffled = back > 0.01 * len(log)
    usual = (2.0 if fast else 0.05) < log.rate < 1e5
    if not usual and not shuffled and log.units.get("time") != "s":
        text = f"the time stamps are {typical:.3g} s apart, i.e. {log.rate:.3g} Hz"
        fix = 'pass units={"time": "ms"}, "us" or "ns", or "s" if they are in seconds (--units time=ms)'
        found.append(Problem("time.units", text, fix, "time"))
    repeated = int(np.sum(steps == 0))
    ahead = steps[steps > max(JUMP, 3 * typical)]
    if shuffled:
        text = f"{back} of {len(log)} time stamps are before the one of the row above: the rows are not in order"
        found.append(Problem("time.order", text, "sort the rows by their time stamps", "time"))
    elif back or len(ahead):
        worst = float(np.nanmax(np.abs(steps)))
        text = f"the clock jumps {back} times back and {len(ahead)} times ahead by more than {JUMP:g} s, at most "
        text += f"{worst:.3g} s"
        fix = "log a monotonic clock, and fit the parts between the jumps one by one (log.part)"
        found.append(Problem("time.jumps", text, fix))
    if repeated:
        text = f"{repeated} time stamps repeat the one before"
        found.append(Problem("time.repeats", text, "stamp samples when they are measured, not when a packet arrives"))
    gaps = steps[:0] if shuffled else steps[(steps > 1.5 * typical) & (steps <= max(JUMP, 3 * typical))]
    lost = int(np.sum(np.round(gaps / typical) - 1))
    if lost > 0.001 * len(log):
        text = f"{lost} samples ({100 * lost / (len(log) + lost):.2g} %) are missing in {len(gaps)} gaps"
        found.append(Problem("time.gaps", text, "log without loss, or keep the loss: it is estimated as dropout"))
    if log.duration < MIN_DURATION:
        text = f"the log is {log.duration:.3g} s long; intervals will be wide"
        fix = "record at least 1 minute for the noise, and 1 hour at rest for the drift"
        found.append(Problem("log.short", text, fix))
    return found


def check_readings(log: SensorLog) -> list[Problem]:
    """Return problems of the readings: missing and constant ones."""
    found = []
    for name, values in log.channels.items():
        if name in ("quat", "pos"):  # the reference reports its own gaps
            continue
        missing = float(np.mean(~np.isfinite(values).all(axis=1)))
        if missing == 1:
            found.append(Problem(f"{name}.missing", "no reading is complete", "check the field of the log", name))
        elif missing > 0:
            text = f"{100 * missing:.2g} % of the readings are NaN or infinite; they are not used"
            found.append(Problem(f"{name}.missing", text, "log every sample, or let lost samples miss in the log"))
        still = [str(k) for k, column in enumerate(values.T) if bool(np.all(column == column[0]))]
        if still and name in ("gyro", "acc", "mag", "joint_pos", "force", "distance", "pressure"):
            text = f"axis {', '.join(still)} never changes"
            found.append(Problem(f"{name}.constant", text, "check that the sensor is connected"))
    return found


def check_rest(log: SensorLog, rest: list[slice]) -> list[Problem]:
    """Return problems of the rest segments: none, or too little for the drift."""
    if not {"gyro", "acc"} & log.channels.keys():
        return []
    total = sum(log.time[run.stop - 1] - log.time[run.start] for run in rest)
    if total < MIN_REST:
        text = f"the sensor is at rest for {total:.1f} s only; bias and noise cannot be told from motion"
        fix = "record 1 minute with the sensor lying still, on a table without vibration"
        return [Problem("rest.missing", text, fix)]
    if total < DRIFT_REST:
        text = f"the sensor is at rest for {total:.1f} s; that bounds the drift of the bias but does not identify it"
        return [Problem("rest.short", text, "record 1 hour or more at rest, at constant temperature")]
    return []


def check_units(log: SensorLog, rest: list[slice]) -> list[Problem]:
    """Return channels whose magnitude is that of another unit: g, degrees, microtesla."""
    found = []
    still = np.r_[tuple(rest)] if rest else np.arange(len(log))
    known = {name: values for name, values in log.channels.items() if np.isfinite(values).any()}
    if "acc" in known and known["acc"].shape[1] == 3:
        size = _median_norm(known["acc"][still])
        if abs(size / _G - 1) > 0.05:
            where = "at rest" if rest else "in the median"
            found.append(_wrong_size(log, "acc", f"reads {size:.4g} m/s² {where}, not {_G:.4g}", size, _G, 0.1))
    if "mag" in known and known["mag"].shape[1] == 3:
        size = _median_norm(known["mag"])
        if not _EARTH_FIELD[0] <= size <= _EARTH_FIELD[1]:
            text = f"reads a field of {size:.4g} T; the Earth's is 22 to 67 µT"
            found.append(_wrong_size(log, "mag", text, size, 45e-6, 0.7))
    if "gyro" in known:
        fastest = float(np.abs(known["gyro"][np.isfinite(known["gyro"])]).max())
        if fastest > 60:
            text = f"the gyroscope reads up to {fastest:.4g} rad/s, which is {fastest / 2 / np.pi:.0f} turns per second"
            fix = 'pass units={"gyro": "deg/s"} if the log is in degrees'
            found.append(Problem("gyro.units", text, fix, "gyro"))
        elif rest:
            bias = np.abs(np.nanmean(known["gyro"][still], axis=0)).max()
            if bias > 0.3:
                text = (
                    f"the gyroscope reads {bias:.3g} rad/s at rest, which is more than the bias of any usual gyroscope"
                )
                fix = (
                    'pass units={"gyro": "deg/s"} if the log is in degrees; or the sensor was turning at constant speed'
                )
                found.append(Problem("gyro.units", text, fix, "gyro"))
    return found


def _wrong_size(log: SensorLog, channel: str, text: str, size: float, right: float, tolerance: float) -> Problem:
    unit = unit_of_ratio(channel, size / right, tolerance)
    name = {"acc": "the accelerometer", "mag": "the magnetometer"}[channel]
    if unit is None:
        fix = f"convert it to {si_unit(channel)}; or calibrate it, if its scale is that wrong"
        return Problem(f"{channel}.size", f"{name} {text}", fix)
    stated = f" (it was stated as {log.units[channel]})" if channel in log.units else ""
    fix = f'pass units={{"{channel}": "{unit}"}}, or --units {channel}={unit}'
    return Problem(f"{channel}.units", f"{name} {text}: that is a log in {unit}{stated}", fix, channel)


def _check_pressure(log: SensorLog) -> list[Problem]:
    known = log.channels["pressure"][np.isfinite(log.channels["pressure"])]
    size = float(np.median(known)) if len(known) else 1e5
    if _PRESSURE[0] <= size <= _PRESSURE[1]:
        return []
    unit = unit_of_ratio("pressure", size / 1e5, 0.3)
    fix = f'pass units={{"pressure": "{unit}"}}' if unit else "convert the pressure to Pa"
    return [Problem("pressure.units", f"the pressure is {size:.4g} Pa; air has about 100000 Pa", fix, "pressure")]


def check_ratio(channel: str, values: np.ndarray, expected: np.ndarray) -> list[Problem]:
    """Return whether readings have another unit than their reference, or are more than 3 times off.

    Args:
        channel: name of the channel.
        values: readings, (n, k).
        expected: reference at the same times, (n, k).
    """
    both = np.isfinite(values) & np.isfinite(expected)
    if both.sum() < 2:
        return []
    x, y = expected[both], values[both]
    moves = float(np.ptp(x)) > 0.1 * float(np.abs(x).max())
    size = [
        float(np.percentile(one, 90) - np.percentile(one, 10)) if moves else float(np.median(one)) for one in (x, y)
    ]
    if size[0] == 0 or size[1] / size[0] <= 0 or abs(np.log(size[1] / size[0])) < np.log(3):
        return []
    ratio = size[1] / size[0]
    unit, text = unit_of_ratio(channel, ratio), f"the readings are {ratio:.4g} times the reference"
    if unit is None:
        fix = "use the same unit in log and reference; or check that they belong together"
        return [Problem(f"{channel}.size", text, fix, channel)]
    fix = f'pass units={{"{channel}": "{unit}"}}, or --units {channel}={unit}'
    return [Problem(f"{channel}.units", f"{text}: that is a log in {unit}", fix, channel)]


def _median_norm(values: np.ndarray) -> float:
    return float(np.nanmedian(np.linalg.norm(values, axis=1)))
