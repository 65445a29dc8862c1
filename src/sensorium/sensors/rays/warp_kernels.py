"""Warp kernels that aim rays and collect their hits: GPU counterparts of ``kernels.py``, launched in a CUDA graph.

Names are those of ``kernels.py``: the sensors of a group are rows of ``table``, a beam is cast as a bundle of rays, and
``due[env, sensor]`` lists the slots and turns that are cast now, padded with -1. ``envs`` is a mask (B,): in a reset,
other envs are not changed. Poses are float32 on a GPU. Echoes are in ``warp_lidar_kernels.py``, imperfections and
readings in ``warp_reading_kernels.py``.
"""

# the annotations of Warp kernels are values, not types
# mypy: disable-error-code="valid-type,misc,index,attr-defined,operator,no-untyped-def,empty-body,name-defined"
# mypy: allow-untyped-decorators, allow-untyped-calls

from typing import Any

import warp as wp

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
_BUNDLES, _ECHOES, _TURNS, _TIMES, _N_TURNS = map(
    wp.constant, (kernels.BUNDLES, kernels.ECHOES, kernels.TURNS, kernels.TIMES, kernels.N_TURNS)
)
_BASE, _YAW, _POSE = wp.constant(kernels.BASE), wp.constant(kernels.YAW), wp.constant(kernels.POSE)
_EPS = wp.constant(wp.float64(kernels.EPS))
_MIN_SQUARE, _SMALL = wp.constant(kernels.MIN_SQUARE), wp.constant(kernels.SMALL)

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
    surfaces: wp.array2d(dtype=wp.vec2)  # (sensors, ngeom) reflectivity and retro-reflection
    optics: _columns  # (sensors, 3)
    kinds: _table  # (sensors, 4) echoes
    first_own: _ints  # of each sensor's bundles in the rays of ``read``


@wp.struct
class CastPlan:
    """The rays that are cast: of whole revolutions, or those due in one step."""

    whole: wp.bool
    sensor_of: _ints  # of each ray
    first: _ints  # ray of each sensor
    bundle_sensor: _ints  # of each bundle
    first_bundle: _ints  # of each sensor


@wp.func
def frame_matrix(frames: wp.array3d(dtype=wp.float32), b: wp.int32, s: wp.int32) -> wp.mat33:
    """Return the rotation of a sensor's mounting frame."""
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
def find_bundle(
    rays: Rays, plan: CastPlan, due: wp.array3d(dtype=wp.int32), b: wp.int32, s: wp.int32, n: wp.int32
) -> wp.int32:
    """Return the bundle of the pattern that is the n-th one to be cast, -1 for padding."""
    bundle = n
    if rays.table[s, _SCANS] != 0 and not plan.whole:
        slots = rays.table[s, _SLOTS]
        per_slot = rays.table[s, _BUNDLES] // slots
        index = due[b, s, n // per_slot]
        bundle = wp.where(index < 0, -1, (n % per_slot) * slots + index % slots)
    return bundle


@wp.func
def received_power(surface: wp.vec2, cosine: wp.float32, distance: wp.float32, near_range: wp.float32) -> wp.float32:
    """Return the power that comes back from a surface, as in ``kernels.py``."""
    c = wp.abs(cosine)
    gain = surface[0] * c + surface[1] * c * c * c * c
    square = wp.max(distance * distance, _MIN_SQUARE)
    power = gain / square
    if near_range > 0.0:
        near = near_range * near_range
        x = square / near
        if x < _SMALL:
            power = gain * (1.0 - 0.5 * x) / near
        else:
            power = gain * wp.float32(wp.float64(1.0) - wp.exp(-wp.float64(x))) / square
    return power


@wp.kernel
def place(
    rays: Rays,
    whole: wp.bool,
    positions: wp.array3d(dtype=Any),
    matrices: wp.array3d(dtype=Any),
    steps: _ints,
    dt: wp.float64,
    per_step: wp.array(dtype=wp.float64),
    envs: _mask,
    due: wp.array3d(dtype=wp.int32),
    turns: _table,
    fired: wp.array2d(dtype=wp.uint8),
    frames: wp.array3d(dtype=wp.float32),
    out: _columns,
):
    """Find the slots that pass in the step that ends now, and compute mounting frames, poses, turns and times."""
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
    turns_at = rays.table[s, _TURNS]
    times = rays.table[s, _TIMES]
    some = rays.table[s, _SCANS] != 0 and not whole
    now = wp.float64(steps[b])
    last = wp.int64(wp.floor(now * per_step[s] + _EPS))
    cycle = wp.int64(slots) * wp.int64(rays.table[s, _N_TURNS])
    turns[b, s] = wp.int32((last % cycle + cycle) % cycle // wp.int64(slots))
    count = slots
    if some:
        before = wp.int64(wp.floor((now - wp.float64(1.0)) * per_step[s] + _EPS))
        count = wp.min(wp.min(wp.int32(last - before), due.shape[2]), slots)
        for k in range(slots):
            fired[first_slot + k, b] = wp.uint8(0)
            if times >= 0:
                out[times + k, b] = out[times + k, b] - wp.float32(dt)
        for k in range(due.shape[2]):
            due[b, s, k] = -1
    for k in range(count):
        slot = k
        turn = turns[b, s]
        time = wp.float64(0.0)
        if some:
            # before an env's first step, slots before the first one pass
            index = wp.int32(((last - wp.int64(k)) % cycle + cycle) % cycle)
            due[b, s, k] = index
            slot = index % slots
            turn = index // slots
            time = (wp.float64(last - wp.int64(k)) / per_step[s] - now) * dt
        fired[first_slot + slot, b] = wp.uint8(1)
        if turns_at >= 0:
            out[turns_at + slot, b] = wp.float32(turn)
        if times >= 0:
            out[times + slot, b] = wp.float32(time)
        if poses >= 0:
            for i in range(_POSE):
                out[poses + slot * _POSE + i, b] = frames[b, s, i]


@wp.kernel
def aim(
    rays: Rays,
    plan: CastPlan,
    due: wp.array3d(dtype=wp.int32),
    turns: _table,
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
    bundle = wp.max(find_bundle(rays, plan, due, b, s, local // spread), 0)
    turn = turns[b, s]
    if rays.table[s, _SCANS] != 0 and not plan.whole:
        slots = rays.table[s, _SLOTS]
        turn = wp.max(due[b, s, local // spread // (rays.table[s, _BUNDLES] // slots)], 0) // slots
    k = rays.table[s, _FIRST_RAY] + (turn * rays.table[s, _BUNDLES] + bundle) * spread + local % spread
    rotation = frame_matrix(frames, b, s)
    points[b, j] = wp.vec3(frames[b, s, 0], frames[b, s, 1], frames[b, s, 2]) + rotation * rays.starts[k]
    directions[b, j] = rotation * rays.vectors[k]


@wp.func
def describe(
    rays: Rays,
    frames: wp.array3d(dtype=wp.float32),
    geoms: _table,
    surface: wp.array2d(dtype=wp.vec3),
    b: wp.int32,
    s: wp.int32,
    beam: wp.int32,
    ray: wp.int32,
    power: wp.float32,
    out: _columns,
):
    """Write body, intensity and normal of a return, the hit of a ray; -1 without a return."""
    bodies = rays.table[s, _BODY_IDS]
    intensity = rays.table[s, _INTENSITY]
    normals = rays.table[s, _NORMALS]
    body = wp.int32(-1)
    across = wp.vec3()
    if ray >= 0:
        body = rays.geom_body[geoms[b, ray]]
        if surface.shape[0] > 0:
            across = surface[b, ray]
    if bodies >= 0:
        out[bodies + beam, b] = wp.float32(body)
    if intensity >= 0:
        out[intensity + beam, b] = power
    if normals >= 0:
        if rays.table[s, _IN_WORLD] == 0:  # from the world through the mounting frame to the sensor's
            across = wp.transpose(rays.mounts[s]) * (wp.transpose(frame_matrix(frames, b, s)) * across)
        for x in range(3):
            out[normals + 3 * beam + x, b] = across[x]


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
    beam = find_bundle(rays, plan, due, b, s, n)
    if beam < 0 or rays.table[s, _ECHOES] > 0:
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

    power = wp.float32(0.0)
    if best >= 0 and surface.shape[0] > 0:
        cosine = wp.dot(surface[b, best], directions[b, best])
        power = received_power(rays.surfaces[s, geoms[b, best]], cosine, distances[b, best], rays.optics[s, 0])
    describe(rays, frames, geoms, surface, b, s, beam, best, power, out)
