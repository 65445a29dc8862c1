"""Random numbers for the hooks of sensor classes."""

from __future__ import annotations

import numpy as np

from sensorium.jit import kernel
from sensorium.pipeline.kernels.random import normals, words

_F, _U = np.float32, np.uint32
_NONE, _BIN24 = _U(0), _F(2.0**-24)


@kernel
def fill_normal(key: np.ndarray, draw: np.ndarray, out: np.ndarray) -> None:
    """Fill ``out`` (columns, B) with standard normals of this tick; ``key`` (columns, 2)."""
    for c in range(out.shape[0]):
        for b in range(out.shape[1]):
            w0, w1 = words(key[c, 0], key[c, 1], draw, b, _NONE)
            out[c, b], _ = normals(w0, w1)


@kernel
def fill_uniform(key: np.ndarray, draw: np.ndarray, out: np.ndarray) -> None:
    """Fill ``out`` (columns, B) with numbers in [0, 1) of this tick; ``key`` (columns, 2)."""
    for c in range(out.shape[0]):
        for b in range(out.shape[1]):
            w0, _ = words(key[c, 0], key[c, 1], draw, b, _NONE)
            out[c, b] = _F(np.int32(w0 >> _U(8))) * _BIN24
