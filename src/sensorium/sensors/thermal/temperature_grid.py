"""Temperature grid: temperatures of a link's cells, with conduction, contacts, convection and radiation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Annotated

import mujoco
import numpy as np
import torch
from pydantic import BeforeValidator, Field, model_validator

from sensorium._arguments import as_array
from sensorium.pipeline import SensorGroup, Slots
from sensorium.pipeline.imperfections import PerAxis
from sensorium.pipeline.parameters import Write, as_numbers, broadcast, check
from sensorium.sensors.base import Format, SimpleSensor
from sensorium.sensors.options import SimpleSensorOptions
from sensorium.sensors.pictures import MIN_PICTURE, ImagePair, Picture
from sensorium.sensors.thermal.material import Material, find_material
from sensorium.sensors.thermal.network import Grid
from sensorium.sensors.thermal.temperature_grid_backend import (
    MAX_CONTACTS,
    CpuTemperatureGrid,
    GpuTemperatureGrid,
    TemperatureGridBackend,
    contact_sensor_name,
)
from sensorium.sensors.thermal.temperature_grid_backend import PARAMETERS as _CUSTOM
from sensorium.worlds import Names, Painter

_CONDATA = mujoco.mjtConDataField
_FIELDS = sum(1 << int(bit) for bit in (_CONDATA.mjCONDATA_FORCE, _CONDATA.mjCONDATA_POS, _CONDATA.mjCONDATA_NORMAL))
_MAX_FORCE = 2  # the contact sensor's "reduce": report the strongest contacts


def _flatten(value: object) -> object:
    array = as_array(value)
    return tuple(array.ravel().tolist()) if array.ndim > 1 and array.dtype.kind in "fiu" else value


class TemperatureGrid(SimpleSensorOptions):
    """Options of a grid of thermometers in a link's bounding box. The generic imperfections are in °C.

    All TemperatureGrids of a scene share one heat network. Links with a grid are divided into its cells; every other
    link that they can touch is one node with a single temperature. Heat that one body loses, another one gains. A reset
    restores the initial temperatures.

    Example:
        >>> heat = scene.add_sensor(sn.TemperatureGrid(link="plate", grid_size=(4, 4, 1), sensor_time_constant=0.5,
        ...                                            materials={"plate": "steel"}, temperatures={"block": 80.0}))
        >>> heat.read()   # (B, 4, 4, 1) °C
    """

    link: str
    """Link whose temperatures are measured. A link can have one grid."""
    grid_size: tuple[int, int, int] = (1, 1, 1)
    """Number of cells along the link's x, y and z axes."""
    sensor_time_constant: float = Field(default=0.0, ge=0)
    """Time constant of the sensing elements, s: they cover 63% of a step of the link's temperature in this time; 0 for
    no lag. It acts on the measured branch only."""
    materials: dict[str, Material | str] = {}
    """Link -> its material: a :class:`Material`, or the name of a preset. Default: aluminium."""
    temperatures: dict[str, float] = {}
    """Link -> initial temperature, °C. Default: ``ambient``."""
    heat: Annotated[PerAxis, BeforeValidator(_flatten)] = 0.0
    """Heat sources, W: one number for all cells, or one per cell, nested as ``grid_size`` or flat in C order."""
    ambient: float = Field(default=20.0, gt=-273.15)
    """Temperature of the surroundings (air and radiation), °C. Links without a grid use that of the first
    TemperatureGrid."""
    convection: float = Field(default=10.0, ge=0)
    """Heat transfer coefficient from the outer surface to the air, W/(m²·K): 5 to 10 in still air, 50 in wind. Links
    without a grid use that of the first TemperatureGrid."""
    contact_area: float | None = Field(default=None, gt=0)
    """Real area of each contact point with another link, m². Default: its normal force divided by the hardness of the
    softer material. It is limited to the area of the touched cell's face."""
    asperity_length: float = Field(default=1e-5, gt=0)
    """Length over which heat passes through touching asperities, m: their roughness divided by 1.25 times their
    slope."""
    touching: tuple[str, ...] = ()
    """Links with which contacts conduct heat. Default: all links that collide."""

    @model_validator(mode="after")
    def _check_grid(self) -> TemperatureGrid:
        if min(self.grid_size) < 1:
            raise ValueError(f"grid_size must be >= 1 along each axis, got {self.grid_size}")
        if isinstance(self.heat, tuple) and len(self.heat) != prod(self.grid_size):
            raise ValueError(
                f"heat must be one number, or {prod(self.grid_size)} numbers (one per cell), got {len(self.heat)}"
            )
        for link, material in self.materials.items():
            find_material(material, f"TemperatureGrid.materials[{link!r}]")
        for link, temperature in self.temperatures.items():
            if temperature <= -273.15:
                raise ValueError(f"temperatures[{link!r}] must be > -273.15 °C, got {temperature:g}")
        return self


class TemperatureGridSensor(SimpleSensor[torch.Tensor], options=TemperatureGrid):
    """Temperature grid sensor. See :class:`TemperatureGrid`.

    Reads (B, nx, ny, nz) °C, along the link's own axes. Ground truth is the temperature of the link itself, without the
    lag of the sensing elements.
    """

    kind = "temperature"
    units = {"value": "°C"}

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
                if spec.sensor(contact_sensor_name(pair)) is None:  # a grid on the other link may have added it
                    sensor = spec.add_sensor(name=contact_sensor_name(pair), type=mujoco.mjtSensor.mjSENS_CONTACT)
                    sensor.objtype = sensor.reftype = mujoco.mjtObj.mjOBJ_BODY
                    sensor.objname, sensor.refname = pair
                    sensor.intprm[:3] = _FIELDS, _MAX_FORCE, MAX_CONTACTS

    def _get_return_format(self) -> Format:
        return self.options.grid_size

    def _draw(self, painter: Painter, env: int) -> None:
        """Draw a ball in each cell: blue for the coldest, red for the hottest one, white if all are about equal."""
        world = self.group.world
        body = int(world.model.body(self.body).id)
        grid = Grid.of(world.model, body, self.options.grid_size, self.uuid)
        place, turn = (world.bind(name)[env, body].double().numpy(force=True) for name in ("xpos", "xmat"))
        degrees = self._truths[env].double().numpy(force=True).reshape(-1)
        low, high = float(degrees.min()), float(degrees.max())
        span = max(high - low, 1.0)  # K
        cells = np.stack(np.unravel_index(np.arange(degrees.size), self.options.grid_size), axis=1)
        centres = place + (grid.low + (cells + 0.5) * grid.edge) @ turn.reshape(3, 3).T
        radius = 0.3 * float(grid.edge.max() if min(self.options.grid_size) == 1 else grid.edge.min())
        for centre, share in zip(centres, (degrees - (low + high) / 2) / span + 0.5, strict=True):
            warm, cold = min(1.0, 2 * share), min(1.0, 2 - 2 * share)
            painter.points(centre, (warm, min(warm, cold), cold, 1.0), radius)

    def _plotted_pictures(
        self, measured: Mapping[str, np.ndarray], truth: Mapping[str, np.ndarray]
    ) -> Sequence[Picture]:
        """Return one image for each of at most three layers; few cells are better shown as lines."""
        size = self.options.grid_size
        if prod(size) < MIN_PICTURE:
            return ()
        across = min(range(3), key=lambda axis: (size[axis], -axis))  # layers along the axis with the fewest cells
        names = ["xyz"[axis] for axis in range(3) if axis != across]
        shown = sorted({0, size[across] // 2, size[across] - 1})
        found = []
        for layer in shown:
            true, seen = (np.take(one["value"], layer, axis=across).T for one in (truth, measured))
            title = "temperature" if size[across] == 1 else f"layer {layer} along {'xyz'[across]}"
            shape = [count for axis, count in enumerate(size) if axis != across]
            extent = (0.0, float(shape[0]), 0.0, float(shape[1]))
            labels = (f"cell along {names[0]}", f"cell along {names[1]}")
            found.append(ImagePair(title, "°C", true, seen, extent=extent, labels=labels, top_row_first=False))
        return found

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        return {name: ("custom", slice(0, 1)) for name in (*_CUSTOM, "heat")}

    def _custom_writes(self, name: str, option: str, value: object, index: torch.Tensor | None) -> list[Write]:
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
    def _build_group(cls, group: SensorGroup[TemperatureGridBackend]) -> TemperatureGridBackend:
        return GpuTemperatureGrid(group) if group.is_gpu else CpuTemperatureGrid(group)

    @classmethod
    def _reset_group(cls, group: SensorGroup[TemperatureGridBackend], mask: torch.Tensor) -> None:
        group.backend.reset(mask)

    @classmethod
    def _update_raw_data(cls, group: SensorGroup[TemperatureGridBackend], out: torch.Tensor) -> None:
        group.backend.update(out)

    @classmethod
    def _apply_transform(
        cls, group: SensorGroup[TemperatureGridBackend], data: torch.Tensor, timeline: Slots, is_measured: bool
    ) -> None:
        if is_measured:
            group.backend.respond(data, timeline[1])
