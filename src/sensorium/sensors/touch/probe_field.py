"""Probe field: the nearest tracked surface to every probe of a class of sensors, in all envs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from sensorium.errors import OptionError
from sensorium.pipeline import SensorGroup
from sensorium.pipeline.launch import launch
from sensorium.sensors.touch.distance import (
    BOX,
    CAPSULE,
    CYLINDER,
    ELLIPSOID,
    HFIELD,
    MESH,
    PLANE,
    SPHERE,
    nearest_surfaces,
)


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
    tracked: Sequence[int]
    """Bodies whose geoms the probes find."""


class ProbeField:
    """Probes of all sensors of a class, and the nearest surface to each.

    Attributes:
        sensors: link, first probe, end of its probes, first surface, end of its surfaces of each sensor, (S, 5).
        probes: position, reach, normal, and whether it has one, of each probe in its link's frame, (N, 8).
        distance: signed distance to the nearest tracked surface, at most the probe's reach, (B, N) m.
        point: nearest point of it in the world frame, or the probe's own position if it is out of reach, (B, N, 3) m.
        position: the probe in the world frame, (B, N, 3) m.
        depth: how far the sphere of radius reach around the probe goes into the surface, (B, N) m: ``reach -
            distance``, times the cosine between the probe's normal and the surface's inward one if the probe has a
            normal; 0 out of reach.
        body: body of the nearest surface, or -1 out of reach, (B, N).
    """

    def __init__(self, group: SensorGroup) -> None:
        world, model = group.world, group.world.model
        parts: list[Probes] = [sensor._probes(model) for sensor in group.sensors]
        count = sum(len(part.positions) for part in parts)
        self.sensors = np.zeros((len(parts), 5), np.int64)
        self.probes = np.zeros((count, 8))
        bounds = np.zeros((len(parts), 4))
        surfaces = _Surfaces(model)
        start = 0
        for s, part in enumerate(parts):
            stop = start + len(part.positions)
            rows = self.probes[start:stop]
            rows[:, :3], rows[:, 3] = part.positions, part.reach
            if part.normals is not None:
                rows[:, 4:7], rows[:, 7] = part.normals, 1
            centre = (part.positions.min(axis=0) + part.positions.max(axis=0)) / 2
            bounds[s, :3] = centre
            bounds[s, 3] = (np.linalg.norm(part.positions - centre, axis=1) + part.reach).max()
            first = len(surfaces.index)
            for geom in tracked_geoms(model, part.tracked):
                surfaces.add(geom)
            self.sensors[s] = part.link, start, stop, first, len(surfaces.index)
            start = stop
        found = np.zeros((world.n_envs, count, 11))
        self.distance, self.depth = found[:, :, 0], found[:, :, 10]
        self.point, self.position = found[:, :, 1:4], found[:, :, 7:10]
        self.body = np.full((world.n_envs, count), -1, np.int64)
        self._arguments = (
            *(world.bind(field).numpy() for field in ("geom_xpos", "geom_xmat", "xpos", "xmat")),
            self.sensors,
            bounds,
            self.probes,
            *surfaces.arrays(),
            found,
            self.body,
        )

    def update(self) -> None:
        """Find the nearest surfaces in the current state of the world."""
        launch(nearest_surfaces, *self._arguments)


class _Surfaces:
    """Geoms that probes find, as ``distance.nearest_surfaces`` takes them."""

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
        """Return index, shapes, faces, heights and scratch memory."""
        return (
            np.asarray(self.index, np.int64).reshape(-1, 6),
            np.asarray(self._shapes).reshape(-1, 6),
            np.concatenate(self._faces),
            np.concatenate(self._heights),
            np.zeros(max(len(self.index), 1), np.int64),
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
