"""Warp kernel of heat flow in a network of nodes: the GPU counterpart of ``kernels.py``.

The lanes of an env share its nodes. Flows are gathered by node, in the order in which the CPU adds them.
"""

# the annotations of Warp kernels are values, not types
# mypy: disable-error-code="valid-type,misc,index,attr-defined,operator,call-overload,assignment,arg-type"
# mypy: allow-untyped-decorators, allow-untyped-calls, allow-untyped-defs, allow-incomplete-defs

import warp as wp

from sensorium.sensors.thermal import kernels
from sensorium.sensors.warp_engine import engine, matrix, sensed, sensed_vector, vector
from sensorium.sensors.warp_lanes import lane_count, lane_max, lanes_before, lanes_sync

wp.set_module_options({"fuse_fp": False, "enable_backward": False, "fast_math": False})

_STEFAN_BOLTZMANN, _KELVIN = (wp.constant(wp.float64(x)) for x in (kernels.STEFAN_BOLTZMANN, kernels.KELVIN))
_ZERO, _TWO, _FOUR = (wp.constant(wp.float64(x)) for x in (0.0, 2.0, 4.0))

ints, ints2, ints3 = (wp.array(dtype=wp.int32, ndim=n) for n in (1, 2, 3))
doubles, doubles2 = (wp.array(dtype=wp.float64, ndim=n) for n in (1, 2))


@wp.struct
class HeatNetwork:
    """Constants and parameters of ``kernels.conduct``."""

    at: ints
    sides: ints3
    bodies: ints2
    settings: doubles2
    grids: doubles2
    counts: ints2
    starts: ints  # (nodes + 1,) where the neighbours of each node begin
    neighbours: ints
    conductances: doubles  # to each neighbour
    nodes: doubles2
    owners: ints
    heat: doubles2
    ambient: doubles2
    convection: doubles2


@wp.struct
class Touch:
    """Where a contact touches a link: a node, and the area of the face there."""

    node: wp.int32
    area: wp.float64


@wp.func
def _touched(network: HeatNetwork, grid: int, first: int, place: wp.vec3d, normal: wp.vec3d) -> Touch:
    """Return the node of a grid at a point of the link's frame, and the area of its face across a direction."""
    found = Touch()
    node = wp.int32(0)
    steepest = wp.float64(-1.0)
    for i in range(3):
        edge = network.grids[grid, 3 + i]
        cells = network.counts[grid, i]
        cell = wp.floor((place[i] - network.grids[grid, i]) / edge)
        node = node * cells + wp.int32(wp.clamp(cell, _ZERO, wp.float64(cells - 1)))
        if wp.abs(normal[i]) > steepest:
            steepest = wp.abs(normal[i])
            found.area = network.grids[grid, 3 + (i + 1) % 3] * network.grids[grid, 3 + (i + 2) % 3]
    found.node = first + node
    return found


@wp.func
def _find_contacts(
    network: HeatNetwork,
    data: sensed,
    xpos: engine,
    xmat: engine,
    slots: int,
    env: int,
    lane: int,
    lanes: int,
    ends: ints3,
    passing: doubles2,
) -> int:
    """Write the nodes that touch in one env and the conductances between them, and return how many pairs there are."""
    n = wp.int32(0)
    start = wp.int32(0)
    end = network.at.shape[0] * slots
    while start < end:
        item = start + lane
        touches = wp.bool(False)
        p = item // slots
        at = wp.int32(0)
        if item < end:
            at = network.at[p] + 9 * (item % slots)  # force (first along the normal), position, normal
            touches = wp.float64(data[env, at]) > _ZERO
        place = n + lanes_before(touches, lane)
        if touches:
            area = network.settings[p, 2]
            if area <= _ZERO:
                area = wp.float64(data[env, at]) / network.settings[p, 1]
            for side in range(2):
                grid = network.sides[p, side, 0]
                node = network.sides[p, side, 1]
                if grid >= 0:
                    body = network.bodies[p, side]
                    turn = wp.transpose(matrix(xmat, env, body))
                    where = turn * (sensed_vector(data, env, at + 3) - vector(xpos, env, body))
                    found = _touched(network, grid, node, where, turn * sensed_vector(data, env, at + 6))
                    node = found.node
                    area = wp.min(area, found.area)
                ends[env, place, side] = node
            passing[env, place] = network.settings[p, 0] * area / network.settings[p, 3]
        n += lane_count(touches)
        start += lanes
    lanes_sync()
    return n


@wp.kernel
def conduct(
    network: HeatNetwork,
    data: sensed,
    xpos: engine,
    xmat: engine,
    slots: int,
    dt: wp.float64,
    ends: ints3,
    passing: doubles2,
    flow: doubles2,
    temperatures: doubles2,
    lanes: int,
    advance: wp.bool,
):
    """Advance all temperatures (B, nodes) by dt, if ``advance`` is set. Dimension (B, lanes).

    ``ends`` (B, contacts, 2), ``passing`` (B, contacts) and ``flow`` (B, nodes) are scratch memory.
    """
    env, lane = wp.tid()
    if not advance:
        return
    n = _find_contacts(network, data, xpos, xmat, slots, env, lane, lanes, ends, passing)
    n_nodes = network.nodes.shape[0]
    fastest = wp.float64(0.0)
    for i in range(lane, n_nodes, lanes):
        total = wp.float64(0.0)
        for k in range(network.starts[i], network.starts[i + 1]):
            total += network.conductances[k]
        for k in range(n):
            if ends[env, k, 0] == i or ends[env, k, 1] == i:
                total += passing[env, k]
        owner = network.owners[i]
        hot = wp.max(temperatures[env, i], network.ambient[owner, env]) + _KELVIN
        surface = network.convection[owner, env] + _FOUR * network.nodes[i, 2] * _STEFAN_BOLTZMANN * (hot * hot * hot)
        fastest = wp.max(fastest, (total + surface * network.nodes[i, 1]) * network.nodes[i, 0])
    fastest = lane_max(fastest)
    steps = wp.max(1, wp.int32(wp.ceil(_TWO * dt * fastest)))
    for _step in range(steps):
        for i in range(lane, n_nodes, lanes):
            own = temperatures[env, i]
            owner = network.owners[i]
            air = network.ambient[owner, env]
            warm = (air + _KELVIN) * (air + _KELVIN)
            hot = (own + _KELVIN) * (own + _KELVIN)
            radiated = network.nodes[i, 2] * _STEFAN_BOLTZMANN * (warm * warm - hot * hot)
            gained = network.nodes[i, 1] * (network.convection[owner, env] * (air - own) + radiated)
            if i < network.heat.shape[0]:
                gained += network.heat[i, env]
            for k in range(network.starts[i], network.starts[i + 1]):
                gained += network.conductances[k] * (temperatures[env, network.neighbours[k]] - own)
            for k in range(n):
                if ends[env, k, 0] == i:
                    gained += passing[env, k] * (temperatures[env, ends[env, k, 1]] - own)
                if ends[env, k, 1] == i:
                    gained += passing[env, k] * (temperatures[env, ends[env, k, 0]] - own)
            flow[env, i] = gained
        lanes_sync()
        for i in range(lane, n_nodes, lanes):
            temperatures[env, i] = temperatures[env, i] + dt / wp.float64(steps) * flow[env, i] * network.nodes[i, 0]
        lanes_sync()
