# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
"""Numba kernels of heat flow in a network of nodes. Backends import them when they are built."""

import math

import numpy as np

from sensorium.jit import helper, kernel

STEFAN_BOLTZMANN = 5.670374419e-8
"""W/(m²·K⁴)."""
KELVIN = 273.15
"""0 °C in K."""


@helper
def _touched(place, normal, origin, turn, low, edge, count, first):
    """Return the node of a grid at a point in the world frame, and the area of its face across a direction."""
    area, steepest, node = 0.0, -1.0, 0
    for i in range(3):
        along, slope = 0.0, 0.0
        for k in range(3):  # the columns of a rotation matrix are the axes of the frame
            along += turn[3 * k + i] * (place[k] - origin[k])
            slope += turn[3 * k + i] * normal[k]
        cell = min(max(math.floor((along - low[i]) / edge[i]), 0), count[i] - 1)
        node = node * count[i] + cell
        if abs(slope) > steepest:
            steepest = abs(slope)
            area = edge[(i + 1) % 3] * edge[(i + 2) % 3]
    return first + node, area


@kernel
def _contacts(sensed, xpos, xmat, at, slots, sides, bodies, pairs, grids, counts, ends, conductances):
    """Find the nodes that touch in one env and the conductances between them, and return how many pairs there are.

    ``sides`` (pairs, 2, 2): grid (-1 for a lumped body) and first node. ``pairs`` (pairs, 4): effective conductivity,
    hardness, area of a contact (0: from the force), asperity length. ``grids`` (grids, 6): lower corner and cell edges;
    ``counts`` (grids, 3): cells.
    """
    n = 0
    for p in range(len(at)):
        for slot in range(slots):
            values = sensed[at[p] + 9 * slot : at[p] + 9 * slot + 9]  # force (first along the normal), position, normal
            if values[0] <= 0:
                continue
            area = pairs[p, 2] if pairs[p, 2] > 0 else values[0] / pairs[p, 1]
            for side in range(2):
                grid, node = sides[p, side]
                if grid >= 0:
                    body = bodies[p, side]
                    node, face = _touched(
                        values[3:6],
                        values[6:9],
                        xpos[body],
                        xmat[body],
                        grids[grid, :3],
                        grids[grid, 3:],
                        counts[grid],
                        node,
                    )
                    area = min(area, face)
                ends[n, side] = node
            conductances[n] = pairs[p, 0] * area / pairs[p, 3]
            n += 1
    return n


@kernel
def conduct(
    sensed,
    xpos,
    xmat,
    at,
    slots,
    sides,
    bodies,
    pairs,
    grids,
    counts,
    links,
    link_conductances,
    nodes,
    owners,
    heat,
    ambient,
    convection,
    temperatures,
    dt,
    advance,
    out,
):
    """Advance all temperatures (B, nodes) by dt, and copy those of the grids to ``out``.

    ``links`` (n, 2): neighbouring nodes within a body. ``nodes`` (nodes, 3): 1 / heat capacity, outer surface,
    emissivity. ``owners`` (nodes,): sensor whose ``ambient`` and ``convection`` (sensors, B) hold. ``heat`` (columns,
    B): sources in W.

    Integration is explicit. A step is at most half the shortest time constant of a node, so that no temperature
    overshoots. Each flow is subtracted from one node and added to the other, so that heat is conserved up to rounding.
    """
    n_nodes, n_columns = len(nodes), len(heat)
    ends = np.empty((len(at) * slots, 2), np.int64)
    conductances = np.empty(len(at) * slots)
    flow = np.empty(n_nodes)
    for b in range(out.shape[1]):
        t = temperatures[b]
        if advance:
            n = _contacts(
                sensed[b], xpos[b], xmat[b], at, slots, sides, bodies, pairs, grids, counts, ends, conductances
            )
            flow[:] = 0.0  # here, the sum of each node's conductances
            for i in range(len(links)):
                flow[links[i, 0]] += link_conductances[i]
                flow[links[i, 1]] += link_conductances[i]
            for i in range(n):
                flow[ends[i, 0]] += conductances[i]
                flow[ends[i, 1]] += conductances[i]
            fastest = 0.0
            for i in range(n_nodes):
                hot = max(t[i], ambient[owners[i], b]) + KELVIN
                surface = convection[owners[i], b] + 4 * nodes[i, 2] * STEFAN_BOLTZMANN * hot**3
                fastest = max(fastest, (flow[i] + surface * nodes[i, 1]) * nodes[i, 0])
            steps = max(1, math.ceil(2 * dt * fastest))
            for _ in range(steps):
                for i in range(n_nodes):
                    air = ambient[owners[i], b]
                    radiated = (air + KELVIN) ** 4 - (t[i] + KELVIN) ** 4
                    passed = convection[owners[i], b] * (air - t[i]) + nodes[i, 2] * STEFAN_BOLTZMANN * radiated
                    flow[i] = nodes[i, 1] * passed + (heat[i, b] if i < n_columns else 0.0)
                for i in range(len(links)):
                    passed = link_conductances[i] * (t[links[i, 1]] - t[links[i, 0]])
                    flow[links[i, 0]] += passed
                    flow[links[i, 1]] -= passed
                for i in range(n):
                    passed = conductances[i] * (t[ends[i, 1]] - t[ends[i, 0]])
                    flow[ends[i, 0]] += passed
                    flow[ends[i, 1]] -= passed
                for i in range(n_nodes):
                    t[i] += dt / steps * flow[i] * nodes[i, 0]
        for c in range(n_columns):
            out[c, b] = t[c]


@kernel
def respond(data, before, time_constant, owners, dt):
    """Apply the first-order lag of the sensing elements in place."""
    for c in range(data.shape[0]):
        for b in range(data.shape[1]):
            tau = time_constant[owners[c], b]
            if tau > 0:
                data[c, b] = before[c, b] - math.expm1(-dt / tau) * (data[c, b] - before[c, b])
