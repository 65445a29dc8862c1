"""Triangles of MuJoCo's geoms.

Curved shapes are finely divided: a sphere of radius r is within r / 400 of its triangles.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

_SEGMENTS = 64
"""Segments of a circle."""
_SHARP_COSINE = 0.5
"""A vertex is a sharp corner if the cosine between its normal and that of its triangle is below this value."""
_GEOM = mujoco.mjtGeom


@dataclass
class Triangles:
    """A surface in the frame of its geom."""

    vertices: np.ndarray
    """(n, 3) m."""
    normals: np.ndarray
    """(n, 3) unit normals."""
    faces: np.ndarray
    """(m, 3) indices of vertices."""
    uv: np.ndarray | None = None
    """(n, 2) texture coordinates, if the model has them."""

    def split_vertices(self) -> Triangles:
        """Return the same surface with three separate vertices for each triangle."""
        corners = self.faces.ravel()
        uv = None if self.uv is None else self.uv[corners]
        return Triangles(self.vertices[corners], self.normals[corners], np.arange(len(corners)).reshape(-1, 3), uv)


def triangulate(model: mujoco.MjModel, geom: int, reach: float) -> Triangles | None:
    """Return the surface of a geom; None for types without a surface.

    Args:
        model: the compiled model.
        geom: id of the geom.
        reach: half size of planes that have no size, m.
    """
    kind, size = int(model.geom_type[geom]), model.geom_size[geom]
    if kind == _GEOM.mjGEOM_PLANE:
        return _plane(*(each if each > 0 else reach for each in size[:2]))
    if kind == _GEOM.mjGEOM_BOX:
        return _box(size)
    if kind == _GEOM.mjGEOM_SPHERE:
        return _ellipsoid(np.repeat(size[0], 3))
    if kind == _GEOM.mjGEOM_ELLIPSOID:
        return _ellipsoid(size)
    if kind == _GEOM.mjGEOM_CAPSULE:
        return _capsule(size[0], size[1])
    if kind == _GEOM.mjGEOM_CYLINDER:
        return _cylinder(size[0], size[1])
    if kind in (_GEOM.mjGEOM_MESH, _GEOM.mjGEOM_SDF) and model.geom_dataid[geom] >= 0:
        return _mesh(model, int(model.geom_dataid[geom]))
    if kind == _GEOM.mjGEOM_HFIELD:
        return _height_field(model, int(model.geom_dataid[geom]))
    return None


def disc(radius: float) -> Triangles:
    """Return a disc in the xy plane that faces +z."""
    angles = np.arange(_SEGMENTS) * (2 * np.pi / _SEGMENTS)
    rim = radius * np.stack([np.cos(angles), np.sin(angles), np.zeros(_SEGMENTS)], 1)
    vertices = np.concatenate([np.zeros((1, 3)), rim])
    corner = np.arange(_SEGMENTS)
    faces = np.stack([np.zeros_like(corner), corner + 1, (corner + 1) % _SEGMENTS + 1], 1)
    return Triangles(vertices, np.tile([0.0, 0.0, 1.0], (len(vertices), 1)), faces)


def ball(segments: int) -> Triangles:
    """Return a ball of radius 1 m with this many segments around it."""
    cosine, sine = _arc(-np.pi / 2, np.pi / 2, segments // 2)
    return _revolve(cosine, sine, cosine, sine, segments)


def _plane(x: float, y: float) -> Triangles:
    vertices = np.array([[-x, -y, 0], [x, -y, 0], [x, y, 0], [-x, y, 0]], float)
    return Triangles(vertices, np.tile([0.0, 0.0, 1.0], (4, 1)), np.array([[0, 1, 2], [0, 2, 3]]))


def _box(half: np.ndarray) -> Triangles:
    vertices: list[np.ndarray] = []
    normals: list[np.ndarray] = []
    faces: list[list[int]] = []
    for axis in range(3):
        for sign in (-1.0, 1.0):
            normal = np.zeros(3)
            normal[axis] = sign
            one, two = np.roll(np.eye(3), -axis, axis=0)[1:]
            one = one * sign  # so that corners are counter-clockwise, seen from outside
            faces += [[len(vertices) + i for i in each] for each in ((0, 1, 2), (0, 2, 3))]
            vertices += [(normal + a * one + b * two) * half for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
            normals += [normal] * 4
    return Triangles(np.array(vertices), np.array(normals), np.array(faces))


def _revolve(
    radius: np.ndarray, height: np.ndarray, out: np.ndarray, up: np.ndarray, segments: int = _SEGMENTS
) -> Triangles:
    """Return the surface of a profile that is rotated about z.

    Args:
        radius: radii of the profile's points.
        height: their heights.
        out: outward components of their normals.
        up: upward components of their normals.
        segments: segments of the circle.
    """
    angles = np.arange(segments + 1) * (2 * np.pi / segments)
    around = np.stack([np.cos(angles), np.sin(angles)], 1)
    rings = len(radius)
    flat = np.broadcast_to(height[:, None, None], (rings, segments + 1, 1))
    vertices = np.concatenate([radius[:, None, None] * around, flat], 2)
    rise = np.broadcast_to(up[:, None, None], (rings, segments + 1, 1))
    normals = np.concatenate([out[:, None, None] * around, rise], 2)
    ring, corner = np.meshgrid(np.arange(rings - 1), np.arange(segments), indexing="ij")
    first = (ring * (segments + 1) + corner).ravel()
    above = first + segments + 1
    lower, upper = np.stack([first, first + 1, above], 1), np.stack([first + 1, above + 1, above], 1)
    # without the degenerate triangles at the poles
    keep = np.concatenate([(radius[ring] > 0).ravel(), (radius[ring + 1] > 0).ravel()])
    used, faces = np.unique(np.concatenate([lower, upper])[keep], return_inverse=True)
    return Triangles(vertices.reshape(-1, 3)[used], normals.reshape(-1, 3)[used], faces.reshape(-1, 3))


def _arc(start: float, end: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    angles = np.linspace(start, end, steps + 1)
    cosine, sine = np.cos(angles), np.sin(angles)
    cosine[np.abs(cosine) < 1e-12] = 0.0
    return cosine, sine


def _ellipsoid(radii: np.ndarray) -> Triangles:
    unit = ball(_SEGMENTS)
    normals = unit.normals / radii
    return Triangles(unit.vertices * radii, normals / np.linalg.norm(normals, axis=1, keepdims=True), unit.faces)


def _capsule(radius: float, half: float) -> Triangles:
    below, above = _arc(-np.pi / 2, 0, _SEGMENTS // 4), _arc(0, np.pi / 2, _SEGMENTS // 4)
    out = np.concatenate([below[0], above[0]])
    up = np.concatenate([below[1], above[1]])
    return _revolve(radius * out, radius * up + np.repeat([-half, half], _SEGMENTS // 4 + 1), out, up)


def _cylinder(radius: float, half: float) -> Triangles:
    ends, zero = np.array([0.0, radius]), np.zeros(2)
    parts = [
        _revolve(ends, np.full(2, -half), zero, zero - 1),
        _revolve(np.full(2, radius), np.array([-half, half]), zero + 1, zero),
        _revolve(ends[::-1], np.full(2, half), zero, zero + 1),
    ]
    starts = np.cumsum([0, *(len(part.vertices) for part in parts)])
    return Triangles(
        np.concatenate([part.vertices for part in parts]),
        np.concatenate([part.normals for part in parts]),
        np.concatenate([part.faces + start for part, start in zip(parts, starts[:-1], strict=True)]),
    )


def _mesh(model: mujoco.MjModel, mesh: int) -> Triangles:
    def part(values: np.ndarray, starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
        return values[starts[mesh] : starts[mesh] + counts[mesh]]

    faces = part(model.mesh_face, model.mesh_faceadr, model.mesh_facenum)
    own = part(model.mesh_facenormal, model.mesh_faceadr, model.mesh_facenum)
    vertices = part(model.mesh_vert, model.mesh_vertadr, model.mesh_vertnum).astype(float)
    normals = part(model.mesh_normal, model.mesh_normaladr, model.mesh_normalnum).astype(float)
    flat = np.cross(vertices[faces[:, 1]] - vertices[faces[:, 0]], vertices[faces[:, 2]] - vertices[faces[:, 0]])
    flat /= np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-30)
    # smooth normals of sharp corners can even point inward, so the normal of the triangle replaces them
    sharp = np.einsum("fcx,fx->fc", normals[own], flat) < _SHARP_COSINE
    own = np.where(sharp, len(normals) + np.arange(len(faces))[:, None], own)
    normals = np.concatenate([normals, flat])
    has_uv = model.mesh_texcoordadr[mesh] >= 0
    uvs = part(model.mesh_facetexcoord, model.mesh_faceadr, model.mesh_facenum) if has_uv else np.zeros_like(faces)
    corners = np.stack([faces.ravel(), own.ravel(), uvs.ravel()], 1)
    unique, index = np.unique(corners, axis=0, return_inverse=True)
    uv = None
    if has_uv:
        uv = part(model.mesh_texcoord, model.mesh_texcoordadr, model.mesh_texcoordnum)[unique[:, 2]]
    return Triangles(vertices[unique[:, 0]], normals[unique[:, 1]], index.reshape(-1, 3), uv)


def _height_field(model: mujoco.MjModel, field: int) -> Triangles:
    rows, columns = int(model.hfield_nrow[field]), int(model.hfield_ncol[field])
    half_x, half_y, top, base = model.hfield_size[field]
    start = model.hfield_adr[field]
    height = top * model.hfield_data[start : start + rows * columns].reshape(rows, columns).astype(float)
    x, y = np.meshgrid(np.linspace(-half_x, half_x, columns), np.linspace(-half_y, half_y, rows))
    vertices = np.stack([x, y, height], -1)
    slope_y, slope_x = np.gradient(height, 2 * half_y / (rows - 1), 2 * half_x / (columns - 1))
    normals = np.stack([-slope_x, -slope_y, np.ones_like(height)], -1)
    normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
    number = np.arange(rows * columns).reshape(rows, columns)
    a, b, c, d = number[:-1, :-1], number[:-1, 1:], number[1:, 1:], number[1:, :-1]
    faces = np.concatenate([np.stack(each, -1).reshape(-1, 3) for each in ((a, b, c), (a, c, d))])
    sides = [vertices[0], vertices[:, -1], vertices[-1, ::-1], vertices[::-1, 0]]
    points, across = [vertices.reshape(-1, 3)], [normals.reshape(-1, 3)]
    triangles, count = [faces], rows * columns
    for edge, outward in zip(sides, ((0, -1, 0), (1, 0, 0), (0, 1, 0), (-1, 0, 0)), strict=True):
        foot = edge * [1, 1, 0] - [0, 0, base]
        first = count + np.arange(len(edge) - 1)
        over = first + len(edge)
        triangles += [np.stack([first, first + 1, over + 1], 1), np.stack([first, over + 1, over], 1)]
        points += [foot, edge]
        across.append(np.tile(np.asarray(outward, float), (2 * len(edge), 1)))
        count += 2 * len(edge)
    return Triangles(np.concatenate(points), np.concatenate(across), np.concatenate(triangles))
