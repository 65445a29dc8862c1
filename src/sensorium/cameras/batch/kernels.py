"""Warp kernels around MuJoCo Warp's ray tracer: cameras in, images out. They run on the CPU and on CUDA devices.

A slot is a row of the tracer's arrays; ``envs[slot]`` is the env that is drawn in it.
"""
# mypy: disable-error-code="valid-type, misc, index, operator, attr-defined"
# mypy: disallow_untyped_decorators=False

import mujoco
import warp as wp

from sensorium.worlds import warp_init as warp_init

wp.set_module_options({"enable_backward": False})

GEOM = int(mujoco.mjtObj.mjOBJ_GEOM)
"""Object type by which the tracer marks geoms."""


@wp.kernel
def aim(
    envs: wp.array(dtype=wp.int32),
    position: wp.array(dtype=wp.vec3),
    rotation: wp.array(dtype=wp.mat33),
    fx: wp.array(dtype=wp.float32),
    fy: wp.array(dtype=wp.float32),
    cx: wp.array(dtype=wp.float32),
    cy: wp.array(dtype=wp.float32),
    width: wp.float32,
    height: wp.float32,
    right: wp.float32,
    down: wp.float32,
    camera: wp.int32,
    xpos: wp.array2d(dtype=wp.vec3),
    xmat: wp.array2d(dtype=wp.mat33),
    intrinsic: wp.array2d(dtype=wp.vec4),
) -> None:
    """Write one camera into every slot; its rays pass ``right`` and ``down`` of the pixel centres, in pixels.

    The tracer expects a sensor of ``width`` x ``height`` pixels, and the principal point as an offset from the image
    centre, to the left and up.
    """
    slot = wp.tid()
    env = envs[slot]
    xpos[slot, camera] = position[env]
    xmat[slot, camera] = rotation[env]
    left = 0.5 * width - cx[env] + right
    up = 0.5 * height - cy[env] + down
    intrinsic[slot, camera] = wp.vec4(fx[env], fy[env], left, up)


@wp.func
def unpack(packed: wp.uint32) -> wp.vec3:
    """Return red, green and blue, 0 to 255."""
    red = wp.float32((packed >> wp.uint32(16)) & wp.uint32(0xFF))
    green = wp.float32((packed >> wp.uint32(8)) & wp.uint32(0xFF))
    blue = wp.float32(packed & wp.uint32(0xFF))
    return wp.vec3(red, green, blue)


@wp.kernel
def add_sample(packed: wp.array2d(dtype=wp.uint32), first: wp.bool, total: wp.array2d(dtype=wp.vec3)) -> None:
    """Add one sample per pixel to the sum of samples."""
    slot, pixel = wp.tid()
    colour = unpack(packed[slot, pixel])
    if not first:
        colour += total[slot, pixel]
    total[slot, pixel] = colour


@wp.kernel
def develop(
    envs: wp.array(dtype=wp.int32),
    near: wp.float32,
    far: wp.float32,
    samples: wp.int32,
    geom_body: wp.array(dtype=wp.int32),
    packed: wp.array2d(dtype=wp.uint32),
    total: wp.array2d(dtype=wp.vec3),
    traced_depth: wp.array2d(dtype=wp.float32),
    traced_ids: wp.array2d(dtype=wp.vec2i),
    colour_at: wp.int32,
    depth_at: wp.int32,
    ids_at: wp.int32,
    rgb: wp.array3d(dtype=wp.uint8),
    depth: wp.array2d(dtype=wp.float32),
    ids: wp.array2d(dtype=wp.vec2i),
) -> None:
    """Convert the tracer's buffers to the images of one camera.

    Surfaces outside the near and far planes count as not hit. Images of disabled outputs are null.
    """
    slot, pixel = wp.tid()
    env = envs[slot]
    distance = traced_depth[slot, depth_at + pixel]  # 0 where no surface was hit
    seen = distance >= near and distance <= far
    if rgb:
        if distance > 0.0 and not seen:
            rgb[env, pixel, 0] = wp.uint8(0)
            rgb[env, pixel, 1] = wp.uint8(0)
            rgb[env, pixel, 2] = wp.uint8(0)
        else:
            colour = wp.vec3(0.0)
            if samples > 1:
                colour = total[slot, colour_at + pixel] / wp.float32(samples) + wp.vec3(0.5)
            else:
                colour = unpack(packed[slot, colour_at + pixel])
            rgb[env, pixel, 0] = wp.uint8(colour[0])
            rgb[env, pixel, 1] = wp.uint8(colour[1])
            rgb[env, pixel, 2] = wp.uint8(colour[2])
    if depth:
        depth[env, pixel] = wp.where(seen, distance, wp.inf)
    if ids:
        hit = wp.vec2i(-1, -1)
        if seen:
            hit = wp.vec2i(0, -1)  # a flex, which is not a geom
            found = traced_ids[slot, ids_at + pixel]
            if found[1] == wp.static(GEOM):
                hit = wp.vec2i(geom_body[found[0]], found[0])
        ids[env, pixel] = hit
