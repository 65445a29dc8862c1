"""The kernel by which :mod:`sensorium.pipeline.chain` tests itself."""

from typing import Any

from sensorium.jit import kernel


@kernel
def fill(out: Any, values: Any, counts: Any, nothing: Any, flag: bool, factor: float, step: int) -> None:
    """Write something of every argument to ``out`` (8,): strided and whole arrays, None, a flag, numbers."""
    for i in range(2):
        out[i] = values[i, 0] + 10 * values[i, 2]
        out[2 + i] = counts[i] * factor
    out[4] = values.shape[0] + 10 * values.shape[1]
    out[5] = 1.0 if nothing is None else 2.0
    out[6] = 1.0 if flag else 2.0
    out[7] = step
