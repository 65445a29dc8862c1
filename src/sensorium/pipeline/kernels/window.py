"""Averaging: the mean of the raw signal over the interval between two samples.

Names: c is a column of the group, s the sensor that it belongs to, b an env.
"""

from __future__ import annotations

import numpy as np

from sensorium.jit import kernel


@kernel
def average(
    sensor: np.ndarray,
    averaged: np.ndarray,
    due: np.ndarray,
    total: np.ndarray,
    count: np.ndarray,
    data: np.ndarray,
) -> None:
    """Replace averaged columns of ``data`` (columns, B) by their mean since the last sample.

    Args:
        sensor: (columns,) row of the sensor in ``due``.
        averaged: (columns,) bool.
        due: (rows, B) whether the sensor takes a sample in this tick, which ends the interval.
        total, count: (columns, B) sum of the interval so far, and number of its values.
        data: raw signal of this tick, in place.
    """
    for c in range(data.shape[0]):
        if not averaged[c]:
            continue
        s = sensor[c]
        for b in range(data.shape[1]):
            n, value = count[c, b] + 1, total[c, b] + data[c, b]
            data[c, b] = value / n
            count[c, b] = 0 if due[s, b] else n
            total[c, b] = 0.0 if due[s, b] else value
