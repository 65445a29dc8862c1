"""Numba kernel of :mod:`sensorium.sensors.robot.frame_pose`, imported when the first pose sensor is built."""

from __future__ import annotations

import numpy as np

from sensorium.jit import kernel


@kernel  # type: ignore[untyped-decorator]
def normalise(data: np.ndarray, out: np.ndarray) -> None:
    """Copy poses of 13 rows each, with their quaternions (rows 3 to 7) made unit again."""
    for first in range(0, data.shape[0], 13):
        for row in range(first, first + 13):
            for b in range(data.shape[1]):
                out[row, b] = data[row, b]
        for b in range(data.shape[1]):
            w, x, y, z = data[first + 3, b], data[first + 4, b], data[first + 5, b], data[first + 6, b]
            norm = np.sqrt(w * w + x * x + y * y + z * z)
            for row in range(first + 3, first + 7):
                out[row, b] = data[row, b] / norm
