"""Backends of the battery monitor on the CPU and on the GPU."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import torch

from sensorium.pipeline import SensorGroup
from sensorium.pipeline.launch import launch


class BatteryBackend(Protocol):
    """Batteries of one scene on one engine, with their charge."""

    def update(self, out: torch.Tensor) -> None:
        """Discharge the batteries for one step, and fill ``out`` (5 * sensors, B).

        Rows of a sensor: charge, voltage (V), current (A), power (W), energy (J). In a reset no time passes.
        """

    def reset(self, mask: torch.Tensor) -> None:
        """Start the envs in ``mask`` (B,) with their initial charge."""


class _Batteries(NamedTuple):
    """Constants of all batteries; n is the number of actuators of all of them."""

    actuators: np.ndarray
    """Ids of the actuators, (n,) int64."""
    first: np.ndarray
    """First actuator of each sensor, and n, (sensors + 1,)."""
    numbers: np.ndarray
    """Efficiency, regeneration, holding loss, idle power (W), capacity (C), internal resistance (ohm); (sensors, 6)."""
    curves: np.ndarray
    """Open-circuit voltage over charge, (sensors, points, 2); shorter curves are extended beyond their end."""


def _batteries(group: SensorGroup[BatteryBackend]) -> _Batteries:
    model, sensors = group.world.model, group.sensors
    actuators = [model.actuator(name).id for sensor in sensors for name in sensor.actuator_names]
    first = np.cumsum([0, *(len(sensor.actuator_names) for sensor in sensors)])
    points = max(len(sensor.options.voltage_curve) for sensor in sensors)
    numbers, curves = np.zeros((len(sensors), 6)), np.zeros((len(sensors), points, 2))
    for row, curve, sensor in zip(numbers, curves, sensors, strict=True):
        o = sensor.options
        losses = o.efficiency, o.regeneration, o.holding_loss, o.idle_power
        row[:] = *losses, o.capacity * 3600, o.internal_resistance
        count = len(o.voltage_curve)
        curve[:count] = o.voltage_curve
        # further points at the last voltage, at charges beyond the last
        curve[count:] = o.voltage_curve[-1] + np.outer(np.arange(1, points - count + 1), (1.0, 0.0))
    return _Batteries(np.array(actuators, np.int64), first, numbers, curves)


def _initial_charge(group: SensorGroup[BatteryBackend]) -> torch.Tensor:
    """Allocate the parameter ``initial_charge`` (sensors, B), which ``sensor.set`` writes."""
    initial = torch.zeros(len(group.sensors), group.n_envs, device=group.device)
    group.parameters["initial_charge"] = initial
    return initial


class CpuBattery:
    """Batteries on the CPU engine."""

    def __init__(self, group: SensorGroup[BatteryBackend]) -> None:
        from sensorium.sensors.robot import kernels

        self._kernel, self._group, self._batteries = kernels.discharge, group, _batteries(group)
        self._force, self._speed = (group.world.bind(f"actuator_{name}").numpy() for name in ("force", "velocity"))
        self._initial = _initial_charge(group).numpy()
        self._speed_before = np.zeros((group.n_envs, len(self._batteries.actuators)))
        self._state = np.zeros((group.n_envs, len(group.sensors), 2))  # charge, energy

    def update(self, out: torch.Tensor) -> None:
        group = self._group
        state = (self._speed_before, self._state, group.dt, group.advancing)
        launch(self._kernel, self._force, self._speed, *self._batteries, *state, group.array(out))

    def reset(self, mask: torch.Tensor) -> None:
        envs = mask.numpy()
        self._state[envs] = 0.0
        self._state[envs, :, 0] = self._initial.T[envs]


class GpuBattery:
    """Batteries on the GPU engine. As on the CPU, charge and energy are float64."""

    def __init__(self, group: SensorGroup[BatteryBackend]) -> None:
        from sensorium.sensors.robot import warp_kernels
        from sensorium.sensors.robot.warp_launcher import WarpLauncher

        self._kernel, self._launcher, batteries = warp_kernels.discharge, WarpLauncher(group), _batteries(group)
        engine = (group.world.bind(f"actuator_{name}") for name in ("force", "velocity"))
        speed_before = np.zeros((group.n_envs, len(batteries.actuators)))
        state = np.zeros((group.n_envs, len(group.sensors), 2))  # charge, energy
        upload = self._launcher.upload
        constants = map(upload, batteries)
        self._inputs = (*engine, *constants, _initial_charge(group), upload(speed_before), upload(state), group.dt)

    def update(self, out: torch.Tensor) -> None:
        self._launcher.launch(self._kernel, *self._inputs, *self._launcher.envs(), out)

    def reset(self, mask: torch.Tensor) -> None:
        """Do nothing: the kernel itself restarts the envs of a reset."""
