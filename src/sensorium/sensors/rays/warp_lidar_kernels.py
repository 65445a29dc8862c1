"""Warp kernel of lidars that detect echoes: the GPU counterpart of ``lidar_kernels.find_echoes``."""

# the annotations of Warp kernels are values, not types
# mypy: disable-error-code="valid-type,misc,index,attr-defined,operator,no-untyped-def,empty-body,name-defined"
# mypy: allow-untyped-decorators, allow-untyped-calls

import warp as wp

from sensorium.sensors.rays import kernels, lidar_kernels
from sensorium.sensors.rays.warp_kernels import CastPlan, Rays, describe, find_bundle, received_power

wp.set_module_options({"fuse_fp": False, "enable_backward": False, "fast_math": False})

_SPREAD, _BUNDLES, _ECHOES, _DISTANCES = map(
    wp.constant, (kernels.SPREAD, kernels.BUNDLES, kernels.ECHOES, kernels.DISTANCES)
)
_FIRST, _SECOND, _LAST, _STRONGEST = map(
    wp.constant, (lidar_kernels.FIRST, lidar_kernels.SECOND, lidar_kernels.LAST, lidar_kernels.STRONGEST)
)
_ints, _columns = wp.array2d(dtype=wp.int32), wp.array2d(dtype=wp.float32)


@wp.func
def _next_hit(
    distances: _columns, powers: _columns, b: wp.int32, j0: wp.int32, spread: wp.int32, at: wp.float32, ray: wp.int32
) -> wp.int32:
    """Return the ray with the nearest hit behind that of ``ray`` at the distance ``at``, -1 if there is none."""
    found = wp.int32(-1)
    nearest = wp.float32(wp.inf)
    for j in range(j0, j0 + spread):
        d = distances[b, j]
        if powers[b, j] >= 0.0 and (d > at or (d == at and j > ray)) and d < nearest:
            found = j
            nearest = d
    return found


@wp.kernel
def find_echoes(
    rays: Rays,
    plan: CastPlan,
    due: wp.array3d(dtype=wp.int32),
    frames: wp.array3d(dtype=wp.float32),
    envs: wp.array(dtype=wp.bool),
    extinction: _columns,
    threshold: _columns,
    directions: wp.array2d(dtype=wp.vec3),
    distances: _columns,
    geoms: _ints,
    surface: wp.array2d(dtype=wp.vec3),
    powers: _columns,
    out: _columns,
):
    """Merge the hits of each bundle into echoes, and report those of ``rays.kinds`` that reach the threshold."""
    b, i = wp.tid()
    if not envs[b]:
        return
    s = plan.bundle_sensor[i]
    n = i - plan.first_bundle[s]
    bundle = find_bundle(rays, plan, due, b, s, n)
    echoes = rays.table[s, _ECHOES]
    if bundle < 0 or echoes == 0:
        return
    bundles = rays.table[s, _BUNDLES]
    column = rays.table[s, _DISTANCES]
    for echo in range(echoes):
        out[column + echo * bundles + bundle, b] = wp.float32(wp.inf)
        describe(rays, frames, geoms, surface, b, s, echo * bundles + bundle, wp.int32(-1), wp.float32(0.0), out)

    spread = rays.table[s, _SPREAD]
    j0 = plan.first[s] + n * spread
    for j in range(j0, j0 + spread):
        d = distances[b, j]
        powers[b, j] = wp.float32(-1.0)
        if d >= rays.limits[s, 0] and d <= rays.limits[s, 1]:
            cosine = wp.dot(surface[b, j], directions[b, j])
            power = received_power(rays.surfaces[s, geoms[b, j]], cosine, d, rays.optics[s, 0])
            powers[b, j] = rays.optics[s, 2] * power * wp.exp(-2.0 * extinction[s, b] * d)

    count = wp.int32(0)
    greatest = wp.float32(0.0)
    at = wp.float32(-1.0)
    ray = wp.int32(-1)
    total = wp.float32(0.0)
    moment = wp.float32(0.0)
    peak = wp.float32(-1.0)
    start = wp.float32(0.0)
    best = wp.int32(-1)
    following = _next_hit(distances, powers, b, j0, spread, at, ray)
    while following >= 0 or best >= 0:
        is_end = following < 0
        if not is_end:
            is_end = distances[b, following] - at > rays.optics[s, 1]
        if best >= 0 and is_end:
            if total >= threshold[s, b]:  # the echo is complete and is detected
                distance = start
                if total > 0.0:
                    distance = start + moment / total
                for echo in range(echoes):
                    kind = rays.kinds[s, echo]
                    if (
                        kind == _LAST
                        or (kind == _FIRST and count == 0)
                        or (kind == _SECOND and count == 1)
                        or (kind == _STRONGEST and (count == 0 or total > greatest))
                    ):
                        beam = echo * bundles + bundle
                        out[column + beam, b] = distance
                        describe(rays, frames, geoms, surface, b, s, beam, best, total, out)
                count = count + 1
                greatest = wp.max(greatest, total)
            best = wp.int32(-1)
        if following >= 0:
            at = distances[b, following]
            ray = following
            if best < 0:
                total = wp.float32(0.0)
                moment = wp.float32(0.0)
                peak = wp.float32(-1.0)
                start = at
            total = total + powers[b, ray]
            moment = moment + powers[b, ray] * (at - start)  # from the first hit on, which float32 keeps exact
            if powers[b, ray] > peak:
                peak = powers[b, ray]
                best = ray
            following = _next_hit(distances, powers, b, j0, spread, at, ray)
