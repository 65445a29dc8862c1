"""What one channel shows without a reference: step, limits, outliers, noise and drift at rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from sensorium.fit import outliers as outlier_fit
from sensorium.fit.estimate import Estimate
from sensorium.fit.noise import RestFit, level, rest_noise
from sensorium.fit.resolution import deadband, resolution, saturation, step_of
from sensorium.fit.rest import MAX_MISSING

_OF_READINGS = ("resolution", "saturation", "deadband")
_ORDERS = (2, 1)
"""Orders of low-pass filters, the default of the options first."""


@dataclass(frozen=True)
class StaticFit:
    """Step, limits, outliers, noise and drift of one channel."""

    estimates: list[Estimate]
    parts: list[np.ndarray]
    """Readings of the rest periods without outliers, each (samples, axes)."""
    starts: list[float]
    """Time of the first sample of each part since the start of the log, s."""
    steps: np.ndarray
    """Step of each axis; 0 for none."""
    rest: RestFit
    rate: float
    order: int
    """Order of the low-pass filter that fits the spectrum best."""

    @property
    def readings(self) -> list[Estimate]:
        """Estimates that follow from the values that readings take: step, limits and dead band."""
        return [one for one in self.estimates if one.name.endswith(_OF_READINGS)]

    @property
    def others(self) -> list[Estimate]:
        """All other estimates."""
        return [one for one in self.estimates if not one.name.endswith(_OF_READINGS)]

    @property
    def noise(self) -> np.ndarray:
        """Standard deviation of white noise per sample, quantisation included, (axes,)."""
        density = np.array([one.density for one in self.rest.white]) if self.rest.white else np.zeros(len(self.steps))
        return np.sqrt(np.nan_to_num(density) ** 2 * self.rate / 2 + self.steps**2 / 12)

    def level(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the mean reading of each axis at rest and its standard error, or None without rest."""
        if not self.rest.white:
            return None
        return level(self.parts, self.starts, self.rate, self.rest, self.steps)


def static_fit(
    channel: str,
    values: np.ndarray,
    rate: float,
    rest: Sequence[slice],
    unit: str,
    has_zero: bool = True,
    steps: np.ndarray | None = None,
) -> StaticFit:
    """Return what the readings of one channel show without a reference.

    Args:
        channel: prefix of the names, e.g. "gyro."; "" for a sensor with one channel.
        values: readings, (samples, axes).
        rate: samples per second, Hz.
        rest: rows at rest.
        unit: unit of the readings.
        has_zero: whether the true value passes through 0, so that a dead band would show.
        steps: step of each axis, if ``values`` are residuals that do not show it any more.
    """
    found = [resolution(f"{channel}resolution", values, unit), saturation(f"{channel}saturation", values, unit)]
    if has_zero:
        found.append(deadband(f"{channel}deadband", values, unit))
    if steps is None:
        steps = np.array([step_of(axis).size for axis in values.T])
    segments = sorted((one for one in rest if one.stop - one.start > 8), key=lambda one: one.start)
    parts = [values[one] for one in segments]
    # readings that are NaN count as samples that are lost
    parts = [part[np.isfinite(part).all(axis=1)] for part in parts]
    least = [max(8, (1 - MAX_MISSING) * (one.stop - one.start)) for one in segments]
    known = [len(part) > count for part, count in zip(parts, least, strict=True)]
    parts, segments = (  # type: ignore[assignment]
        [one for one, good in zip(all_, known, strict=True) if good] for all_ in (parts, segments)
    )
    if parts:
        found += outlier_fit.outliers(channel, parts, unit)
        parts = _without_outliers(parts, found)
    fits = [rest_noise(channel, parts, rate, unit, steps, _ORDERS[0])]
    if any(np.isfinite(one.bandwidth) for one in fits[0].white):
        fits.append(rest_noise(channel, parts, rate, unit, steps, _ORDERS[1]))
    misfits = [max((one.misfit for one in fit.white), default=0.0) for fit in fits]
    if max(misfits) > 0:  # a spectrum of another shape: the filter that is nearest to it
        best = 1 if misfits[1] < 0.7 * misfits[0] else 0
    else:
        best = max(range(len(fits)), key=lambda i: (round(fits[i].log_likelihood, 1), -i))
    found += fits[best].estimates
    starts = [one.start / rate for one in segments]
    return StaticFit(found, parts, starts, steps, fits[best], rate, _ORDERS[best])


def _without_outliers(parts: list[np.ndarray], found: list[Estimate]) -> list[np.ndarray]:
    """Return the parts with outliers moved back by their size, so that the noise in them still counts."""
    sizes = [one for one in found if one.name.endswith("outlier_size")]
    if not sizes:
        return parts
    clean = []
    for part, mask in zip(parts, outlier_fit.find(parts), strict=True):
        middle = ndimage.median_filter(part, size=(min(31, len(part)), 1), mode="nearest")
        moved = part - np.sign(part - middle) * sizes[0].value
        spread = np.std((part - middle)[~mask])
        moved = np.where(np.abs(moved - middle) < 5 * spread, moved, middle)
        clean.append(np.where(mask, moved, part))
    return clean
