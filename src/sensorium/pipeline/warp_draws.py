"""Random words and normals for the Warp kernels of sensor classes, bit-identical to ``formula.py``.

Kernels that use them must be compiled without fused multiply-add (``fuse_fp``).
"""

import warp as wp

from sensorium.pipeline.warp_snippets import NORMALS, THREEFRY
from sensorium.worlds import warp_init as warp_init

_COUNTER = "unsigned k0 = (unsigned)key0, k1 = (unsigned)key1, d0 = (unsigned)draw0, d1 = (unsigned)draw1;"
_WORD = f"{_COUNTER}{THREEFRY}return w0;"
_NORMAL = f"{_COUNTER}{THREEFRY}float n0, n1;{NORMALS}return n0;"

wp.set_module_options({"fuse_fp": False, "enable_backward": False, "fast_math": False})


@wp.func_native(_WORD)
def word(key0: wp.int32, key1: wp.int32, draw0: wp.int32, draw1: wp.int32) -> wp.uint32:
    """Return the first random word of a key and the draw of an env (rows of ``group.draw``)."""


@wp.func_native(_NORMAL)
def normal(key0: wp.int32, key1: wp.int32, draw0: wp.int32, draw1: wp.int32) -> wp.float32:
    """Return the first of the two normals of a key and the draw of an env (rows of ``group.draw``)."""


@wp.kernel
def fill_normal(keys: wp.array2d(dtype=int), draw: wp.array2d(dtype=int), out: wp.array2d(dtype=float)):
    """Fill ``out`` (columns, B) with standard normals of this tick."""
    c, b = wp.tid()
    out[c, b] = normal(keys[c, 0], keys[c, 1], draw[0, b], draw[1, b])


@wp.kernel
def fill_uniform(keys: wp.array2d(dtype=int), draw: wp.array2d(dtype=int), out: wp.array2d(dtype=float)):
    """Fill ``out`` (columns, B) with numbers in [0, 1) of this tick."""
    c, b = wp.tid()
    w = word(keys[c, 0], keys[c, 1], draw[0, b], draw[1, b])
    out[c, b] = wp.float32(wp.int32(w >> wp.uint32(8))) * wp.static(2.0**-24)
