"""Battery state: charge, voltage and current of the battery that the actuators draw from."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import mujoco
import numpy as np
import torch
from pydantic import Field, field_validator

from sensorium.errors import NameNotFoundError, did_you_mean, shorten
from sensorium.pipeline import Imperfections
from sensorium.pipeline.launch import launch, replayable
from sensorium.sensors.base import Format, SimpleSensor
from sensorium.sensors.options import ChannelOptions
from sensorium.worlds import Names


class BatteryState(ChannelOptions, init=False):
    """Options of a battery with its monitor. Actuators draw force times velocity over ``efficiency`` while they drive;
    the battery answers with its open-circuit voltage less what its internal resistance takes. An empty battery shows
    charge 0; it does not stop the actuators. It delivers U² / 4R at most (U open-circuit, R internal resistance): power
    that the actuators have beyond that is not drawn from it.

    Example:
        >>> battery = scene.add_sensor(sn.BatteryState(robot="arm", capacity=5.0, idle_power=12.0, voltage_noise=0.02))
        >>> battery.read().charge
    """

    robot: str | None = None
    """The entity whose actuators draw from it. Default: all of the scene."""
    actuators: tuple[str, ...] | None = None
    """Names of the actuators. Default: all of ``robot``."""
    capacity: float = Field(default=5.0, gt=0)
    """Charge of the full battery, A·h."""
    initial_charge: float = Field(default=1.0, ge=0, le=1)
    """State of charge at a reset, 0 to 1. ``set(initial_charge=...)`` acts from the next reset on."""
    voltage_curve: tuple[tuple[float, float], ...] = ((0.0, 18.0), (0.1, 20.7), (0.5, 22.2), (0.9, 24.3), (1.0, 25.2))
    """Open-circuit voltage over state of charge: (charge, V) in rising order of charge. Default: 6 Li-ion cells."""
    internal_resistance: float = Field(default=0.05, ge=0)
    """Ohm."""
    efficiency: float = Field(default=0.8, gt=0, le=1)
    """Mechanical power over electric power while actuators drive."""
    regeneration: float = Field(default=0.0, ge=0, le=1)
    """Part of the mechanical power that comes back while actuators brake. Default: none; braking is free."""
    holding_loss: float = Field(default=0.0, ge=0)
    """Electric power per squared actuator force, W/(N·m)² or W/N²: what standing still under load takes."""
    idle_power: float = Field(default=0.0, ge=0)
    """Electric power of everything else (computers, sensors), W."""

    voltage: Imperfections = Imperfections()
    """Imperfections of the voltage, V."""
    current: Imperfections = Imperfections()
    """Imperfections of the current, A."""

    @field_validator("voltage_curve")
    @classmethod
    def _curve(cls, value: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
        charges = [charge for charge, _ in value]
        if not value or any(a >= b for a, b in pairwise(charges)):
            raise ValueError("must have at least one point (charge, V), in rising order of charge")
        if min(volts for _, volts in value) <= 0:
            raise ValueError("voltages must be greater than 0")
        return value


class BatteryStateData(NamedTuple):
    """What a battery monitor reads."""

    charge: torch.Tensor
    """State of charge, (B, 1), 0 to 1."""
    voltage: torch.Tensor
    """Voltage at the terminals, (B, 1) V."""
    current: torch.Tensor
    """Current out of the battery, (B, 1) A; negative while it is charged."""
    power: torch.Tensor
    """Electric power drawn now, (B, 1) W."""
    energy: torch.Tensor
    """Electric energy drawn since the reset, (B, 1) J."""


class BatteryStateSensor(SimpleSensor[BatteryStateData], options=BatteryState):
    """See :class:`BatteryState`. Forces are taken once a step, those of its last substep; speeds
    are the mean of its ends."""

    kind = "battery"
    Data = BatteryStateData

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        asked_by, robot = f"BatteryState(uuid={self.uuid!r})", self.options.robot
        prefix = "" if robot is None else f"{robot}/"
        every = [actuator.name for actuator in spec.actuators if actuator.name.startswith(prefix)]
        if not every:
            entities = sorted({body.name.split("/")[0] for body in spec.bodies if "/" in body.name})
            where = "in the scene" if robot is None else f"in robot {robot!r}{did_you_mean(robot, entities)}"
            raise NameNotFoundError(f"{asked_by}: there is no actuator {where}")
        self.actuator_names = every
        if self.options.actuators is not None:
            self.actuator_names = [self._find(name, prefix, every, asked_by) for name in self.options.actuators]

    @staticmethod
    def _find(name: str, prefix: str, every: list[str], asked_by: str) -> str:
        matches = [full for full in every if full in (name, f"{prefix}{name}") or full.endswith(f"/{name}")]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise NameNotFoundError(f"{asked_by}.actuators: {name!r} is ambiguous; write one of {shorten(matches)}")
        short = [full.rsplit("/", 1)[-1] for full in every]
        hint = did_you_mean(name, [*every, *short]) or f"; there are {shorten(every)}"
        raise NameNotFoundError(f"{asked_by}.actuators: there is no actuator named {name!r}{hint}")

    def _get_return_format(self) -> Format:
        return {"charge": (1,), "voltage": (1,), "current": (1,), "power": (1,), "energy": (1,)}

    def _channels(self) -> dict[str, slice]:
        return {"voltage": slice(1, 2), "current": slice(2, 3)}

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        return {"initial_charge": ("custom", slice(0, 1))}

    @classmethod
    def _build_group(cls, group: Any) -> None:
        world, sensors = group.world, group.sensors
        group.force, group.speed = (world.bind(f"actuator_{field}") for field in ("force", "velocity"))
        actuators = [world.model.actuator(name).id for sensor in sensors for name in sensor.actuator_names]
        group.actuators = np.array(actuators, np.int64)
        group.first = np.cumsum([0, *(len(sensor.actuator_names) for sensor in sensors)])
        points = max(len(sensor.options.voltage_curve) for sensor in sensors)
        group.numbers, group.curves = np.zeros((len(sensors), 6)), np.zeros((len(sensors), points, 2))
        for row, curve, sensor in zip(group.numbers, group.curves, sensors, strict=True):
            o = sensor.options
            row[:] = (
                o.efficiency,
                o.regeneration,
                o.holding_loss,
                o.idle_power,
                o.capacity * 3600,
                o.internal_resistance,
            )
            count = len(o.voltage_curve)
            curve[:count] = o.voltage_curve
            curve[count:] = o.voltage_curve[-1] + np.outer(np.arange(1, points - count + 1), (1.0, 0.0))  # held
        group.initial = torch.zeros(len(sensors), group.n_envs, device=group.device)
        group.parameters["initial_charge"] = group.initial
        group.speeds = np.zeros((group.n_envs, len(actuators)))
        group.drawn = np.zeros((group.n_envs, len(sensors), 2))
        if world.is_gpu:
            from sensorium.sensors.robot.gpu import Discharge

            group.discharge = Discharge(group)
        else:
            from sensorium.sensors.robot import kernels as robot_kernels

            group.kernel = robot_kernels.discharge
            group.force, group.speed = group.force.numpy(), group.speed.numpy()

    @classmethod
    def _reset_group(cls, group: Any, mask: torch.Tensor) -> None:
        if not group.world.is_gpu:
            rows = mask.numpy()
            group.drawn[rows] = 0.0
            group.drawn[rows, :, 0] = group.initial.numpy().T[rows]

    @classmethod
    @replayable
    def _update_raw_data(cls, group: Any, out: torch.Tensor) -> None:
        if group.world.is_gpu:
            group.discharge.advance(out)
            return
        launch(
            group.kernel,
            group.force,
            group.speed,
            group.actuators,
            group.first,
            group.numbers,
            group.curves,
            group.speeds,
            group.drawn,
            group.dt,
            group.advancing,
            group.array(out),
        )
