"""Holding: values of the last sample stay where no sample is due.

Names: c is a row of the data, s the sensor that it belongs to, b an env.
"""

from __future__ import annotations

import numpy as np

from sensorium.jit import kernel


@kernel
def restore(sensor: np.ndarray, due: np.ndarray, saved: np.ndarray, data: np.ndarray) -> None:
    """Copy ``saved`` to ``data`` (rows, B) where no sample is due.

    Args:
        sensor: (rows,) row of the sensor in ``due``.
        due: (sensors, B) whether the sensor takes a sample in this tick.
        saved: (rows, B) values before this tick.
        data: values of this tick, in place.
    """
    for c in range(data.shape[0]):
        s = sensor[c]
        for b in range(data.shape[1]):
            if not due[s, b]:
                data[c, b] = saved[c, b]
