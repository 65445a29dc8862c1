"""Warp kernels of contact probes and proximity probes: the GPU counterparts of ``probe_kernels.py``.

Kernels have one thread per probe and env, dimension (N, B), so that neighbouring threads write neighbouring envs.
"""

# the annotations of Warp kernels are values, not types
# mypy: disable-error-code="valid-type,misc,index,attr-defined,operator,call-overload,assignment,arg-type"
# mypy: allow-untyped-decorators, allow-untyped-calls, allow-untyped-defs, allow-incomplete-defs

import warp as wp

from sensorium.sensors.touch.warp_distance import ZERO, doubles2
from sensorium.sensors.touch.warp_field_kernels import Field, numbers, singles2, singles3
from sensorium.sensors.warp_engine import engine, matrix, vector

wp.set_module_options({"fuse_fp": False, "enable_backward": False, "fast_math": False})


@wp.kernel
def fill_depths(field: Field, depth: singles2, per_probe: int, out: singles2):
    """Write the depths of each sensor to the start of its columns, of which it has ``per_probe`` per probe."""
    i, env = wp.tid()
    out[(per_probe - 1) * field.sensors[field.owner[i], 1] + i, env] = depth[env, i]


@wp.kernel
def switch(field: Field, thresholds: singles2, closed: singles2, data: singles2):
    """Write the states of each sensor's switches behind its depths; ``closed`` holds them from step to step."""
    i, env = wp.tid()
    s = field.owner[i]
    depth = data[field.sensors[s, 1] + i, env]
    threshold = thresholds[s, 0]
    if closed[i, env] > 0.0:
        threshold = thresholds[s, 1]
    state = wp.where(depth >= threshold and depth > 0.0, 1.0, 0.0)
    closed[i, env] = state
    data[field.sensors[s, 2] + i, env] = state


@wp.kernel
def show_switches(field: Field, data: singles2, out: wp.array2d(dtype=wp.bool)):
    """Write the states of the switches alone."""
    i, env = wp.tid()
    out[i, env] = data[field.sensors[field.owner[i], 2] + i, env] > 0.0


@wp.kernel
def fill_distances(
    field: Field,
    frames: doubles2,
    xpos: engine,
    xmat: engine,
    distance: singles2,
    point: singles3,
    out: singles2,
):
    """Write distances and nearest points of each sensor, in the world frame or in the sensor's.

    ``frames`` (S, 13): position and rotation in the link's frame, and whether to use the sensor's frame.
    """
    p, env = wp.tid()
    s = field.owner[p]
    first = field.sensors[s, 1]
    count = field.sensors[s, 2] - first
    out[4 * first + p - first, env] = distance[env, p]
    shown = vector(point, env, p)
    if frames[s, 12] > ZERO:  # world to link to sensor
        link = field.sensors[s, 0]
        local = wp.transpose(matrix(xmat, env, link)) * (shown - vector(xpos, env, link)) - numbers(frames, s, 0)
        turn = wp.mat33d(
            frames[s, 3], frames[s, 6], frames[s, 9],
            frames[s, 4], frames[s, 7], frames[s, 10],
            frames[s, 5], frames[s, 8], frames[s, 11],
        )  # fmt: skip
        shown = turn * local
    for j in range(3):
        out[4 * first + count + 3 * (p - first) + j, env] = wp.float32(shown[j])
