"""Fit of an IMU: gyroscope, accelerometer and magnetometer, at rest and against a reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from sensorium import units
from sensorium.errors import OptionError
from sensorium.fit import latency
from sensorium.fit.calibration import Calibration, calibrate
from sensorium.fit.channel import unlimited
from sensorium.fit.checks import check, check_time
from sensorium.fit.estimate import Estimate, Twin
from sensorium.fit.logs import LogSource, SensorLog, as_log
from sensorium.fit.magnetic import Iron, iron_by_pose, iron_by_turning
from sensorium.fit.provenance import provenance, steps
from sensorium.fit.reading import LogReading
from sensorium.fit.references import PoseReference, SensorReference, as_reference
from sensorium.fit.rest import rest_segments
from sensorium.fit.runs import combine
from sensorium.fit.static import StaticFit, static_fit
from sensorium.fit.temperature import temperature_drift
from sensorium.fit.timing import chance_of_repeat, dropout, timing
from sensorium.pipeline.formula import TEMPERATURE

UNITS = {"gyro": "rad/s", "acc": "m/s²", "mag": "T"}
_WEAK = 0.02
"""Largest standard error of an element of the axis matrix that counts as identified."""
_UNEXPLAINED = 10.0
"""Residual of a poor fit that is not noise any more, in standard deviations of the sensor's noise per sample."""
_TURN = "rotate the sensor about all three axes, with a reference beside it"


def imu(
    log: LogSource | Sequence[LogSource],
    reference: object = None,
    *,
    gravity: float = units.STANDARD_GRAVITY,
    field: float | None = None,
    quat_order: str = "wxyz",
    max_lag: float = 0.5,
    progress: bool | None = None,
    **reading: Unpack[LogReading],
) -> Twin:
    """Fit an IMU to a log.

    Noise, drift, step and the gyroscope's bias come from the rest periods of the log, which are found automatically.
    Axis matrices, the accelerometer's bias and the latency need a reference: poses of the sensor's body from motion
    capture, or a better IMU on the same body.

    Args:
        log: arrays (``time``, ``gyro``, ``acc``, ``mag``) or a file, as :func:`as_log` takes them. A list of logs, one
            per power-up, also gives the spread of the biases between runs (``bias_spread``).
        reference: arrays (``time``, ``quat``, ``pos``), a file, or a reference; for a list of logs, one for each.
        gravity: local gravity, m/s².
        field: strength of the magnetic field, T. Default: unknown; the magnetometer's scale is then not identified.
        quat_order: order of the reference's quaternions, "wxyz" or "xyzw".
        max_lag: largest latency that is searched for, s.
        progress: whether to show a progress bar. Default: if stderr is a terminal.
        **reading: ``fields``, ``units``, ``rate`` and ``group`` of :func:`as_log`.

    Returns:
        The twin. ``twin.estimates`` has the rate and the latency, and for each channel its noise, drift, bias, axis
        matrix, step, limits and outliers.

    Raises:
        OptionError: the log or the reference cannot be read, or has no channel of an IMU.

    Example:
        >>> twin = sn.fit.imu({"time": time, "gyro": gyro, "acc": acc}, reference={"time": t, "quat": quat, "pos": pos})
        >>> twin.estimates["gyro.noise_density"].value
    """
    settings: dict[str, Any] = {"gravity": gravity, "field": field, "quat_order": quat_order, "max_lag": max_lag}
    settings["progress"] = progress
    if isinstance(log, Sequence) and not isinstance(log, str):
        many = isinstance(reference, Sequence) and not isinstance(reference, str)
        references = list(reference) if many else [reference] * len(log)  # type: ignore[call-overload]
        if len(references) != len(log):
            raise OptionError(f"reference: got {len(references)} for {len(log)} logs; pass one reference for each log")
        return combine([imu(one, other, **settings, **reading) for one, other in zip(log, references, strict=True)])
    source = as_log(log, **reading)
    in_seconds = all(one.blocks != "time" for one in check_time(source))
    known = None if reference is None or not in_seconds else as_reference(reference, quat_order)
    problems = list(dict.fromkeys([*source.problems, *check(source, known, "imu", max_lag)]))
    blocked = {one.blocks for one in problems} - {""}
    if "reference" in blocked:
        known = None
    names = [name for name in UNITS if name in source.channels]
    if not names:
        source.need("gyro")
    for name in names:
        if source.channels[name].shape[1] != 3:
            columns = source.channels[name].shape[1]
            raise OptionError(f"{source.source}: {name} must have 3 columns (x, y, z), got {columns}")
    with steps(2 * len(names) + 1, progress) as step:
        fit = _Fit(source, known, gravity, field, max_lag)
        for name in names:
            step(f"{name}: noise and drift at rest")
            fit.rest(name)
        for name in names:
            step(f"{name}: matrix, bias and latency")
            fit.motion(name)
        step("timing")
        fit.together(names)
    kept = None if known is None or not isinstance(reference, SensorLog) else reference
    twin = Twin("imu", fit.estimates, problems, provenance(source, kept, **settings), source, known)
    twin.settings |= fit.settings
    return twin


class _Fit:
    """Estimates of one log."""

    def __init__(
        self,
        log: SensorLog,
        reference: PoseReference | SensorReference | None,
        gravity: float,
        field: float | None,
        max_lag: float,
    ) -> None:
        self.log, self.reference, self.gravity, self.field, self.max_lag = log, reference, gravity, field, max_lag
        self.estimates: dict[str, Estimate] = {}
        self.settings: dict[str, object] = {}
        self.static: dict[str, StaticFit] = {}
        self.add(*timing(log.time))
        rate = self.estimates["rate"]
        self.rate = float(rate.value) if rate.identifiable else log.rate
        self.still = rest_segments(log)

    def add(self, *estimates: Estimate) -> None:
        """Keep estimates under their names."""
        self.estimates |= {one.name: one for one in estimates}

    def rest(self, name: str) -> None:
        """Estimate what the rest periods show."""
        fit = static_fit(f"{name}.", self.log.channels[name], self.rate, self.still, UNITS[name], name == "gyro")
        steady = self._at_25_degrees(name)
        if steady is not None:  # noise and drift without that of the temperature; step and limits of the readings
            slow = static_fit(f"{name}.", steady, self.rate, self.still, UNITS[name], steps=fit.steps)
            fit = replace(slow, estimates=fit.readings + slow.others)
        self.static[name] = fit
        self.add(*fit.estimates)
        if self.estimates[f"{name}.bandwidth"].identifiable:
            self.settings["filter_order"] = fit.order
        found = fit.level()
        if name == "gyro":
            if found is None:
                reason = "no rest; record the sensor at rest for 10 s or more"
                self.add(Estimate.missing("gyro.bias", "rad/s", reason, (3,)))
            else:
                self.add(Estimate.normal("gyro.bias", *found, "rad/s", "mean at rest"))

    def _at_25_degrees(self, name: str) -> np.ndarray | None:
        """Return the readings without temperature drift, if the log has temperatures that identify it."""
        values = self.log.channels[name]
        if "temperature" not in self.log.channels or name == "mag":
            return None
        heat = self.log.channels["temperature"][:, 0]
        # an accelerometer must keep its orientation: the longest rest period alone
        still = self.still if name == "gyro" else self.still[:1]
        rows = [np.arange(one.start, one.stop)[np.isfinite(values[one]).all(axis=1)] for one in still]
        found = temperature_drift(
            f"{name}.temperature_drift", [values[one] for one in rows], [heat[one] for one in rows], UNITS[name]
        )
        self.add(found)
        return values - np.outer(heat - TEMPERATURE, found.value) if found.identifiable else None

    def motion(self, name: str) -> None:
        """Estimate what needs a reference."""
        values = unlimited(self.log.channels[name], self.static[name])
        if name == "mag":
            self._iron(values)
            return
        fit = None if self.reference is None else self._calibrate(name, values)
        if fit is None:
            self._without_reference(name)
            return
        unit = UNITS[name]
        strong = fit.explained > 0.5
        self.add(self._delay(name, fit.delay, fit.delay_std if strong else np.inf))
        if not strong or float(fit.matrix_std.max()) > _WEAK:
            reason = f"the log has too little motion for it; {_TURN}"
            self.add(Estimate.missing(f"{name}.misalignment", "", reason, (3, 3)))
        else:
            self.add(Estimate.normal(f"{name}.misalignment", fit.matrix, fit.matrix_std, "", "axis matrix"))
        if not strong and bool((fit.residual > _UNEXPLAINED * self.static[name].noise).any()):
            reason = "the reference does not explain the readings; check its units, clock and frame"
            if not (name == "gyro" and self.estimates["gyro.bias"].identifiable):
                self.add(Estimate.missing(f"{name}.bias", unit, reason, (3,)))
            return
        in_motion = Estimate.normal(f"{name}.bias_in_motion", fit.bias, fit.bias_std, unit, "against the reference")
        if name == "gyro":
            self.add(in_motion)
            if not self.estimates["gyro.bias"].identifiable:
                self.add(Estimate.normal("gyro.bias", fit.bias, fit.bias_std, unit, "against the reference"))
        else:
            self.add(Estimate.normal(f"{name}.bias", fit.bias, fit.bias_std, unit, "against the reference"))
            if len(fit.extra):
                reason = "position of the accelerometer relative to the tracked point, in the body frame"
                self.add(Estimate.normal(f"{name}.lever", fit.extra, fit.extra_std, "m", reason))
        reason = f"rms after the fit, up to {fit.band:.3g} Hz; over all frequencies {fit.unsmoothed:.3g}, "
        reason += f"before the fit {np.sqrt((fit.before**2).mean()):.3g}"
        self.add(Estimate.normal(f"{name}.residual", fit.residual, fit.residual_std, unit, reason))

    def _calibrate(self, name: str, values: np.ndarray) -> Calibration | None:
        """Fit matrix, bias and latency; the matrix only where the motion identifies it."""
        reference, noise = self.reference, self.static[name].noise
        extra, cutoff = None, None
        if isinstance(reference, PoseReference):
            if name == "acc" and not reference.has_position:
                return None
            extra = reference.lever_matrix if name == "acc" else None
            cutoff = reference.cutoff if name == "gyro" else reference.position_cutoff
        assert reference is not None

        def expected(t: np.ndarray) -> np.ndarray:
            if name == "gyro":
                return reference.angular_rate(t).values
            return reference.specific_force(t, self.gravity).values

        found = None
        for matrix in ("full", "identity"):
            found = calibrate(
                self.log.time,
                values,
                expected,
                noise=noise,
                extra=extra,
                matrix=matrix,
                max_lag=self.max_lag,
                cutoff=cutoff,
            )
            if found is None or (found.explained > 0.5 and float(found.matrix_std.max()) <= _WEAK):
                break
        if found is not None and matrix == "identity":
            found.matrix_std[:] = np.inf
        return found

    def _without_reference(self, name: str) -> None:
        reason = f"needs a reference; {_TURN}"
        self.add(Estimate.missing(f"{name}.delay", "s", latency.NO_REFERENCE))
        self.add(Estimate.missing(f"{name}.misalignment", "", reason, (3, 3)))
        if name == "acc":
            reason = "at rest a bias of the accelerometer looks like a tilt; record motion with a pose reference"
            self.add(Estimate.missing("acc.bias", UNITS[name], reason, (3,)))

    def _iron(self, values: np.ndarray) -> None:
        """Estimate hard and soft iron of the magnetometer."""
        fit: Iron | None = None
        reference = self.reference
        if isinstance(reference, PoseReference):

            def rotated(t: np.ndarray, world: np.ndarray) -> np.ndarray:
                return reference.magnetic_field(t, world).values

            fit = iron_by_pose(self.log.time, values, rotated, reference.cutoff, self.field, self.max_lag)
        by_pose = fit is not None
        if fit is None:
            fit = iron_by_turning(values)
        if fit is None:
            reason = "the orientation hardly changes; turn the sensor through all orientations"
            self.add(Estimate.missing("mag.bias", "T", reason, (3,)), Estimate.missing("mag.delay", "s", reason))
            self.add(Estimate.missing("mag.misalignment", "", reason, (3, 3)))
            return
        self.add(Estimate.normal("mag.bias", fit.bias, fit.bias_std, "T", "hard iron"))
        reason = "soft iron and axes"
        if self.field is None or not by_pose:
            reason += "; the scale is not identified without the field's strength (field=...): determinant 1"
        if not by_pose:
            reason += "; a rotation of the axes is not identified without a pose reference"
        self.add(Estimate.normal("mag.misalignment", fit.matrix, fit.matrix_std, "", reason))
        self.add(self._delay("mag", fit.delay, fit.delay_std))
        if by_pose:
            strength = f"field of the world, {np.linalg.norm(fit.field):.4g} T"
            self.add(Estimate.normal("mag.field", fit.field, fit.field_std, "T", strength))
            before = f"rms after the fit; before: {np.sqrt((fit.before**2).mean()):.3g}"
            self.add(Estimate.normal("mag.residual", fit.residual, fit.residual_std, "T", before))

    def _delay(self, name: str, value: float, std: float) -> Estimate:
        """Return the latency without that of the fitted low-pass filter."""
        band = self.estimates[f"{name}.bandwidth"]
        if not band.identifiable or not np.isfinite(std):
            return latency.delay(f"{name}.delay", value, std, self.rate)
        share, share_std = latency.filter_delay(band, self.static[name].order)
        found = latency.delay(f"{name}.delay", value - share, float(np.hypot(std, share_std)), self.rate)
        return latency.with_filter(found, value, share)

    def together(self, names: list[str]) -> None:
        """Estimate what belongs to the sensor as a whole: latency and lost samples."""
        every = [self.estimates[f"{name}.delay"] for name in names]
        self.add(*latency.common_delay(every, [f"{name}.delay" for name in names if name != "mag"]))
        both = [name for name in names if name != "mag"] or names
        values = np.concatenate([self.log.channels[name] for name in both], axis=1)
        parts = [values[one] for one in self.still]
        self.add(dropout("dropout", values, chance_of_repeat(values, parts)))
        self._slow_magnetometer(names)

    def _slow_magnetometer(self, names: list[str]) -> None:
        """Note the share of new readings of a magnetometer that is sampled more slowly than the log."""
        if "mag" not in names or len(names) == 1:
            return
        values = self.log.channels["mag"]
        found = dropout("mag.repeats", values, chance_of_repeat(values, [values[one] for one in self.still]))
        share = float((np.diff(values, axis=0) == 0).all(axis=1).mean())
        if share > 0.05:
            reason = found.reason or "share of readings that repeat the one before"
            self.add(Estimate("mag.repeats", share, (share, share), "", True, reason))
