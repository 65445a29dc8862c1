"""Numba kernels of tactile arrays: share the engine's contact wrench among taxels, or compute a spring per taxel.

Shapes: S sensors, N taxels of all of them, B envs. ``axes`` (N, 3, 3) are the taxels' tangents and normal in their
link's frame, ``shown`` the same in the frame of the readings. Columns of a sensor are the forces of its taxels, then
their torques.
"""

from __future__ import annotations

import numpy as np

from sensorium.jit import helper, kernel

PASSES = 16
"""Maximum number of solutions. After them, the loads are scaled to the total force."""


@helper
def _put(
    out: np.ndarray,
    start: int,
    count: int,
    i: int,
    env: int,
    shown: np.ndarray,
    a: float,
    b: float,
    c: float,
    twist: float,
) -> None:
    """Write the force with components (a, b, c) along t1, t2 and normal, and the torque about the normal."""
    for k in range(3):
        out[start + 3 * i + k, env] = a * shown[0, k] + b * shown[1, k] + c * shown[2, k]
        out[start + 3 * (count + i) + k, env] = twist * shown[2, k]


@helper
def _spread(
    probes: np.ndarray,
    axes: np.ndarray,
    loads: np.ndarray,
    first: int,
    last: int,
    t1: np.ndarray,
    t2: np.ndarray,
    up: np.ndarray,
    press: float,
    m1: float,
    m2: float,
) -> None:
    """Fill ``loads[:, 1]`` with normal forces: weights ``loads[:, 0]`` times a linear function over the skin.

    Its three coefficients are chosen such that the forces along ``up`` add up to ``press``, and that their first
    moments along t1 and t2 are m1 and m2, as those of the engine's contacts. Taxels with a negative force are removed,
    and the rest is solved again.
    """
    for i in range(first, last):
        loads[i, 1] = loads[i, 0]
    for _ in range(PASSES):
        total = cx = cy = 0.0
        for i in range(first, last):
            if loads[i, 1] > 0:
                w = loads[i, 0] * (axes[i, 2, 0] * up[0] + axes[i, 2, 1] * up[1] + axes[i, 2, 2] * up[2])
                x = probes[i, 0] * t1[0] + probes[i, 1] * t1[1] + probes[i, 2] * t1[2]
                y = probes[i, 0] * t2[0] + probes[i, 1] * t2[1] + probes[i, 2] * t2[2]
                total += w
                cx += w * x
                cy += w * y
        if total <= 0:
            for i in range(first, last):
                loads[i, 1] = 0.0
            return
        cx, cy = cx / total, cy / total
        xx = xy = yy = 0.0
        for i in range(first, last):
            if loads[i, 1] > 0:
                w = loads[i, 0] * (axes[i, 2, 0] * up[0] + axes[i, 2, 1] * up[1] + axes[i, 2, 2] * up[2])
                x = probes[i, 0] * t1[0] + probes[i, 1] * t1[1] + probes[i, 2] * t1[2] - cx
                y = probes[i, 0] * t2[0] + probes[i, 1] * t2[1] + probes[i, 2] * t2[2] - cy
                xx += w * x * x
                xy += w * x * y
                yy += w * y * y
        bx = by = 0.0
        rx, ry = m1 - press * cx, m2 - press * cy
        trace, det = xx + yy, xx * yy - xy * xy
        if trace > 1e-12 * total:  # more than a micrometre apart
            if det > 1e-9 * trace * trace:
                bx, by = (yy * rx - xy * ry) / det, (xx * ry - xy * rx) / det
            else:  # in one line: only the moment along it can be met
                dx, dy = (xx, xy) if xx >= yy else (xy, yy)
                length = np.sqrt(dx * dx + dy * dy)
                dx, dy = dx / length, dy / length
                along = (rx * dx + ry * dy) / trace
                bx, by = along * dx, along * dy
        pulls = False
        for i in range(first, last):
            if loads[i, 1] > 0:
                x = probes[i, 0] * t1[0] + probes[i, 1] * t1[1] + probes[i, 2] * t1[2] - cx
                y = probes[i, 0] * t2[0] + probes[i, 1] * t2[1] + probes[i, 2] * t2[2] - cy
                share = press / total + bx * x + by * y
                pulls = pulls or share <= 0
                loads[i, 1] = loads[i, 0] * max(share, 0.0)
        if not pulls:
            return
    total = 0.0
    for i in range(first, last):
        total += loads[i, 1] * (axes[i, 2, 0] * up[0] + axes[i, 2, 1] * up[1] + axes[i, 2, 2] * up[2])
    for i in range(first, last):
        loads[i, 1] *= press / total


@kernel
def share_wrenches(
    sensors: np.ndarray,
    probes: np.ndarray,
    axes: np.ndarray,
    shown: np.ndarray,
    law: np.ndarray,
    wrenches: np.ndarray,
    data: np.ndarray,
    xpos: np.ndarray,
    xmat: np.ndarray,
    depth: np.ndarray,
    loads: np.ndarray,
    out: np.ndarray,
) -> None:
    """Share the wrench of the engine's contacts on each link among its loaded taxels.

    All quantities are in the link's frame. For normal forces see ``_spread``. Tangential force is shared in proportion
    to the normal forces. The moment about the normal is shared as a rotation of the skin would carry it: each taxel
    gets shear that grows with its distance from the centre of pressure, and twist of its own area, a disc of its
    radius.
    """
    up, t1, t2 = np.zeros(3), np.zeros(3), np.zeros(3)
    force, arm, moment = np.zeros(3), np.zeros(3), np.zeros(3)
    for s in range(sensors.shape[0]):
        if law[s, 1] > 0:
            continue
        link, first, last = sensors[s, 0], sensors[s, 1], sensors[s, 2]
        start, count = 6 * first, last - first
        for env in range(out.shape[1]):
            out[start : start + 6 * count, env] = 0
            force[:] = 0
            moment[:] = 0  # about the link's origin, in its frame
            m = xmat[env, link]
            for number in range(wrenches.shape[1]):
                at = wrenches[s, number]
                if at < 0:
                    break
                v = data[env, at : at + 9]
                rx, ry, rz = v[6] - xpos[env, link, 0], v[7] - xpos[env, link, 1], v[8] - xpos[env, link, 2]
                tx = v[3] + ry * v[2] - rz * v[1]
                ty = v[4] + rz * v[0] - rx * v[2]
                tz = v[5] + rx * v[1] - ry * v[0]
                for k in range(3):
                    force[k] += m[k] * v[0] + m[3 + k] * v[1] + m[6 + k] * v[2]
                    moment[k] += m[k] * tx + m[3 + k] * ty + m[6 + k] * tz
            if force[0] == 0 and force[1] == 0 and force[2] == 0:
                continue
            up[:] = 0
            arm[:] = 0
            whole = 0.0
            for i in range(first, last):
                load = max(depth[env, i], 0.0)
                if load > 0 and law[s, 0] != 1:
                    load = load ** law[s, 0]
                loads[i, 0] = load
                if load > 0:
                    whole += load
                    for k in range(3):
                        up[k] += load * axes[i, 2, k]
                        arm[k] += load * probes[i, k]
            norm = np.sqrt(up[0] * up[0] + up[1] * up[1] + up[2] * up[2])
            if whole == 0 or norm == 0:
                continue
            for k in range(3):
                up[k] /= norm
                arm[k] /= whole  # centre of the loaded skin, the reference of lever arms
            for i in range(first, last):  # on a curved skin, taxels that face away from its mean normal carry nothing
                if axes[i, 2, 0] * up[0] + axes[i, 2, 1] * up[1] + axes[i, 2, 2] * up[2] <= 0:
                    loads[i, 0] = 0.0
            press = -(force[0] * up[0] + force[1] * up[1] + force[2] * up[2])
            if press <= 0:
                continue
            k = 0 if abs(up[0]) <= abs(up[1]) and abs(up[0]) <= abs(up[2]) else (1 if abs(up[1]) <= abs(up[2]) else 2)
            t1[:] = 0
            t1[k] = 1
            side = t1[0] * up[0] + t1[1] * up[1] + t1[2] * up[2]
            length = np.sqrt(1 - side * side)
            for k in range(3):
                t1[k] = (t1[k] - side * up[k]) / length
            t2[0] = up[1] * t1[2] - up[2] * t1[1]
            t2[1] = up[2] * t1[0] - up[0] * t1[2]
            t2[2] = up[0] * t1[1] - up[1] * t1[0]
            # the moment about the centre, so that shear at the height of the skin does not count as pressure
            mx = moment[0] - (arm[1] * force[2] - arm[2] * force[1])
            my = moment[1] - (arm[2] * force[0] - arm[0] * force[2])
            mz = moment[2] - (arm[0] * force[1] - arm[1] * force[0])
            a1 = arm[0] * t1[0] + arm[1] * t1[1] + arm[2] * t1[2]
            a2 = arm[0] * t2[0] + arm[1] * t2[1] + arm[2] * t2[2]
            m1 = mx * t2[0] + my * t2[1] + mz * t2[2] + press * a1
            m2 = -(mx * t1[0] + my * t1[1] + mz * t1[2]) + press * a2
            _spread(probes, axes, loads, first, last, t1, t2, up, press, m1, m2)
            total = px = py = 0.0
            rest1 = force[0] * t1[0] + force[1] * t1[1] + force[2] * t1[2]
            rest2 = force[0] * t2[0] + force[1] * t2[1] + force[2] * t2[2]
            for i in range(first, last):
                load = loads[i, 1]
                if load > 0:
                    total += load
                    px += load * (probes[i, 0] * t1[0] + probes[i, 1] * t1[1] + probes[i, 2] * t1[2])
                    py += load * (probes[i, 0] * t2[0] + probes[i, 1] * t2[1] + probes[i, 2] * t2[2])
                    # normals of a curved skin have a component along the tangents, too
                    rest1 += load * (axes[i, 2, 0] * t1[0] + axes[i, 2, 1] * t1[1] + axes[i, 2, 2] * t1[2])
                    rest2 += load * (axes[i, 2, 0] * t2[0] + axes[i, 2, 1] * t2[1] + axes[i, 2, 2] * t2[2])
            if total <= 0:
                continue
            px, py = px / total, py / total
            polar = 0.0
            for i in range(first, last):
                if loads[i, 1] > 0:
                    x = probes[i, 0] * t1[0] + probes[i, 1] * t1[1] + probes[i, 2] * t1[2] - px
                    y = probes[i, 0] * t2[0] + probes[i, 1] * t2[1] + probes[i, 2] * t2[2] - py
                    polar += loads[i, 1] * (x * x + y * y + probes[i, 3] * probes[i, 3] / 2)
            # about the centre of pressure, where shear has no lever arm
            normal_moment = mx * up[0] + my * up[1] + mz * up[2] - ((px - a1) * rest2 - (py - a2) * rest1)
            turn = normal_moment / polar if polar > 0 else 0.0
            for i in range(first, last):
                load = loads[i, 1]
                if load > 0:
                    x = probes[i, 0] * t1[0] + probes[i, 1] * t1[1] + probes[i, 2] * t1[2] - px
                    y = probes[i, 0] * t2[0] + probes[i, 1] * t2[1] + probes[i, 2] * t2[2] - py
                    s1 = load * (rest1 / total - turn * y)
                    s2 = load * (rest2 / total + turn * x)
                    a = b = 0.0
                    c = -load
                    for k in range(3):
                        shear = s1 * t1[k] + s2 * t2[k]
                        a += shear * axes[i, 0, k]
                        b += shear * axes[i, 1, k]
                        c += shear * axes[i, 2, k]
                    twist = load * turn * probes[i, 3] * probes[i, 3] / 2
                    _put(out, start, count, i - first, env, shown[i], a, b, c, twist)


@kernel
def spring_forces(
    sensors: np.ndarray,
    probes: np.ndarray,
    axes: np.ndarray,
    shown: np.ndarray,
    law: np.ndarray,
    xmat: np.ndarray,
    cvel: np.ndarray,
    com: np.ndarray,
    root: np.ndarray,
    depth: np.ndarray,
    position: np.ndarray,
    body: np.ndarray,
    motion: np.ndarray,
    dt: float,
    out: np.ndarray,
) -> None:
    """Compute a spring and damper along each taxel's normal, and springs with a friction limit for shear and twist.

    ``cvel`` is the velocity of a body (angular, then linear) at the centre of mass of its kinematic tree, ``com``.
    ``motion`` (4 * N, B) holds whether a taxel touches, its displacement along both tangents and its rotation.
    """
    w, v = np.zeros(3), np.zeros(3)
    for s in range(sensors.shape[0]):
        exponent, stiffness, damping = law[s, 0], law[s, 1], law[s, 2]
        shear_stiffness, twist_stiffness, friction = law[s, 3], law[s, 4], law[s, 5]
        if stiffness == 0:
            continue
        link, first, last = sensors[s, 0], sensors[s, 1], sensors[s, 2]
        start, count = 6 * first, last - first
        for env in range(out.shape[1]):
            m = xmat[env, link]
            for i in range(first, last):
                d = depth[env, i]
                row = 4 * i
                if d <= 0:
                    for k in range(4):
                        motion[row + k, env] = 0
                    for k in range(3):
                        out[start + 3 * (i - first) + k, env] = 0
                        out[start + 3 * (count + i - first) + k, env] = 0
                    continue
                # velocity of the touched body relative to the link, at the taxel, in the link's frame
                wx = wy = wz = vx = vy = vz = 0.0
                for other in range(2):
                    b = body[env, i] if other == 0 else link
                    sign = 1.0 if other == 0 else -1.0
                    rx = position[env, i, 0] - com[env, root[b], 0]
                    ry = position[env, i, 1] - com[env, root[b], 1]
                    rz = position[env, i, 2] - com[env, root[b], 2]
                    ax, ay, az = cvel[env, b, 0], cvel[env, b, 1], cvel[env, b, 2]
                    wx, wy, wz = wx + sign * ax, wy + sign * ay, wz + sign * az
                    vx += sign * (cvel[env, b, 3] + ay * rz - az * ry)
                    vy += sign * (cvel[env, b, 4] + az * rx - ax * rz)
                    vz += sign * (cvel[env, b, 5] + ax * ry - ay * rx)
                for k in range(3):
                    w[k] = m[k] * wx + m[3 + k] * wy + m[6 + k] * wz
                    v[k] = m[k] * vx + m[3 + k] * vy + m[6 + k] * vz
                v1 = v[0] * axes[i, 0, 0] + v[1] * axes[i, 0, 1] + v[2] * axes[i, 0, 2]
                v2 = v[0] * axes[i, 1, 0] + v[1] * axes[i, 1, 1] + v[2] * axes[i, 1, 2]
                rate = -(v[0] * axes[i, 2, 0] + v[1] * axes[i, 2, 1] + v[2] * axes[i, 2, 2])
                spin = w[0] * axes[i, 2, 0] + w[1] * axes[i, 2, 1] + w[2] * axes[i, 2, 2]
                load = max(stiffness * d**exponent + damping * rate, 0.0)
                moved1, moved2, turned = 0.0, 0.0, 0.0
                if motion[row, env] > 0:  # displacement starts at 0 at first touch
                    moved1 = motion[row + 1, env] + v1 * dt
                    moved2 = motion[row + 2, env] + v2 * dt
                    turned = motion[row + 3, env] + spin * dt
                pull = shear_stiffness * np.sqrt(moved1 * moved1 + moved2 * moved2)
                if pull > friction * load:  # slip: the spring keeps the force that friction holds
                    moved1, moved2 = moved1 * friction * load / pull, moved2 * friction * load / pull
                twist = twist_stiffness * turned
                max_twist = friction * load * probes[i, 3] * 2.0 / 3.0  # a disc under uniform pressure
                if abs(twist) > max_twist:
                    turned *= max_twist / abs(twist)
                motion[row, env], motion[row + 1, env] = 1.0, moved1
                motion[row + 2, env], motion[row + 3, env] = moved2, turned
                a, b_, torque = shear_stiffness * moved1, shear_stiffness * moved2, twist_stiffness * turned
                _put(out, start, count, i - first, env, shown[i], a, b_, -load, torque)
