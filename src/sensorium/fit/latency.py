"""Latency of readings against a reference: the coarse search, and what can be said about it.

A constant latency of the sensor and a constant offset between the clocks of log and reference shift the readings in the
same way. A log shows their sum. It is reported as ``delay``; the sensor's own share needs stamps of one clock, or a
reference whose offset is known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sensorium.fit.estimate import Estimate, Z

SUM = "latency plus the offset between the clocks of log and reference: a log shows only their sum"
"""What a delay against a reference means."""
NO_REFERENCE = "at rest a delayed reading looks like any other; record motion together with a reference"

_MIN_GAP = 5e-4
"""Difference between the latencies of two channels that is stated, s."""


def coarse_lag(values: np.ndarray, expected: np.ndarray, rate: float, max_lag: float) -> float:
    """Return by how many seconds readings are late against what is expected, to the nearest sample.

    The lag maximises the Frobenius norm of the cross-covariance, so the axes of both may be rotated or scaled.

    Args:
        values: readings at a constant rate, (samples, axes).
        expected: reference at the same times, (samples, axes); rows with NaN are ignored.
        rate: samples per second, Hz.
        max_lag: largest lag to either side, s.
    """
    size = len(values)
    length = int(2 ** np.ceil(np.log2(2 * size)))
    spectra = []
    for one in (values, expected):
        known = np.isfinite(one).all(axis=1, keepdims=True)
        centred = np.where(known, one - np.nanmean(one, axis=0), 0.0)
        spectra.append(np.fft.rfft(centred, length, axis=0))
    power = np.zeros(length)
    for i in range(values.shape[1]):
        for j in range(expected.shape[1]):
            power += np.fft.irfft(spectra[0][:, i] * np.conj(spectra[1][:, j]), length) ** 2
    reach = min(int(max_lag * rate), size - 1)
    lags = np.arange(-reach, reach + 1)
    return float(lags[power[lags % length].argmax()]) / rate


def delay(name: str, value: float, std: float, rate: float) -> Estimate:
    """Return the estimate of a delay; it is not identified if its error exceeds two samples.

    Args:
        name: name of the estimate.
        value: by how much readings are late, s.
        std: standard error, s.
        rate: samples per second, Hz.
    """
    if not np.isfinite(std) or std > 2 / rate:
        reason = "the motion is too slow or too weak for it; record faster motion about all axes"
        return Estimate.missing(name, "s", reason)
    return Estimate.normal(name, value, std, "s", SUM)


def filter_delay(bandwidth: Estimate, order: int) -> tuple[float, float]:
    """Return the delay of slow signals in a Butterworth low-pass filter and its standard error, s."""
    share = (1.0 if order == 1 else np.sqrt(2.0)) / (2 * np.pi * float(bandwidth.value))
    return float(share), float(share * bandwidth.std / bandwidth.value)


def with_filter(found: Estimate, total: float, share: float) -> Estimate:
    """Return a delay whose reason names the part that the low-pass filter adds."""
    if not found.identifiable:
        return found
    text = f"{found.reason}; the filter adds {1e3 * share:.3g} ms, {1e3 * total:.3g} ms in all"
    return Estimate(found.name, found.value, found.interval, found.unit, True, text)


def common_delay(every: Sequence[Estimate], eligible: Sequence[str]) -> list[Estimate]:
    """Return the latency of a sensor that has one for all channels: that of the first eligible channel that is known.

    Args:
        every: latencies of the channels.
        eligible: names of those that can be that of the sensor, the most precise first.

    Returns:
        ``delay``, whose reason states by how much other channels are earlier or later; nothing without channels.
    """
    known = {one.name: one for one in every if one.identifiable}
    best = next((known[name] for name in eligible if name in known), None)
    if best is None:
        return [Estimate.missing("delay", "s", one.reason) for one in every[:1]]
    late = float(best.value)
    if late < 0:
        reason = f"readings are {-1e3 * late:.3g} ms early: the clocks of log and reference differ"
        return [Estimate.missing("delay", "s", reason)]
    reason = f"that of {best.name.partition('.')[0]}, for all channels: a simulated IMU has one latency"
    for other in known.values():
        gap, std = float(other.value) - late, float(np.hypot(other.std, best.std))
        if other is not best and abs(gap) > max(Z * std, _MIN_GAP):
            side = "later" if gap > 0 else "earlier"
            reason += f"; {other.name.partition('.')[0]} is {abs(1e3 * gap):.2g} ms {side} (±{1e3 * Z * std:.1g} ms)"
    return [Estimate("delay", best.value, best.interval, "s", True, f"{reason}; {best.reason}")]
