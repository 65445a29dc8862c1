"""Outliers of readings at rest: their probability and size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import ndimage

from sensorium.fit.estimate import Estimate
from sensorium.fit.timing import probability

_FAR = 6.0
"""Distance from the running median from which on a reading is an outlier, in robust standard deviations."""
_WINDOW = 31
"""Samples of the running median."""


def find(parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return a mask of outliers for each rest period; the same shape as the readings, (samples, axes)."""
    masks = []
    for part in parts:
        rest = part - ndimage.median_filter(part, size=(min(_WINDOW, len(part)), 1), mode="nearest")
        spread = _spread(rest)
        masks.append(np.abs(rest) > _FAR * spread)
    return masks


def _spread(rest: np.ndarray) -> np.ndarray:
    """Return a robust standard deviation per axis; at least half of a step of quantised readings."""
    spread = 1.4826 * np.median(np.abs(rest), axis=0)
    wide = np.subtract(*np.percentile(rest, [95, 5], axis=0)) / 3.29
    small = [np.min(np.abs(axis[axis != 0]), initial=np.inf) for axis in rest.T]
    floor = np.where(np.isfinite(small), 0.5 * np.array(small), 0.0)
    return np.maximum(np.maximum(spread, wide), floor)


def outliers(channel: str, parts: Sequence[np.ndarray], unit: str) -> list[Estimate]:
    """Return the estimates ``outliers`` (probability per sample) and ``outlier_size`` of one channel.

    Args:
        channel: prefix of the names, e.g. "gyro.".
        parts: readings of the rest periods, each (samples, axes).
        unit: unit of the readings.
    """
    masks = find(parts)
    total = sum(mask.size for mask in masks)
    count = sum(int(mask.sum()) for mask in masks)
    if count < 3 or count > 0.2 * total:
        high = 3.0 / max(total, 1) if count < 3 else 1.0
        reason = f"{count} of {total} readings at rest are far from their neighbours"
        return [Estimate.at_most(f"{channel}outliers", high, "", reason)]
    distance, noise = [], []
    for part, mask in zip(parts, masks, strict=True):
        rest = part - ndimage.median_filter(part, size=(min(_WINDOW, len(part)), 1), mode="nearest")
        distance.append(np.abs(rest[mask]))
        noise.append(rest[~mask])
    far = np.concatenate(distance)
    error = max(float(np.std(far, ddof=1)), float(np.std(np.concatenate(noise)))) / np.sqrt(len(far))
    return [
        probability(f"{channel}outliers", count, total),
        Estimate.normal(f"{channel}outlier_size", float(far.mean()), error, unit),
    ]
