"""Warp kernels of tactile arrays: the GPU counterparts of ``taxel_kernels.py``.

The engine's wrench is shared in two kernels: ``solve_loads`` finds the normal force of each taxel and the few numbers
that the shear of all of them follows from, with the lanes of a sensor and env together; ``share_wrenches`` writes the
readings, with neighbouring threads in neighbouring envs.
"""

# the annotations of Warp kernels are values, not types
# mypy: disable-error-code="valid-type,misc,index,attr-defined,operator,call-overload,assignment,arg-type"
# mypy: allow-untyped-decorators, allow-untyped-calls, allow-untyped-defs, allow-incomplete-defs

import warp as wp

from sensorium.sensors.touch import taxel_kernels
from sensorium.sensors.touch.warp_distance import ONE, TWO, ZERO, doubles2, ints2
from sensorium.sensors.touch.warp_field_kernels import Field, mask, numbers, singles2
from sensorium.sensors.warp_engine import angular, engine, linear, matrix, sensed, sensed_vector, vector
from sensorium.sensors.warp_lanes import lane_count, lane_sum, lane_sum_vector

wp.set_module_options({"fuse_fp": False, "enable_backward": False, "fast_math": False})

SOLUTION = 12
"""Numbers per sensor and env that ``solve_loads`` writes: whether taxels are loaded, t1, t2, centre of pressure along
both, shear per normal force along both, and shear per normal force and distance from the centre of pressure."""
_PASSES = wp.constant(taxel_kernels.PASSES)
_APART, _IN_LINE = (wp.constant(wp.float64(x)) for x in (1e-12, 1e-9))
_DISC = wp.constant(wp.float64(2.0 / 3.0))

doubles3 = wp.array3d(dtype=wp.float64)


@wp.struct
class Taxels:
    """Constants of all taxels; see ``taxel_kernels.py``."""

    axes: doubles3
    shown: doubles3
    law: doubles2
    wrenches: ints2


@wp.func
def _row(rows: doubles3, i: int, k: int) -> wp.vec3d:
    return wp.vec3d(rows[i, k, 0], rows[i, k, 1], rows[i, k, 2])


@wp.kernel
def solve_loads(
    field: Field,
    taxels: Taxels,
    data: sensed,
    xpos: engine,
    xmat: engine,
    envs: mask,
    depth: singles2,
    weights: doubles2,
    loads: doubles2,
    solution: doubles3,
    lanes: int,
):
    """Find the normal forces ``loads`` (B, N) of all taxels that share the engine's wrench. Dimension (B, S, lanes).

    ``weights`` (B, N) is scratch memory. ``solution`` (S, SOLUTION, B) is what ``share_wrenches`` needs.
    """
    env, s, lane = wp.tid()
    if not envs[env] or taxels.law[s, 1] > ZERO:
        return
    link = field.sensors[s, 0]
    first = field.sensors[s, 1] + lane
    last = field.sensors[s, 2]
    if lane == 0:
        solution[s, 0, env] = ZERO
    turn = wp.transpose(matrix(xmat, env, link))
    force = wp.vec3d()
    moment = wp.vec3d()  # about the link's origin, in its frame
    for number in range(taxels.wrenches.shape[1]):
        at = taxels.wrenches[s, number]
        if at >= 0:
            push = sensed_vector(data, env, at)
            arm = sensed_vector(data, env, at + 6) - vector(xpos, env, link)
            force += turn * push
            moment += turn * (sensed_vector(data, env, at + 3) + wp.cross(arm, push))
    if force[0] == ZERO and force[1] == ZERO and force[2] == ZERO:
        return
    up = wp.vec3d()
    centre = wp.vec3d()
    whole = wp.float64(0.0)
    for i in range(first, last, lanes):
        load = wp.max(wp.float64(depth[env, i]), ZERO)
        if load > ZERO and taxels.law[s, 0] != ONE:
            load = wp.pow(load, taxels.law[s, 0])
        weights[env, i] = load
        whole += load
        up += _row(taxels.axes, i, 2) * load
        centre += numbers(field.probes, i, 0) * load
    whole = lane_sum(whole)
    up = lane_sum_vector(up)
    centre = lane_sum_vector(centre)
    norm = wp.length(up)
    if whole == ZERO or norm == ZERO:
        return
    up = up / norm
    centre = centre / whole  # of the loaded skin, the reference of lever arms
    press = -wp.dot(force, up)
    if press <= ZERO:
        return
    for i in range(first, last, lanes):  # on a curved skin, taxels that face away from its mean normal carry nothing
        if wp.dot(_row(taxels.axes, i, 2), up) <= ZERO:
            weights[env, i] = ZERO
        loads[env, i] = weights[env, i]
    across = wp.vec3d(ZERO, ZERO, ONE)
    if wp.abs(up[0]) <= wp.abs(up[1]) and wp.abs(up[0]) <= wp.abs(up[2]):
        across = wp.vec3d(ONE, ZERO, ZERO)
    elif wp.abs(up[1]) <= wp.abs(up[2]):
        across = wp.vec3d(ZERO, ONE, ZERO)
    side = wp.dot(across, up)
    t1 = (across - up * side) / wp.sqrt(ONE - side * side)
    t2 = wp.cross(up, t1)
    # the moment about the centre, so that shear at the height of the skin does not count as pressure
    about = moment - wp.cross(centre, force)
    m1 = wp.dot(about, t2) + press * wp.dot(centre, t1)
    m2 = -wp.dot(about, t1) + press * wp.dot(centre, t2)

    # weights times a linear function over the skin: see ``taxel_kernels._spread``
    solved = wp.bool(False)
    passes = wp.int32(0)
    while passes < _PASSES and not solved:
        passes += 1
        total = wp.float64(0.0)
        cx = wp.float64(0.0)
        cy = wp.float64(0.0)
        for i in range(first, last, lanes):
            if loads[env, i] > ZERO:
                w = weights[env, i] * wp.dot(_row(taxels.axes, i, 2), up)
                total += w
                cx += w * wp.dot(numbers(field.probes, i, 0), t1)
                cy += w * wp.dot(numbers(field.probes, i, 0), t2)
        total = lane_sum(total)
        if total <= ZERO:
            return
        cx = lane_sum(cx) / total
        cy = lane_sum(cy) / total
        xx = wp.float64(0.0)
        xy = wp.float64(0.0)
        yy = wp.float64(0.0)
        for i in range(first, last, lanes):
            if loads[env, i] > ZERO:
                w = weights[env, i] * wp.dot(_row(taxels.axes, i, 2), up)
                x = wp.dot(numbers(field.probes, i, 0), t1) - cx
                y = wp.dot(numbers(field.probes, i, 0), t2) - cy
                xx += w * x * x
                xy += w * x * y
                yy += w * y * y
        xx = lane_sum(xx)
        xy = lane_sum(xy)
        yy = lane_sum(yy)
        bx = ZERO
        by = ZERO
        rx = m1 - press * cx
        ry = m2 - press * cy
        trace = xx + yy
        det = xx * yy - xy * xy
        if trace > _APART * total:  # more than a micrometre apart
            if det > _IN_LINE * trace * trace:
                bx = (yy * rx - xy * ry) / det
                by = (xx * ry - xy * rx) / det
            else:  # in one line: only the moment along it can be met
                dx = wp.where(xx >= yy, xx, xy)
                dy = wp.where(xx >= yy, xy, yy)
                length = wp.sqrt(dx * dx + dy * dy)
                along = (rx * dx + ry * dy) / length / trace
                bx = along * dx / length
                by = along * dy / length
        pulls = wp.bool(False)
        for i in range(first, last, lanes):
            if loads[env, i] > ZERO:
                x = wp.dot(numbers(field.probes, i, 0), t1) - cx
                y = wp.dot(numbers(field.probes, i, 0), t2) - cy
                share = press / total + bx * x + by * y
                pulls = pulls or share <= ZERO
                loads[env, i] = weights[env, i] * wp.max(share, ZERO)
        solved = lane_count(pulls) == 0
    if not solved:
        total = wp.float64(0.0)
        for i in range(first, last, lanes):
            total += loads[env, i] * wp.dot(_row(taxels.axes, i, 2), up)
        total = lane_sum(total)
        for i in range(first, last, lanes):
            loads[env, i] = loads[env, i] * (press / total)

    total = wp.float64(0.0)
    px = wp.float64(0.0)
    py = wp.float64(0.0)
    tilt = wp.vec3d()  # normals of a curved skin have a component along the tangents, too
    for i in range(first, last, lanes):
        load = loads[env, i]
        if load > ZERO:
            total += load
            px += load * wp.dot(numbers(field.probes, i, 0), t1)
            py += load * wp.dot(numbers(field.probes, i, 0), t2)
            tilt += _row(taxels.axes, i, 2) * load
    total = lane_sum(total)
    if total <= ZERO:
        return
    px = lane_sum(px) / total
    py = lane_sum(py) / total
    tilt = lane_sum_vector(tilt)
    rest1 = wp.dot(force + tilt, t1)
    rest2 = wp.dot(force + tilt, t2)
    polar = wp.float64(0.0)
    for i in range(first, last, lanes):
        load = loads[env, i]
        if load > ZERO:
            x = wp.dot(numbers(field.probes, i, 0), t1) - px
            y = wp.dot(numbers(field.probes, i, 0), t2) - py
            polar += load * (x * x + y * y + field.probes[i, 3] * field.probes[i, 3] / TWO)
    polar = lane_sum(polar)
    # about the centre of pressure, where shear has no lever arm
    aside = (px - wp.dot(centre, t1)) * rest2 - (py - wp.dot(centre, t2)) * rest1
    normal_moment = wp.dot(about, up) - aside
    if lane == 0:
        solution[s, 0, env] = ONE
        for k in range(3):
            solution[s, 1 + k, env] = t1[k]
            solution[s, 4 + k, env] = t2[k]
        solution[s, 7, env] = px
        solution[s, 8, env] = py
        solution[s, 9, env] = rest1 / total
        solution[s, 10, env] = rest2 / total
        solution[s, 11, env] = wp.where(polar > ZERO, normal_moment / polar, ZERO)


@wp.func
def _put(
    field: Field, taxels: Taxels, i: int, s: int, env: int, parts: wp.vec3d, twist: wp.float64, out: singles2
) -> int:
    """Write the force with components along t1, t2 and normal, and the torque about the normal."""
    first = field.sensors[s, 1]
    start = 6 * first + 3 * (i - first)
    behind = 3 * (field.sensors[s, 2] - first)
    normal = _row(taxels.shown, i, 2)
    force = _row(taxels.shown, i, 0) * parts[0] + _row(taxels.shown, i, 1) * parts[1] + normal * parts[2]
    for k in range(3):
        out[start + k, env] = wp.float32(force[k])
        out[start + behind + k, env] = wp.float32(twist * normal[k])
    return 0


@wp.kernel
def share_wrenches(field: Field, taxels: Taxels, loads: doubles2, solution: doubles3, out: singles2):
    """Write the readings of the taxels that share the engine's wrench. Dimension (N, B)."""
    i, env = wp.tid()
    s = field.owner[i]
    if taxels.law[s, 1] > ZERO:
        return
    parts = wp.vec3d()
    twist = wp.float64(0.0)
    if solution[s, 0, env] > ZERO:
        load = loads[env, i]
        if load > ZERO:
            t1 = wp.vec3d(solution[s, 1, env], solution[s, 2, env], solution[s, 3, env])
            t2 = wp.vec3d(solution[s, 4, env], solution[s, 5, env], solution[s, 6, env])
            turn = solution[s, 11, env]
            x = wp.dot(numbers(field.probes, i, 0), t1) - solution[s, 7, env]
            y = wp.dot(numbers(field.probes, i, 0), t2) - solution[s, 8, env]
            shear = t1 * (load * (solution[s, 9, env] - turn * y)) + t2 * (load * (solution[s, 10, env] + turn * x))
            parts = wp.vec3d(
                wp.dot(shear, _row(taxels.axes, i, 0)),
                wp.dot(shear, _row(taxels.axes, i, 1)),
                wp.dot(shear, _row(taxels.axes, i, 2)) - load,
            )
            twist = load * turn * field.probes[i, 3] * field.probes[i, 3] / TWO
    _put(field, taxels, i, s, env, parts, twist, out)


@wp.kernel
def spring_forces(
    field: Field,
    taxels: Taxels,
    xpos: engine,
    xmat: engine,
    cvel: engine,
    com: engine,
    root: wp.array(dtype=wp.int32),
    depth: singles2,
    body: ints2,
    motion: singles2,
    dt: wp.float64,
    out: singles2,
):
    """Compute a spring and damper along each taxel's normal, and springs with a friction limit for shear and twist.

    Dimension (N, B). For the arguments see ``taxel_kernels.spring_forces``.
    """
    i, env = wp.tid()
    s = field.owner[i]
    stiffness = taxels.law[s, 1]
    if stiffness == ZERO:
        return
    shear_stiffness = taxels.law[s, 3]
    twist_stiffness = taxels.law[s, 4]
    friction = taxels.law[s, 5]
    d = wp.float64(depth[env, i])
    touches = wp.float32(0.0)
    moved1 = wp.float64(0.0)
    moved2 = wp.float64(0.0)
    turned = wp.float64(0.0)
    load = wp.float64(0.0)
    if d > ZERO:
        # velocity of the touched body relative to the link, at the taxel, in the link's frame
        link = field.sensors[s, 0]
        b = body[env, i]
        frame = matrix(xmat, env, link)
        at = vector(xpos, env, link) + frame * numbers(field.probes, i, 0)
        frame = wp.transpose(frame)
        w = frame * (angular(cvel, env, b) - angular(cvel, env, link))
        v = frame * (linear(cvel, com, root, env, b, at) - linear(cvel, com, root, env, link, at))
        normal = _row(taxels.axes, i, 2)
        load = wp.max(stiffness * wp.pow(d, taxels.law[s, 0]) - taxels.law[s, 2] * wp.dot(v, normal), ZERO)
        if motion[4 * i, env] > 0.0:  # displacement starts at 0 at first touch
            moved1 = wp.float64(motion[4 * i + 1, env]) + wp.dot(v, _row(taxels.axes, i, 0)) * dt
            moved2 = wp.float64(motion[4 * i + 2, env]) + wp.dot(v, _row(taxels.axes, i, 1)) * dt
            turned = wp.float64(motion[4 * i + 3, env]) + wp.dot(w, normal) * dt
        pull = shear_stiffness * wp.sqrt(moved1 * moved1 + moved2 * moved2)
        if pull > friction * load:  # slip: the spring keeps the force that friction holds
            moved1 = moved1 * friction * load / pull
            moved2 = moved2 * friction * load / pull
        twist = wp.abs(twist_stiffness * turned)
        max_twist = friction * load * field.probes[i, 3] * _DISC  # a disc under uniform pressure
        if twist > max_twist:
            turned = turned * (max_twist / twist)
        touches = wp.float32(1.0)
    motion[4 * i, env] = touches
    motion[4 * i + 1, env] = wp.float32(moved1)
    motion[4 * i + 2, env] = wp.float32(moved2)
    motion[4 * i + 3, env] = wp.float32(turned)
    parts = wp.vec3d(shear_stiffness * moved1, shear_stiffness * moved2, -load)
    _put(field, taxels, i, s, env, parts, twist_stiffness * turned, out)
