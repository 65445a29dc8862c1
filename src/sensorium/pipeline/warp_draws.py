"""Random draws in the Warp kernels of sensor classes: the words and normals of ``formula.py``, to the bit.

Kernels that use them must be compiled without fused multiply-add (``fuse_fp``).
"""

# the annotations of Warp kernels are values, not types
# mypy: disable-error-code="valid-type,misc,index,attr-defined,operator,no-untyped-def,empty-body,name-defined"
# mypy: allow-untyped-decorators, allow-untyped-calls

import warp as wp

from sensorium.pipeline import warp_snippets
from sensorium.worlds import warp_init as warp_init

_COUNTER = "unsigned k0 = (unsigned)key0, k1 = (unsigned)key1, step = (unsigned)at_step; const int b = env;"
_WORD = f"{_COUNTER}{warp_snippets._threefry()}return w0;"
_NORMAL = f"{_COUNTER}{warp_snippets._threefry()}float n0, n1;{warp_snippets._NORMALS}return n0;"


@wp.func_native(_WORD)
def word(key0: wp.int32, key1: wp.int32, env: wp.int32, at_step: wp.int32) -> wp.uint32:
    """The first random word of a key and a counter (env, step)."""


@wp.func_native(_NORMAL)
def normal(key0: wp.int32, key1: wp.int32, env: wp.int32, at_step: wp.int32) -> wp.float32:
    """The first of the two normals of a key and a counter (env, step)."""
