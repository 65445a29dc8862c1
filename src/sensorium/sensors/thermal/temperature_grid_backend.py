"""Backends of the temperature grid on the CPU and on the GPU: the heat network of a scene, and its temperatures."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import mujoco
import numpy as np
import torch

from sensorium.errors import OptionError
from sensorium.pipeline import SensorGroup
from sensorium.sensors.thermal.material import MATERIALS, Material
from sensorium.sensors.thermal.network import Grid, Network, build_network

if TYPE_CHECKING:
    from sensorium.sensors.thermal.temperature_grid import TemperatureGridSensor

PARAMETERS = ("sensor_time_constant", "ambient", "convection")
"""Parameters with one value per sensor and env, in the order in which they are stored."""
MAX_CONTACTS = 8
"""Contacts between two links that the engine reports: the strongest ones."""
_DEFAULT = MATERIALS["aluminium"]

ValueT = TypeVar("ValueT")


def contact_sensor_name(pair: tuple[str, str]) -> str:
    """Return the name of the engine's sensor for the contacts of two links."""
    return f"heat:{pair[0]}|{pair[1]}"


class _Contacts(NamedTuple):
    """The pairs of links that can touch, as ``kernels.conduct`` takes them."""

    at: np.ndarray
    """First element in ``sensordata``, (pairs,)."""
    slots: int
    """Contacts per pair."""
    sides: np.ndarray
    """Grid (-1 for a lumped body) and first node of both links, (pairs, 2, 2)."""
    bodies: np.ndarray
    """Bodies of both links, (pairs, 2)."""
    settings: np.ndarray
    """Effective conductivity (W/(m·K)), hardness (Pa), contact area (m², 0: by force), asperity length (m)."""


class TemperatureGridBackend(Protocol):
    """Temperatures of all grids of a scene, and of the links that they can touch, on one engine."""

    def update(self, out: torch.Tensor) -> None:
        """Advance all temperatures by one step, and fill ``out`` (cells, B) in °C. In a reset no time passes."""

    def respond(self, data: torch.Tensor, before: torch.Tensor) -> None:
        """Let the sensing elements lag behind ``data`` (cells, B), in place; ``before`` is their last temperature."""

    def reset(self, mask: torch.Tensor) -> None:
        """Set all temperatures of the envs in ``mask`` (B,) to their initial values."""


class _Layout(NamedTuple):
    """Constants of the heat flow of a scene."""

    network: Network
    contacts: _Contacts
    grids: np.ndarray
    """Lower corner and cell edges of each grid, (grids, 6)."""
    counts: np.ndarray
    """Cells of each grid, (grids, 3)."""


def _lay_out(group: SensorGroup[TemperatureGridBackend]) -> _Layout:
    sensors, model = group.sensors, group.world.model
    grids = _lay_grids(sensors, model)
    materials = _merge("materials", [(sensor.uuid, sensor.materials) for sensor in sensors])
    temperatures = _merge("temperatures", [(sensor.uuid, sensor.temperatures) for sensor in sensors])
    pairs = list(dict.fromkeys(pair for sensor in sensors for pair in sensor.pairs))
    lumped = list(dict.fromkeys(name for pair in pairs for name in pair if name not in grids))
    nodes = dict(zip(grids, group.slices, strict=True))  # link -> its nodes
    nodes |= {name: slice(group.n_columns + i, group.n_columns + i + 1) for i, name in enumerate(lumped)}
    network = build_network(
        model,
        [(grid, materials.get(name, _DEFAULT)) for name, grid in grids.items()],
        [(model.body(name).id, materials.get(name, _DEFAULT)) for name in lumped],
    )
    _set_initial(network, nodes, temperatures, materials)
    return _Layout(
        network,
        _find_contacts(sensors, model, pairs, nodes, materials),
        np.array([np.concatenate([grid.low, grid.edge]) for grid in grids.values()]),
        np.array([grid.count for grid in grids.values()], np.int64),
    )


def _allocate_parameters(group: SensorGroup[TemperatureGridBackend]) -> torch.Tensor:
    """Allocate the parameters in ``PARAMETERS``, (3, sensors, B), and ``heat``, which ``sensor.set`` writes."""
    shape = (len(PARAMETERS), len(group.sensors), group.n_envs)
    parameters = torch.zeros(shape, dtype=torch.float64, device=group.device)
    group.parameters |= dict(zip(PARAMETERS, parameters, strict=True))
    heat = torch.zeros(group.n_columns, group.n_envs, dtype=torch.float64, device=group.device)
    group.parameters["heat"] = heat
    return parameters


class CpuTemperatureGrid:
    """Temperatures on the CPU engine."""

    def __init__(self, group: SensorGroup[TemperatureGridBackend]) -> None:
        from sensorium.sensors.thermal import kernels

        self._kernels, self._group = kernels, group
        world, layout = group.world, _lay_out(group)
        self._network = layout.network
        self._time_constant, self._ambient, convection = _allocate_parameters(group).numpy()
        self._temperatures = np.zeros((group.n_envs, len(self._network.nodes)))
        self._arguments = (
            world.bind("sensordata").numpy(),
            world.bind("xpos").numpy(),
            world.bind("xmat").numpy().reshape(group.n_envs, world.model.nbody, 9),
            *layout.contacts,
            layout.grids,
            layout.counts,
            np.array(self._network.links, np.int64).reshape(-1, 2),
            np.array(self._network.conductances, np.float64),
            self._network.nodes,
            self._network.owners,
            group.parameters["heat"].numpy(),
            self._ambient,
            convection,
            self._temperatures,
            group.dt,
        )

    def update(self, out: torch.Tensor) -> None:
        self._kernels.conduct(*self._arguments, self._group.advancing, self._group.array(out))

    def respond(self, data: torch.Tensor, before: torch.Tensor) -> None:
        lag = (self._time_constant, self._network.owners, self._group.dt)
        self._kernels.respond(self._group.array(data), before.numpy(), *lag)

    def reset(self, mask: torch.Tensor) -> None:
        envs, initial = mask.numpy(), self._network.initial
        ambient = self._ambient[self._network.owners].T[envs]
        self._temperatures[envs] = np.where(np.isnan(initial), ambient, initial)


class GpuTemperatureGrid:
    """Temperatures on the GPU engine, in float64 as on the CPU."""

    def __init__(self, group: SensorGroup[TemperatureGridBackend]) -> None:
        import warp as wp

        from sensorium.sensors.thermal import warp_kernels
        from sensorium.sensors.warp_lanes import lanes_on

        self._group, self._wp, lanes = group, wp, lanes_on(group.device)
        world, (network, contacts, grids, counts) = group.world, _lay_out(group)
        self._time_constant, self._ambient, _ = _allocate_parameters(group)
        starts, neighbours, conductances = _neighbours(network)
        struct = warp_kernels.HeatNetwork()
        for name, values in {
            **{field: getattr(contacts, field) for field in ("at", "sides", "bodies", "settings")},
            "grids": grids,
            "counts": counts,
            "nodes": network.nodes,
            "owners": network.owners,
            "starts": starts,
            "neighbours": neighbours,
            "conductances": conductances,
        }.items():
            setattr(struct, name, wp.from_torch(self._upload(values)))
        for name in ("heat", "ambient", "convection"):
            setattr(struct, name, wp.from_torch(group.parameters[name]))
        self._owners, self._initial = self._upload(network.owners).long(), self._upload(network.initial)
        self._temperatures = self._upload(np.zeros((group.n_envs, len(network.nodes))))
        most = len(contacts.at) * contacts.slots
        scratch = (np.zeros((group.n_envs, most, 2), int), np.zeros((group.n_envs, most)))
        memory = (*map(self._upload, scratch), torch.zeros_like(self._temperatures), self._temperatures)
        engine = (wp.from_torch(world.bind(name)) for name in ("sensordata", "xpos", "xmat"))
        time = (contacts.slots, wp.float64(group.dt))
        self._kernel, self._dim = warp_kernels.conduct, (group.n_envs, lanes)
        self._inputs = [struct, *engine, *time, *(wp.from_torch(tensor) for tensor in memory), lanes]

    def _upload(self, values: np.ndarray) -> torch.Tensor:
        values = values.astype(np.int32) if values.dtype.kind in "iu" else values
        return torch.from_numpy(np.array(values)).to(self._group.device)

    def update(self, out: torch.Tensor) -> None:
        # also in a reset, where it does nothing: the reset at build loads the kernel, which a graph cannot
        inputs = [*self._inputs, self._group.advancing]
        self._wp.launch(self._kernel, self._dim, inputs, device=str(self._group.device))
        out.copy_(self._temperatures[:, : len(out)].T)

    def respond(self, data: torch.Tensor, before: torch.Tensor) -> None:
        tau = self._time_constant[self._owners[: len(data)]]
        lagging = before - torch.expm1(-self._group.dt / tau) * (data - before)
        data.copy_(torch.where(tau > 0, lagging, data))

    def reset(self, mask: torch.Tensor) -> None:
        initial = torch.where(self._initial.isnan(), self._ambient[self._owners].T, self._initial)
        self._temperatures.copy_(torch.where(mask.unsqueeze(-1), initial, self._temperatures))


def _neighbours(network: Network) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the links of each node within its body.

    Returns:
        Where the neighbours of each node begin, and where the last ones end; the neighbours, in the order of the links;
        the conductance to each, W/K.
    """
    links = np.array(network.links, np.int64).reshape(-1, 2)
    ends, others = links.ravel(), links[:, ::-1].ravel()
    order = np.argsort(ends, kind="stable")
    counts = np.bincount(ends, minlength=len(network.nodes))
    return np.cumsum([0, *counts]), others[order], np.repeat(network.conductances, 2)[order]


def _set_initial(
    network: Network, nodes: dict[str, slice], temperatures: dict[str, float], materials: dict[str, Material]
) -> None:
    """Set the initial temperatures of links.

    Raises:
        OptionError: an option names a link that takes no part in the heat flow.
    """
    for option, named in (("temperatures", temperatures.keys()), ("materials", materials.keys())):
        outside = named - nodes.keys()
        if outside:
            raise OptionError(
                f"TemperatureGrid.{option}: {min(outside)!r} takes no part in the heat flow: it has no TemperatureGrid "
                "and cannot touch a link that has one (see touching)"
            )
    for name, degrees in temperatures.items():
        network.initial[nodes[name]] = degrees


def _lay_grids(sensors: list[TemperatureGridSensor], model: mujoco.MjModel) -> dict[str, Grid]:
    """Return link -> grid, in the order of the sensors."""
    grids: dict[str, Grid] = {}
    for sensor in sensors:
        asked_by = f"TemperatureGrid(uuid={sensor.uuid!r})"
        if sensor.body in grids:
            raise OptionError(f"{asked_by}.link: {sensor.body!r} already has a TemperatureGrid; use one grid per link")
        grids[sensor.body] = Grid.of(model, model.body(sensor.body).id, sensor.options.grid_size, asked_by)
    return grids


def _find_contacts(
    sensors: list[TemperatureGridSensor],
    model: mujoco.MjModel,
    pairs: list[tuple[str, str]],
    nodes: dict[str, slice],
    materials: dict[str, Material],
) -> _Contacts:
    number = {sensor.body: i for i, sensor in enumerate(sensors)}
    settings = []
    for pair in pairs:
        one, other = (materials.get(name, _DEFAULT) for name in pair)
        options = next(sensor.options for sensor in sensors if pair in sensor.pairs)
        effective = 2 / (1 / one.conductivity + 1 / other.conductivity)
        hardness = min(one.hardness, other.hardness)
        settings.append((effective, hardness, options.contact_area or 0.0, options.asperity_length))
    sides = [[(number.get(name, -1), nodes[name].start) for name in pair] for pair in pairs]
    bodies = [[model.body(name).id for name in pair] for pair in pairs]
    return _Contacts(
        at=np.array([model.sensor(contact_sensor_name(pair)).adr[0] for pair in pairs], np.int64),
        slots=MAX_CONTACTS,
        sides=np.array(sides, np.int64).reshape(-1, 2, 2),
        bodies=np.array(bodies, np.int64).reshape(-1, 2),
        settings=np.array(settings, np.float64).reshape(-1, 4),
    )


def _merge(option: str, given: list[tuple[str, dict[str, ValueT]]]) -> dict[str, ValueT]:
    """Return link -> value of an option of all sensors, from their uuids and values.

    Raises:
        OptionError: two sensors give different values for one link.
    """
    merged: dict[str, ValueT] = {}
    for uuid, values in given:
        for link, value in values.items():
            if merged.setdefault(link, value) != value:
                raise OptionError(
                    f"TemperatureGrid(uuid={uuid!r}).{option}: {link!r} has another value in another "
                    "TemperatureGrid; give it once"
                )
    return merged
