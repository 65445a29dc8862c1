"""Numba kernels of ray-casting sensors: aim rays, collect hits, add range-dependent noise, compute points.

The sensors of a group are rows of an integer ``table``, whose columns are named below. A *beam* is one element of a
reading. It is cast as a *bundle* of ``SPREAD`` rays (one, or several if it diverges); a sensor that reports several
echoes has as many beams per bundle, those of the first echo first. A *slot* is one position of a scanning head, the
index along the pattern's last axis; a sensor that does not scan has one slot. A *turn* is one of the frames of a
pattern that changes from reading to reading; most patterns have one. Rows of the ray arrays are the envs of ``ids``;
``due[row, sensor]`` lists ``turn * slots + slot`` of the slots that are cast now, padded with -1. The kernels of lidars
alone are in ``lidar_kernels.py``, the Warp counterparts in ``warp_kernels.py``.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators

import numpy as np

from sensorium.jit import helper, kernel
from sensorium.pipeline.kernels import normals, words

BODY, ALIGNMENT, BEAMS, FIRST_BEAM, SPREAD, FIRST_RAY, SLOTS, SCANS, FIRST_SLOT = range(9)
DISTANCES, NORMALS, BODY_IDS, INTENSITY, POSES, IN_WORLD = range(9, 15)
"""First intermediate column of each kind (-1 for none), and whether points and normals are in the world frame."""
BUNDLES, ECHOES, TURNS, TIMES, N_TURNS = range(15, 20)
"""Bundles, and echoes that are found in each by power (0: the nearest hit); first intermediate column of the turns and
times of the slots (-1 for none); turns of the pattern."""
N_TABLE = 20
BASE, YAW, WORLD = range(3)
POSE = 12
"""Numbers of a pose: position, then rotation matrix row by row."""

NUDGE = 1e-7
"""Distance behind an excluded surface at which a ray continues, m: more than rounding, less than any thickness."""

BLOCK = 16
"""Envs that are written together: one cache line."""

_F, _U = np.float32, np.uint32
_BIN24 = 2.0**-24
EPS = 1e-6
"""Share of a slot by which rounding may misplace a step."""
MIN_SQUARE = 1e-6
"""Square of the distance, m², below which the power of an ideal lens grows no more."""
SMALL = 1e-4
"""Below it, 1 - exp(-x) is computed as x - x² / 2."""


@kernel
def find_due(ids, time, dt, per_step, table, due, fired):
    """Find the slots that pass in the step (t - dt, t] that ends now; slot k passes at k / slots of a revolution."""
    fired[:] = 0
    for r in range(ids.shape[0]):
        steps = np.rint(time[ids[r]] / dt)
        for s in range(table.shape[0]):
            due[r, s, :] = -1
            if table[s, SCANS]:
                last = np.int64(np.floor(steps * per_step[s] + EPS))
                before = np.int64(np.floor((steps - 1.0) * per_step[s] + EPS))
                for k in range(min(last - before, due.shape[2], table[s, SLOTS])):
                    index = (last - k) % (table[s, SLOTS] * table[s, N_TURNS])
                    due[r, s, k] = index
                    fired[table[s, FIRST_SLOT] + index % table[s, SLOTS], ids[r]] = 1


@helper
def find_bundle(i, slot_beams, slots, due, r, s):
    """Return the bundle of the pattern that is the i-th one to be cast, -1 for padding."""
    index = due[r, s, i // slot_beams]
    return -1 if index < 0 else (i % slot_beams) * slots + index % slots


@helper
def count_bundles(table, s, whole, due):
    """Return the number of bundles of sensor s that are cast in one env."""
    if whole or table[s, SCANS] == 0:
        return table[s, BUNDLES]
    slots = table[s, SLOTS]
    return min(due.shape[2], slots) * (table[s, BUNDLES] // slots)


@helper
def received_power(reflectivity, retro, cosine, distance, near_range):
    """Return the power that comes back from a surface, 1 for a white one at 1 m that faces the sensor.

    A Lambert surface reflects ``reflectivity`` times the cosine of the incidence angle, a retro-reflector ``retro``
    times its fourth power in addition. The lens receives the share 1 / r² of it, less within ``near_range``.
    """
    cosine = abs(cosine)
    gain = reflectivity * cosine + retro * cosine**4
    square = max(distance * distance, MIN_SQUARE)
    if near_range == 0.0:
        return gain / square
    near = near_range * near_range
    x = square / near
    return gain * (1.0 - 0.5 * x) / near if x < SMALL else gain * (1.0 - np.exp(-x)) / square


@helper
def _set_frame(frame, alignment, position, matrix):
    """Compute the frame in which a sensor is mounted: at the link's origin, rotated by ``alignment``."""
    frame[:3] = position
    frame[3:] = 0.0
    if alignment == BASE:
        frame[3:] = matrix
    elif alignment == YAW:
        heading = np.arctan2(matrix[3], matrix[0])
        frame[3] = frame[7] = np.cos(heading)
        frame[6] = np.sin(heading)
        frame[4] = -frame[6]
        frame[11] = 1.0
    else:
        frame[3] = frame[7] = frame[11] = 1.0


@kernel
def aim(ids, whole, table, due, turns, positions, matrices, starts, vectors, first, frames, points, directions):
    """Compute origins and directions in the world of the rays that are cast now, and each sensor's frame."""
    for r in range(ids.shape[0]):
        for s in range(table.shape[0]):
            frame = frames[r, s]
            body = table[s, BODY]
            _set_frame(frame, table[s, ALIGNMENT], positions[ids[r], body], matrices[ids[r], body])
            px, py, pz = frame[0], frame[1], frame[2]
            a, b, c, d, e, f, g, h, i = frame[3:]
            spread, slots, scans = table[s, SPREAD], table[s, SLOTS], table[s, SCANS] and not whole
            bundles = table[s, BUNDLES]
            slot_beams = bundles // slots
            j = first[s]
            for n in range(count_bundles(table, s, whole, due)):
                bundle, turn = n, turns[r, s]
                if scans:
                    bundle = max(find_bundle(n, slot_beams, slots, due, r, s), 0)
                    turn = max(due[r, s, n // slot_beams], 0) // slots
                k0 = table[s, FIRST_RAY] + (turn * bundles + bundle) * spread
                for k in range(k0, k0 + spread):
                    x, y, z = starts[k, 0], starts[k, 1], starts[k, 2]
                    points[r, j, 0] = px + (a * x + b * y + c * z)
                    points[r, j, 1] = py + (d * x + e * y + f * z)
                    points[r, j, 2] = pz + (g * x + h * y + i * z)
                    x, y, z = vectors[k, 0], vectors[k, 1], vectors[k, 2]
                    directions[r, j, 0] = a * x + b * y + c * z
                    directions[r, j, 1] = d * x + e * y + f * z
                    directions[r, j, 2] = g * x + h * y + i * z
                    j += 1


@kernel
def find_blocked(geoms, geom_body, excluded, sensor_of, index, counts):
    """Find in each env the rays that hit a body excluded for their sensor, and return the largest count."""
    max_count = 0
    for r in range(geoms.shape[0]):
        count = 0
        for j in range(geoms.shape[1]):
            geom = geoms[r, j]
            if geom >= 0 and excluded[sensor_of[j], geom_body[geom]]:
                index[r, count] = j
                count += 1
        counts[r] = count
        max_count = max(max_count, count)
    return max_count


@kernel
def aim_again(index, counts, points, directions, distances, geoms, geom_body, again, vectors, passing):
    """Aim rays from just behind the hits on excluded bodies, ignoring the bodies that were hit."""
    for r in range(again.shape[0]):
        for k in range(again.shape[1]):
            j, past, passing[r, k] = 0, 0.0, -1
            if k < counts[r]:
                j = index[r, k]
                past, passing[r, k] = distances[r, j] + NUDGE, geom_body[geoms[r, j]]
            for x in range(3):
                vectors[r, k, x] = directions[r, j, x]
                again[r, k, x] = points[r, j, x] + past * directions[r, j, x]


@kernel
def merge(index, counts, distances, geoms, surface, new_distances, new_geoms, new_surface):
    """Replace the hits on excluded bodies by those of the rays of :func:`aim_again`."""
    for r in range(index.shape[0]):
        for k in range(counts[r]):
            j = index[r, k]
            hit = new_distances[r, k] >= 0
            distances[r, j] = distances[r, j] + NUDGE + new_distances[r, k] if hit else -1.0
            geoms[r, j] = new_geoms[r, k]
            if surface.shape[1]:
                surface[r, j] = new_surface[r, k]


@kernel
def collect(ids, whole, table, due, first, frames, limits, scale, distances, chosen, out):
    """Compute the raw distances (columns, B): the nearest hit of each bundle, inf without a return.

    At the first ray of each bundle, ``chosen`` receives the ray with the nearest hit, or -1 without a return. Echoes
    are found by ``lidar_kernels.find_echoes`` instead.
    """
    for r0 in range(0, ids.shape[0], BLOCK):
        r1 = min(r0 + BLOCK, ids.shape[0])
        for s in range(table.shape[0]):
            spread, slots, scans = table[s, SPREAD], table[s, SLOTS], table[s, SCANS] and not whole
            slot_beams = table[s, BUNDLES] // slots
            nearest, farthest = limits[s, 0], limits[s, 1]
            for n in range(count_bundles(table, s, whole, due) if table[s, ECHOES] == 0 else 0):
                j0 = first[s] + n * spread
                for r in range(r0, r1):
                    beam = find_bundle(n, slot_beams, slots, due, r, s) if scans else n
                    if beam < 0:
                        continue
                    best, distance = -1, np.inf
                    for j in range(j0, j0 + spread):
                        if 0 <= distances[r, j] < distance:
                            best, distance = j, distances[r, j]
                    distance *= scale[table[s, FIRST_BEAM] + beam]
                    if not nearest <= distance <= farthest:
                        best, distance = -1, np.inf
                    chosen[r, j0] = best
                    out[table[s, DISTANCES] + beam, ids[r]] = distance
            if table[s, POSES] >= 0:
                for r in range(r0, r1):
                    for k in range(min(due.shape[2], slots) if scans else slots):
                        slot = due[r, s, k] if scans else k
                        if slot >= 0:
                            column = table[s, POSES] + slot % slots * POSE
                            for x in range(POSE):
                                out[column + x, ids[r]] = frames[r, s, x]


@kernel
def describe(
    ids, whole, table, due, first, frames, mounts, chosen, distances, geoms, surface, directions, geom_body, surfaces,
    optics, out,
):  # fmt: skip
    """Compute normals, bodies and intensities of the returns that :func:`collect` or ``find_echoes`` chose.

    The intensities of echoes are computed with them.
    """
    for r0 in range(0, ids.shape[0], BLOCK):
        r1 = min(r0 + BLOCK, ids.shape[0])
        for s in range(table.shape[0]):
            bodies, intensity, normals_at = table[s, BODY_IDS], table[s, INTENSITY], table[s, NORMALS]
            if table[s, ECHOES] > 0:
                intensity = -1
            if bodies < 0 and intensity < 0 and normals_at < 0:
                continue
            spread, slots, scans = table[s, SPREAD], table[s, SLOTS], table[s, SCANS] and not whole
            bundles = table[s, BUNDLES]
            slot_beams = bundles // slots
            for n in range(count_bundles(table, s, whole, due)):
                for r in range(r0, r1):
                    bundle = find_bundle(n, slot_beams, slots, due, r, s) if scans else n
                    if bundle < 0:
                        continue
                    for echo in range(max(table[s, ECHOES], 1)):
                        beam = echo * bundles + bundle
                        geom, x, y, z = -1, 0.0, 0.0, 0.0
                        j = chosen[r, first[s] + n * spread + echo]
                        if j >= 0:
                            geom = geoms[r, j]
                            if surface.shape[1]:
                                x, y, z = surface[r, j, 0], surface[r, j, 1], surface[r, j, 2]
                        if bodies >= 0:
                            out[bodies + beam, ids[r]] = geom_body[geom] if geom >= 0 else -1
                        if intensity >= 0:
                            power = 0.0
                            if geom >= 0:
                                cosine = x * directions[r, j, 0] + y * directions[r, j, 1] + z * directions[r, j, 2]
                                power = received_power(
                                    surfaces[s, geom, 0], surfaces[s, geom, 1], cosine, distances[r, j], optics[s, 0]
                                )
                            out[intensity + beam, ids[r]] = power
                        if normals_at >= 0:
                            if table[s, IN_WORLD] == 0:  # from the world through the mounting frame to the sensor's
                                a = frames[r, s, 3] * x + frames[r, s, 6] * y + frames[r, s, 9] * z
                                b = frames[r, s, 4] * x + frames[r, s, 7] * y + frames[r, s, 10] * z
                                c = frames[r, s, 5] * x + frames[r, s, 8] * y + frames[r, s, 11] * z
                                x = mounts[s, 0, 0] * a + mounts[s, 1, 0] * b + mounts[s, 2, 0] * c
                                y = mounts[s, 0, 1] * a + mounts[s, 1, 1] * b + mounts[s, 2, 1] * c
                                z = mounts[s, 0, 2] * a + mounts[s, 1, 2] * b + mounts[s, 2, 2] * c
                            column = normals_at + 3 * beam
                            out[column, ids[r]] = x
                            out[column + 1, ids[r]] = y
                            out[column + 2, ids[r]] = z


@kernel
def roughen(table, data, noise_per_metre, dropout, keys, loss_keys, draw):
    """Add noise that grows with range, and lose returns, in the distances of ``data`` (columns, B).

    The normal is the same one that the generic noise draws for this column, so that the two standard deviations add.
    """
    for s in range(table.shape[0]):
        grows, loses = noise_per_metre[s].any(), dropout[s].any()
        if not (grows or loses):
            continue
        for i in range(table[s, BEAMS]):
            column, beam = table[s, DISTANCES] + i, table[s, FIRST_BEAM] + i
            for b in range(data.shape[1]):
                if grows:
                    w0, w1 = words(keys[beam, 0], keys[beam, 1], draw, b, _U(0))
                    n0, _ = normals(w0, w1)
                    if data[column, b] < np.inf:
                        data[column, b] += _F(noise_per_metre[s, b]) * data[column, b] * n0
                if loses:
                    w0, _ = words(loss_keys[beam, 0], loss_keys[beam, 1], draw, b, _U(0))
                    if np.float64(np.int32(w0 >> _U(8))) * _BIN24 < dropout[s, b]:
                        data[column, b] = np.inf


@kernel
def hold(table, fired, data, held):
    """Restore the last distances of the beams that were not scanned in this step, including their noise."""
    for s in range(table.shape[0]):
        if table[s, SCANS]:
            slots = table[s, SLOTS]
            for i in range(table[s, BEAMS]):
                column, slot = table[s, DISTANCES] + i, table[s, FIRST_SLOT] + i % slots
                for b in range(data.shape[1]):
                    if fired[slot, b]:
                        held[column, b] = data[column, b]
                    else:
                        data[column, b] = held[column, b]


@kernel
def limit(data, first, count, limits, no_hit, out, to):
    """Clamp distances to the range limits, and write ``no_hit`` without a return."""
    low, high = _F(limits[0]), _F(limits[1])
    for i in range(count):
        for b in range(data.shape[1]):
            x = data[first + i, b]
            out[to + i, b] = min(max(x, low), high) if x < np.inf else no_hit


@kernel
def sensor_points(data, first, limits, no_return, starts, vectors, out, to):
    """Compute points in the sensor's frame from the distances."""
    low, high = _F(limits[0]), _F(limits[1])
    for i in range(starts.shape[0]):
        for x in range(3):
            start, vector = starts[i, x], vectors[i, x]
            for b in range(data.shape[1]):
                d = data[first + i, b]
                d = min(max(d, low), high) if d < np.inf else no_return
                out[to + 3 * i + x, b] = start + d * vector


@kernel
def world_points(data, first, poses, slots, limits, no_return, starts, vectors, out, to):
    """Compute points in the world frame from the distances and the poses at capture."""
    low, high = _F(limits[0]), _F(limits[1])
    for i in range(starts.shape[0]):
        pose = poses + i % slots * POSE
        for b in range(data.shape[1]):
            d = data[first + i, b]
            d = min(max(d, low), high) if d < np.inf else no_return
            u, v, w = (
                starts[i, 0] + d * vectors[i, 0],
                starts[i, 1] + d * vectors[i, 1],
                starts[i, 2] + d * vectors[i, 2],
            )
            for x in range(3):
                row = pose + 3 + 3 * x
                out[to + 3 * i + x, b] = data[pose + x, b] + (
                    data[row, b] * u + data[row + 1, b] * v + data[row + 2, b] * w
                )


@kernel
def pass_on(data, first, source, count, width, missing, out, to):
    """Copy a further field of each beam, ``width`` columns; ``missing`` if the beam has no return."""
    for i in range(count):
        for x in range(width):
            for b in range(data.shape[1]):
                hit = data[first + i, b] < np.inf
                out[to + width * i + x, b] = data[source + width * i + x, b] if hit else missing
