"""Numba kernels that only some lidars need: echoes by their power, and patterns that change from reading to reading.

Names are those of ``kernels.py``. ``optics[sensor]`` is the near range (m), the distance (m) below which two hits merge
into one echo, and the share of a beam's power that each of its rays has. ``surfaces[sensor, geom]`` is the reflectivity
and the gain of a retro-reflector. The Warp counterparts are in ``warp_lidar_kernels.py`` and ``warp_kernels.py``.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators

import numpy as np

from sensorium.jit import helper, kernel
from sensorium.sensors.rays.kernels import (
    BLOCK,
    BUNDLES,
    DISTANCES,
    ECHOES,
    EPS,
    INTENSITY,
    N_TURNS,
    POSE,
    SCANS,
    SLOTS,
    SPREAD,
    TIMES,
    TURNS,
    count_bundles,
    find_bundle,
    received_power,
)

FIRST, SECOND, LAST, STRONGEST = range(4)
"""Which of the echoes of a beam is reported."""

_F = np.float32


@kernel
def find_turns(ids, time, dt, per_step, table, turns):
    """Find the frame of its pattern at which each sensor is in the step that ends now."""
    for r in range(ids.shape[0]):
        steps = np.rint(time[ids[r]] / dt)
        for s in range(table.shape[0]):
            index = np.int64(np.floor(steps * per_step[s] + EPS))
            turns[r, s] = index // table[s, SLOTS] % table[s, N_TURNS]


@kernel
def stamp(ids, whole, time, dt, per_step, table, due, turns, out):
    """Write frame and time of the slots: the time at which they were cast, before that of the reading, s."""
    for r in range(ids.shape[0]):
        steps = np.rint(time[ids[r]] / dt)
        for s in range(table.shape[0]):
            frames, times, slots = table[s, TURNS], table[s, TIMES], table[s, SLOTS]
            if table[s, SCANS] == 0 or whole:
                for slot in range(slots):
                    if frames >= 0:
                        out[frames + slot, ids[r]] = turns[r, s]
                    if times >= 0:
                        out[times + slot, ids[r]] = 0.0
                continue
            if times >= 0:
                for slot in range(slots):
                    out[times + slot, ids[r]] -= _F(dt)
            last = np.floor(steps * per_step[s] + EPS)
            for k in range(min(due.shape[2], slots)):
                if due[r, s, k] >= 0:
                    slot = due[r, s, k] % slots
                    if frames >= 0:
                        out[frames + slot, ids[r]] = due[r, s, k] // slots
                    if times >= 0:
                        out[times + slot, ids[r]] = ((last - k) / per_step[s] - steps) * dt


@kernel
def find_echoes(
    ids, whole, table, due, first, limits, optics, kinds, surfaces, extinction, threshold, distances, geoms, surface,
    directions, powers, chosen, out,
):  # fmt: skip
    """Merge the hits of each bundle into echoes, and report those of ``kinds`` that reach the threshold.

    Hits follow each other in one echo while the distance between them is at most that of ``optics``. An echo lies at
    the mean of its hits, weighted by their power, and has their total power. ``chosen`` receives the ray of its
    strongest hit, one per kind from the first ray of the bundle on; -1 without an echo.
    """
    for r0 in range(0, ids.shape[0], BLOCK):
        r1 = min(r0 + BLOCK, ids.shape[0])
        for s in range(table.shape[0]):
            if table[s, ECHOES] == 0:
                continue
            spread, slots, scans = table[s, SPREAD], table[s, SLOTS], table[s, SCANS] and not whole
            slot_beams = table[s, BUNDLES] // slots
            for n in range(count_bundles(table, s, whole, due)):
                j0 = first[s] + n * spread
                for r in range(r0, r1):
                    bundle = find_bundle(n, slot_beams, slots, due, r, s) if scans else n
                    if bundle < 0:
                        continue
                    b = ids[r]
                    for echo in range(table[s, ECHOES]):
                        _report(table, s, echo, bundle, np.inf, 0.0, b, out)
                        chosen[r, j0 + echo] = -1
                    for j in range(j0, j0 + spread):
                        distance = distances[r, j]
                        powers[r, j] = -1.0
                        if limits[s, 0] <= distance <= limits[s, 1]:
                            geom, cosine = geoms[r, j], 0.0
                            for x in range(3):
                                cosine += surface[r, j, x] * directions[r, j, x]
                            power = received_power(
                                surfaces[s, geom, 0], surfaces[s, geom, 1], cosine, distance, optics[s, 0]
                            )
                            powers[r, j] = optics[s, 2] * power * np.exp(-2.0 * extinction[s, b] * distance)

                    count, greatest, at, ray = 0, 0.0, -1.0, -1
                    total, moment, peak, start, best = 0.0, 0.0, -1.0, 0.0, -1
                    while True:
                        following = _next_hit(distances[r], powers[r], j0, spread, at, ray)
                        if best >= 0 and (following < 0 or distances[r, following] - at > optics[s, 1]):
                            if total >= threshold[s, b]:  # the echo is complete and is detected
                                distance = moment / total if total > 0.0 else start
                                for echo in range(table[s, ECHOES]):
                                    kind = kinds[s, echo]
                                    if (
                                        kind == LAST
                                        or (kind == FIRST and count == 0)
                                        or (kind == SECOND and count == 1)
                                        or (kind == STRONGEST and (count == 0 or total > greatest))
                                    ):
                                        _report(table, s, echo, bundle, distance, total, b, out)
                                        chosen[r, j0 + echo] = best
                                count, greatest = count + 1, max(greatest, total)
                            best = -1
                        if following < 0:
                            break
                        at, ray = distances[r, following], following
                        if best < 0:
                            total, moment, peak, start = 0.0, 0.0, -1.0, at
                        total += powers[r, ray]
                        moment += powers[r, ray] * at
                        if powers[r, ray] > peak:
                            peak, best = powers[r, ray], ray


@helper
def _next_hit(distances, powers, j0, spread, at, ray):
    """Return the ray with the nearest hit behind that of ``ray`` at the distance ``at``, -1 if there is none."""
    found = -1
    for j in range(j0, j0 + spread):
        behind = distances[j] > at or (distances[j] == at and j > ray)
        if powers[j] >= 0.0 and behind and (found < 0 or distances[j] < distances[found]):
            found = j
    return found


@helper
def _report(table, s, echo, bundle, distance, power, b, out):
    beam = echo * table[s, BUNDLES] + bundle
    out[table[s, DISTANCES] + beam, b] = distance
    if table[s, INTENSITY] >= 0:
        out[table[s, INTENSITY] + beam, b] = power


@kernel
def moving_points(data, first, frames, poses, slots, limits, no_return, bundles, starts, vectors, out, to, count):
    """Compute points along the rays of the frames that were cast, in the sensor's frame, or with ``poses`` >= 0 in the
    world frame."""
    low, high = _F(limits[0]), _F(limits[1])
    for i in range(count):
        pose = poses + i % slots * POSE
        for b in range(data.shape[1]):
            d = data[first + i, b]
            d = min(max(d, low), high) if d < np.inf else no_return
            k = np.int64(data[frames + i % slots, b]) * bundles + i % bundles
            u, v, w = (
                starts[k, 0] + d * vectors[k, 0],
                starts[k, 1] + d * vectors[k, 1],
                starts[k, 2] + d * vectors[k, 2],
            )
            if poses < 0:
                out[to + 3 * i, b], out[to + 3 * i + 1, b], out[to + 3 * i + 2, b] = u, v, w
                continue
            for x in range(3):
                row = pose + 3 + 3 * x
                out[to + 3 * i + x, b] = data[pose + x, b] + (
                    data[row, b] * u + data[row + 1, b] * v + data[row + 2, b] * w
                )


@kernel
def pass_on_times(data, times, slots, count, out, to):
    """Copy the times of the slots to the beams."""
    for i in range(count):
        for b in range(data.shape[1]):
            out[to + i, b] = data[times + i % slots, b]
