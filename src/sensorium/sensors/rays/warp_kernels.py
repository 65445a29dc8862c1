"""Warp kernels of ray-casting sensors: the GPU counterparts of ``kernels.py``, launched in a CUDA graph.

Names are those of ``kernels.py``: the sensors of a group are rows of ``table``, a beam is cast as a bundle of rays, and
``due[env, sensor]`` lists the slots that are cast now, padded with -1. ``envs`` is a mask (B,): in a reset, other envs
are not changed. Poses are float32 on a GPU. Random numbers, and readings from the same raw signal, have the CPU's bits.
"""

# the annotations of Warp kernels are values, not types
# mypy: disable-error-code="valid-type,misc,index,attr-defined,operator,no-untyped-def,empty-body,name-defined"
# mypy: allow-untyped-decorators, allow-untyped-calls

from typing import Any

import warp as wp

from sensorium.pipeline.warp_draws import normal, word
from sensorium.sensors.rays import kernels
from sensorium.worlds import warp_init as warp_init

wp.set_module_options({"fuse_fp": False, "enable_backward": False, "fast_math": False})

_BODY, _ALIGNMENT, _BEAMS, _FIRST_BEAM, _SPREAD, _FIRST_RAY, _SLOTS, _SCANS, _FIRST_SLOT = map(
    wp.constant,
    (
        kernels.BODY,
        kernels.ALIGNMENT,
        kernels.BEAMS,
        kernels.FIRST_BEAM,
        kernels.SPREAD,
        kernels.FIRST_RAY,
        kernels.SLOTS,
        kernels.SCANS,
        kernels.FIRST_SLOT,
    ),
)
_DISTANCES, _NORMALS, _BODY_IDS, _INTENSITY, _POSES, _IN_WORLD = map(
    wp.constant,
    (kernels.DISTANCES, kernels.NORMALS, kernels.BODY_IDS, kernels.INTENSITY, kernels.POSES, kernels.IN_WORLD),
)
_BASE, _YAW, _POSE = wp.constant(kernels.BASE), wp.constant(kernels.YAW), wp.constant(kernels.POSE)
_EPS = wp.constant(wp.float64(kernels._EPS))
_BIN24 = wp.constant(wp.float64(2.0**-24))

TO_DISTANCES, TO_POINTS, TO_NORMALS, TO_BODY_IDS, TO_INTENSITY = range(5)
"""Columns of the table of each sensor's first return columns; -1 for fields that are not read."""
_TO_DISTANCES, _TO_POINTS, _TO_NORMALS, _TO_BODY_IDS, _TO_INTENSITY = map(wp.constant, range(5))

_ints, _floats, _vectors = wp.array(dtype=wp.int32), wp.array(dtype=wp.float32), wp.array(dtype=wp.vec3)
_table, _columns = wp.array2d(dtype=wp.int32), wp.array2d(dtype=wp.float32)
_mask = wp.array(dtype=wp.bool)


@wp.struct
class Rays:
    """Constants: the sensors, and their rays in their mounting frames."""

    table: _table
    starts: _vectors
    vectors: _vectors
    scale: _floats  # (beams,) factor from distance to reading
    limits: _columns  # (sensors, 2)
    mounts: wp.array(dtype=wp.mat33)
    geom_body: _ints
    reflectivity: _floats


@wp.struct
class CastPlan:
    """The rays that are cast: of whole revolutions, or those due in one step."""

    whole: wp.bool
    sensor_of: _ints  # of each ray
    first: _ints  # ray of each sensor
    bundle_sensor: _ints  # of each bundle
    first_bundle: _ints  # of each sensor


@wp.func
def _matrix(frames: wp.array3d(dtype=wp.float32), b: wp.int32, s: wp.int32) -> wp.mat33:
    return wp.mat33(
        frames[b, s, 3],
        frames[b, s, 4],
        frames[b, s, 5],
        frames[b, s, 6],
        frames[b, s, 7],
        frames[b, s, 8],
        frames[b, s, 9],
        frames[b, s, 10],
        frames[b, s, 11],
    )


@wp.func
def _beam(
    rays: Rays, plan: CastPlan, due: wp.array3d(dtype=wp.int32), b: wp.int32, s: wp.int32, n: wp.int32
) -> wp.int32:
    """Return the beam of the n-th bundle of a sensor, -1 for padding."""
    beam = n
    if rays.table[s, _SCANS] != 0 and not plan.whole:
        slots = rays.table[s, _SLOTS]
        per_slot = rays.table[s, _BEAMS] // slots
        slot = due[b, s, n // per_slot]
        beam = wp.where(slot < 0, -1, (n % per_slot) * slots + slot)
    return beam


@wp.kernel
def place(
    rays: Rays,
    whole: wp.bool,
    positions: wp.array3d(dtype=Any),
    matrices: wp.array3d(dtype=Any),
    steps: _ints,
    per_step: wp.array(dtype=wp.float64),
    envs: _mask,
    due: wp.array3d(dtype=wp.int32),
    fired: wp.array2d(dtype=wp.uint8),
    frames: wp.array3d(dtype=wp.float32),
    out: _columns,
):
    """Find the slots that pass in the step that ends now, and compute the mounting frames and poses at capture."""
    b, s = wp.tid()
    if not envs[b]:
        return
    body = rays.table[s, _BODY]
    for i in range(3):
        frames[b, s, i] = wp.float32(positions[b, body, i])
    for i in range(9):
        frames[b, s, 3 + i] = wp.float32(0.0)
    alignment = rays.table[s, _ALIGNMENT]
    if alignment == _BASE:
        for i in range(9):
            frames[b, s, 3 + i] = wp.float32(matrices[b, body, i])
    elif alignment == _YAW:
        heading = wp.atan2(wp.float32(matrices[b, body, 3]), wp.float32(matrices[b, body, 0]))
        frames[b, s, 3] = wp.cos(heading)
        frames[b, s, 4] = -wp.sin(heading)
        frames[b, s, 6] = wp.sin(heading)
        frames[b, s, 7] = wp.cos(heading)
        frames[b, s, 11] = wp.float32(1.0)
    else:
        frames[b, s, 3] = wp.float32(1.0)
        frames[b, s, 7] = wp.float32(1.0)
        frames[b, s, 11] = wp.float32(1.0)

    slots = rays.table[s, _SLOTS]
    first_slot = rays.table[s, _FIRST_SLOT]
    poses = rays.table[s, _POSES]
    some = rays.table[s, _SCANS] != 0 and not whole
    count = slots
    last = wp.int64(0)
    if some:
        now = wp.float64(steps[b])
        last = wp.int64(wp.floor(now * per_step[s] + _EPS))
        before = wp.int64(wp.floor((now - wp.float64(1.0)) * per_step[s] + _EPS))
        count = wp.min(wp.min(wp.int32(last - before), due.shape[2]), slots)
        for k in range(slots):
            fired[first_slot + k, b] = wp.uint8(0)
        for k in range(due.shape[2]):
            due[b, s, k] = -1
    for k in range(count):
        slot = k
        if some:
            turns = wp.int64(slots)  # before an env's first step, slots before the first one pass
            slot = wp.int32(((last - wp.int64(k)) % turns + turns) % turns)
            due[b, s, k] = slot
        fired[first_slot + slot, b] = wp.uint8(1)
        if poses >= 0:
            for i in range(_POSE):
                out[poses + slot * _POSE + i, b] = frames[b, s, i]


@wp.kernel
def aim(
    rays: Rays,
    plan: CastPlan,
    due: wp.array3d(dtype=wp.int32),
    frames: wp.array3d(dtype=wp.float32),
    envs: _mask,
    points: wp.array2d(dtype=wp.vec3),
    directions: wp.array2d(dtype=wp.vec3),
):
    """Compute origins and directions in the world of the rays that are cast now."""
    b, j = wp.tid()
    if not envs[b]:
        return
    s = plan.sensor_of[j]
    spread = rays.table[s, _SPREAD]
    local = j - plan.first[s]
    beam = wp.max(_beam(rays, plan, due, b, s, local // spread), 0)
    k = rays.table[s, _FIRST_RAY] + beam * spread + local % spread
    turn = _matrix(frames, b, s)
    points[b, j] = wp.vec3(frames[b, s, 0], frames[b, s, 1], frames[b, s, 2]) + turn * rays.starts[k]
    directions[b, j] = turn * rays.vectors[k]


@wp.kernel
def collect(
    rays: Rays,
    plan: CastPlan,
    due: wp.array3d(dtype=wp.int32),
    frames: wp.array3d(dtype=wp.float32),
    envs: _mask,
    directions: wp.array2d(dtype=wp.vec3),
    distances: _columns,
    geoms: _table,
    surface: wp.array2d(dtype=wp.vec3),
    out: _columns,
):
    """Compute the raw signal: the nearest hit of each bundle, inf without a return, and its further fields."""
    b, i = wp.tid()
    if not envs[b]:
        return
    s = plan.bundle_sensor[i]
    n = i - plan.first_bundle[s]
    beam = _beam(rays, plan, due, b, s, n)
    if beam < 0:
        return
    spread = rays.table[s, _SPREAD]
    j0 = plan.first[s] + n * spread
    best = wp.int32(-1)
    distance = wp.float32(wp.inf)
    for j in range(j0, j0 + spread):
        if distances[b, j] >= 0.0 and distances[b, j] < distance:
            best = j
            distance = distances[b, j]
    distance = distance * rays.scale[rays.table[s, _FIRST_BEAM] + beam]
    if not (distance >= rays.limits[s, 0] and distance <= rays.limits[s, 1]):
        best = wp.int32(-1)
        distance = wp.float32(wp.inf)
    out[rays.table[s, _DISTANCES] + beam, b] = distance

    bodies = rays.table[s, _BODY_IDS]
    intensity = rays.table[s, _INTENSITY]
    normals = rays.table[s, _NORMALS]
    body = wp.int32(-1)
    brightness = wp.float32(0.0)
    across = wp.vec3()
    if best >= 0:
        geom = geoms[b, best]
        body = rays.geom_body[geom]
        if surface.shape[0] > 0:
            across = surface[b, best]
            brightness = rays.reflectivity[geom] * wp.abs(wp.dot(across, directions[b, best]))
    if bodies >= 0:
        out[bodies + beam, b] = wp.float32(body)
    if intensity >= 0:
        out[intensity + beam, b] = brightness
    if normals >= 0:
        if rays.table[s, _IN_WORLD] == 0:  # from the world through the mounting frame to the sensor's
            across = wp.transpose(rays.mounts[s]) * (wp.transpose(_matrix(frames, b, s)) * across)
        for x in range(3):
            out[normals + 3 * beam + x, b] = across[x]


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
        u = starts[beam][0] + along * vectors[beam][0]
        v = starts[beam][1] + along * vectors[beam][1]
        w = starts[beam][2] + along * vectors[beam][2]
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
