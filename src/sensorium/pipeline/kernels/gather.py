"""Gathering: ground truth of columns from the engine's sensor data.

Names: c is a column, b an env, a an address in the sensor data, q the address of a quaternion.
"""

from __future__ import annotations

import numpy as np

from sensorium.jit import helper, kernel
from sensorium.pipeline.flags import AXIS, COUNT, FIRST, GATHER_COPY, GATHER_NONE, GATHER_ROTATE, GATHER_SUM, OP, QUAT

_BLOCK = 64
"""Envs whose sensor data stays in the processor's first cache while all columns are gathered."""


@helper
def _rotated(w: float, x: float, y: float, z: float, fx: float, fy: float, fz: float, axis: int) -> float:
    """Component ``axis`` of the world-frame vector (fx, fy, fz) in the frame with orientation (w, x, y, z)."""
    if axis == 0:
        return (1 - 2 * (y * y + z * z)) * fx + 2 * (x * y + w * z) * fy + 2 * (x * z - w * y) * fz
    if axis == 1:
        return 2 * (x * y - w * z) * fx + (1 - 2 * (x * x + z * z)) * fy + 2 * (y * z + w * x) * fz
    return 2 * (x * z + w * y) * fx + 2 * (y * z - w * x) * fy + (1 - 2 * (x * x + y * y)) * fz


@helper
def gather_one(table: np.ndarray, sources: np.ndarray, c: int, data: np.ndarray, b: int) -> float:
    """Return the raw signal of one column and env."""
    op, first, count = table[c, OP], table[c, FIRST], table[c, COUNT]
    if op == GATHER_COPY:
        return data[b, sources[first]]
    if op == GATHER_ROTATE:
        x = y = z = 0.0
        for i in range(first, first + count):
            a = sources[i]
            x += data[b, a]
            y += data[b, a + 1]
            z += data[b, a + 2]
        q = table[c, QUAT]
        return _rotated(data[b, q], data[b, q + 1], data[b, q + 2], data[b, q + 3], x, y, z, table[c, AXIS])
    value = data[b, sources[first]]
    for i in range(first + 1, first + count):
        value = value + data[b, sources[i]]
    return value


@kernel
def gather(table: np.ndarray, sources: np.ndarray, truth: np.ndarray, c0: int, c1: int, data: np.ndarray) -> None:
    """Write the ground truth of columns [c0, c1) from the engine's sensor data (B, n)."""
    for b0 in range(0, truth.shape[1], _BLOCK):
        b1 = min(b0 + _BLOCK, truth.shape[1])
        for c in range(c0, c1):
            op, first, count = table[c, OP], table[c, FIRST], table[c, COUNT]
            a, q, axis = sources[first], table[c, QUAT], table[c, AXIS]
            if op == GATHER_COPY:
                for b in range(b0, b1):
                    truth[c, b] = data[b, a]
            elif op == GATHER_SUM:
                for b in range(b0, b1):
                    value = data[b, a]
                    for i in range(first + 1, first + count):
                        value = value + data[b, sources[i]]
                    truth[c, b] = value
            elif op == GATHER_ROTATE and count == 1:
                for b in range(b0, b1):
                    w, x, y, z = data[b, q], data[b, q + 1], data[b, q + 2], data[b, q + 3]
                    truth[c, b] = _rotated(w, x, y, z, data[b, a], data[b, a + 1], data[b, a + 2], axis)
            elif op != GATHER_NONE:
                for b in range(b0, b1):
                    truth[c, b] = gather_one(table, sources, c, data, b)
