"""The fused step on the CPU: Numba kernels over NumPy views of the pipeline's tensors, one module per stage.

They implement ``formula.py``. They are fast for these reasons, the most important first:

- The layout is columns x envs, so every inner loop runs over contiguous memory.
- Several short loops over rows that stay in the cache replace one long loop. LLVM vectorises each of them.
- Columns skip the work that their flags do not ask for.
- Nothing is allocated: scratch rows are arguments.
- The kernels release the GIL, so large blocks are split over threads by columns.

Kernels take arrays one by one. With Numba 0.68, a call with a named tuple takes twice as long and leaks about 50 bytes.

A scene compiles only the stages that it uses. Arrays of imperfections that no sensor of a block has are None, and Numba
removes the branches that use them before it compiles the rest.

The package exports the random numbers, which the kernels of sensor classes use as well.
"""

from sensorium.pipeline.kernels.random import normals, threefry, words

__all__ = ["normals", "threefry", "words"]
