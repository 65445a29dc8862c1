"""Warp functions that read the engine's fields: positions, rotations and velocities of bodies and geoms, in float64.

Fields have the shape (B, n, numbers) and any precision: float32 on the GPU, float64 on Warp's CPU device.
"""

# the annotations of Warp kernels are values, not types
# mypy: disable-error-code="valid-type,misc,index,attr-defined,operator,call-overload,assignment,arg-type"
# mypy: allow-untyped-decorators, allow-untyped-calls, allow-untyped-defs, allow-incomplete-defs

from typing import Any

import warp as wp

from sensorium.worlds import warp_init as warp_init

wp.set_module_options({"fuse_fp": False, "enable_backward": False, "fast_math": False})

engine = wp.array3d(dtype=Any)
sensed = wp.array2d(dtype=Any)


@wp.func
def vector(rows: engine, env: int, i: int) -> wp.vec3d:
    """Return a position of the engine."""
    return wp.vec3d(wp.float64(rows[env, i, 0]), wp.float64(rows[env, i, 1]), wp.float64(rows[env, i, 2]))


@wp.func
def matrix(rows: engine, env: int, i: int) -> wp.mat33d:
    """Return a rotation matrix of the engine."""
    return wp.mat33d(
        wp.float64(rows[env, i, 0]), wp.float64(rows[env, i, 1]), wp.float64(rows[env, i, 2]),
        wp.float64(rows[env, i, 3]), wp.float64(rows[env, i, 4]), wp.float64(rows[env, i, 5]),
        wp.float64(rows[env, i, 6]), wp.float64(rows[env, i, 7]), wp.float64(rows[env, i, 8]),
    )  # fmt: skip


@wp.func
def angular(cvel: engine, env: int, b: int) -> wp.vec3d:
    """Return the angular velocity of a body."""
    return vector(cvel, env, b)


@wp.func
def linear(cvel: engine, com: engine, root: wp.array(dtype=wp.int32), env: int, b: int, at: wp.vec3d) -> wp.vec3d:
    """Return the velocity of a body at a position; ``cvel`` is that at the centre of mass of its kinematic tree."""
    rest = wp.vec3d(wp.float64(cvel[env, b, 3]), wp.float64(cvel[env, b, 4]), wp.float64(cvel[env, b, 5]))
    return rest + wp.cross(angular(cvel, env, b), at - vector(com, env, root[b]))


@wp.func
def sensed_vector(data: sensed, env: int, at: int) -> wp.vec3d:
    """Return three numbers of the engine's sensor data, (B, n)."""
    return wp.vec3d(wp.float64(data[env, at]), wp.float64(data[env, at + 1]), wp.float64(data[env, at + 2]))
