"""Battery state: charge, voltage and current of the battery that powers the actuators."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import mujoco
import torch
from pydantic import Field, field_validator

from sensorium.errors import NameNotFoundError, did_you_mean, shorten
from sensorium.pipeline import Imperfections, SensorGroup
from sensorium.pipeline.launch import replayable
from sensorium.sensors.base import Format, SimpleSensor
from sensorium.sensors.options import ChannelOptions
from sensorium.sensors.robot.battery_state_backend import BatteryBackend, CpuBattery, GpuBattery
from sensorium.worlds import Names


class BatteryState(ChannelOptions, init=False):
    """Options of a battery and its monitor.

    An actuator that drives draws force times velocity divided by ``efficiency``. The voltage at the terminals is the
    open-circuit voltage minus the drop over the internal resistance. The battery delivers at most U² / 4R, with the
    open-circuit voltage U and the internal resistance R; power that the actuators use beyond that is not drawn from
    it. An empty battery reads charge 0, but does not stop the actuators.

    Example:
        >>> battery = scene.add_sensor(sn.BatteryState(robot="arm", capacity=5.0, idle_power=12.0, voltage_noise=0.02))
        >>> battery.read().charge
    """

    robot: str | None = None
    """Entity whose actuators the battery powers. Default: all actuators of the scene."""
    actuators: tuple[str, ...] | None = None
    """Names of the actuators that the battery powers. Default: all of ``robot``."""
    capacity: float = Field(default=5.0, gt=0)
    """Charge of the full battery, A·h."""
    initial_charge: float = Field(default=1.0, ge=0, le=1)
    """State of charge after a reset, 0 to 1. ``set(initial_charge=...)`` takes effect at the next reset."""
    voltage_curve: tuple[tuple[float, float], ...] = ((0.0, 18.0), (0.1, 20.7), (0.5, 22.2), (0.9, 24.3), (1.0, 25.2))
    """Open-circuit voltage over state of charge: points (charge, V) with increasing charge. Default: 6 Li-ion cells."""
    internal_resistance: float = Field(default=0.05, ge=0)
    """Internal resistance, ohm."""
    efficiency: float = Field(default=0.8, gt=0, le=1)
    """Mechanical power divided by electric power while an actuator drives."""
    regeneration: float = Field(default=0.0, ge=0, le=1)
    """Fraction of the mechanical power that is recovered while an actuator brakes. At 0, braking neither draws nor
    returns power."""
    holding_loss: float = Field(default=0.0, ge=0)
    """Electric power per squared actuator force, W/(N·m)² or W/N². It models holding a load without moving."""
    idle_power: float = Field(default=0.0, ge=0)
    """Electric power of all other consumers (computers, sensors), W."""

    voltage: Imperfections = Imperfections()
    """Imperfections of the voltage, V."""
    current: Imperfections = Imperfections()
    """Imperfections of the current, A."""

    @field_validator("voltage_curve")
    @classmethod
    def _curve(cls, value: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
        charges = [charge for charge, _ in value]
        if not value or any(a >= b for a, b in pairwise(charges)):
            raise ValueError("must hold at least one point (charge, V), with increasing charge")
        if min(volts for _, volts in value) <= 0:
            raise ValueError("voltages must be > 0")
        return value


class BatteryStateData(NamedTuple):
    """Reading of a battery monitor."""

    charge: torch.Tensor
    """State of charge, (B, 1), 0 to 1."""
    voltage: torch.Tensor
    """Voltage at the terminals, (B, 1) V."""
    current: torch.Tensor
    """Current out of the battery, (B, 1) A; negative while it charges."""
    power: torch.Tensor
    """Electric power drawn from the battery, (B, 1) W."""
    energy: torch.Tensor
    """Electric energy drawn since the env's reset, (B, 1) J."""


class BatteryStateSensor(SimpleSensor[BatteryStateData], options=BatteryState):
    """Battery monitor. See :class:`BatteryState`.

    Energy is integrated once per step, with the actuator forces of the step's last substep and the mean of the
    velocities at the start and at the end of the step.
    """

    kind = "battery"
    Data = BatteryStateData
    units = {"voltage": "V", "current": "A", "power": "W", "energy": "J"}

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        asked_by, robot = f"BatteryState(uuid={self.uuid!r})", self.options.robot
        prefix = names.prefix(robot, asked_by)
        actuators = [actuator.name for actuator in spec.actuators if actuator.name.startswith(prefix)]
        if not actuators:
            where = "the scene" if robot is None else f"the robot {robot!r}"
            raise NameNotFoundError(f"{asked_by}: {where} has no actuator; add one, or remove this sensor")
        self.actuator_names = actuators
        if self.options.actuators is not None:
            self.actuator_names = [self._find(name, prefix, actuators, asked_by) for name in self.options.actuators]

    @staticmethod
    def _find(name: str, prefix: str, actuators: list[str], asked_by: str) -> str:
        matches = [full for full in actuators if full in (name, f"{prefix}{name}") or full.endswith(f"/{name}")]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise NameNotFoundError(f"{asked_by}.actuators: {name!r} is ambiguous; use one of {shorten(matches)}")
        short = [full.rsplit("/", 1)[-1] for full in actuators]
        hint = did_you_mean(name, [*actuators, *short]) or f"; actuators: {shorten(actuators)}"
        raise NameNotFoundError(f"{asked_by}.actuators: there is no actuator named {name!r}{hint}")

    def _get_return_format(self) -> Format:
        return {"charge": (1,), "voltage": (1,), "current": (1,), "power": (1,), "energy": (1,)}

    def _channels(self) -> dict[str, slice]:
        return {"voltage": slice(1, 2), "current": slice(2, 3)}

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        return {"initial_charge": ("custom", slice(0, 1))}

    @classmethod
    def _build_group(cls, group: SensorGroup[BatteryBackend]) -> BatteryBackend:
        return GpuBattery(group) if group.is_gpu else CpuBattery(group)

    @classmethod
    def _reset_group(cls, group: SensorGroup[BatteryBackend], mask: torch.Tensor) -> None:
        group.backend.reset(mask)

    @classmethod
    @replayable
    def _update_raw_data(cls, group: SensorGroup[BatteryBackend], out: torch.Tensor) -> None:
        group.backend.update(out)
