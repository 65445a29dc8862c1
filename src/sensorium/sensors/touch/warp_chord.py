"""Warp functions of chords, the part of a line that lies inside a geom: the GPU counterparts of ``chord.py``.

The formulas are those of ``chord.py``, also in float64. The line is o + t d in the geom's frame, with a unit vector d.
An interval holds the parameters t of both ends of the chord; the first is larger than the second if the line misses.
"""

# the annotations of Warp kernels are values, not types
# mypy: disable-error-code="valid-type,misc,index,attr-defined,operator,call-overload,assignment,arg-type"
# mypy: allow-untyped-decorators, allow-untyped-calls, allow-untyped-defs, allow-incomplete-defs

import warp as wp

from sensorium.sensors.touch import distance
from sensorium.sensors.touch.warp_distance import (
    BOX,
    CAPSULE,
    CYLINDER,
    ELLIPSOID,
    FAR,
    MESH,
    ONE,
    PLANE,
    SPHERE,
    TINY,
    ZERO,
    doubles,
    doubles2,
    face_normal,
    ints2,
    terrain_height,
)

wp.set_module_options({"fuse_fp": False, "enable_backward": False, "fast_math": False})

_ABOVE = wp.constant(wp.float64(1e-6))
HFIELD = wp.constant(distance.HFIELD)


@wp.func
def _missed() -> wp.vec2d:
    return wp.vec2d(FAR, -FAR)


@wp.func
def _slab(o: wp.float64, d: wp.float64, half: wp.float64) -> wp.vec2d:
    """Return where ``|o + t d| <= half``."""
    if wp.abs(d) < TINY:
        if wp.abs(o) <= half:
            return wp.vec2d(-FAR, FAR)
        return _missed()
    middle = -o / d
    extent = wp.abs(half / d)
    return wp.vec2d(middle - extent, middle + extent)


@wp.func
def _quadric(a: wp.float64, b: wp.float64, c: wp.float64) -> wp.vec2d:
    """Return where ``a t² + 2 b t + c <= 0``, with ``a >= 0``."""
    if a < TINY:  # along the axis of a cylinder
        if c <= ZERO:
            return wp.vec2d(-FAR, FAR)
        return _missed()
    square = b * b - a * c
    if square < ZERO:
        return _missed()
    root = wp.sqrt(square)
    return wp.vec2d((-b - root) / a, (-b + root) / a)


@wp.func
def _both(a: wp.vec2d, b: wp.vec2d) -> wp.vec2d:
    """Return the intersection of two intervals."""
    return wp.vec2d(wp.max(a[0], b[0]), wp.min(a[1], b[1]))


@wp.func
def _in_plane(o: wp.vec3d, d: wp.vec3d) -> wp.vec2d:
    if wp.abs(d[2]) < TINY:
        return _missed()
    t = -o[2] / d[2]
    if d[2] < ZERO:
        return wp.vec2d(t, FAR)
    return wp.vec2d(-FAR, t)


@wp.func
def _in_sphere(o: wp.vec3d, d: wp.vec3d, radius: wp.float64) -> wp.vec2d:
    return _quadric(ONE, wp.dot(o, d), wp.dot(o, o) - radius * radius)


@wp.func
def _in_cylinder(o: wp.vec3d, d: wp.vec3d, radius: wp.float64, half: wp.float64) -> wp.vec2d:
    b = o[0] * d[0] + o[1] * d[1]
    c = o[0] * o[0] + o[1] * o[1] - radius * radius
    return _both(_quadric(d[0] * d[0] + d[1] * d[1], b, c), _slab(o[2], d[2], half))


@wp.func
def _in_capsule(o: wp.vec3d, d: wp.vec3d, radius: wp.float64, half: wp.float64) -> wp.vec2d:
    """Return the union of cylinder and both balls, which is one interval since a capsule is convex."""
    tube = _in_cylinder(o, d, radius, half)
    if tube[0] > tube[1]:
        tube = _missed()
    up = wp.vec3d(ZERO, ZERO, half)
    a = _in_sphere(o + up, d, radius)
    b = _in_sphere(o - up, d, radius)
    return wp.vec2d(wp.min(tube[0], wp.min(a[0], b[0])), wp.max(tube[1], wp.max(a[1], b[1])))


@wp.func
def _in_box(o: wp.vec3d, d: wp.vec3d, size: wp.vec3d) -> wp.vec2d:
    flat = _both(_slab(o[0], d[0], size[0]), _slab(o[1], d[1], size[1]))
    return _both(flat, _slab(o[2], d[2], size[2]))


@wp.func
def _in_ellipsoid(o: wp.vec3d, d: wp.vec3d, size: wp.vec3d) -> wp.vec2d:
    p = wp.cw_div(o, size)
    q = wp.cw_div(d, size)
    return _quadric(wp.dot(q, q), wp.dot(p, q), wp.dot(p, p) - ONE)


@wp.func
def _in_hull(o: wp.vec3d, d: wp.vec3d, top: wp.float64, faces: doubles2, first: int, last: int) -> wp.vec2d:
    """Return where the line is inside a convex hull. It misses a hull that it enters above ``top``."""
    low = -FAR
    high = FAR
    for f in range(first, last):
        normal = face_normal(faces, f)
        height = wp.dot(normal, o) - faces[f, 12]
        slope = wp.dot(normal, d)
        if wp.abs(slope) < TINY:
            if height > ZERO:
                return _missed()
        elif slope < ZERO:
            low = wp.max(low, -height / slope)
        else:
            high = wp.min(high, -height / slope)
        if low > high or low > top:
            return _missed()
    return wp.vec2d(low, high)


@wp.func
def _next_line(u: wp.float64, du: wp.float64, at: wp.float64) -> wp.vec2d:
    """Return the first parameter after ``at`` where u + parameter * du is a whole number, and the step to the next."""
    if wp.abs(du) < TINY:
        return wp.vec2d(FAR, FAR)
    now = u + at * du
    line = wp.ceil(now) - ONE
    if du > ZERO:
        line = wp.floor(now) + ONE
    return wp.vec2d((line - u) / du, ONE / wp.abs(du))


@wp.func
def _in_terrain(
    o: wp.vec3d,
    d: wp.vec3d,
    top: wp.float64,
    base: wp.float64,
    k: int,
    shape: doubles2,
    heights: doubles,
    first: int,
    nrow: int,
    ncol: int,
) -> wp.vec2d:
    """Return where the line enters a height field deepest; from there on, it counts as inside.

    See ``chord.terrain_chord``.
    """
    scale = shape[k, 2]
    ceiling = scale + _ABOVE  # clearly above all heights
    across = _both(_slab(o[0], -d[0], shape[k, 0]), _slab(o[1], -d[1], shape[k, 1]))
    at = wp.max(across[0], -top)  # parameters are -t from here on
    end = across[1]
    if d[2] < ZERO:
        end = wp.min(end, (ceiling - o[2]) / -d[2])
    elif d[2] > ZERO:
        at = wp.max(at, (o[2] - ceiling) / d[2])
    elif o[2] > ceiling:
        return _missed()
    if not at < end:
        return _missed()
    # in cells: columns u and rows v; diagonals are where u - v is a whole number
    u = (o[0] + shape[k, 0]) / shape[k, 4]
    v = (o[1] + shape[k, 1]) / shape[k, 5]
    du = -d[0] / shape[k, 4]
    dv = -d[1] / shape[k, 5]
    column = _next_line(u, du, at)
    row = _next_line(v, dv, at)
    diagonal = _next_line(u - v, du - dv, at)
    above = o[2] - at * d[2] - terrain_height(u + at * du, v + at * dv, scale, heights, first, nrow, ncol)
    deepest = FAR
    while at < end and (above < ZERO or at < base):
        to = wp.min(wp.min(column[0], row[0]), wp.min(diagonal[0], end))
        if at < base:
            to = wp.min(to, base)
        if column[0] <= to:
            column = wp.vec2d(column[0] + column[1], column[1])
        if row[0] <= to:
            row = wp.vec2d(row[0] + row[1], row[1])
        if diagonal[0] <= to:
            diagonal = wp.vec2d(diagonal[0] + diagonal[1], diagonal[1])
        then = o[2] - to * d[2] - terrain_height(u + to * du, v + to * dv, scale, heights, first, nrow, ncol)
        if above < ZERO and then >= ZERO:
            deepest = at - (to - at) * above / (then - above)
        at = to
        above = then
    if deepest == FAR:
        return _missed()
    return wp.vec2d(-deepest, FAR)


@wp.func
def chord(
    o: wp.vec3d,
    d: wp.vec3d,
    top: wp.float64,
    base: wp.float64,
    k: int,
    index: ints2,
    shape: doubles2,
    faces: doubles2,
    heights: doubles,
) -> wp.vec2d:
    """Return where the line is inside the geom k of ``index`` and ``shape``, for a line that comes from t = ``top``."""
    kind = index[k, 0]
    size = wp.vec3d(shape[k, 0], shape[k, 1], shape[k, 2])
    if kind == BOX:
        return _in_box(o, d, size)
    if kind == SPHERE:
        return _in_sphere(o, d, size[0])
    if kind == CAPSULE:
        return _in_capsule(o, d, size[0], size[1])
    if kind == CYLINDER:
        return _in_cylinder(o, d, size[0], size[1])
    if kind == ELLIPSOID:
        return _in_ellipsoid(o, d, size)
    if kind == PLANE:
        return _in_plane(o, d)
    if kind == MESH:
        return _in_hull(o, d, top, faces, index[k, 3], index[k, 3] + index[k, 4])
    return _in_terrain(o, d, top, base, k, shape, heights, index[k, 3], index[k, 4], index[k, 5])
