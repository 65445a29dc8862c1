"""Layout of probe fields: the probes of a class of sensors and the surfaces that they find, as kernels take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from sensorium.errors import OptionError
from sensorium.pipeline import SensorGroup
from sensorium.sensors.touch.distance import (
    BOX,
    CAPSULE,
    CYLINDER,
    ELLIPSOID,
    HFIELD,
    MESH,
    PLANE,
    SPHERE,
)
from sensorium.sensors.touch.nearest import ALONG_NORMAL, ANY_DIRECTION, FACING


@dataclass
class Probes:
    """Probes of one sensor, in its link's frame."""

    link: int
    """Body that carries them."""
    positions: np.ndarray
    """Positions, (n, 3) m."""
    normals: np.ndarray | None
    """Unit vectors out of the link's surface, (n, 3), or None."""
    reach: np.ndarray
    """Distance up to which each probe finds surfaces, (n,) m; the radius of a probe that is a sphere."""
    base: float | None
    """For depths along the normals: distance from the probes back to the rigid surface, m. None: to the nearest
    surface."""
    tracked: Sequence[int]
    """Bodies whose geoms the probes find."""


class ProbeLayout:
    """Constants of the probes of all sensors of a class, and of the surfaces that they find.

    S sensors have N probes, which find G surfaces.

    Attributes:
        sensors: link, first probe, end of its probes, first surface, end of its surfaces of each sensor, (S, 5).
        bounds: centre in the link's frame, and radius, of a sphere that contains everything its probes reach, (S, 4).
        probes: position, reach and normal of each probe in its link's frame, which depth, and its base, (N, 9).
        index: type, geom, body, first face or height, their number (rows), columns of each surface, (G, 6).
        shape: size, radius of its bounding sphere, and cell widths of height fields of each surface, (G, 6).
        faces: triangles of all convex hulls: three corners, outward normal, and offset along it, (F, 13).
        heights: heights of all height fields.
        to_nearest: whether a sensor measures to the nearest surface.
        along_normals: whether a sensor measures along the normals of its probes.
    """

    def __init__(self, group: SensorGroup) -> None:
        model = group.world.model
        parts: list[Probes] = [sensor._probes(model) for sensor in group.sensors]
        count = sum(len(part.positions) for part in parts)
        self.sensors = np.zeros((len(parts), 5), np.int64)
        self.probes = np.zeros((count, 9))
        self.bounds = np.zeros((len(parts), 4))
        surfaces = _Surfaces(model)
        start = 0
        for s, part in enumerate(parts):
            stop = start + len(part.positions)
            rows = self.probes[start:stop]
            rows[:, :3], rows[:, 3] = part.positions, part.reach
            if part.normals is not None:
                rows[:, 4:7] = part.normals
            if part.base is not None:
                rows[:, 7], rows[:, 8] = ALONG_NORMAL, part.base
            else:
                rows[:, 7] = ANY_DIRECTION if part.normals is None else FACING
            centre = (part.positions.min(axis=0) + part.positions.max(axis=0)) / 2
            self.bounds[s, :3] = centre
            extent = np.maximum(part.reach, part.base or 0.0)
            self.bounds[s, 3] = (np.linalg.norm(part.positions - centre, axis=1) + extent).max()
            first = len(surfaces.index)
            for geom in tracked_geoms(model, part.tracked):
                surfaces.add(geom)
            self.sensors[s] = part.link, start, stop, first, len(surfaces.index)
            start = stop
        self.index, self.shape, self.faces, self.heights = surfaces.arrays()
        self.along_normals = any(part.base is not None for part in parts)
        self.to_nearest = any(part.base is None for part in parts)


class _Surfaces:
    """Geoms that probes find, as the kernels take them."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self._model = model
        self.index: list[tuple[int, ...]] = []
        self._shapes: list[np.ndarray] = []
        self._faces, self._heights = [np.zeros((0, 13))], [np.zeros(0)]
        self._hulls: dict[int, tuple[int, int]] = {}
        self._n_faces = self._n_heights = 0

    def add(self, geom: int) -> None:
        """Append one geom."""
        model = self._model
        first = amount = columns = 0
        size = np.zeros(6)
        size[:3], size[3] = model.geom_size[geom], model.geom_rbound[geom]
        kind, data = int(model.geom_type[geom]), int(model.geom_dataid[geom])
        if kind == MESH:
            if data not in self._hulls:
                triangles = hull_faces(model, data)
                self._hulls[data] = self._n_faces, len(triangles)
                self._faces.append(triangles)
                self._n_faces += len(triangles)
            first, amount = self._hulls[data]
        elif kind == HFIELD:
            amount, columns = int(model.hfield_nrow[data]), int(model.hfield_ncol[data])
            size[:3] = model.hfield_size[data, :3]
            size[4:] = 2 * size[0] / (columns - 1), 2 * size[1] / (amount - 1)
            begin = int(model.hfield_adr[data])
            self._heights.append(model.hfield_data[begin : begin + amount * columns].astype(np.float64))
            first, self._n_heights = self._n_heights, self._n_heights + amount * columns
        self.index.append((kind, geom, int(model.geom_bodyid[geom]), first, amount, columns))
        self._shapes.append(size)

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Return index, shapes, faces and heights."""
        return (
            np.asarray(self.index, np.int64).reshape(-1, 6),
            np.asarray(self._shapes).reshape(-1, 6),
            np.concatenate(self._faces),
            np.concatenate(self._heights),
        )


def tracked_geoms(model: mujoco.MjModel, bodies: Sequence[int]) -> list[int]:
    """Return the geoms of these bodies that take part in collisions."""
    wanted = set(bodies)
    return [
        g
        for g in range(model.ngeom)
        if int(model.geom_bodyid[g]) in wanted
        and (model.geom_contype[g] or model.geom_conaffinity[g])
        and int(model.geom_type[g]) in (PLANE, HFIELD, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH)
    ]


def hull_faces(model: mujoco.MjModel, mesh: int) -> np.ndarray:
    """Return corners, outward normal and offset of each triangle of a mesh's convex hull, (n, 13).

    Raises:
        OptionError: the mesh has no convex hull.
    """
    vertices = model.mesh_vert[model.mesh_vertadr[mesh] :][: model.mesh_vertnum[mesh]].astype(np.float64)
    address = int(model.mesh_graphadr[mesh])
    if address < 0:
        raise OptionError(
            f"mesh {model.mesh(mesh).name!r} has no convex hull to measure distances to; enable collisions of its geom"
        )
    # layout of mesh_graph: numvert, numface, vert_edgeadr[numvert], vert_globalid[numvert], edge_localid[numvert +
    # 3 * numface], face_globalid[3 * numface]
    n_vertices, n_triangles = (int(number) for number in model.mesh_graph[address : address + 2])
    begin = address + 2 + 3 * n_vertices + 3 * n_triangles
    corners = vertices[model.mesh_graph[begin : begin + 3 * n_triangles].reshape(-1, 3)]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    area = np.linalg.norm(normals, axis=1)
    kept = area > 1e-12 * area.max()
    corners, normals = corners[kept], normals[kept] / area[kept, None]
    offset = np.einsum("ij,ij->i", normals, corners[:, 0])
    return np.concatenate([corners.reshape(-1, 9), normals, offset[:, None]], axis=1)
