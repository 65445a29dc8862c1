"""Gathering: ground truth of columns from the engine's sensor data.

Names: c is a column, b an env, a an address in the sensor data, q the address of a quaternion.
"""

from __future__ import annotations

import numpy as np

from sensorium.jit import helper, inlined, kernel
from sensorium.pipeline.flags import AXIS, COUNT, FIRST, GATHER_COPY, GATHER_NONE, GATHER_ROTATE, GATHER_SUM, OP, QUAT

_BLOCK = 128
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


@inlined
def _copy_row(data: np.ndarray, a: int, row: np.ndarray) -> None:
    for b in range(row.shape[0]):
        row[b] = data[b, a]


@inlined
def _sum_row(data: np.ndarray, sources: np.ndarray, first: int, count: int, row: np.ndarray) -> None:
    a = sources[first]
    for b in range(row.shape[0]):
        value = data[b, a]
        for i in range(first + 1, first + count):
            value = value + data[b, sources[i]]
        row[b] = value


@inlined
def _sum_eight_row(data: np.ndarray, sources: np.ndarray, first: int, row: np.ndarray) -> None:
    """Add up eight addresses, those of a contact switch, without reading them again for every env."""
    a, c, d, e = sources[first], sources[first + 1], sources[first + 2], sources[first + 3]
    f, g, h, i = sources[first + 4], sources[first + 5], sources[first + 6], sources[first + 7]
    for b in range(row.shape[0]):
        half = ((data[b, a] + data[b, c]) + data[b, d]) + data[b, e]
        row[b] = (((half + data[b, f]) + data[b, g]) + data[b, h]) + data[b, i]


@inlined
def _rotate_row(data: np.ndarray, q: int, a: int, axis: int, row: np.ndarray) -> None:
    for b in range(row.shape[0]):
        w, x, y, z = data[b, q], data[b, q + 1], data[b, q + 2], data[b, q + 3]
        row[b] = _rotated(w, x, y, z, data[b, a], data[b, a + 1], data[b, a + 2], axis)


@inlined
def _rotate_rows(data: np.ndarray, q: int, a: int, row0: np.ndarray, row1: np.ndarray, row2: np.ndarray) -> None:
    """Rotate all components of a vector: they share most of the products."""
    for b in range(row0.shape[0]):
        w, x, y, z = data[b, q], data[b, q + 1], data[b, q + 2], data[b, q + 3]
        fx, fy, fz = data[b, a], data[b, a + 1], data[b, a + 2]
        v0 = _rotated(w, x, y, z, fx, fy, fz, 0)
        v1 = _rotated(w, x, y, z, fx, fy, fz, 1)
        v2 = _rotated(w, x, y, z, fx, fy, fz, 2)
        row0[b], row1[b], row2[b] = v0, v1, v2


@helper
def _is_vector(table: np.ndarray, sources: np.ndarray, c: int, c1: int) -> bool:
    """Return whether columns c, c + 1 and c + 2 are the components of one rotated vector."""
    if c + 2 >= c1 or table[c, AXIS] != 0:
        return False
    a, q = sources[table[c, FIRST]], table[c, QUAT]
    for axis in range(1, 3):
        own = table[c + axis]
        if own[OP] != GATHER_ROTATE or own[COUNT] != 1 or own[AXIS] != axis or own[QUAT] != q:
            return False
        if sources[own[FIRST]] != a:
            return False
    return True


@kernel
def gather(table: np.ndarray, sources: np.ndarray, truth: np.ndarray, c0: int, c1: int, data: np.ndarray) -> None:
    """Write the ground truth of columns [c0, c1) from the engine's sensor data (B, n)."""
    n = truth.shape[1]
    for b0 in range(0, n, _BLOCK):
        # views of the block: with indices from 0, Numba compiles no code for negative ones
        b1 = min(b0 + _BLOCK, n)
        part = data[b0:b1]
        c = c0
        while c < c1:
            op, first, count = table[c, OP], table[c, FIRST], table[c, COUNT]
            row, done = truth[c, b0:b1], 1
            if op == GATHER_COPY:
                _copy_row(part, sources[first], row)
            elif op == GATHER_SUM and count == 8:
                _sum_eight_row(part, sources, first, row)
            elif op == GATHER_SUM:
                _sum_row(part, sources, first, count, row)
            elif op == GATHER_ROTATE and count == 1:
                q, a = table[c, QUAT], sources[first]
                if _is_vector(table, sources, c, c1):
                    _rotate_rows(part, q, a, row, truth[c + 1, b0:b1], truth[c + 2, b0:b1])
                    done = 3
                else:
                    _rotate_row(part, q, a, table[c, AXIS], row)
            elif op != GATHER_NONE:
                for b in range(row.shape[0]):
                    row[b] = gather_one(table, sources, c, part, b)
            c += done
