"""Probes: points on a link that look for the nearest surface. What all sensors of touch and proximity are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import mujoco
import numpy as np

from sensorium.errors import OptionError
from sensorium.pipeline.launch import launch
from sensorium.sensors.base import DataT, SimpleSensor
from sensorium.sensors.options import Mounted
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
from sensorium.worlds import Names, Painter, World
from sensorium.worlds.compose import pose

Point = tuple[float, float, float]


@dataclass
class Probes:
    """The points of one sensor, in its link's frame."""

    link: int
    """Body that carries them."""
    positions: np.ndarray
    """(n, 3) m."""
    normals: np.ndarray | None
    """(n, 3) unit vectors out of the link's surface, or None."""
    reach: np.ndarray
    """(n,) m: how far each looks; the radius of a probe that is a sphere."""
    tracked: Sequence[int]
    """Bodies whose geoms it looks at."""


class ProbeField:
    """The probes of all sensors of a class, and what is nearest to each.

    Attributes:
        distance: (B, N) signed distance to the nearest tracked surface, m; at most the probe's reach.
        point: (B, N, 3) the nearest point of it, in the world frame; the probe's own position out of reach.
        position: (B, N, 3) the probe, in the world frame.
        depth: (B, N) how far the sphere of radius reach around the probe goes into the surface, ``reach - distance``,
            times the cosine between the probe's normal and the surface's inward one where the probe has a normal; 0
            out of reach.
        body: (B, N) the body that the nearest surface belongs to, -1 out of reach.
        sensors: (S, 5) of each sensor: link, first probe, behind its last, first surface, behind its last.
    """

    def __init__(self, world: World, parts: Sequence[Probes]) -> None:
        model = world.model
        count = sum(len(part.positions) for part in parts)
        self.sensors = np.zeros((len(parts), 5), np.int64)
        self.probes = np.zeros((count, 8))
        bounds = np.zeros((len(parts), 4))
        index: list[tuple[int, ...]] = []
        shape: list[np.ndarray] = []
        faces, heights = [np.zeros((0, 13))], [np.zeros(0)]
        hulls: dict[int, tuple[int, int]] = {}
        start = n_faces = n_heights = 0
        for s, part in enumerate(parts):
            stop = start + len(part.positions)
            rows = self.probes[start:stop]
            rows[:, :3], rows[:, 3] = part.positions, part.reach
            if part.normals is not None:
                rows[:, 4:7], rows[:, 7] = part.normals, 1
            centre = (part.positions.min(axis=0) + part.positions.max(axis=0)) / 2
            bounds[s, :3] = centre
            bounds[s, 3] = (np.linalg.norm(part.positions - centre, axis=1) + part.reach).max()
            self.sensors[s] = part.link, start, stop, len(index), 0
            for g in tracked_geoms(model, part.tracked):
                first = amount = columns = 0
                size = np.zeros(6)
                size[:3], size[3] = model.geom_size[g], model.geom_rbound[g]
                kind, data = int(model.geom_type[g]), int(model.geom_dataid[g])
                if kind == MESH:
                    if data not in hulls:
                        triangles = hull_faces(model, data)
                        hulls[data] = n_faces, len(triangles)
                        faces.append(triangles)
                        n_faces += len(triangles)
                    first, amount = hulls[data]
                elif kind == HFIELD:
                    amount, columns = int(model.hfield_nrow[data]), int(model.hfield_ncol[data])
                    size[:3] = model.hfield_size[data, :3]
                    size[4:] = 2 * size[0] / (columns - 1), 2 * size[1] / (amount - 1)
                    begin = int(model.hfield_adr[data])
                    heights.append(model.hfield_data[begin : begin + amount * columns].astype(np.float64))
                    first, n_heights = n_heights, n_heights + amount * columns
                index.append((kind, g, int(model.geom_bodyid[g]), first, amount, columns))
                shape.append(size)
            self.sensors[s, 4] = len(index)
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
            np.asarray(index, np.int64).reshape(-1, 6),
            np.asarray(shape).reshape(-1, 6),
            np.concatenate(faces),
            np.concatenate(heights),
            np.zeros(max(len(index), 1), np.int64),
            found,
            self.body,
        )

    def update(self) -> None:
        """Look again, at the world as it is now."""
        launch(nearest_surfaces, *self._arguments)


def tracked_geoms(model: mujoco.MjModel, bodies: Sequence[int]) -> list[int]:
    """The geoms of these bodies that take part in collisions."""
    wanted = set(bodies)
    return [
        g
        for g in range(model.ngeom)
        if int(model.geom_bodyid[g]) in wanted
        and (model.geom_contype[g] or model.geom_conaffinity[g])
        and int(model.geom_type[g]) in (PLANE, HFIELD, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH)
    ]


def hull_faces(model: mujoco.MjModel, mesh: int) -> np.ndarray:
    """(n, 13): corners, outward normal and offset of each triangle of a mesh's convex hull."""
    vertices = model.mesh_vert[model.mesh_vertadr[mesh] :][: model.mesh_vertnum[mesh]].astype(np.float64)
    address = int(model.mesh_graphadr[mesh])
    if address < 0:
        raise OptionError(
            f"mesh {model.mesh(mesh).name!r} has no convex hull to measure distances to; let its geom collide"
        )
    n_vertices, n_triangles = (int(number) for number in model.mesh_graph[address : address + 2])
    begin = address + 2 + 3 * n_vertices + 3 * n_triangles
    corners = vertices[model.mesh_graph[begin : begin + 3 * n_triangles].reshape(-1, 3)]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    area = np.linalg.norm(normals, axis=1)
    kept = area > 1e-12 * area.max()
    corners, normals = corners[kept], normals[kept] / area[kept, None]
    offset = np.einsum("ij,ij->i", normals, corners[:, 0])
    return np.concatenate([corners.reshape(-1, 9), normals, offset[:, None]], axis=1)


class Probing(Mounted):
    """What sensors of touch and proximity share: a frame on a link, and what they can feel."""

    tracked: str | tuple[str, ...] = ()
    """Links that are felt; each alone, without its child links. Default: everything but the kinematic tree (the robot)
    of the sensor's own link. Geoms that do not collide are never felt."""


class ProbeSensor(SimpleSensor[DataT]):
    """A sensor made of probes. ``group.field`` is the :class:`ProbeField` of all sensors of the class."""

    cpu_only: ClassVar[bool] = True

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        options, asked_by = self.options, f"{type(self.options).__name__}(uuid={self.uuid!r})"
        self._link = names.body(options.link, f"{asked_by}.link").name
        tracked = (options.tracked,) if isinstance(options.tracked, str) else options.tracked
        self._tracked = tuple(names.body(name, f"{asked_by}.tracked").name for name in tracked)
        if self._link in self._tracked:
            raise OptionError(
                f"{asked_by}.tracked names {self._link!r}, the link that carries the sensor; leave it out"
            )

    def _local(self) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        """Positions (n, 3), normals (n, 3) or None, and reach (n,) of the probes, in the sensor's frame."""
        raise TypeError(f"{type(self).__name__} must define _local")

    def _frame(self) -> tuple[np.ndarray, np.ndarray]:
        """Position (3,) and rotation matrix (3, 3) of the sensor's frame in the link's."""
        position, quaternion = pose(self.options.pos, self.options.quat, self.options.euler)
        matrix = np.zeros(9)
        mujoco.mju_quat2Mat(matrix, quaternion)
        return position, matrix.reshape(3, 3)

    def _probes(self, model: mujoco.MjModel) -> Probes:
        link = int(model.body(self._link).id)
        own = model.body_rootid[link]
        if self._tracked:
            tracked = [int(model.body(name).id) for name in self._tracked]
        else:
            tracked = [body for body in range(model.nbody) if model.body_rootid[body] != own]
        if not tracked_geoms(model, tracked):
            what = ", ".join(map(repr, self._tracked)) or "anything but the sensor's own robot"
            raise OptionError(
                f"{type(self.options).__name__}(uuid={self.uuid!r}).tracked: there is no geom that collides on {what}, "
                "so there is nothing to feel"
            )
        positions, normals, reach = self._local()
        origin, rotation = self._frame()
        return Probes(
            link,
            origin + positions @ rotation.T,
            None if normals is None else normals @ rotation.T,
            reach,
            tracked,
        )

    def _draw(self, painter: Painter, env: int) -> None:
        """The probes as balls of their reach, and their normals."""
        world = self.group.world
        probes = self._probes(world.model)
        origin, rotation = (world.bind(name)[env, probes.link].numpy() for name in ("xpos", "xmat"))
        positions = origin + probes.positions @ rotation.reshape(3, 3).T
        for position, reach in zip(positions, probes.reach, strict=True):
            painter.points(position, (0.2, 0.9, 0.4, 0.6), min(max(float(reach), 0.002), 0.02))
        if probes.normals is not None:
            for position, normal in zip(positions, probes.normals @ rotation.reshape(3, 3).T, strict=True):
                painter.line(position, position + 0.02 * normal, (0.2, 0.9, 0.4, 0.8), 0.001)

    @classmethod
    def _build_group(cls, group: Any) -> None:
        group.field = ProbeField(group.world, [sensor._probes(group.world.model) for sensor in group.sensors])


def per_probe(values: Any, count: int, width: int) -> np.ndarray:
    """One row for all probes, or one each, as (count, width)."""
    return np.ascontiguousarray(np.broadcast_to(np.asarray(values, np.float64).reshape(-1, width), (count, width)))


def check_count(name: str, values: Sequence[Any], count: int) -> None:
    """Whether there is one for all or one for each probe; a ValueError says what is wrong."""
    if len(values) != count:
        raise ValueError(f"{name} must be one for all or one for each of the {count} probes, got {len(values)}")


def unit(normals: np.ndarray) -> np.ndarray:
    """Rows divided by their lengths."""
    return np.asarray(normals / np.linalg.norm(normals, axis=1, keepdims=True))


def check_normals(normals: Any, count: int) -> None:
    """Whether these can be the normals of ``count`` probes."""
    rows = np.asarray(normals, np.float64)
    if rows.ndim == 2:
        check_count("normals", normals, count)
    if (np.linalg.norm(rows.reshape(-1, 3), axis=1) < 1e-9).any():
        raise ValueError("normals must not be zero vectors")
