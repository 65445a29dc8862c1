"""Random words and normals for the Warp kernels of sensor classes, bit-identical to ``formula.py``.

Kernels that use them must be compiled without fused multiply-add (``fuse_fp``).
"""

import warp as wp

from sensorium.pipeline.warp_snippets import NORMALS, THREEFRY
from sensorium.worlds import warp_init as warp_init

_COUNTER = "unsigned k0 = (unsigned)key0, k1 = (unsigned)key1, step = (unsigned)at_step; const int b = env;"
_WORD = f"{_COUNTER}{THREEFRY}return w0;"
_NORMAL = f"{_COUNTER}{THREEFRY}float n0, n1;{NORMALS}return n0;"


@wp.func_native(_WORD)
def word(key0: wp.int32, key1: wp.int32, env: wp.int32, at_step: wp.int32) -> wp.uint32:
    """Return the first random word of a key and the counter (env, step)."""


@wp.func_native(_NORMAL)
def normal(key0: wp.int32, key1: wp.int32, env: wp.int32, at_step: wp.int32) -> wp.float32:
    """Return the first of the two normals of a key and the counter (env, step)."""
