"""Deformables of a model (MuJoCo's flexes) as meshes of a Mitsuba scene that follow the engine.

========= ====================================================================================================
dimension surface
========= ====================================================================================================
1, ropes  a tube around each segment, and a ball at each vertex
2, cloth  the triangles, moved by the radius to both sides along the normals of their vertices, and a rim
3, solids the triangles of the outer shell, moved outward by the radius
========= ====================================================================================================

The faces are made once. Each frame computes the corners from the positions of the flex's vertices in the engine.
"""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

from sensorium.cameras.pathtrace.scene import VISIBLE_GROUPS, make_mesh, surface_colours, surface_material
from sensorium.cameras.pathtrace.shapes import Triangles, ball
from sensorium.worlds.srgb import decode_srgb

if TYPE_CHECKING:
    import mitsuba

_SEGMENTS = 16
"""Segments around a rope."""


class _Surface(NamedTuple):
    """Topology of a flex's surface: corners that follow the vertices of the flex, and faces between corners."""

    triangles: np.ndarray
    """(m, 3) vertices of the flex, whose normals define those of the vertices."""
    vertex: np.ndarray
    """(n,) vertex of the flex that each corner follows."""
    side: np.ndarray
    """(n,) +1 for corners on the front of the triangles, -1 for those on the back."""
    owner: np.ndarray
    """(n,) triangle whose normal the corner has; -1 for the mean normal of the vertex."""
    rim: np.ndarray
    """(n, 2) edge (from, to) whose outward direction is the normal of the corner; -1 for corners not on the rim."""
    faces: np.ndarray
    """(f, 3) corners."""
    uv: np.ndarray | None
    """(n, 2) texture coordinates."""


class FlexMesh:
    """One flex as a mesh of the scene.

    Args:
        mi: Mitsuba, with its variant set.
        model: the compiled model.
        flex: id of the flex.

    Attributes:
        name: id of the mesh in the scene.
        mesh: the Mitsuba shape.
        kind: kind of its material.
    """

    def __init__(self, mi: ModuleType, model: mujoco.MjModel, flex: int) -> None:
        start, count = int(model.flex_vertadr[flex]), int(model.flex_vertnum[flex])
        self.name, self._rows = f"flex_{flex}", slice(start, start + count)
        self._radius = float(model.flex_radius[flex])
        self._written: np.ndarray | None = None
        self._rope: np.ndarray | None = None
        elements = _elements(model, flex)
        if model.flex_dim[flex] == 1:
            self._rope = elements
            corners, faces, uv = self._count_rope(count), self._rope_faces(count), None
        else:
            self._surface = _make_surface(model, flex, elements)
            corners, faces, uv = len(self._surface.vertex), self._surface.faces, self._surface.uv
        rgba = _flex_colour(model, flex)
        material = surface_material(
            model, _flex_material(model, flex), rgba, moves=True, can_be_textured=uv is not None
        )
        self.kind = material.kind
        flat = Triangles(np.zeros((corners, 3)), np.tile([0.0, 0.0, 1.0], (corners, 1)), faces, uv)
        roughness, metallic = (np.full(corners, each) for each in (material.roughness, material.metallic))
        self.mesh = make_mesh(mi, model, self.name, self.kind, flat, roughness, metallic)
        colours = mi.traverse(self.mesh)
        colours["vertex_color"] = np.tile(decode_srgb(rgba[:3]).astype(np.float32), corners)
        if self.kind.is_transparent:
            colours["vertex_opacity"] = np.full(corners, rgba[3], np.float32)
        colours.update()

    def set_vertices(self, parameters: mitsuba.SceneParameters, positions: np.ndarray) -> bool:
        """Move the surface to positions (nflexvert, 3) of vertices in the world; return whether anything changed.

        Call :meth:`write_normals` after the parameters were updated.
        """
        own = positions[self._rows]
        if not np.isfinite(own).all() or (self._written is not None and (own == self._written).all()):
            return False  # the flex of a diverged env stays where it was
        self._written = own.copy()
        corners, normals = self._place_rope(own) if self._rope is not None else self._place_surface(own)
        self._normals = normals.astype(np.float32).ravel()
        parameters[f"{self.name}.vertex_positions"] = corners.astype(np.float32).ravel()
        return True

    def write_normals(self, parameters: mitsuba.SceneParameters) -> None:
        """Write the normals; call it after positions were updated, because Mitsuba then computes its own normals."""
        parameters[f"{self.name}.vertex_normals"] = self._normals

    def _place_surface(self, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        surface = self._surface
        a, b, c = (own[surface.triangles[:, corner]] for corner in range(3))
        areas = np.cross(b - a, c - a)
        mean = np.zeros_like(own)
        for corner in range(3):
            np.add.at(mean, surface.triangles[:, corner], areas)
        mean, flat = _unit(mean), _unit(areas)
        normals = mean[surface.vertex] * surface.side[:, None]
        corners = own[surface.vertex] + self._radius * normals
        owned = surface.owner >= 0
        normals[owned] = flat[surface.owner[owned]] * surface.side[owned, None]
        on_rim = surface.rim[:, 0] >= 0
        start, end = surface.rim[on_rim].T
        normals[on_rim] = _unit(np.cross(own[end] - own[start], mean[start] + mean[end]))
        return corners, normals

    # -- ropes: a tube per segment, then a ball per vertex ------------------------------------------------------------

    def _count_rope(self, count: int) -> int:
        assert self._rope is not None
        self._ball = ball(_SEGMENTS)
        return 2 * (_SEGMENTS + 1) * len(self._rope) + len(self._ball.vertices) * count

    def _rope_faces(self, count: int) -> np.ndarray:
        assert self._rope is not None
        ring = np.arange(_SEGMENTS)
        over = ring + _SEGMENTS + 1
        tube = np.concatenate([np.stack([ring, ring + 1, over], 1), np.stack([ring + 1, over + 1, over], 1)])
        size = 2 * (_SEGMENTS + 1)
        tubes = tube + size * np.arange(len(self._rope))[:, None, None]
        first = size * len(self._rope) + len(self._ball.vertices) * np.arange(count)
        balls = self._ball.faces + first[:, None, None]
        return np.concatenate([tubes.reshape(-1, 3), balls.reshape(-1, 3)])

    def _place_rope(self, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        assert self._rope is not None
        start, end = own[self._rope[:, 0]], own[self._rope[:, 1]]
        along = _unit(end - start)
        least = np.eye(3)[np.abs(along).argmin(1)]
        across = _unit(np.cross(along, least))
        angles = np.arange(_SEGMENTS + 1) * (2 * np.pi / _SEGMENTS)
        other = np.cross(along, across)
        around = np.cos(angles)[:, None] * across[:, None] + np.sin(angles)[:, None] * other[:, None]
        tubes = np.stack([start[:, None] + self._radius * around, end[:, None] + self._radius * around], 1)
        balls = own[:, None] + self._radius * self._ball.vertices
        normals = [np.stack([around, around], 1), np.broadcast_to(self._ball.normals, balls.shape)]
        return tuple(np.concatenate([part.reshape(-1, 3) for part in parts]) for parts in ([tubes, balls], normals))  # type: ignore[return-value]


def make_flexes(mi: ModuleType, model: mujoco.MjModel) -> list[FlexMesh]:
    """Return the meshes of all visible flexes of a model."""
    return [
        FlexMesh(mi, model, flex)
        for flex in range(model.nflex)
        if model.flex_group[flex] < VISIBLE_GROUPS and _flex_colour(model, flex)[3] > 0
    ]


def warn_not_drawn(model: mujoco.MjModel) -> None:
    """Warn about skins and tendons by name, which are not drawn."""
    kinds = {
        "skin": [number for number in range(model.nskin) if model.skin_group[number] < VISIBLE_GROUPS],
        "tendon": [number for number in range(model.ntendon) if _is_visible_tendon(model, number)],
    }
    for kind, numbers in kinds.items():
        if numbers:
            which = mujoco.mjtObj.mjOBJ_SKIN if kind == "skin" else mujoco.mjtObj.mjOBJ_TENDON
            names = [mujoco.mj_id2name(model, which, number) or f"number {number}" for number in numbers]
            warnings.warn(
                f"the renderer 'pathtrace' does not draw {kind}s: {', '.join(names)} will not be visible; use "
                "renderer='raster' to see them",
                stacklevel=2,
            )


def _is_visible_tendon(model: mujoco.MjModel, tendon: int) -> bool:
    """Return whether a tendon is a line in space. Those that couple joints have no shape."""
    first = int(model.tendon_adr[tendon])
    is_spatial = model.wrap_type[first] != int(mujoco.mjtWrap.mjWRAP_JOINT)
    return bool(is_spatial and model.tendon_group[tendon] < VISIBLE_GROUPS and model.tendon_rgba[tendon, 3] > 0)


def _flex_material(model: mujoco.MjModel, flex: int) -> int:
    """Return the material of a flex, -1 for none. MuJoCo 4 has one per element; those of a flex are the same."""
    return int(model.flex_matid[model.flex_elemadr[flex]])


def _flex_colour(model: mujoco.MjModel, flex: int) -> np.ndarray:
    """Return the colour (4,) of a flex: its own, or that of its material."""
    material = np.array([_flex_material(model, flex)])
    return surface_colours(model.flex_rgba[flex : flex + 1], material, model.mat_rgba)[0]


def _elements(model: mujoco.MjModel, flex: int) -> np.ndarray:
    """Return the vertices of the elements of a flex, (n, dim + 1)."""
    size = int(model.flex_dim[flex]) + 1
    start = int(model.flex_elemdataadr[flex])
    return model.flex_elem[start : start + size * int(model.flex_elemnum[flex])].reshape(-1, size)


def _make_surface(model: mujoco.MjModel, flex: int, elements: np.ndarray) -> _Surface:
    """Return the surface of a flex of dimension 2 or 3."""
    dim, start = int(model.flex_dim[flex]), int(model.flex_shelldataadr[flex])
    shell = model.flex_shell[start : start + dim * int(model.flex_shellnum[flex])].reshape(-1, dim)
    triangles = elements if dim == 2 else shell
    source, uv = triangles.ravel(), None
    material = _flex_material(model, flex)
    if dim == 2 and model.flex_texcoordadr[flex] >= 0 and material >= 0:
        first = int(model.flex_elemdataadr[flex])
        own = model.flex_elemtexcoord[first : first + 3 * len(triangles)]
        uv = model.flex_texcoord[int(model.flex_texcoordadr[flex]) + own] * model.mat_texrepeat[material]
    corner = np.arange(3 * len(triangles)).reshape(-1, 3)
    owner = np.repeat(np.arange(len(triangles)), 3) if model.flex_flatskin[flex] else np.full(len(source), -1)
    front = np.ones(len(source), int)
    no_rim = np.full((len(source), 2), -1)
    if dim == 3:
        return _Surface(triangles, source, front, owner, no_rim, corner, None)
    count = len(source)
    edges = _boundary(triangles)
    rim_vertex = np.concatenate([edges[:, 0], edges[:, 1], edges[:, 0], edges[:, 1]])
    rim_side = np.repeat([1, 1, -1, -1], len(edges))
    n, at = len(edges), 2 * count + np.arange(len(edges))
    quads = np.concatenate([np.stack([at, at + 2 * n, at + n], 1), np.stack([at + n, at + 2 * n, at + 3 * n], 1)])
    rim_uv = None
    if uv is not None:
        by_vertex = np.zeros((int(model.flex_vertnum[flex]), 2))
        by_vertex[source] = uv
        rim_uv = np.concatenate([uv, uv, by_vertex[rim_vertex]])
    return _Surface(
        triangles,
        np.concatenate([source, source, rim_vertex]),
        np.concatenate([front, -front, rim_side]),
        np.concatenate([owner, owner, np.full(len(rim_vertex), -1)]),
        np.concatenate([no_rim, no_rim, np.tile(edges, (4, 1))]),
        np.concatenate([corner, corner[:, ::-1] + count, quads]),
        rim_uv,
    )


def _boundary(triangles: np.ndarray) -> np.ndarray:
    """Return the edges (n, 2) of only one triangle, in the direction in which the triangle has them."""
    edges = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    _, index, counts = np.unique(np.sort(edges, 1), axis=0, return_index=True, return_counts=True)
    return edges[index[counts == 1]]


def _unit(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30))
