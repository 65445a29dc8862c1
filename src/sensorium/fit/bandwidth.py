"""Bandwidth of the low-pass response as an estimate, from the noise or against a reference."""

from __future__ import annotations

import numpy as np

from sensorium.fit.estimate import Estimate

_UNCLEAR = 0.5
"""Largest standard error of log(bandwidth) that counts as identified."""


def bandwidth(name: str, by_noise: Estimate, value: float, log_std: float, reference: bool, rate: float) -> Estimate:
    """Return the better of the bandwidths that the noise and the reference show.

    Args:
        name: name of the estimate.
        by_noise: what the spectrum of the noise shows.
        value: bandwidth against the reference, Hz; NaN if the reference shows none.
        log_std: standard error of its logarithm.
        reference: whether there is an exact reference with motion.
        rate: samples per second, Hz.
    """
    shown = bool(np.isfinite(value)) and log_std < _UNCLEAR and value < 0.44 * rate
    noise_std = float(by_noise.std / by_noise.value) if by_noise.identifiable else np.inf
    if shown and log_std < noise_std:
        return Estimate.positive(name, value, log_std, "Hz", "response to the reference")
    if by_noise.identifiable or not reference:
        return by_noise
    reason = "readings follow the reference without a low-pass response; record faster motion to see one"
    return Estimate.missing(name, "Hz", reason)
