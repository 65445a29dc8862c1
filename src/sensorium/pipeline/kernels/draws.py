"""Random numbers for the hooks of sensor classes."""

from __future__ import annotations

import numpy as np

from sensorium.jit import helper, kernel
from sensorium.pipeline.flags import RATE
from sensorium.pipeline.kernels.random import normals, words

_F, _U = np.float32, np.uint32
_NONE, _BIN24 = _U(0), _F(2.0**-24)


@helper
def _own_draw(s: int, flags: np.ndarray, draw: np.ndarray, sample_draw: np.ndarray) -> np.ndarray:
    """Return the draw (2, B) of the newest sample of sensor s if it has a rate, else that of the tick; s = -1: tick."""
    return sample_draw[s] if s >= 0 and flags[s] & RATE else draw


@kernel
def fill_normal(
    key: np.ndarray, row: np.ndarray, flags: np.ndarray, draw: np.ndarray, sample_draw: np.ndarray, out: np.ndarray
) -> None:
    """Fill ``out`` (columns, B) with standard normals.

    Args:
        key: random key of each column, (columns, 2).
        row: the sensor of each column whose sample they belong to, (columns,); -1 for numbers of the tick.
        flags, draw, sample_draw: see :class:`~sensorium.pipeline.kernels.arrays.Timing`.
        out: where the numbers go.
    """
    for c in range(out.shape[0]):
        own = _own_draw(row[c], flags, draw, sample_draw)
        for b in range(out.shape[1]):
            w0, w1 = words(key[c, 0], key[c, 1], own, b, _NONE)
            out[c, b], _ = normals(w0, w1)


@kernel
def fill_uniform(
    key: np.ndarray, row: np.ndarray, flags: np.ndarray, draw: np.ndarray, sample_draw: np.ndarray, out: np.ndarray
) -> None:
    """Fill ``out`` (columns, B) with numbers in [0, 1); the arguments are those of :func:`fill_normal`."""
    for c in range(out.shape[0]):
        own = _own_draw(row[c], flags, draw, sample_draw)
        for b in range(out.shape[1]):
            w0, _ = words(key[c, 0], key[c, 1], own, b, _NONE)
            out[c, b] = _F(np.int32(w0 >> _U(8))) * _BIN24
