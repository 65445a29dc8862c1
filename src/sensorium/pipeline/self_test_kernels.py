"""The kernel of the self-test of :mod:`sensorium.pipeline.chain`."""

from __future__ import annotations

import numpy as np

from sensorium.jit import kernel


@kernel
def fill(
    out: np.ndarray,
    values: np.ndarray,
    counts: np.ndarray,
    nothing: object,
    flag: bool,
    factor: float,
    step: int,
) -> None:
    """Write a value of every argument to ``out`` (8,): strided and contiguous arrays, None, a flag, numbers."""
    for i in range(2):
        out[i] = values[i, 0] + 10 * values[i, 2]
        out[2 + i] = counts[i] * factor
    out[4] = values.shape[0] + 10 * values.shape[1]
    out[5] = 1.0 if nothing is None else 2.0
    out[6] = 1.0 if flag else 2.0
    out[7] = step
