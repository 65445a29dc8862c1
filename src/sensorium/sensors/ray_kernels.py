"""The Numba kernels of ray-casting sensors: aiming rays, collecting hits, range-dependent noise, points.

A group's sensors are rows of an integer ``table`` whose columns are named below. A *beam* is one element of a reading;
it is cast as ``SPREAD`` rays (one, or with divergence a bundle). A *slot* is one position of a scanning head, the index
along the pattern's last axis; a sensor that does not scan has a single one. Rows of the ray arrays are the envs of
``ids``; ``due[row, sensor]`` lists the slots that are cast now, padded with -1.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators

import numba
import numpy as np

from sensorium.pipeline.kernels import normals, threefry

BODY, ALIGNMENT, BEAMS, FIRST_BEAM, SPREAD, FIRST_RAY, SLOTS, SCANS, FIRST_SLOT = range(9)
DISTANCES, NORMALS, BODY_IDS, INTENSITY, POSES, IN_WORLD = range(9, 15)
"""First intermediate column of each kind, -1 without; and whether points and normals are in the world frame."""
N_TABLE = 15
BASE, YAW, WORLD = range(3)
POSE = 12
"""Numbers of a pose: position and rotation matrix, row by row."""

NUDGE = 1e-7
"""Metres behind an excluded surface from which a ray goes on: past rounding, and thinner than anything."""

_BLOCK = 16  # envs that are written together, for they are neighbours in memory
_F, _U = np.float32, np.uint32
_BIN24 = 2.0**-24
_EPS = 1e-6

_jit = numba.njit(nogil=True, cache=True, error_model="numpy")


@_jit
def find_due(ids, time, dt, per_step, table, due, fired):
    """Which slots pass in the step that ends now: those in (t - dt, t], slot k of a revolution at (k / slots) of it."""
    fired[:] = 0
    for r in range(ids.shape[0]):
        steps = np.rint(time[ids[r]] / dt)
        for s in range(table.shape[0]):
            due[r, s, :] = -1
            if table[s, SCANS]:
                last = np.int64(np.floor(steps * per_step[s] + _EPS))
                before = np.int64(np.floor((steps - 1.0) * per_step[s] + _EPS))
                for k in range(min(last - before, due.shape[2], table[s, SLOTS])):
                    slot = (last - k) % table[s, SLOTS]
                    due[r, s, k] = slot
                    fired[table[s, FIRST_SLOT] + slot, ids[r]] = 1


@_jit
def _beam(i, slot_beams, slots, due_row):
    """The beam of the i-th bundle that is cast, -1 for padding."""
    slot = due_row[i // slot_beams]
    return -1 if slot < 0 else (i % slot_beams) * slots + slot


@_jit
def _count(table, s, whole, due):
    """Bundles of sensor s in one env."""
    if whole or table[s, SCANS] == 0:
        return table[s, BEAMS]
    slots = table[s, SLOTS]
    return min(due.shape[2], slots) * (table[s, BEAMS] // slots)


@_jit
def _set_frame(frame, alignment, position, matrix):
    """The frame in which a sensor is mounted: at the link's origin, turned as ``alignment`` says."""
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


@_jit
def aim(ids, whole, table, due, positions, matrices, starts, vectors, first, frames, points, directions):
    """World origins and directions of the rays that are cast now, and each sensor's frame."""
    for r in range(ids.shape[0]):
        for s in range(table.shape[0]):
            frame = frames[r, s]
            body = table[s, BODY]
            _set_frame(frame, table[s, ALIGNMENT], positions[ids[r], body], matrices[ids[r], body])
            px, py, pz = frame[0], frame[1], frame[2]
            a, b, c, d, e, f, g, h, i = frame[3:]
            spread, slots, scans = table[s, SPREAD], table[s, SLOTS], table[s, SCANS] and not whole
            slot_beams = table[s, BEAMS] // slots
            j = first[s]
            for n in range(_count(table, s, whole, due)):
                beam = max(_beam(n, slot_beams, slots, due[r, s]), 0) if scans else n
                for k in range(table[s, FIRST_RAY] + beam * spread, table[s, FIRST_RAY] + (beam + 1) * spread):
                    x, y, z = starts[k, 0], starts[k, 1], starts[k, 2]
                    points[r, j, 0] = px + (a * x + b * y + c * z)
                    points[r, j, 1] = py + (d * x + e * y + f * z)
                    points[r, j, 2] = pz + (g * x + h * y + i * z)
                    x, y, z = vectors[k, 0], vectors[k, 1], vectors[k, 2]
                    directions[r, j, 0] = a * x + b * y + c * z
                    directions[r, j, 1] = d * x + e * y + f * z
                    directions[r, j, 2] = g * x + h * y + i * z
                    j += 1


@_jit
def find_blocked(geoms, geom_body, excluded, sensor_of, index, counts):
    """Per env, the rays whose hit is on a body that their sensor sees through; returns the largest count."""
    most = 0
    for r in range(geoms.shape[0]):
        count = 0
        for j in range(geoms.shape[1]):
            geom = geoms[r, j]
            if geom >= 0 and excluded[sensor_of[j], geom_body[geom]]:
                index[r, count] = j
                count += 1
        counts[r] = count
        most = max(most, count)
    return most


@_jit
def aim_again(index, counts, points, directions, distances, geoms, geom_body, again, vectors, passing):
    """Rays from just behind the hits that count for nothing, through the bodies that were hit."""
    for r in range(again.shape[0]):
        for k in range(again.shape[1]):
            j, past, passing[r, k] = 0, 0.0, -1
            if k < counts[r]:
                j = index[r, k]
                past, passing[r, k] = distances[r, j] + NUDGE, geom_body[geoms[r, j]]
            for x in range(3):
                vectors[r, k, x] = directions[r, j, x]
                again[r, k, x] = points[r, j, x] + past * directions[r, j, x]


@_jit
def merge(index, counts, distances, geoms, surface, new_distances, new_geoms, new_surface):
    """Put the hits of :func:`aim_again` in place of those before."""
    for r in range(index.shape[0]):
        for k in range(counts[r]):
            j = index[r, k]
            hit = new_distances[r, k] >= 0
            distances[r, j] = distances[r, j] + NUDGE + new_distances[r, k] if hit else -1.0
            geoms[r, j] = new_geoms[r, k]
            if surface.shape[1]:
                surface[r, j] = new_surface[r, k]


@_jit
def collect(
    ids,
    whole,
    table,
    due,
    first,
    frames,
    mounts,
    limits,
    scale,
    distances,
    geoms,
    surface,
    directions,
    geom_body,
    reflectivity,
    out,
):
    """From the hits of all rays to the raw signal (columns, B): the nearest of each bundle, inf without a return."""
    for r0 in range(0, ids.shape[0], _BLOCK):
        r1 = min(r0 + _BLOCK, ids.shape[0])
        for s in range(table.shape[0]):
            spread, slots, scans = table[s, SPREAD], table[s, SLOTS], table[s, SCANS] and not whole
            slot_beams = table[s, BEAMS] // slots
            nearest, farthest = limits[s, 0], limits[s, 1]
            has_more = table[s, NORMALS] >= 0 or table[s, BODY_IDS] >= 0 or table[s, INTENSITY] >= 0
            for n in range(_count(table, s, whole, due)):
                j0 = first[s] + n * spread
                for r in range(r0, r1):
                    beam = _beam(n, slot_beams, slots, due[r, s]) if scans else n
                    if beam < 0:
                        continue
                    best, distance = -1, np.inf
                    for j in range(j0, j0 + spread):
                        if 0 <= distances[r, j] < distance:
                            best, distance = j, distances[r, j]
                    distance *= scale[table[s, FIRST_BEAM] + beam]
                    if not nearest <= distance <= farthest:
                        best, distance = -1, np.inf
                    out[table[s, DISTANCES] + beam, ids[r]] = distance
                    if has_more:
                        _describe(
                            table[s], ids[r], beam, r, best, frames[r, s], mounts[s], geoms, surface, directions,
                            geom_body, reflectivity, out,
                        )  # fmt: skip
            if table[s, POSES] >= 0:
                for r in range(r0, r1):
                    for k in range(slots):
                        slot = due[r, s, k] if scans and k < due.shape[2] else (-1 if scans else k)
                        if slot >= 0:
                            for x in range(POSE):
                                out[table[s, POSES] + slot * POSE + x, ids[r]] = frames[r, s, x]


@_jit
def _describe(row, env, beam, r, j, frame, mount, geoms, surface, directions, geom_body, reflectivity, out):
    """Normal, body and intensity of a beam whose return is ray j, or that has none (-1)."""
    geom = geoms[r, j] if j >= 0 else -1
    if row[BODY_IDS] >= 0:
        out[row[BODY_IDS] + beam, env] = geom_body[geom] if geom >= 0 else -1
    if row[INTENSITY] >= 0:
        value = 0.0
        if geom >= 0:
            n, v = surface[r, j], directions[r, j]
            value = reflectivity[geom] * abs(n[0] * v[0] + n[1] * v[1] + n[2] * v[2])
        out[row[INTENSITY] + beam, env] = value
    if row[NORMALS] >= 0:
        first = row[NORMALS] + 3 * beam
        if j < 0:
            out[first, env] = out[first + 1, env] = out[first + 2, env] = 0.0
        elif row[IN_WORLD]:
            for x in range(3):
                out[first + x, env] = surface[r, j, x]
        else:  # back through the frame and the mounting
            n = surface[r, j]
            a = frame[3] * n[0] + frame[6] * n[1] + frame[9] * n[2]
            b = frame[4] * n[0] + frame[7] * n[1] + frame[10] * n[2]
            c = frame[5] * n[0] + frame[8] * n[1] + frame[11] * n[2]
            for x in range(3):
                out[first + x, env] = mount[0, x] * a + mount[1, x] * b + mount[2, x] * c


@_jit
def roughen(table, data, noise_per_metre, dropout, keys, loss_keys, step):
    """Noise that grows with range, and lost returns, on the distances in ``data`` (columns, B).

    The normal is the very one that the generic noise draws for this column, so that the two standard deviations add.
    """
    for s in range(table.shape[0]):
        grows, loses = noise_per_metre[s].any(), dropout[s].any()
        if not (grows or loses):
            continue
        for i in range(table[s, BEAMS]):
            column, beam = table[s, DISTANCES] + i, table[s, FIRST_BEAM] + i
            for b in range(data.shape[1]):
                if grows:
                    w0, w1 = threefry(keys[beam, 0], keys[beam, 1], _U(b), _U(step))
                    n0, _ = normals(w0, w1)
                    if data[column, b] < np.inf:
                        data[column, b] += _F(noise_per_metre[s, b]) * data[column, b] * n0
                if loses:
                    w0, _ = threefry(loss_keys[beam, 0], loss_keys[beam, 1], _U(b), _U(step))
                    if np.float64(np.int32(w0 >> _U(8))) * _BIN24 < dropout[s, b]:
                        data[column, b] = np.inf


@_jit
def hold(table, fired, data, held):
    """What was not scanned in this step reads as it did, noise and all."""
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


@_jit
def limit(data, first, count, limits, no_hit, out, to):
    """Distances as they are read: within the range, ``no_hit`` without a return."""
    low, high = _F(limits[0]), _F(limits[1])
    for i in range(count):
        for b in range(data.shape[1]):
            x = data[first + i, b]
            out[to + i, b] = min(max(x, low), high) if x < np.inf else no_hit


@_jit
def sensor_points(data, first, limits, no_return, starts, vectors, out, to):
    """Points in the sensor's frame, from the distances."""
    low, high = _F(limits[0]), _F(limits[1])
    for i in range(starts.shape[0]):
        for x in range(3):
            start, vector = starts[i, x], vectors[i, x]
            for b in range(data.shape[1]):
                d = data[first + i, b]
                d = min(max(d, low), high) if d < np.inf else no_return
                out[to + 3 * i + x, b] = start + d * vector


@_jit
def world_points(data, first, poses, slots, limits, no_return, starts, vectors, out, to):
    """Points in the world's frame, from the distances and the poses at capture."""
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


@_jit
def pass_on(data, first, source, count, width, missing, out, to):
    """Further fields of a beam, ``width`` columns each; ``missing`` where the beam has no return."""
    for i in range(count):
        for x in range(width):
            for b in range(data.shape[1]):
                hit = data[first + i, b] < np.inf
                out[to + width * i + x, b] = data[source + width * i + x, b] if hit else missing
