"""Numba kernel that traces rays to round shapes: spheres, ellipsoids, capsules and cylinders.

Renderers draw round shapes with facets. Their corners lie on the surface, so the facets lie behind it, by 0.6% of the
radius with 28 facets around a circle, and by much more along rays that graze the shape. The kernel corrects depth, ids
and normals: in the bounding box of each round shape it intersects the ray of every pixel with the shape itself. The
surface lies before the facets of its own shape, so a hit that is nearer than the drawn depth is visible, and the drawn
depth need not be attributed to a shape.

Rays start at the camera and are parametrised by depth, the distance along the optical axis: ray(z) = eye + z d with
d = x a + y b + c, where (x, y) are the image coordinates of the pixel at depth 1 (x right, y up) and a, b and c are the
camera's right, up and forward axes. All are in the frame of the shape. For ellipsoids that frame is scaled, so that the
shape is the unit sphere.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators

import mujoco
import numpy as np

from sensorium.jit import helper, kernel

_SPHERE, _CAPSULE = int(mujoco.mjtGeom.mjGEOM_SPHERE), int(mujoco.mjtGeom.mjGEOM_CAPSULE)
_ELLIPSOID, _CYLINDER = int(mujoco.mjtGeom.mjGEOM_ELLIPSOID), int(mujoco.mjtGeom.mjGEOM_CYLINDER)
ROUND = (_SPHERE, _CAPSULE, _ELLIPSOID, _CYLINDER)
"""Types of geoms that the kernel traces."""
_SLACK, _SHIFT, _MAX_SLACK = 1e-5, 1 / 64, 1e-3
"""How far behind the drawn surface a hit may lie and still count as visible: by this part of the depth, plus the slope
of the surface times this part of a pixel, in all at most the last number times the depth. Otherwise rounding in OpenGL
would decide where facets touch the surface, as on the flat ends of cylinders. OpenGL rounds depth, and it rounds the
corners of facets to parts of a pixel (1/256 in Mesa), which matters where a surface is steep."""
_TINY = 1e-24


@kernel
def trace_round(geoms, bodies, kinds, sizes, positions, rotations, eye, axes, sides, near, far, depth, ids, normals):
    """Correct the images of one camera in one env at the pixels that show round shapes.

    Args:
        geoms: ids of the visible geoms with a type of ``ROUND``, (n,).
        bodies: body of each geom of the model.
        kinds: type of each geom.
        sizes: sizes of each geom, m, (ngeom, 3).
        positions: positions of the geoms in the world, m, (ngeom, 3).
        rotations: world from geom, row by row, (ngeom, 9).
        eye: position of the camera in the world, m, (3,).
        axes: world from camera in GL axes, (3, 3).
        sides: left, right, bottom and top of the frustum at the near plane, m, (4,).
        near: depth of the near plane, m.
        far: depth of the far plane, m.
        depth: depth as drawn, m, (H, W), inf if nothing was drawn; is corrected.
        ids: body and geom as drawn, (H, W, 2); is corrected. (0, 0, 2) if ids are not needed.
        normals: normals in CV axes, (H, W, 3); filled at pixels that show round shapes, and otherwise not changed.
            (0, 0, 3) if normals are not needed.
    """
    height, width = depth.shape
    left, top = sides[0] / near, sides[3] / near
    step_x, step_y = (sides[1] - sides[0]) / near / width, (sides[3] - sides[2]) / near / height
    with_ids, with_normals = ids.shape[0] > 0, normals.shape[0] > 0
    local = np.empty((4, 3))  # a, b, c and the eye, in the frame of the shape
    half = np.empty(3)
    for geom in geoms:
        kind = kinds[geom]
        radius, length = sizes[geom, 0], sizes[geom, 1]
        half[:] = radius
        if kind == _CAPSULE:
            half[2] = length + radius
        elif kind == _CYLINDER:
            half[2] = length
        elif kind == _ELLIPSOID:
            half[:] = sizes[geom]
        for axis in range(3):
            for row in range(4):
                local[row, axis] = 0.0
            for i in range(3):
                turn = rotations[geom, 3 * i + axis]
                local[0, axis] += turn * axes[i, 0]
                local[1, axis] += turn * axes[i, 1]
                local[2, axis] -= turn * axes[i, 2]
                local[3, axis] += turn * (eye[i] - positions[geom, i])
        rows, columns = _bounds(local, half, near, far, left, top, step_x, step_y, height, width)
        if kind in (_SPHERE, _ELLIPSOID):
            for row in range(4):
                for axis in range(3):
                    local[row, axis] /= half[axis]
        ax, ay, az = local[0]
        bx, by, bz = local[1]
        cx, cy, cz = local[2]
        ox, oy, oz = local[3]
        for row in range(rows[0], rows[1]):
            y = top - (row + 0.5) * step_y
            for column in range(columns[0], columns[1]):
                x = left + (column + 0.5) * step_x
                dx, dy, dz = x * ax + y * bx + cx, x * ay + y * by + cy, x * az + y * bz + cz
                if kind == _CAPSULE:
                    z, nx, ny, nz = _hit_capsule(ox, oy, oz, dx, dy, dz, radius, length)
                elif kind == _CYLINDER:
                    z, nx, ny, nz = _hit_cylinder(ox, oy, oz, dx, dy, dz, radius, length)
                else:
                    z, nx, ny, nz = _hit_ball(ox, oy, oz, dx, dy, dz, 1.0)
                drawn = depth[row, column]
                if not near <= z <= far or z > drawn * (1.0 + _MAX_SLACK):
                    continue
                right, up = nx * ax + ny * ay + nz * az, nx * bx + ny * by + nz * bz
                forward = nx * cx + ny * cy + nz * cz
                if z > drawn * (1.0 + _SLACK):
                    facing = abs(right * x + up * y + forward)
                    slope = (abs(right) * step_x + abs(up) * step_y) / max(facing, _TINY)  # of log(depth), per pixel
                    if z > drawn * (1.0 + _SLACK + _SHIFT * slope):
                        continue
                depth[row, column] = z
                if with_ids:
                    ids[row, column, 0], ids[row, column, 1] = bodies[geom], geom
                if with_normals:
                    norm = 1.0 / np.sqrt(right * right + up * up + forward * forward)
                    normals[row, column, 0] = right * norm
                    normals[row, column, 1] = -up * norm
                    normals[row, column, 2] = forward * norm


@helper
def _bounds(local, half, near, far, left, top, step_x, step_y, height, width):
    """Return the rows and the columns (first, end) that the bounding box of a shape covers."""
    nearest, farthest = np.inf, -np.inf
    x0, x1, y0, y1 = np.inf, -np.inf, np.inf, -np.inf
    for corner in range(8):
        x = y = z = 0.0
        for axis in range(3):
            side = half[axis] if corner >> axis & 1 else -half[axis]
            offset = side - local[3, axis]
            x += offset * local[0, axis]
            y += offset * local[1, axis]
            z += offset * local[2, axis]
        nearest, farthest = min(nearest, z), max(farthest, z)
        if z > 0.0:
            x0, x1, y0, y1 = min(x0, x / z), max(x1, x / z), min(y0, y / z), max(y1, y / z)
    if farthest < near or nearest > far:
        return (0, 0), (0, 0)
    if nearest < near:  # a corner is beside or behind the camera
        return (0, height), (0, width)
    first_row, end_row = np.floor((top - y1) / step_y - 0.5), np.ceil((top - y0) / step_y + 0.5)
    first_column, end_column = np.floor((x0 - left) / step_x - 0.5), np.ceil((x1 - left) / step_x + 0.5)
    rows = (int(max(first_row, 0.0)), int(min(end_row, np.float64(height))))
    return rows, (int(max(first_column, 0.0)), int(min(end_column, np.float64(width))))


@helper
def _hit_ball(ox, oy, oz, dx, dy, dz, radius):
    """Return where a ray enters a sphere about the origin, and the direction of the normal there; inf if it misses."""
    a, b = dx * dx + dy * dy + dz * dz, ox * dx + oy * dy + oz * dz
    root = b * b - a * (ox * ox + oy * oy + oz * oz - radius * radius)
    if root < 0.0:
        return np.inf, 0.0, 0.0, 0.0
    z = (-b - np.sqrt(root)) / a
    return z, ox + z * dx, oy + z * dy, oz + z * dz


@helper
def _hit_capsule(ox, oy, oz, dx, dy, dz, radius, length):
    """Return where a ray enters a capsule about the z axis, whose straight part has half the length ``length``."""
    a, b, c = dx * dx + dy * dy, ox * dx + oy * dy, ox * ox + oy * oy - radius * radius
    root = b * b - a * c
    if root < 0.0:
        return np.inf, 0.0, 0.0, 0.0
    if a > _TINY:
        z = (-b - np.sqrt(root)) / a
        side = oz + z * dz
        if abs(side) <= length:
            return z, ox + z * dx, oy + z * dy, 0.0
    else:  # along the axis
        side = -dz
    end = length if side > 0.0 else -length
    return _hit_ball(ox, oy, oz - end, dx, dy, dz, radius)


@helper
def _hit_cylinder(ox, oy, oz, dx, dy, dz, radius, length):
    """Return where a ray enters a cylinder about the z axis with the half length ``length``."""
    a, b, c = dx * dx + dy * dy, ox * dx + oy * dy, ox * ox + oy * oy - radius * radius
    root = b * b - a * c
    if root < 0.0 or (a <= _TINY and c > 0.0):
        return np.inf, 0.0, 0.0, 0.0
    enter, leave = -np.inf, np.inf
    if a > _TINY:
        root = np.sqrt(root)
        enter, leave = (-b - root) / a, (-b + root) / a
    end = length if dz < 0.0 else -length  # the end that the ray meets first
    if abs(dz) > _TINY:
        z, beyond = (end - oz) / dz, (-end - oz) / dz
        if max(z, enter) > min(beyond, leave):
            return np.inf, 0.0, 0.0, 0.0
        if z > enter:
            return z, 0.0, 0.0, 1.0 if dz < 0.0 else -1.0
    elif abs(oz) > length:
        return np.inf, 0.0, 0.0, 0.0
    return enter, ox + enter * dx, oy + enter * dy, 0.0
