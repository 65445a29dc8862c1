"""Warp kernels of elastomer pads: the GPU counterparts of ``elastomer_kernels.py``.

A step is three kernels: depth and drag of every marker, the sums along x, and the sums along y. They have one thread
per marker and env, dimension (N, B), so that neighbouring threads read and write neighbouring envs.
"""

# the annotations of Warp kernels are values, not types
# mypy: disable-error-code="valid-type,misc,index,attr-defined,operator,call-overload,assignment,arg-type"
# mypy: allow-untyped-decorators, allow-untyped-calls, allow-untyped-defs, allow-incomplete-defs

import warp as wp

from sensorium.sensors.touch.warp_distance import ZERO, doubles2, ints2
from sensorium.sensors.touch.warp_field_kernels import Field, numbers, singles2
from sensorium.sensors.warp_engine import engine, linear, matrix, vector

wp.set_module_options({"fuse_fp": False, "enable_backward": False, "fast_math": False})

doubles3 = wp.array3d(dtype=wp.float64)


@wp.struct
class Pads:
    """Constants of all pads; see ``elastomer_kernels.displace``."""

    grids: ints2
    pads: doubles2
    tables: doubles3
    root: wp.array(dtype=wp.int32)


@wp.kernel
def drag(
    field: Field,
    pads: Pads,
    xpos: engine,
    xmat: engine,
    cvel: engine,
    com: engine,
    depth: singles2,
    body: ints2,
    motion: singles2,
    dt: wp.float64,
    sources: doubles3,
    touched: ints2,
):
    """Write depth and drag of every marker to ``sources`` (3, N, B), and set ``touched`` (S, B) where a pad touches."""
    i, env = wp.tid()
    s = field.owner[i]
    h = wp.min(wp.float64(depth[env, i]), pads.pads[s, 9])
    sx = wp.float64(0.0)
    sy = wp.float64(0.0)
    touches = wp.float32(0.0)
    if h > ZERO:
        if motion[3 * i, env] > 0.0:  # drag starts at 0 at first touch
            link = field.sensors[s, 0]
            b = body[env, i]
            turn = matrix(xmat, env, link)
            at = vector(xpos, env, link) + turn * numbers(field.probes, i, 0)
            v = linear(cvel, com, pads.root, env, b, at) - linear(cvel, com, pads.root, env, link, at)
            v = wp.transpose(turn) * v
            along_x = wp.vec3d(pads.pads[s, 0], pads.pads[s, 3], pads.pads[s, 6])
            along_y = wp.vec3d(pads.pads[s, 1], pads.pads[s, 4], pads.pads[s, 7])
            sx = wp.float64(motion[3 * i + 1, env]) + dt * wp.dot(along_x, v)
            sy = wp.float64(motion[3 * i + 2, env]) + dt * wp.dot(along_y, v)
            moved = wp.sqrt(sx * sx + sy * sy)
            max_drag = pads.pads[s, 10] * h
            if moved > max_drag:  # slip
                sx = sx * max_drag / moved
                sy = sy * max_drag / moved
        touches = wp.float32(1.0)
        touched[s, env] = 1
    motion[3 * i, env] = touches
    motion[3 * i + 1, env] = wp.float32(sx)
    motion[3 * i + 2, env] = wp.float32(sy)
    sources[0, i, env] = wp.max(h, ZERO)
    sources[1, i, env] = sx
    sources[2, i, env] = sy


@wp.kernel
def sum_rows(field: Field, pads: Pads, sources: doubles3, touched: ints2, sums: doubles3):
    """Sum along x: ``sums`` (4, N, B) are dilation along y and x, and drag along x and y."""
    i, env = wp.tid()
    s = field.owner[i]
    if touched[s, env] == 0:
        return
    middle = pads.tables.shape[2] // 2
    columns = pads.grids[s, 1]
    c = (i - field.sensors[s, 1]) % columns
    across = wp.float64(0.0)
    along = wp.float64(0.0)
    drag_x = wp.float64(0.0)
    drag_y = wp.float64(0.0)
    for k in range(columns):
        h = sources[0, i - c + k, env]
        if h > ZERO:
            apart = middle + c - k
            across += pads.tables[s, 1, apart] * h
            along += pads.tables[s, 3, apart] * h
            drag_x += pads.tables[s, 5, apart] * sources[1, i - c + k, env]
            drag_y += pads.tables[s, 5, apart] * sources[2, i - c + k, env]
    sums[0, i, env] = across
    sums[1, i, env] = along
    sums[2, i, env] = drag_x
    sums[3, i, env] = drag_y


@wp.kernel
def displace(field: Field, pads: Pads, sources: doubles3, touched: ints2, sums: doubles3, out: singles2):
    """Sum along y, and write the displacements of all markers to ``out`` (3 * N, B)."""
    i, env = wp.tid()
    s = field.owner[i]
    x = wp.float64(0.0)
    y = wp.float64(0.0)
    h = wp.float64(0.0)
    if touched[s, env] != 0:
        middle = pads.tables.shape[2] // 2
        columns = pads.grids[s, 1]
        first = field.sensors[s, 1]
        row = (i - first) // columns
        c = (i - first) % columns
        for r in range(pads.grids[s, 0]):
            apart = middle + row - r
            there = first + r * columns + c
            shear = pads.tables[s, 4, apart]
            x += pads.tables[s, 0, apart] * sums[1, there, env] + shear * sums[2, there, env]
            y += pads.tables[s, 2, apart] * sums[0, there, env] + shear * sums[3, there, env]
        h = sources[0, i, env]
    out[3 * i, env] = wp.float32(x)
    out[3 * i + 1, env] = wp.float32(y)
    out[3 * i + 2, env] = wp.float32(-h)
