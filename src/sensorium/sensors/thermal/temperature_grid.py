"""Temperature grid: temperatures over a link, with conduction, contacts, convection and radiation."""

from __future__ import annotations

from math import prod
from typing import Annotated, Any, ClassVar

import mujoco
import numpy as np
import torch
from pydantic import BeforeValidator, Field, model_validator

from sensorium.errors import OptionError
from sensorium.pipeline.imperfections import PerAxis
from sensorium.pipeline.parameters import Write, as_numbers, broadcast, check
from sensorium.sensors.base import Format, SimpleSensor
from sensorium.sensors.options import SimpleSensorOptions
from sensorium.sensors.thermal.material import MATERIALS, Material, find_material
from sensorium.sensors.thermal.network import Grid, build_network
from sensorium.worlds import Names

_CONDATA = mujoco.mjtConDataField
_FIELDS = sum(1 << int(bit) for bit in (_CONDATA.mjCONDATA_FORCE, _CONDATA.mjCONDATA_POS, _CONDATA.mjCONDATA_NORMAL))
_MAX_FORCE, _CONTACTS = 2, 8  # the engine reports the strongest contacts of two bodies
_CUSTOM = ("sensor_time_constant", "ambient", "convection")
_DEFAULT = MATERIALS["aluminium"]


def _flatten(value: Any) -> Any:
    array = np.asarray(value)
    return tuple(array.ravel().tolist()) if array.ndim > 1 and array.dtype.kind in "fiu" else value


class TemperatureGrid(SimpleSensorOptions):
    """Options of a grid of thermometers in a link's bounding box. The generic imperfections are in °C.

    All TemperatureGrids of a scene share one world of heat: links with a grid are divided into its cells, all other
    links that they can touch are lumps of one temperature each, and what one body loses another gets. At a reset every
    temperature is back at its start.

    Example:
        >>> heat = scene.add_sensor(sn.TemperatureGrid(link="plate", grid_size=(4, 4, 1), sensor_time_constant=0.5,
        ...                                            materials={"plate": "steel"}, temperatures={"block": 80.0}))
        >>> heat.read()   # (B, 4, 4, 1) °C
    """

    link: str
    """The link whose temperatures are measured; one grid a link."""
    grid_size: tuple[int, int, int] = (1, 1, 1)
    """Cells along the link's x, y and z axes."""
    sensor_time_constant: float = Field(default=0.0, ge=0)
    """Seconds in which the sensing elements cover 63% of a step of the link's temperature; 0: at once. Acts on what is
    measured alone."""
    materials: dict[str, Material | str] = {}
    """Link -> what it is made of: a :class:`Material` or the name of a preset. Default: aluminium."""
    temperatures: dict[str, float] = {}
    """Link -> temperature at a reset, °C. Default: ``ambient``."""
    heat: Annotated[PerAxis, BeforeValidator(_flatten)] = 0.0
    """Heat sources in W: a number for every cell alike, or one a cell, nested as ``grid_size`` or flat in C order."""
    ambient: float = Field(default=20.0, gt=-273.15)
    """Temperature of the surroundings, °C, of their air and of what radiates. The first TemperatureGrid's holds for
    links without a grid."""
    convection: float = Field(default=10.0, ge=0)
    """Heat transfer coefficient of the outer surface to the air, W/(m²·K); likewise. Still air: 5 to 10; wind: 50."""
    contact_area: float | None = Field(default=None, gt=0)
    """Real area of each contact point with another link, m². Default: its normal force over the hardness of the softer
    material. Never more than a face of the cell that is touched."""
    asperity_length: float = Field(default=1e-5, gt=0)
    """Length over which heat passes through touching asperities, m: their roughness over 1.25 times their slope."""
    touching: tuple[str, ...] = ()
    """Links whose contacts pass heat. Default: everything that collides."""

    @model_validator(mode="after")
    def _check_grid(self) -> TemperatureGrid:
        if min(self.grid_size) < 1:
            raise ValueError(f"grid_size must be at least 1 along each axis, got {self.grid_size}")
        if isinstance(self.heat, tuple) and len(self.heat) != prod(self.grid_size):
            raise ValueError(f"heat must be one number or {prod(self.grid_size)}, one a cell; got {len(self.heat)}")
        for link, material in self.materials.items():
            find_material(material, f"TemperatureGrid.materials[{link!r}]")
        for link, temperature in self.temperatures.items():
            if temperature <= -273.15:
                raise ValueError(f"temperatures[{link!r}] must be above -273.15 °C, got {temperature:g}")
        return self


class TemperatureGridSensor(SimpleSensor[torch.Tensor], options=TemperatureGrid):
    """See :class:`TemperatureGrid`. Reads (B, nx, ny, nz) °C, cell by cell along the link's own axes. Ground truth is
    the link's own temperature, without the elements' lag."""

    kind = "temperature"
    cpu_only: ClassVar[bool] = True

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        options, asked_by = self.options, f"TemperatureGrid(uuid={self.uuid!r})"
        self.body = names.body(options.link, f"{asked_by}.link").name
        self.materials = {
            names.body(link, f"{asked_by}.materials").name: find_material(given, f"{asked_by}.materials")
            for link, given in options.materials.items()
        }
        self.temperatures = {
            names.body(link, f"{asked_by}.temperatures").name: degrees for link, degrees in options.temperatures.items()
        }
        touching = [names.body(link, f"{asked_by}.touching").name for link in options.touching]
        if not touching:
            colliding = (body for body in spec.bodies if any(geom.contype or geom.conaffinity for geom in body.geoms))
            touching = [body.name for body in colliding]
        self.pairs: list[tuple[str, str]] = []
        for other in touching:
            if other != self.body:
                pair = (min(self.body, other), max(self.body, other))
                self.pairs.append(pair)
                if spec.sensor(_name(pair)) is None:  # or the other link has a grid, too
                    sensor = spec.add_sensor(name=_name(pair), type=mujoco.mjtSensor.mjSENS_CONTACT)
                    sensor.objtype = sensor.reftype = mujoco.mjtObj.mjOBJ_BODY
                    sensor.objname, sensor.refname = pair
                    sensor.intprm[:3] = _FIELDS, _MAX_FORCE, _CONTACTS

    def _get_return_format(self) -> Format:
        return self.options.grid_size

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        return {name: ("custom", slice(0, 1)) for name in (*_CUSTOM, "heat")}

    def _custom_writes(self, name: str, option: str, value: Any, index: torch.Tensor | None) -> list[Write]:
        if name != "heat":
            return super()._custom_writes(name, option, value, index)
        cells, size = prod(self.options.grid_size), self.options.grid_size
        watts = as_numbers(option, value)
        if watts.ndim >= 3 and tuple(watts.shape[-3:]) == size:
            watts = watts.flatten(-3)
        n_envs = self.group.n_envs if index is None else len(index)
        values = check(option, broadcast(option, watts, cells, n_envs), lower=-1e12)
        return [Write(self.group.parameters["heat"], self._columns, index, values, lambda: None)]

    @classmethod
    def _build_group(cls, group: Any) -> None:
        from sensorium.sensors.thermal import kernels as thermal_kernels

        sensors, world, n_cells = group.sensors, group.world, group.n_columns
        grids = _lay_grids(sensors, world.model)
        materials, temperatures = _merge("materials", sensors), _merge("temperatures", sensors)
        pairs = list(dict.fromkeys(pair for sensor in sensors for pair in sensor.pairs))
        lumped = list(dict.fromkeys(name for pair in pairs for name in pair if name not in grids))
        network = build_network(
            world.model,
            [(grid, materials.get(name, _DEFAULT)) for name, grid in grids.items()],
            [(world.model.body(name).id, materials.get(name, _DEFAULT)) for name in lumped],
        )
        nodes = dict(zip(grids, group.slices, strict=True))  # link -> its nodes
        nodes |= {name: slice(n_cells + i, n_cells + i + 1) for i, name in enumerate(lumped)}
        for option, given in (("temperatures", temperatures), ("materials", materials)):
            outside = given.keys() - nodes.keys()
            if outside:
                raise OptionError(
                    f"TemperatureGrid.{option}: {min(outside)!r} has no part in the heat flow: no TemperatureGrid is "
                    "on it or can touch it (see touching)"
                )
        for name, degrees in temperatures.items():
            network.initial[nodes[name]] = degrees
        parameters = torch.zeros(len(_CUSTOM), len(sensors), group.n_envs, dtype=torch.float64)
        group.parameters |= dict(zip(_CUSTOM, parameters, strict=True))
        group.parameters["heat"] = torch.zeros(n_cells, group.n_envs, dtype=torch.float64)
        group.time_constant, group.ambient, group.convection = parameters.numpy()
        group.temperatures = np.zeros((group.n_envs, len(network.nodes)))
        group.kernels, group.network = thermal_kernels, network
        group.arrays = (
            world.bind("sensordata").numpy(),
            world.bind("xpos").numpy(),
            world.bind("xmat").numpy().reshape(group.n_envs, world.model.nbody, 9),
            *_contact_arrays(sensors, world.model, pairs, nodes, materials),
            np.array([np.concatenate([grid.low, grid.edge]) for grid in grids.values()]),
            np.array([grid.count for grid in grids.values()], np.int64),
            np.array(network.links, np.int64).reshape(-1, 2),
            np.array(network.conductances, np.float64),
            network.nodes,
            network.owners,
            group.parameters["heat"].numpy(),
            group.ambient,
            group.convection,
            group.temperatures,
        )

    @classmethod
    def _reset_group(cls, group: Any, mask: torch.Tensor) -> None:
        rows, initial = mask.numpy(), group.network.initial
        ambient = group.ambient[group.network.owners].T[rows]
        group.temperatures[rows] = np.where(np.isnan(initial), ambient, initial)

    @classmethod
    def _update_raw_data(cls, group: Any, out: torch.Tensor) -> None:
        group.kernels.conduct(*group.arrays, group.dt, group.advancing, group.array(out))

    @classmethod
    def _apply_transform(cls, group: Any, data: torch.Tensor, timeline: Any, is_measured: bool) -> None:
        if is_measured:
            owners, before = group.network.owners, timeline[1].numpy()
            group.kernels.respond(group.array(data), before, group.time_constant, owners, group.dt)


def _name(pair: tuple[str, str]) -> str:
    """Name of the engine's sensor for the contacts of two links."""
    return f"heat:{pair[0]}|{pair[1]}"


def _lay_grids(sensors: list[TemperatureGridSensor], model: mujoco.MjModel) -> dict[str, Grid]:
    """Link -> its grid, in the order of the sensors."""
    grids: dict[str, Grid] = {}
    for sensor in sensors:
        asked_by = f"TemperatureGrid(uuid={sensor.uuid!r})"
        if sensor.body in grids:
            raise OptionError(f"{asked_by}.link: {sensor.body!r} has a TemperatureGrid already; one grid a link")
        grids[sensor.body] = Grid.of(model, model.body(sensor.body).id, sensor.options.grid_size, asked_by)
    return grids


def _contact_arrays(
    sensors: list[TemperatureGridSensor],
    model: mujoco.MjModel,
    pairs: list[tuple[str, str]],
    nodes: dict[str, slice],
    materials: dict[str, Material],
) -> tuple[Any, ...]:
    """What the kernels need to know of the links that can touch: see ``kernels._contacts``."""
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
    return (
        np.array([model.sensor(_name(pair)).adr[0] for pair in pairs], np.int64),
        _CONTACTS,
        np.array(sides, np.int64).reshape(-1, 2, 2),
        np.array(bodies, np.int64).reshape(-1, 2),
        np.array(settings, np.float64).reshape(-1, 4),
    )


def _merge(option: str, sensors: list[TemperatureGridSensor]) -> dict[str, Any]:
    """What all sensors say about links, or an OptionError where two contradict each other."""
    merged: dict[str, Any] = {}
    for sensor in sensors:
        for link, value in getattr(sensor, option).items():
            if merged.setdefault(link, value) != value:
                asked_by = f"TemperatureGrid(uuid={sensor.uuid!r}).{option}"
                raise OptionError(f"{asked_by}: another TemperatureGrid says otherwise of {link!r}; say it once")
    return merged
