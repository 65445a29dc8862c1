"""Thermal network of a scene: cells of grids, lumped bodies, and the heat conductances between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import mujoco
import numpy as np

from sensorium.errors import OptionError
from sensorium.sensors.thermal.material import Material

_INFINITE = [int(mujoco.mjtGeom.mjGEOM_PLANE), int(mujoco.mjtGeom.mjGEOM_HFIELD)]


@dataclass(frozen=True)
class Grid:
    """Division of a link into cells; lengths in m, in the link's frame."""

    low: np.ndarray
    """Lower corner, (3,)."""
    edge: np.ndarray
    """Edges of a cell, (3,)."""
    count: tuple[int, int, int]
    """Cells along x, y and z."""

    @classmethod
    def of(cls, model: mujoco.MjModel, body: int, count: tuple[int, int, int], asked_by: str) -> Grid:
        """Divide the bounding box of a link's geoms.

        Raises:
            OptionError: the link has no bounding box.
        """
        box = bounding_box(model, body)
        if box is None:
            raise OptionError(
                f"{asked_by}.link: {model.body(body).name!r} has no bounding box to divide, because it has no geoms or "
                "has infinite ones; name another link"
            )
        low, high = box
        return cls(low, (high - low) / np.array(count), count)


@dataclass
class Network:
    """Nodes of one temperature each, and the conduction between them, as ``kernels.conduct`` takes them."""

    nodes: np.ndarray
    """1 / heat capacity (K/J), outer surface (m²) and emissivity of each node, (nodes, 3)."""
    owners: np.ndarray
    """Sensor whose ambient temperature and convection hold for each node, (nodes,)."""
    initial: np.ndarray
    """Initial temperature of each node, °C; NaN for ambient, (nodes,)."""
    links: list[tuple[int, int]] = field(default_factory=list)
    """Pairs of neighbouring nodes within a body."""
    conductances: list[float] = field(default_factory=list)
    """Conductance of each pair, W/K."""


def bounding_box(model: mujoco.MjModel, body: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the lower and the upper corner of a body's geoms in its frame, or None without finite geoms."""
    first, count = int(model.body_geomadr[body]), int(model.body_geomnum[body])
    if count == 0 or np.isin(model.geom_type[first : first + count], _INFINITE).any():
        return None
    low, high = np.full(3, np.inf), np.full(3, -np.inf)
    for geom in range(first, first + count):
        matrix = np.zeros(9)
        mujoco.mju_quat2Mat(matrix, model.geom_quat[geom])
        turn = matrix.reshape(3, 3)
        centre = model.geom_pos[geom] + turn @ model.geom_aabb[geom, :3]
        half = np.abs(turn) @ model.geom_aabb[geom, 3:]
        low, high = np.minimum(low, centre - half), np.maximum(high, centre + half)
    return low, high


def build_network(
    model: mujoco.MjModel, grids: list[tuple[Grid, Material]], lumped: list[tuple[int, Material]]
) -> Network:
    """Build the network of all grids and lumped bodies.

    Nodes are the cells of all grids in C order, one grid after the other, and then one node per lumped body. A lumped
    body is the box around its geoms. The world and infinite bodies keep their temperature: their heat capacity is
    infinite.

    Args:
        model: the scene.
        grids: grid and material of each link with a sensor.
        lumped: body id and material of each further body.
    """
    total = sum(int(np.prod(grid.count)) for grid, _ in grids) + len(lumped)
    network = Network(np.zeros((total, 3)), np.zeros(total, np.int64), np.full(total, np.nan))
    first = 0
    for owner, (grid, material) in enumerate(grids):
        numbers = first + np.arange(int(np.prod(grid.count))).reshape(grid.count)
        volume = float(np.prod(grid.edge))
        here = slice(first, first + numbers.size)
        network.owners[here] = owner
        network.nodes[here, 0] = 1 / (material.density * material.heat_capacity * volume)
        network.nodes[here, 2] = material.emissivity
        for axis in range(3):
            face = volume / grid.edge[axis]
            rows = np.moveaxis(numbers, axis, 0)
            for end in (rows[0], rows[-1]):
                network.nodes[end.ravel(), 1] += face
            for one, other in pairwise(rows):
                network.links += zip(one.ravel().tolist(), other.ravel().tolist(), strict=True)
                network.conductances += [material.conductivity * face / float(grid.edge[axis])] * one.size
        first += numbers.size
    for node, (body, material) in enumerate(lumped, start=first):
        box = None if body == 0 else bounding_box(model, body)
        if box is not None:
            x, y, z = (box[1] - box[0]).tolist()
            capacity = material.density * material.heat_capacity * x * y * z
            network.nodes[node] = 1 / capacity, 2 * (x * y + y * z + z * x), material.emissivity
    return network
