"""Warp kernels of the imperfections of tactile skins: the GPU counterparts of ``skin_kernels.py``.

Kernels have one thread per column and env. Readings have the CPU's bits, as long as ``exp`` has. Random numbers of a
taxel depend on its key and the env only, so they are drawn where they are used.
"""

# the annotations of Warp kernels are values, not types
# mypy: disable-error-code="valid-type,misc,index,attr-defined,operator,no-untyped-def,empty-body,name-defined"
# mypy: allow-untyped-decorators, allow-untyped-calls

import warp as wp

from sensorium.pipeline.warp_draws import normal, word
from sensorium.sensors.touch import skin_kernels

wp.set_module_options({"fuse_fp": False, "enable_backward": False, "fast_math": False})

_NEGLIGIBLE = wp.constant(wp.float32(skin_kernels.NEGLIGIBLE))
_ONE = wp.constant(wp.float64(1.0))
_BIN24 = wp.constant(wp.float32(2.0**-24))

ints, ints2, singles2 = wp.array(dtype=wp.int32), wp.array2d(dtype=wp.int32), wp.array2d(dtype=wp.float32)


@wp.struct
class Skins:
    """Constants and parameters of all skins; N taxels, C columns, S sensors."""

    taxel: ints  # (C,) taxel of each column, -1 for columns that are not changed
    sensor: ints  # (C,) sensor of each column
    keys: ints2  # (N, 2) random keys
    dead: wp.array(dtype=wp.bool)  # (N,) which taxels are dead in every env
    starts: ints  # (N + 1,) where the entries of each taxel begin; none without crosstalk
    away: ints  # columns from a taxel to one that it reads
    weight: wp.array(dtype=wp.float32)  # and with which weight
    env: ints  # (B,) whose random numbers each env draws
    fraction: singles2
    time: singles2
    spread: singles2
    dead_fraction: singles2


@wp.func
def _gain(skins: Skins, i: int, s: int, b: int) -> wp.float32:
    spread = skins.spread[s, b]
    own = wp.float32(1.0)
    if spread > 0.0:
        own = wp.float32(1.0) + spread * normal(skins.keys[i, 0], skins.keys[i, 1], skins.env[b], 0)
    return own


@wp.kernel
def respond(skins: Skins, memory: singles2, dt: wp.float64, data: singles2, mixed: singles2):
    """Apply viscoelasticity, and gains where there is no crosstalk, in place on ``data`` (columns, B).

    Where there is crosstalk, the result is written to ``mixed`` (columns, B), from which :func:`mix` goes on.
    """
    c, b = wp.tid()
    i = skins.taxel[c]
    if i < 0:
        return
    s = skins.sensor[c]
    x = data[c, b]
    share = skins.fraction[s, b]
    z = x
    if share != 0.0:
        before = memory[c, b]
        if not wp.isnan(before):
            z = before
    felt = x + share * (x - z)
    if z != x:  # the dashpot, for a constant load until the next step
        z = z + wp.float32(_ONE - wp.exp(-dt / wp.float64(skins.time[s, b]))) * (x - z)
    if wp.abs(z) <= _NEGLIGIBLE:
        z = wp.float32(0.0)
    memory[c, b] = z
    if skins.starts[i] < skins.starts[i + 1]:
        mixed[c, b] = felt
    else:
        data[c, b] = felt * _gain(skins, i, s, b)


@wp.kernel
def mix(skins: Skins, mixed: singles2, data: singles2):
    """Write the crosstalk of ``mixed`` (columns, B), times the gains, to ``data`` (columns, B)."""
    c, b = wp.tid()
    i = skins.taxel[c]
    if i < 0:
        return
    first = skins.starts[i]
    last = skins.starts[i + 1]
    if first == last:
        return
    total = wp.float32(0.0)
    for entry in range(first, last):
        total += skins.weight[entry] * mixed[c + skins.away[entry], b]
    data[c, b] = total * _gain(skins, i, skins.sensor[c], b)


@wp.kernel
def mute(skins: Skins, data: singles2):
    """Set dead taxels to 0."""
    c, b = wp.tid()
    i = skins.taxel[c]
    if i < 0:
        return
    dead = skins.dead[i]
    fraction = skins.dead_fraction[skins.sensor[c], b]
    if not dead and fraction > 0.0:
        drawn = word(skins.keys[i, 0], skins.keys[i, 1], skins.env[b], 1) >> wp.uint32(8)
        dead = wp.float32(wp.int32(drawn)) * _BIN24 < fraction
    if dead:
        data[c, b] = wp.float32(0.0)
