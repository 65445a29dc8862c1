"""Warp functions of signed distances from points to geoms: the GPU counterparts of ``distance.py``.

The formulas are those of ``distance.py``, also in float64. Points are in the geom's frame.
"""

# the annotations of Warp kernels are values, not types
# mypy: disable-error-code="valid-type,misc,index,attr-defined,operator,call-overload,assignment,arg-type"
# mypy: allow-untyped-decorators, allow-untyped-calls, allow-untyped-defs, allow-incomplete-defs

import warp as wp

from sensorium.sensors.touch import distance
from sensorium.worlds import warp_init as warp_init

wp.set_module_options({"fuse_fp": False, "enable_backward": False, "fast_math": False})

PLANE, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH = map(
    wp.constant,
    (
        distance.PLANE,
        distance.SPHERE,
        distance.CAPSULE,
        distance.ELLIPSOID,
        distance.CYLINDER,
        distance.BOX,
        distance.MESH,
    ),
)
TINY, FAR = (wp.constant(wp.float64(x)) for x in (distance.TINY, distance.FAR))
ZERO, ONE, TWO = (wp.constant(wp.float64(x)) for x in (0.0, 1.0, 2.0))
_NEAR_ZERO, _CONVERGED = (wp.constant(wp.float64(x)) for x in (1e-9, 1e-14))

ints2, doubles, doubles2 = wp.array2d(dtype=wp.int32), wp.array(dtype=wp.float64), wp.array2d(dtype=wp.float64)


@wp.struct
class Nearest:
    """Signed distance, nearest point of the surface and outward normal there, in the geom's frame."""

    distance: wp.float64
    point: wp.vec3d
    normal: wp.vec3d


@wp.func
def _nearest(away: wp.float64, point: wp.vec3d, normal: wp.vec3d) -> Nearest:
    found = Nearest()
    found.distance = away
    found.point = point
    found.normal = normal
    return found


@wp.func
def _sign(x: wp.float64) -> wp.float64:
    return wp.where(x >= ZERO, ONE, -ONE)


@wp.func
def on_plane(p: wp.vec3d) -> Nearest:
    """Return the nearest surface point of the plane z = 0."""
    return _nearest(p[2], wp.vec3d(p[0], p[1], ZERO), wp.vec3d(ZERO, ZERO, ONE))


@wp.func
def on_sphere(p: wp.vec3d, radius: wp.float64) -> Nearest:
    """Return the nearest surface point of a sphere."""
    length = wp.length(p)
    if length < TINY:
        return _nearest(-radius, wp.vec3d(ZERO, ZERO, radius), wp.vec3d(ZERO, ZERO, ONE))
    normal = p / length
    return _nearest(length - radius, normal * radius, normal)


@wp.func
def on_capsule(p: wp.vec3d, radius: wp.float64, half: wp.float64) -> Nearest:
    """Return the nearest surface point of a capsule along z."""
    axial = wp.clamp(p[2], -half, half)
    away = wp.vec3d(p[0], p[1], p[2] - axial)
    length = wp.length(away)
    normal = wp.vec3d(ONE, ZERO, ZERO)
    if length >= TINY:
        normal = away / length
    return _nearest(length - radius, wp.vec3d(ZERO, ZERO, axial) + normal * radius, normal)


@wp.func
def on_cylinder(p: wp.vec3d, radius: wp.float64, half: wp.float64) -> Nearest:
    """Return the nearest surface point of a cylinder along z."""
    rho = wp.sqrt(p[0] * p[0] + p[1] * p[1])
    out = wp.vec3d(ONE, ZERO, ZERO)
    if rho >= TINY:
        out = wp.vec3d(p[0] / rho, p[1] / rho, ZERO)
    side = _sign(p[2])
    beyond_rim = rho - radius
    beyond_cap = wp.abs(p[2]) - half
    if beyond_rim <= ZERO and beyond_cap <= ZERO:
        if beyond_rim > beyond_cap:
            return _nearest(beyond_rim, out * radius + wp.vec3d(ZERO, ZERO, p[2]), out)
        return _nearest(beyond_cap, wp.vec3d(p[0], p[1], side * half), wp.vec3d(ZERO, ZERO, side))
    point = out * wp.min(rho, radius) + wp.vec3d(ZERO, ZERO, wp.clamp(p[2], -half, half))
    radial = rho - wp.min(rho, radius)
    axial = p[2] - point[2]
    length = wp.sqrt(radial * radial + axial * axial)
    return _nearest(length, point, (out * radial + wp.vec3d(ZERO, ZERO, axial)) / length)


@wp.func
def on_box(p: wp.vec3d, size: wp.vec3d) -> Nearest:
    """Return the nearest surface point of a box."""
    dx = wp.abs(p[0]) - size[0]
    dy = wp.abs(p[1]) - size[1]
    dz = wp.abs(p[2]) - size[2]
    if dx <= ZERO and dy <= ZERO and dz <= ZERO:
        if dx >= dy and dx >= dz:
            side = _sign(p[0])
            return _nearest(dx, wp.vec3d(side * size[0], p[1], p[2]), wp.vec3d(side, ZERO, ZERO))
        if dy >= dz:
            side = _sign(p[1])
            return _nearest(dy, wp.vec3d(p[0], side * size[1], p[2]), wp.vec3d(ZERO, side, ZERO))
        side = _sign(p[2])
        return _nearest(dz, wp.vec3d(p[0], p[1], side * size[2]), wp.vec3d(ZERO, ZERO, side))
    point = wp.vec3d(
        wp.clamp(p[0], -size[0], size[0]), wp.clamp(p[1], -size[1], size[1]), wp.clamp(p[2], -size[2], size[2])
    )
    length = wp.length(p - point)
    return _nearest(length, point, (p - point) / length)


@wp.func
def on_ellipsoid(p: wp.vec3d, size: wp.vec3d) -> Nearest:
    """Return the nearest surface point of an ellipsoid, by Newton's method."""
    smallest = wp.min(wp.min(size[0], size[1]), size[2])
    off = _NEAR_ZERO * smallest
    ahead = wp.vec3d(wp.max(wp.abs(p[0]), off), wp.max(wp.abs(p[1]), off), wp.max(wp.abs(p[2]), off))
    squares = wp.cw_mul(size, size)
    more = squares - wp.vec3d(smallest * smallest)
    scaled = wp.cw_mul(size, ahead)
    s = wp.max(wp.max(scaled[0] - more[0], scaled[1] - more[1]), scaled[2] - more[2])
    for _ in range(64):
        below = wp.vec3d(s) + more
        g = wp.cw_div(scaled, below)
        gg = wp.cw_mul(g, g)
        excess = gg[0] + gg[1] + gg[2] - ONE
        slopes = wp.cw_div(gg, below)
        change = excess / (TWO * (slopes[0] + slopes[1] + slopes[2]))
        s += change
        if wp.abs(change) <= _CONVERGED * s:
            break
    point = wp.cw_div(wp.cw_mul(squares, ahead), wp.vec3d(s) + more)
    point = wp.vec3d(point[0] * _sign(p[0]), point[1] * _sign(p[1]), point[2] * _sign(p[2]))
    normal = wp.cw_div(point, squares)
    normal = normal / wp.length(normal)
    return _nearest(wp.dot(p - point, normal), point, normal)


@wp.func
def _on_triangle(p: wp.vec3d, corner: wp.vec3d, u: wp.vec3d, v: wp.vec3d) -> wp.vec3d:
    """Return the nearest point of the triangle with this corner and the edges u and v from it."""
    w = p - corner
    uu = wp.dot(u, u)
    uv = wp.dot(u, v)
    vv = wp.dot(v, v)
    wu = wp.dot(w, u)
    wv = wp.dot(w, v)
    det = uu * vv - uv * uv
    i = vv * wu - uv * wv  # barycentric coordinates times det
    j = uu * wv - uv * wu
    if i >= ZERO and j >= ZERO and i + j <= det:
        return corner + u * (i / det) + v * (j / det)
    # on one of the edges
    best = u * wp.clamp(wu / uu, ZERO, ONE)
    other = v * wp.clamp(wv / vv, ZERO, ONE)
    if wp.length_sq(w - other) < wp.length_sq(w - best):
        best = other
    opposite = wp.clamp((uu - uv - wu + wv) / (uu - TWO * uv + vv), ZERO, ONE)
    other = u * (ONE - opposite) + v * opposite
    if wp.length_sq(w - other) < wp.length_sq(w - best):
        best = other
    return corner + best


@wp.func
def _numbers(rows: doubles2, row: int, first: int) -> wp.vec3d:
    return wp.vec3d(rows[row, first], rows[row, first + 1], rows[row, first + 2])


@wp.func
def face_normal(faces: doubles2, f: int) -> wp.vec3d:
    """Return the outward normal of a triangle of a convex hull."""
    return _numbers(faces, f, 9)


@wp.func
def on_hull(p: wp.vec3d, faces: doubles2, first: int, last: int) -> Nearest:
    """Return the nearest point of a convex hull; a face is three corners, outward normal, and offset along it."""
    top = -FAR
    at = int(first)
    for f in range(first, last):
        height = wp.dot(face_normal(faces, f), p) - faces[f, 12]
        if height > top:
            top = height
            at = f
    normal = face_normal(faces, at)
    if top <= ZERO:
        return _nearest(top, p - normal * top, normal)
    best = FAR
    point = p
    for f in range(first, last):
        if wp.dot(face_normal(faces, f), p) - faces[f, 12] > ZERO:
            corner = _numbers(faces, f, 0)
            q = _on_triangle(p, corner, _numbers(faces, f, 3) - corner, _numbers(faces, f, 6) - corner)
            square = wp.length_sq(p - q)
            if square < best:
                best = square
                point = q
    length = wp.sqrt(best)
    if length > TINY:
        normal = (p - point) / length
    return _nearest(length, point, normal)


@wp.func
def terrain_height(
    u: wp.float64, v: wp.float64, scale: wp.float64, heights: doubles, first: int, nrow: int, ncol: int
) -> wp.float64:
    """Return the height of a height field at column u and row v; beyond its edges, that of its outermost triangles."""
    col = int(wp.clamp(u, ZERO, wp.float64(ncol - 2)))
    row = int(wp.clamp(v, ZERO, wp.float64(nrow - 2)))
    fx = wp.clamp(u - wp.float64(col), ZERO, ONE)
    fy = wp.clamp(v - wp.float64(row), ZERO, ONE)
    at = first + row * ncol + col
    h00 = heights[at]
    h11 = heights[at + ncol + 1]
    if fx >= fy:  # cells are split along the diagonal from the corner of smallest to that of largest x and y
        h10 = heights[at + 1]
        return scale * (h00 + fx * (h10 - h00) + fy * (h11 - h10))
    h01 = heights[at + ncol]
    return scale * (h00 + fy * (h01 - h00) + fx * (h11 - h01))


@wp.func
def _corner(
    heights: doubles, first: int, ncol: int, row: int, col: int, extent: wp.vec3d, wide: wp.float64, deep: wp.float64
) -> wp.vec3d:
    height = heights[first + row * ncol + col] * extent[2]
    return wp.vec3d(wp.float64(col) * wide - extent[0], wp.float64(row) * deep - extent[1], height)


@wp.func
def _cell(x: wp.float64, width: wp.float64, last: int) -> int:
    """Return the row or column of cells at x from the edge, from -1 to ``last``."""
    return int(wp.clamp(wp.floor(x / width), -ONE, wp.float64(last)))


@wp.func
def on_terrain(
    p: wp.vec3d, reach: wp.float64, k: int, shape: doubles2, heights: doubles, first: int, nrow: int, ncol: int
) -> Nearest:
    """Return the nearest point of a height field: extents and height are ``shape[k, :3]``, cell widths ``shape[k,
    4:6]``."""
    extent = _numbers(shape, k, 0)
    wide = shape[k, 4]
    deep = shape[k, 5]
    normal = wp.vec3d(ZERO, ZERO, ONE)
    if p[2] - extent[2] > reach:
        return _nearest(FAR, p, normal)
    # the surface point straight below or above bounds the search
    x = p[0] + extent[0]
    y = p[1] + extent[1]
    below = terrain_height(x / wide, y / deep, extent[2], heights, first, nrow, ncol)
    outside = p[2] >= below or wp.abs(p[0]) > extent[0] or wp.abs(p[1]) > extent[1]
    inside = wp.vec3d(wp.clamp(p[0], -extent[0], extent[0]), wp.clamp(p[1], -extent[1], extent[1]), below)
    window = wp.length(p - inside)
    if outside:
        window = wp.min(window, reach)
    best = FAR
    point = p
    for r in range(wp.max(_cell(y - window, deep, nrow - 1), 0), _cell(y + window, deep, nrow - 2) + 1):
        for c in range(wp.max(_cell(x - window, wide, ncol - 1), 0), _cell(x + window, wide, ncol - 2) + 1):
            corner = _corner(heights, first, ncol, r, c, extent, wide, deep)
            diagonal = _corner(heights, first, ncol, r + 1, c + 1, extent, wide, deep) - corner
            upper = _corner(heights, first, ncol, r + 1, c, extent, wide, deep) - corner
            q = _on_triangle(p, corner, diagonal, upper)
            if wp.length_sq(p - q) < best:
                best = wp.length_sq(p - q)
                point = q
                normal = wp.cross(diagonal, upper)
            lower = _corner(heights, first, ncol, r, c + 1, extent, wide, deep) - corner
            q = _on_triangle(p, corner, lower, diagonal)
            if wp.length_sq(p - q) < best:
                best = wp.length_sq(p - q)
                point = q
                normal = wp.cross(lower, diagonal)
    length = wp.sqrt(best)
    side = wp.where(outside, ONE, -ONE)
    normal = normal / wp.length(normal)
    if length > TINY and best < FAR:
        normal = (p - point) * (side / length)
    return _nearest(side * length, point, normal)


@wp.func
def on_geom(
    p: wp.vec3d, reach: wp.float64, k: int, index: ints2, shape: doubles2, faces: doubles2, heights: doubles
) -> Nearest:
    """Return the nearest surface point of the geom k of ``index`` and ``shape``; see ``nearest.nearest_surfaces``.

    Height fields further away than ``reach`` count as infinitely far.
    """
    kind = index[k, 0]
    size = _numbers(shape, k, 0)
    if kind == BOX:
        return on_box(p, size)
    if kind == PLANE:
        return on_plane(p)
    if kind == SPHERE:
        return on_sphere(p, size[0])
    if kind == CAPSULE:
        return on_capsule(p, size[0], size[1])
    if kind == CYLINDER:
        return on_cylinder(p, size[0], size[1])
    if kind == ELLIPSOID:
        return on_ellipsoid(p, size)
    if kind == MESH:
        return on_hull(p, faces, index[k, 3], index[k, 3] + index[k, 4])
    return on_terrain(p, reach, k, shape, heights, index[k, 3], index[k, 4], index[k, 5])
