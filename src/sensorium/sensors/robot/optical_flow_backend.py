"""Backends of the optical flow sensor on the CPU and on the GPU."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import torch

from sensorium.pipeline import SensorGroup
from sensorium.pipeline.launch import launch


class OpticalFlowBackend(Protocol):
    """Optical flow sensors of one scene on one engine."""

    def update(self, out: torch.Tensor) -> None:
        """Fill ``out`` (3 * sensors, B) with flow along x and y (rad/s) and distance (m), inf without ground."""

    def post_process(self, data: torch.Tensor, out: torch.Tensor) -> None:
        """Fill ``out`` (4 * sensors, B) with flow, distance within the limits, and quality (0 or 1)."""


class _Cameras(NamedTuple):
    """Constants of all sensors."""

    at: np.ndarray
    """Indices in ``sensordata`` of velocity, angular velocity and distance, (sensors, 3) int64."""
    turning: np.ndarray
    """1 where the flow of the sensor's own rotation counts, 0 where it is compensated, (sensors,)."""
    limits: np.ndarray
    """Min range (m), max range (m) and max flow (rad/s), (sensors, 3)."""


def _cameras(group: SensorGroup[OpticalFlowBackend]) -> _Cameras:
    model, sensors = group.world.model, group.sensors
    at = [[model.sensor(f"{sensor.uuid}:{part}").adr[0] for part in ("vel", "gyro", "range")] for sensor in sensors]
    options = [sensor.options for sensor in sensors]
    turning = np.array([0.0 if o.gyro_compensation else 1.0 for o in options])
    limits = np.array([(o.min_range, o.max_range, o.max_flow) for o in options], np.float64)
    return _Cameras(np.array(at, np.int64), turning, limits)


class CpuOpticalFlow:
    """Optical flow sensors on the CPU engine."""

    def __init__(self, group: SensorGroup[OpticalFlowBackend]) -> None:
        from sensorium.sensors.robot import kernels

        self._kernels, self._array = kernels, group.array
        self._sensed, self._cameras = group.world.bind("sensordata").numpy(), _cameras(group)

    def update(self, out: torch.Tensor) -> None:
        launch(self._kernels.flows, self._sensed, self._cameras.at, self._cameras.turning, self._array(out))

    def post_process(self, data: torch.Tensor, out: torch.Tensor) -> None:
        launch(self._kernels.flow_qualities, self._array(data), self._cameras.limits, self._array(out))


class GpuOpticalFlow:
    """Optical flow sensors on the GPU engine."""

    def __init__(self, group: SensorGroup[OpticalFlowBackend]) -> None:
        self._n_envs, self._sensed = group.n_envs, group.world.bind("sensordata")
        at, turning, limits = (torch.from_numpy(values).to(group.device) for values in _cameras(group))
        self._velocity, self._rate, self._range = at.unbind(1)
        self._turning, self._limits = turning.float().unsqueeze(-1), limits.float().T.unsqueeze(-1)

    def update(self, out: torch.Tensor) -> None:
        sensed, turning, velocity, rate = self._sensed, self._turning, self._velocity, self._rate
        distance = sensed[:, self._range].T
        x = turning * sensed[:, rate + 1].T - sensed[:, velocity].T / distance
        y = -turning * sensed[:, rate].T - sensed[:, velocity + 1].T / distance
        rows = out.view(-1, 3, self._n_envs)
        rows[:, 0], rows[:, 1] = torch.where(distance > 0, x, 0.0), torch.where(distance > 0, y, 0.0)
        rows[:, 2] = torch.where(distance > 0, distance, torch.inf)  # which noise does not change

    def post_process(self, data: torch.Tensor, out: torch.Tensor) -> None:
        min_range, max_range, max_flow = self._limits
        x, y, distance = data.view(-1, 3, self._n_envs).unbind(1)
        in_range = (distance >= min_range) & (distance <= max_range)
        good = in_range & (x.abs() <= max_flow) & (y.abs() <= max_flow)
        rows = out.view(-1, 4, self._n_envs)
        rows[:, 0], rows[:, 1], rows[:, 3] = x * good, y * good, good
        rows[:, 2] = torch.minimum(torch.maximum(distance, min_range), max_range)
