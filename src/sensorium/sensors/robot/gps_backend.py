"""Backends of the GPS receiver on the CPU and on the GPU."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
import torch

from sensorium.pipeline import SensorGroup, formula
from sensorium.pipeline.launch import launch
from sensorium.sensors.robot.wgs84 import cartesian

RECEPTION = ("loss_rate", "reacquire_time", "visible")
"""Parameters of the reception of satellites, in the order in which they are stored."""
_LOSS = 1000
"""Element of the random keys that losses are drawn with; columns have elements 0, 1, ..."""


class GPSBackend(Protocol):
    """GPS receivers of one scene on one engine, with the state of their fixes."""

    def update(self, out: torch.Tensor) -> None:
        """Fill ``out`` (6 * sensors, B) with position (m) and velocity (m/s) in the world frame."""

    def post_process(self, data: torch.Tensor, out: torch.Tensor, is_measured: bool) -> None:
        """Fill ``out`` (7 * sensors, B) from positions and velocities ``data``.

        Rows of a sensor: latitude and longitude (degrees), altitude (m), velocity (m/s), fix. On the measured branch
        fixes are lost and found again, and without a fix the last reading is held.
        """

    def reset(self, mask: torch.Tensor) -> None:
        """Give the envs in ``mask`` (B,) a fix."""


class _Receivers(NamedTuple):
    """Constants of all receivers."""

    at: np.ndarray
    """Indices in ``sensordata`` of position and velocity, (sensors, 2)."""
    keys: np.ndarray
    """Keys of the random losses, (sensors, 2) uint32."""
    origins: np.ndarray
    """Sine and cosine of latitude and of longitude, and Cartesian position (m) of the origin, (sensors, 7)."""


def _receivers(group: SensorGroup[GPSBackend]) -> _Receivers:
    model, sensors = group.world.model, group.sensors
    at = np.array([[model.sensor(f"{sensor.uuid}:{part}").adr[0] for part in ("pos", "vel")] for sensor in sensors])
    keys = np.array([formula.key(group.seed, sensor.uuid, _LOSS) for sensor in sensors], np.uint32)
    origins = np.zeros((len(sensors), 7))
    for row, sensor in zip(origins, sensors, strict=True):
        latitude, longitude, _ = sensor.options.origin
        lat, lon = math.radians(latitude), math.radians(longitude)
        row[:4] = math.sin(lat), math.cos(lat), math.sin(lon), math.cos(lon)
        row[4:] = cartesian(*sensor.options.origin)
    return _Receivers(at, keys, origins)


def _reception(group: SensorGroup[GPSBackend]) -> torch.Tensor:
    """Allocate the parameters in ``RECEPTION``, (3, sensors, B), which ``sensor.set`` writes."""
    reception = torch.zeros(len(RECEPTION), len(group.sensors), group.n_envs, device=group.device)
    group.parameters |= dict(zip(RECEPTION, reception, strict=True))
    return reception


class CpuGPS:
    """GPS receivers on the CPU engine."""

    def __init__(self, group: SensorGroup[GPSBackend]) -> None:
        from sensorium.sensors.robot import kernels

        self._kernels, self._group, self._receivers = kernels, group, _receivers(group)
        self._sensed = group.world.bind("sensordata").numpy()
        self._outage, self._no_outage = np.zeros((2, len(group.sensors), group.n_envs))
        self._reception = tuple(_reception(group).numpy())
        self._due, self._due_rows, self._draw = group.due.numpy(), group.due_rows, group.draw.numpy()

    def update(self, out: torch.Tensor) -> None:
        launch(self._kernels.positions, self._sensed, self._receivers.at, self._group.array(out))

    def post_process(self, data: torch.Tensor, out: torch.Tensor, is_measured: bool) -> None:
        group, held, outage = self._group, False, self._no_outage
        if is_measured:
            held, outage = group.advancing, self._outage  # in a reset there is nothing to hold
            keys = self._receivers.keys
            launch(self._kernels.receive, outage, keys, *self._reception, group.dt, self._draw, held)
        timing = (held, self._due, self._due_rows)
        origins = self._receivers.origins
        launch(self._kernels.geodetic, group.array(data), origins, outage, *timing, group.array(out))

    def reset(self, mask: torch.Tensor) -> None:
        self._outage[:, mask.numpy()] = 0.0


class GpuGPS:
    """GPS receivers on the GPU engine."""

    def __init__(self, group: SensorGroup[GPSBackend]) -> None:
        from sensorium.sensors.robot import warp_kernels
        from sensorium.sensors.robot.warp_launcher import WarpLauncher

        self._kernels, self._group, self._launcher = warp_kernels, group, WarpLauncher(group)
        receivers, upload = _receivers(group), self._launcher.upload
        self._sensed = group.world.bind("sensordata")
        columns = (receivers.at[..., None] + np.arange(3)).ravel()
        self._columns = torch.from_numpy(columns).to(group.device)
        self._keys, self._origins = upload(receivers.keys.view(np.int32)), upload(receivers.origins)
        self._outage, self._no_outage = (upload(np.zeros((len(group.sensors), group.n_envs))) for _ in range(2))
        self._reception = _reception(group)
        self._due, self._due_rows = group.due, upload(group.due_rows)
        self._draw = group.draw.view(torch.int32)

    def update(self, out: torch.Tensor) -> None:
        out.copy_(self._sensed[:, self._columns].T)

    def post_process(self, data: torch.Tensor, out: torch.Tensor, is_measured: bool) -> None:
        dt, held, outage = self._group.dt, False, self._no_outage
        if is_measured:
            is_reset, envs = self._launcher.envs()
            held, outage = not is_reset, self._outage
            loss_rate, reacquire_time, visible = self._reception
            chance = -torch.expm1(-loss_rate.double() * dt)
            inputs = (self._keys, chance, reacquire_time, visible, dt, self._draw, is_reset, envs, outage)
            self._launcher.launch(self._kernels.receive, *inputs)
        timing = (held, self._due, self._due_rows)
        self._launcher.launch(self._kernels.geodetic, data, self._origins, outage, *timing, out)

    def reset(self, mask: torch.Tensor) -> None:
        """Do nothing: the kernel itself restarts the envs of a reset."""
