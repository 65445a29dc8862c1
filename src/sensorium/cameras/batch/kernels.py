"""Warp kernels around MuJoCo Warp's ray tracer: cameras in, images out. They run on the CPU and on CUDA devices.

A slot is a row of the tracer's arrays; ``envs[slot]`` is the env that is drawn in it.
"""
# mypy: disable-error-code="valid-type, misc, index, operator, attr-defined"
# mypy: disallow_untyped_decorators=False

import mujoco
import warp as wp

from sensorium.worlds import warp_init as warp_init
from sensorium.worlds.environments import ROLE

wp.set_module_options({"enable_backward": False})

GEOM = int(mujoco.mjtObj.mjOBJ_GEOM)
"""Object type by which the tracer marks geoms."""
SPHERE, CAPSULE = int(mujoco.mjtGeom.mjGEOM_SPHERE), int(mujoco.mjtGeom.mjGEOM_CAPSULE)
ELLIPSOID, CYLINDER = int(mujoco.mjtGeom.mjGEOM_ELLIPSOID), int(mujoco.mjtGeom.mjGEOM_CYLINDER)


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


@wp.kernel
def choose_sky(
    mat_texid: wp.array3d(dtype=wp.int32),
    material: wp.int32,
    widths: wp.array(dtype=wp.int32),
    texture: wp.array(dtype=wp.int32),
    width: wp.array(dtype=wp.int32),
) -> None:
    """Write the skybox of every slot: the texture of one material, and the width of that texture."""
    slot = wp.tid()
    chosen = mat_texid[slot % mat_texid.shape[0], material, wp.static(ROLE)]
    texture[slot] = chosen
    width[slot] = widths[chosen]


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


@wp.func
def round_normal(kind: wp.int32, size: wp.vec3, point: wp.vec3) -> wp.vec3:
    """Return the outward direction of the normal of a round geom at a point of its surface, in its frame.

    0 if the geom is not round.
    """
    if kind == wp.static(SPHERE):
        return point
    if kind == wp.static(ELLIPSOID):
        return wp.cw_div(wp.cw_div(point, size), size)
    along = point[2]
    if kind == wp.static(CAPSULE):
        return wp.vec3(point[0], point[1], along - wp.clamp(along, -size[1], size[1]))
    if kind == wp.static(CYLINDER):
        outside = wp.sqrt(point[0] * point[0] + point[1] * point[1]) - size[0]
        if wp.abs(along) - size[1] > outside:
            return wp.vec3(0.0, 0.0, along)
        return wp.vec3(point[0], point[1], 0.0)
    return wp.vec3(0.0)


@wp.func
def inverse(distance: wp.float32, near: wp.float32, far: wp.float32) -> wp.float32:
    """Return 1 / distance, or 0 if no surface was hit between the near and the far plane."""
    if distance >= near and distance <= far:
        return 1.0 / distance
    return 0.0


@wp.func
def smaller(one: wp.float32, other: wp.float32) -> wp.float32:
    """Return the value of smaller magnitude."""
    return wp.where(wp.abs(one) < wp.abs(other), one, other)


@wp.kernel
def fill_normals(
    envs: wp.array(dtype=wp.int32),
    position: wp.array(dtype=wp.vec3),
    rotation: wp.array(dtype=wp.mat33),
    fx: wp.array(dtype=wp.float32),
    fy: wp.array(dtype=wp.float32),
    cx: wp.array(dtype=wp.float32),
    cy: wp.array(dtype=wp.float32),
    width: wp.int32,
    height: wp.int32,
    near: wp.float32,
    far: wp.float32,
    geom_type: wp.array(dtype=wp.int32),
    geom_size: wp.array2d(dtype=wp.vec3),
    geom_xpos: wp.array2d(dtype=wp.vec3),
    geom_xmat: wp.array2d(dtype=wp.mat33),
    traced_depth: wp.array2d(dtype=wp.float32),
    traced_ids: wp.array2d(dtype=wp.vec2i),
    depth_at: wp.int32,
    ids_at: wp.int32,
    normals: wp.array2d(dtype=wp.vec3),
) -> None:
    """Compute the unit normals of one camera in CV axes: of round geoms from their shape, of others from depth.

    On a plane, 1 / depth is linear in x / z and y / z, so its slopes give the plane's normal up to rounding. Of the
    differences to the two neighbours of a pixel the smaller is used: at an edge, that neighbour is on the same surface.
    """
    slot, pixel = wp.tid()
    env = envs[slot]
    at = depth_at + pixel
    distance = traced_depth[slot, at]
    here = inverse(distance, near, far)
    if here == 0.0:
        normals[env, pixel] = wp.vec3(0.0)
        return
    row, column = pixel // width, pixel % width
    x = (wp.float32(column) + 0.5 - cx[env]) / fx[env]
    y = (wp.float32(row) + 0.5 - cy[env]) / fy[env]
    found = traced_ids[slot, ids_at + pixel]
    normal = wp.vec3(0.0)
    if found[1] == wp.static(GEOM):
        geom = found[0]
        turn = geom_xmat[slot, geom]
        ray = rotation[env] @ wp.vec3(x, -y, -1.0)
        point = wp.transpose(turn) @ (position[env] - geom_xpos[slot, geom] + distance * ray)
        outward = round_normal(geom_type[geom], geom_size[slot % geom_size.shape[0], geom], point)
        normal = wp.transpose(rotation[env]) @ (turn @ outward)
        normal = wp.vec3(normal[0], -normal[1], -normal[2])
    if wp.length_sq(normal) == 0.0:
        after = wp.float32(0.0)
        before = wp.float32(0.0)
        if column + 1 < width:
            after = inverse(traced_depth[slot, at + 1], near, far) - here
        if column > 0:
            before = here - inverse(traced_depth[slot, at - 1], near, far)
        slope_x = fx[env] * wp.where(column == 0, after, wp.where(column == width - 1, before, smaller(after, before)))
        after = wp.float32(0.0)
        before = wp.float32(0.0)
        if row + 1 < height:
            after = inverse(traced_depth[slot, at + width], near, far) - here
        if row > 0:
            before = here - inverse(traced_depth[slot, at - width], near, far)
        slope_y = fy[env] * wp.where(row == 0, after, wp.where(row == height - 1, before, smaller(after, before)))
        # points p of the plane satisfy normal . p = 1, so it points away from the camera
        normal = -wp.vec3(slope_x, slope_y, here - slope_x * x - slope_y * y)
    normals[env, pixel] = wp.normalize(normal)
