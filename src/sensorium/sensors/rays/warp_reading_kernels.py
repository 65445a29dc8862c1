"""Warp kernels from the raw signal of ray-casting sensors to readings: GPU counterparts of ``kernels.py``.

Random numbers, and readings from the same raw signal, have the CPU's bits.
"""

# the annotations of Warp kernels are values, not types
# mypy: disable-error-code="valid-type,misc,index,attr-defined,operator,no-untyped-def,empty-body,name-defined"
# mypy: allow-untyped-decorators, allow-untyped-calls

import warp as wp

from sensorium.pipeline.warp_draws import normal, word
from sensorium.sensors.rays import kernels
from sensorium.sensors.rays.warp_kernels import Rays

wp.set_module_options({"fuse_fp": False, "enable_backward": False, "fast_math": False})

_FIRST_BEAM, _SLOTS, _SCANS, _FIRST_SLOT, _IN_WORLD, _BUNDLES = map(
    wp.constant,
    (kernels.FIRST_BEAM, kernels.SLOTS, kernels.SCANS, kernels.FIRST_SLOT, kernels.IN_WORLD, kernels.BUNDLES),
)
_DISTANCES, _NORMALS, _BODY_IDS, _INTENSITY, _POSES, _TURNS, _TIMES = map(
    wp.constant,
    (
        kernels.DISTANCES,
        kernels.NORMALS,
        kernels.BODY_IDS,
        kernels.INTENSITY,
        kernels.POSES,
        kernels.TURNS,
        kernels.TIMES,
    ),
)
_POSE = wp.constant(kernels.POSE)
_BIN24 = wp.constant(wp.float64(2.0**-24))

TO_DISTANCES, TO_POINTS, TO_NORMALS, TO_BODY_IDS, TO_INTENSITY, TO_TIMES = range(6)
"""Columns of the table of each sensor's first return columns; -1 for fields that are not read."""
_TO_DISTANCES, _TO_POINTS, _TO_NORMALS, _TO_BODY_IDS, _TO_INTENSITY, _TO_TIMES = map(wp.constant, range(6))

_ints, _vectors = wp.array(dtype=wp.int32), wp.array(dtype=wp.vec3)
_table, _columns = wp.array2d(dtype=wp.int32), wp.array2d(dtype=wp.float32)


@wp.kernel
def roughen(
    rays: Rays,
    beam_sensor: _ints,
    growth: _columns,
    dropout: _columns,
    noise_keys: _table,
    loss_keys: _table,
    draw: _table,
    data: _columns,
):
    """Add noise that grows with range, and lose returns, in the distances of ``data`` (columns, B)."""
    beam, b = wp.tid()
    s = beam_sensor[beam]
    column = rays.table[s, _DISTANCES] + beam - rays.table[s, _FIRST_BEAM]
    grows = growth[s, b]
    loses = dropout[s, b]
    if grows != 0.0 and data[column, b] < wp.inf:
        data[column, b] = data[column, b] + grows * data[column, b] * normal(
            noise_keys[beam, 0], noise_keys[beam, 1], draw[0, b], draw[1, b]
        )
    if loses > 0.0:
        drawn = word(loss_keys[beam, 0], loss_keys[beam, 1], draw[0, b], draw[1, b]) >> wp.uint32(8)
        if wp.float64(wp.int32(drawn)) * _BIN24 < wp.float64(loses):
            data[column, b] = wp.float32(wp.inf)


@wp.kernel
def hold(rays: Rays, beam_sensor: _ints, fired: wp.array2d(dtype=wp.uint8), data: _columns, held: _columns):
    """Restore the last distances of the beams that were not scanned in this step, including their noise."""
    beam, b = wp.tid()
    s = beam_sensor[beam]
    if rays.table[s, _SCANS] != 0:
        i = beam - rays.table[s, _FIRST_BEAM]
        column = rays.table[s, _DISTANCES] + i
        if fired[rays.table[s, _FIRST_SLOT] + i % rays.table[s, _SLOTS], b] != wp.uint8(0):
            held[column, b] = data[column, b]
        else:
            data[column, b] = held[column, b]


@wp.kernel
def read(
    rays: Rays,
    beam_sensor: _ints,
    to: _table,
    no_hit: _columns,
    starts: _vectors,
    vectors: _vectors,
    data: _columns,
    out: _columns,
):
    """Compute readings from intermediate columns; ``no_hit`` (sensors, 2): distance, and distance of the point, without
    a return."""
    beam, b = wp.tid()
    s = beam_sensor[beam]
    i = beam - rays.table[s, _FIRST_BEAM]
    distance = data[rays.table[s, _DISTANCES] + i, b]
    hit = distance < wp.inf
    limited = wp.min(wp.max(distance, rays.limits[s, 0]), rays.limits[s, 1])
    out[to[s, _TO_DISTANCES] + i, b] = wp.where(hit, limited, no_hit[s, 0])

    if to[s, _TO_POINTS] >= 0:
        along = wp.where(hit, limited, no_hit[s, 1])
        first = to[s, _TO_POINTS] + 3 * i
        ray = rays.first_own[s] + i % rays.table[s, _BUNDLES]
        if rays.table[s, _TURNS] >= 0:
            turn = wp.int32(data[rays.table[s, _TURNS] + i % rays.table[s, _SLOTS], b])
            ray = ray + turn * rays.table[s, _BUNDLES]
        u = starts[ray][0] + along * vectors[ray][0]
        v = starts[ray][1] + along * vectors[ray][1]
        w = starts[ray][2] + along * vectors[ray][2]
        if rays.table[s, _IN_WORLD] == 0:
            out[first, b] = u
            out[first + 1, b] = v
            out[first + 2, b] = w
        else:
            pose = rays.table[s, _POSES] + i % rays.table[s, _SLOTS] * _POSE
            for x in range(3):
                row = pose + 3 + 3 * x
                out[first + x, b] = data[pose + x, b] + (data[row, b] * u + data[row + 1, b] * v + data[row + 2, b] * w)

    if to[s, _TO_NORMALS] >= 0:
        for x in range(3):
            normal_x = data[rays.table[s, _NORMALS] + 3 * i + x, b]
            out[to[s, _TO_NORMALS] + 3 * i + x, b] = wp.where(hit, normal_x, wp.float32(0.0))
    if to[s, _TO_BODY_IDS] >= 0:
        out[to[s, _TO_BODY_IDS] + i, b] = wp.where(hit, data[rays.table[s, _BODY_IDS] + i, b], wp.float32(-1.0))
    if to[s, _TO_INTENSITY] >= 0:
        out[to[s, _TO_INTENSITY] + i, b] = wp.where(hit, data[rays.table[s, _INTENSITY] + i, b], wp.float32(0.0))
    if to[s, _TO_TIMES] >= 0:
        out[to[s, _TO_TIMES] + i, b] = data[rays.table[s, _TIMES] + i % rays.table[s, _SLOTS], b]
