"""Warp kernels of probe fields: the GPU counterparts of ``nearest.py`` and ``normal_depth.py``.

``find_near`` selects the geoms in reach of each sensor, once for all its probes. The other kernels have one thread per
probe and env; neighbouring threads are probes of the same env, which test the same geoms. The engine's fields may have
any precision; arithmetic is float64, as on the CPU. Envs that are not in the mask ``envs`` (B,) are skipped.
"""

# the annotations of Warp kernels are values, not types
# mypy: disable-error-code="valid-type,misc,index,attr-defined,operator,call-overload,assignment,arg-type"
# mypy: allow-untyped-decorators, allow-untyped-calls, allow-untyped-defs, allow-incomplete-defs

import warp as wp

from sensorium.sensors.touch import nearest, normal_depth
from sensorium.sensors.touch.warp_chord import HFIELD, chord
from sensorium.sensors.touch.warp_distance import ONE, PLANE, ZERO, doubles, doubles2, ints2, on_geom
from sensorium.sensors.warp_engine import engine, matrix, vector
from sensorium.sensors.warp_lanes import lane_count, lanes_before

wp.set_module_options({"fuse_fp": False, "enable_backward": False, "fast_math": False})

_FACING, _ALONG_NORMAL = (wp.constant(wp.float64(x)) for x in (nearest.FACING, nearest.ALONG_NORMAL))
_NOT_ROUNDING = wp.constant(wp.float64(1e-6))
_SIDEWAYS = wp.constant(wp.float64(normal_depth.SIDEWAYS))
_FAR = wp.constant(wp.float64(1e30))

mask = wp.array(dtype=wp.bool)
singles2, singles3 = wp.array2d(dtype=wp.float32), wp.array3d(dtype=wp.float32)


@wp.struct
class Field:
    """Probes and surfaces; see ``nearest.nearest_surfaces``."""

    sensors: ints2
    bounds: doubles2
    probes: doubles2
    owner: wp.array(dtype=wp.int32)  # (N,) sensor of each probe
    index: ints2
    shape: doubles2
    faces: doubles2
    heights: doubles
    near: ints2  # (B, G) the surfaces in reach of each sensor, from its first surface on
    count: ints2  # (B, S) how many they are


@wp.func
def numbers(rows: doubles2, row: int, first: int) -> wp.vec3d:
    """Return three numbers of a row."""
    return wp.vec3d(rows[row, first], rows[row, first + 1], rows[row, first + 2])


@wp.kernel
def find_near(
    field: Field,
    geom_xpos: engine,
    geom_xmat: engine,
    xpos: engine,
    xmat: engine,
    envs: mask,
    lanes: int,
):
    """Write the surfaces that the probes of a sensor may reach to ``field.near``, in their order. Dimension (B, S,
    lanes)."""
    env, s, lane = wp.tid()
    if not envs[env]:
        return
    link = field.sensors[s, 0]
    first = field.sensors[s, 3]
    last = field.sensors[s, 4]
    centre = vector(xpos, env, link) + matrix(xmat, env, link) * numbers(field.bounds, s, 0)
    count = wp.int32(0)
    start = int(first)
    while start < last:
        k = start + lane
        hit = wp.bool(False)
        if k < last:
            kind = field.index[k, 0]
            g = field.index[k, 1]
            away = centre - vector(geom_xpos, env, g)
            apart = ZERO
            if kind == PLANE:
                up = wp.vec3d(
                    wp.float64(geom_xmat[env, g, 2]), wp.float64(geom_xmat[env, g, 5]), wp.float64(geom_xmat[env, g, 8])
                )
                apart = wp.dot(away, up)
            elif kind != HFIELD:
                apart = wp.length(away) - field.shape[k, 3]
            hit = apart <= field.bounds[s, 3]
        place = count + lanes_before(hit, lane)
        if hit:
            field.near[env, first + place] = k
        count += lane_count(hit)
        start += lanes
    if lane == 0:
        field.count[env, s] = count


@wp.kernel
def nearest_surfaces(
    field: Field,
    geom_xpos: engine,
    geom_xmat: engine,
    xpos: engine,
    xmat: engine,
    envs: mask,
    distance: singles2,
    point: singles3,
    depth: singles2,
    body: ints2,
):
    """Find the nearest surface to each probe whose depth is not along its normal. Dimension (B, N)."""
    env, p = wp.tid()
    if not envs[env] or field.probes[p, 7] == _ALONG_NORMAL:
        return
    s = field.owner[p]
    link = field.sensors[s, 0]
    first = field.sensors[s, 3]
    turn = matrix(xmat, env, link)
    position = vector(xpos, env, link) + turn * numbers(field.probes, p, 0)
    reach = field.probes[p, 3]
    best = reach
    at = wp.int32(-1)
    nearest_point = position
    normal = wp.vec3d()
    for i in range(field.count[env, s]):
        k = field.near[env, first + i]
        kind = field.index[k, 0]
        g = field.index[k, 1]
        away = position - vector(geom_xpos, env, g)
        limit = best + field.shape[k, 3]
        bounded = kind != PLANE and kind != HFIELD
        if not bounded or (limit >= ZERO and wp.length_sq(away) <= limit * limit):
            frame = matrix(geom_xmat, env, g)
            found = on_geom(wp.transpose(frame) * away, best, k, field.index, field.shape, field.faces, field.heights)
            if found.distance < best:
                best = found.distance
                at = k
                nearest_point = vector(geom_xpos, env, g) + frame * found.point
                normal = frame * found.normal
    distance[env, p] = wp.float32(best)
    for j in range(3):
        point[env, p, j] = wp.float32(nearest_point[j])
    if at < 0:
        body[env, p] = -1
        depth[env, p] = 0.0
        return
    body[env, p] = field.index[at, 2]
    facing = ONE
    if field.probes[p, 7] == _FACING:  # only surfaces that face it count, with the component along it
        facing = -wp.dot(turn * numbers(field.probes, p, 4), normal)
        if facing <= _NOT_ROUNDING:
            facing = ZERO
    depth[env, p] = wp.float32((reach - best) * facing)


@wp.kernel
def depths_along_normals(
    field: Field,
    geom_xpos: engine,
    geom_xmat: engine,
    xpos: engine,
    xmat: engine,
    envs: mask,
    depth: singles2,
    body: ints2,
):
    """Find how far bodies reach behind the free surface, for each probe whose depth is along its normal. Dimension (B,
    N)."""
    env, p = wp.tid()
    if not envs[env] or field.probes[p, 7] != _ALONG_NORMAL:
        return
    s = field.owner[p]
    link = field.sensors[s, 0]
    first = field.sensors[s, 3]
    count = field.count[env, s]
    deepest = ZERO
    at = wp.int32(-1)
    if count > 0:
        turn = matrix(xmat, env, link)
        position = vector(xpos, env, link) + turn * numbers(field.probes, p, 0)
        out = turn * numbers(field.probes, p, 4)
        reach = field.probes[p, 3]
        base = field.probes[p, 8]
        for i in range(count):
            k = field.near[env, first + i]
            kind = field.index[k, 0]
            g = field.index[k, 1]
            radius = field.shape[k, 3]
            lowest = reach - deepest
            away = position - vector(geom_xpos, env, g)
            ahead = -wp.dot(away, out)
            aside = wp.dot(away, away) - ahead * ahead
            bounded = kind != PLANE and kind != HFIELD
            # does the line pass through the bounding sphere, deeper than so far?
            passes = aside <= radius * radius and ahead - radius <= lowest and ahead + radius >= -base
            if not bounded or passes:
                frame = wp.transpose(matrix(geom_xmat, env, g))
                o = frame * away
                d = frame * out
                part = chord(o, d, lowest, base, k, field.index, field.shape, field.faces, field.heights)
                low = part[0]
                felt = low < wp.min(lowest, part[1]) and part[1] >= -base
                if felt and low < -base - reach:  # it reaches deep behind the rigid surface
                    rigid = on_geom(o - d * base, _FAR, k, field.index, field.shape, field.faces, field.heights)
                    felt = -rigid.distance >= _SIDEWAYS * (-base - low)
                if felt:
                    deepest = reach - low
                    at = field.index[k, 2]
    depth[env, p] = wp.float32(deepest)
    body[env, p] = at
