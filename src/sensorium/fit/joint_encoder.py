"""Fit of joint encoders: step, noise, latency, and the lag behind the commanded motion."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from sensorium.fit.calibration import calibrate
from sensorium.fit.channel import ChannelFit
from sensorium.fit.estimate import Estimate, Twin
from sensorium.fit.logs import LogSource, SensorLog, as_log
from sensorium.fit.reading import LogReading
from sensorium.fit.response import known_signal


def joint_encoder(
    log: LogSource,
    reference: object = None,
    *,
    smooth: bool = False,
    max_lag: float = 0.5,
    **reading: Unpack[LogReading],
) -> Twin:
    """Fit joint encoders to a log of joint positions, and of velocities if it has them.

    The step (``resolution``) follows from the readings alone. Latency, scale and bias need the true joint trajectory.
    If the log has commanded positions (``joint_command``), ``command_delay`` is by how much the joints are late: the
    lag of the drive plus the latency of the encoder, which a log cannot tell apart.

    Args:
        log: arrays (``time``, ``joint_pos``, ``joint_vel``, ``joint_command``) or a file.
        reference: true positions: an array at the time stamps of the log, or a log with ``joint_pos``.
        smooth: whether the reference is noisy, so that it passes a smoothing spline.
        max_lag: largest latency that is searched for, s.
        **reading: ``fields``, ``units``, ``rate`` and ``group`` of :func:`as_log`.

    Raises:
        OptionError: the log has no joint positions, or the reference does not fit it.

    Example:
        >>> twin = sn.fit.joint_encoder("go2.npz")
        >>> twin.estimates["resolution"].value  # rad, one per joint
    """
    source = as_log(log, **reading)
    values = source.need("joint_pos")
    joints = values.shape[1]
    known = None if reference is None else known_signal(reference, source, "joint_pos", joints, smooth)
    fit = ChannelFit(source, max_lag)
    fit.fit("joint_pos", "", "rad", known, "diagonal")
    step = fit.estimates["resolution"]
    if step.identifiable:
        low, high = (2 * np.pi / np.asarray(one) for one in reversed(step.interval))
        reason = "2 pi / resolution, for hinge joints"
        counts = Estimate("counts", 2 * np.pi / np.asarray(step.value), (low, high), "1/turn", True, reason)
        fit.add(counts)
    if "joint_vel" in source.channels:
        _velocity(fit)
    if "joint_command" in source.channels and source.channels["joint_command"].shape == values.shape:
        fit.add(_command_delay(source, values, fit.rate, max_lag))
    fit.sensor_delay([""])
    return fit.twin("joint_encoder", reference, smooth=smooth, max_lag=max_lag)


def _velocity(fit: ChannelFit) -> None:
    """Add noise and bias of the velocities; the true velocity at rest is 0."""
    static = fit.fit("joint_vel", "vel.", "rad/s", None, "diagonal")
    found = static.level()
    if found is not None:
        fit.add(Estimate.normal("vel.bias", *found, "rad/s", "mean at rest"))


def _command_delay(log: SensorLog, values: np.ndarray, rate: float, max_lag: float) -> Estimate:
    """Return by how much each joint is late against its command."""
    command = log.channels["joint_command"]
    delay, error = np.full(values.shape[1], np.nan), np.full(values.shape[1], np.inf)
    for joint in range(values.shape[1]):
        if np.ptp(command[:, joint]) == 0 or np.ptp(values[:, joint]) == 0:
            continue
        one = known_signal(command[:, joint], log, "joint_command", 1, False)
        found = calibrate(
            log.time, values[:, joint : joint + 1], one.expected, matrix="diagonal", max_lag=max_lag, exact=True
        )
        if found is not None and found.explained > 0.5 and found.delay_std < 10 / rate:
            delay[joint], error[joint] = found.delay, found.delay_std
    reason = "lag of the drive plus latency of the encoder: a log shows only their sum"
    if not np.isfinite(delay).any():
        return Estimate.missing("command_delay", "s", "the joints do not follow their commands", delay.shape)
    return Estimate.normal("command_delay", delay, error, "s", reason)
