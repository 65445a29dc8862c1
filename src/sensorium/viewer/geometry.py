"""The geoms of a model as triangle meshes. Geoms of one shape share a mesh and differ in pose, scale and colour."""

from __future__ import annotations

from typing import NamedTuple

import mujoco
import numpy as np

_G = mujoco.mjtGeom
_N_AROUND = 64
"""Number of vertices around round shapes."""
_SMOOTH = 0.8
"""Minimum cosine of the angle between a face and the normal of its vertex for smooth shading, as in MuJoCo."""
_DEFAULT_RGBA = np.array([0.5, 0.5, 0.5, 1.0])
"""MuJoCo's default colour of geoms, for which the colour of the material is used."""
_RGB_ROLE = int(mujoco.mjtTextureRole.mjTEXROLE_RGB)


class Mesh(NamedTuple):
    """A triangle mesh. Vertices are shared only where the surface is smooth."""

    vertices: np.ndarray
    """Positions in metres, (n, 3)."""
    faces: np.ndarray
    """Vertices of the triangles, counter-clockwise seen from outside, (m, 3)."""
    uv: np.ndarray | None = None
    """Texture coordinates of the vertices from the lower left corner, (n, 2)."""


class GeomBatch(NamedTuple):
    """Geoms that share a mesh."""

    mesh: Mesh
    geoms: np.ndarray
    """Ids of the geoms, (k,)."""
    scales: np.ndarray
    """Scale of the mesh along its axes, (k, 3)."""
    rgba: np.ndarray
    """Colours in [0, 1], (k, 4)."""
    collision: bool
    """Whether they are in the groups that MuJoCo does not draw by default."""
    flat: bool
    """Whether faces are shaded flat."""
    texture: np.ndarray | None
    """Texture of all of them, (H, W, 3) uint8."""
    wall: bool = False
    """Whether they are walls, which hide what is behind them."""


def infinite_planes(model: mujoco.MjModel) -> np.ndarray:
    """Return the ids of infinite planes."""
    plane = (model.geom_type == int(_G.mjGEOM_PLANE)) & (model.geom_size[:, :2] <= 0).any(axis=1)
    return np.flatnonzero(plane)


def geom_batches(model: mujoco.MjModel) -> list[GeomBatch]:
    """Return all visible geoms except infinite planes, grouped by shape."""
    infinite = set(infinite_planes(model).tolist())
    groups: dict[tuple, list[int]] = {}
    for geom in range(model.ngeom):
        if geom not in infinite and geom_rgba(model, geom)[3] > 0:
            key = (*_shape(model, geom), bool(model.geom_group[geom] > 2), is_wall(model, geom))
            groups.setdefault(key, []).append(geom)
    return [_batch(model, np.array(geoms)) for geoms in groups.values()]


def is_wall(model: mujoco.MjModel, geom: int) -> bool:
    """Return whether a geom is a wall: a fixed box that stands upright, is long for the scene, and thin."""
    if model.geom_type[geom] != int(_G.mjGEOM_BOX) or model.body_weldid[model.geom_bodyid[geom]] != 0:
        return False
    x, y, z = (2 * float(side) for side in model.geom_size[geom])
    thickness, length = min(x, y), max(x, y)
    return thickness <= 0.25 * length and z >= thickness and length >= 0.2 * float(model.stat.extent)


def _shape(model: mujoco.MjModel, geom: int) -> tuple:
    """Return a key that geoms must have in common to share a mesh."""
    kind, size = int(model.geom_type[geom]), model.geom_size[geom]
    if kind in (_G.mjGEOM_MESH, _G.mjGEOM_SDF):
        number = _texture_of(model, geom) if model.mesh_texcoordadr[model.geom_dataid[geom]] >= 0 else -1
        return kind, int(model.geom_dataid[geom]), number
    if kind == _G.mjGEOM_HFIELD:
        return kind, int(model.geom_dataid[geom]), -1
    if kind == _G.mjGEOM_CAPSULE:  # scaling would deform its round ends
        return kind, float(size[0]), float(size[1])
    return int(_G.mjGEOM_ELLIPSOID if kind == _G.mjGEOM_SPHERE else kind), 0, 0


def _batch(model: mujoco.MjModel, geoms: np.ndarray) -> GeomBatch:
    first = int(geoms[0])
    kind, data = int(model.geom_type[first]), int(model.geom_dataid[first])
    sizes = model.geom_size[geoms]
    scales, texture = np.ones((len(geoms), 3)), None
    if kind == _G.mjGEOM_BOX:
        mesh, scales = box(), sizes
    elif kind in (_G.mjGEOM_SPHERE, _G.mjGEOM_ELLIPSOID):
        mesh = capsule(1.0, 0.0)
        ball = model.geom_type[geoms] == int(_G.mjGEOM_SPHERE)
        scales = np.where(ball[:, None], sizes[:, :1], sizes)
    elif kind == _G.mjGEOM_CYLINDER:
        mesh, scales = cylinder(), sizes[:, [0, 0, 1]]
    elif kind == _G.mjGEOM_CAPSULE:
        mesh = capsule(float(sizes[0, 0]), float(sizes[0, 1]))
    elif kind == _G.mjGEOM_PLANE:
        mesh, scales = plane(), np.column_stack([sizes[:, :2], np.ones(len(geoms))])
    elif kind == _G.mjGEOM_HFIELD:
        mesh = height_field(model, data)
    else:
        mesh = model_mesh(model, data)
        number = _texture_of(model, first)
        texture = None if mesh.uv is None or number < 0 else _texels(model, number)
    return GeomBatch(
        mesh=mesh,
        geoms=geoms,
        scales=scales,
        rgba=np.array([geom_rgba(model, int(geom), textured=texture is not None) for geom in geoms]),
        collision=bool(model.geom_group[first] > 2),
        flat=kind in (_G.mjGEOM_BOX, _G.mjGEOM_PLANE),
        texture=texture,
        wall=is_wall(model, first),
    )


def geom_rgba(model: mujoco.MjModel, geom: int, textured: bool = False) -> np.ndarray:
    """Return the colour of a geom, (4,). A texture that is not drawn contributes its mean colour."""
    rgba, material = model.geom_rgba[geom].astype(float), int(model.geom_matid[geom])
    if material >= 0:
        if np.allclose(rgba, _DEFAULT_RGBA):
            rgba = model.mat_rgba[material].astype(float)
        number = _texture_of(model, geom)
        if number >= 0 and not textured:
            rgba[:3] *= _texels(model, number).reshape(-1, 3).mean(axis=0) / 255
    return rgba


def _texture_of(model: mujoco.MjModel, geom: int) -> int:
    material = int(model.geom_matid[geom])
    return -1 if material < 0 else int(model.mat_texid[material, _RGB_ROLE])


def _texels(model: mujoco.MjModel, number: int) -> np.ndarray:
    """Return a texture, (H, W, 3) uint8; the faces of a cube are below one another."""
    height, width = int(model.tex_height[number]), int(model.tex_width[number])
    channels, start = int(model.tex_nchannel[number]), int(model.tex_adr[number])
    texels = model.tex_data[start : start + height * width * channels].reshape(height, width, channels)
    return texels[..., :3] if channels >= 3 else np.repeat(texels[..., :1], 3, axis=2)


# -- meshes -----------------------------------------------------------------------------------------------------------


def box() -> Mesh:
    """Return a box from -1 to 1 along all axes."""
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
    sides = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    faces = np.arange(24).reshape(6, 4)[:, [0, 1, 2, 0, 2, 3]].reshape(-1, 3)
    return Mesh(corners[np.array(sides).reshape(-1)], faces)


def plane() -> Mesh:
    """Return a square from -1 to 1 in x and y that faces up."""
    return Mesh(np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]], float), np.array([[0, 1, 2], [0, 2, 3]]))


def cylinder() -> Mesh:
    """Return a cylinder of radius 1 around z, from -1 to 1."""
    angle = np.arange(_N_AROUND) * 2 * np.pi / _N_AROUND
    ring = np.column_stack([np.cos(angle), np.sin(angle)])
    low, high = (np.column_stack([ring, np.full(_N_AROUND, z)]) for z in (-1.0, 1.0))
    here = np.arange(_N_AROUND)
    there = (here + 1) % _N_AROUND
    n = _N_AROUND
    wall = np.vstack([np.column_stack([here, there, n + there]), np.column_stack([here, n + there, n + here])])
    fan = np.column_stack([np.zeros(n - 2, int), here[1:-1], here[2:]])
    faces = np.vstack([wall, 2 * n + fan[:, ::-1], 3 * n + fan])
    return Mesh(np.vstack([low, high, low, high]), faces)


def capsule(radius: float, half: float) -> Mesh:
    """Return a capsule around z, with its cylinder from -half to half; a ball if ``half`` is 0."""
    rows = _N_AROUND // 4
    up = np.linspace(0, np.pi / 2, rows + 1)
    height = np.concatenate([-np.sin(up[::-1]), np.sin(up)] if half else [-np.sin(up[::-1]), np.sin(up[1:])])
    around = np.concatenate([np.cos(up[::-1]), np.cos(up)] if half else [np.cos(up[::-1]), np.cos(up[1:])])
    shift = np.where(np.arange(len(height)) <= rows, -half, half)
    angle = np.arange(_N_AROUND) * 2 * np.pi / _N_AROUND
    grid = np.stack(
        [
            radius * np.outer(around, np.cos(angle)),
            radius * np.outer(around, np.sin(angle)),
            np.repeat((radius * height + shift)[:, None], _N_AROUND, axis=1),
        ],
        axis=2,
    )
    row, here = np.meshgrid(np.arange(len(height) - 1), np.arange(_N_AROUND), indexing="ij")
    there = (here + 1) % _N_AROUND
    a, b = row * _N_AROUND + here, row * _N_AROUND + there
    c, d = a + _N_AROUND, b + _N_AROUND
    faces = np.concatenate([np.stack([a, b, d], -1).reshape(-1, 3), np.stack([a, d, c], -1).reshape(-1, 3)])
    return Mesh(grid.reshape(-1, 3), faces)


def height_field(model: mujoco.MjModel, number: int) -> Mesh:
    """Return the surface of a height field in the frame of its geom."""
    rows, columns = int(model.hfield_nrow[number]), int(model.hfield_ncol[number])
    start, (x, y, top, _) = int(model.hfield_adr[number]), model.hfield_size[number]
    heights = model.hfield_data[start : start + rows * columns].reshape(rows, columns) * top
    ys, xs = np.meshgrid(np.linspace(-y, y, rows), np.linspace(-x, x, columns), indexing="ij")
    row, column = np.meshgrid(np.arange(rows - 1), np.arange(columns - 1), indexing="ij")
    a = (row * columns + column).reshape(-1)
    b, c, d = a + 1, a + columns, a + columns + 1
    faces = np.concatenate([np.stack([a, b, d], 1), np.stack([a, d, c], 1)])
    return Mesh(np.stack([xs, ys, heights], -1).reshape(-1, 3), faces)


def model_mesh(model: mujoco.MjModel, number: int) -> Mesh:
    """Return a mesh of the model. Vertices at one position with different normals are separate, so edges are sharp."""
    part = slice(int(model.mesh_faceadr[number]), int(model.mesh_faceadr[number] + model.mesh_facenum[number]))
    faces, normals = model.mesh_face[part], model.mesh_facenormal[part].astype(np.int64)
    places = model.mesh_vert[int(model.mesh_vertadr[number]) + faces].astype(float)
    facing = np.cross(places[:, 1] - places[:, 0], places[:, 2] - places[:, 0])
    facing /= np.maximum(np.linalg.norm(facing, axis=1, keepdims=True), 1e-30)
    smooth = model.mesh_normal[int(model.mesh_normaladr[number]) + normals]
    sharp = (facing[:, None] * smooth).sum(axis=2) < _SMOOTH
    directions = np.unique(np.round(facing * 50), axis=0, return_inverse=True)[1].reshape(-1, 1)
    keys = [faces, np.where(sharp, -1 - directions, normals)]
    textured = model.mesh_texcoordadr[number] >= 0
    if textured:
        keys.append(model.mesh_facetexcoord[part])
    corners, index = np.unique(np.stack(keys, axis=2).reshape(-1, len(keys)), axis=0, return_inverse=True)
    vertices = model.mesh_vert[int(model.mesh_vertadr[number]) + corners[:, 0]].astype(float)
    uv = None
    if textured:
        uv = model.mesh_texcoord[int(model.mesh_texcoordadr[number]) + corners[:, 2]] * [1, -1] + [0, 1]
    return Mesh(vertices, index.reshape(-1, 3), uv)
