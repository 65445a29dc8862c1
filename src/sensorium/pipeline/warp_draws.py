"""Random words and normals for the Warp kernels of sensor classes, bit-identical to ``formula.py``.

Kernels that use them must be compiled without fused multiply-add (``fuse_fp``).
"""

import warp as wp

from sensorium.pipeline.flags import RATE
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


@wp.func
def _own_draw(
    s: int, flags: wp.array1d(dtype=int), draw: wp.array2d(dtype=int), sample_draw: wp.array3d(dtype=int), b: int
):
    """Return the draw of the newest sample of sensor s in env b if it has a rate, else that of the tick; -1: tick."""
    own = wp.vec2i(draw[0, b], draw[1, b])
    if s >= 0:  # Warp evaluates both sides of an "and"  # noqa: SIM102
        if (flags[s] & wp.static(RATE)) != 0:
            own = wp.vec2i(sample_draw[s, 0, b], sample_draw[s, 1, b])
    return own


@wp.kernel
def fill_normal(
    keys: wp.array2d(dtype=int),
    row: wp.array1d(dtype=int),
    flags: wp.array1d(dtype=int),
    draw: wp.array2d(dtype=int),
    sample_draw: wp.array3d(dtype=int),
    out: wp.array2d(dtype=float),
):
    """Fill ``out`` (columns, B) with standard normals; see ``kernels/draws.py``."""
    c, b = wp.tid()
    own = _own_draw(row[c], flags, draw, sample_draw, b)
    out[c, b] = normal(keys[c, 0], keys[c, 1], own[0], own[1])


@wp.kernel
def fill_uniform(
    keys: wp.array2d(dtype=int),
    row: wp.array1d(dtype=int),
    flags: wp.array1d(dtype=int),
    draw: wp.array2d(dtype=int),
    sample_draw: wp.array3d(dtype=int),
    out: wp.array2d(dtype=float),
):
    """Fill ``out`` (columns, B) with numbers in [0, 1); see ``kernels/draws.py``."""
    c, b = wp.tid()
    own = _own_draw(row[c], flags, draw, sample_draw, b)
    w = word(keys[c, 0], keys[c, 1], own[0], own[1])
    out[c, b] = wp.float32(wp.int32(w >> wp.uint32(8))) * wp.static(2.0**-24)
