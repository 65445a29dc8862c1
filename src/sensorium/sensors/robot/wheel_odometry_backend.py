"""Backends of wheel odometry on the CPU and on the GPU."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
import torch

from sensorium.pipeline import SensorGroup
from sensorium.pipeline.launch import launch

ERRORS = ("left_radius_error", "right_radius_error", "track_error")
"""Parameters of the assumed geometry, in the order in which they are stored."""


class WheelOdometryBackend(Protocol):
    """Wheel odometry of one scene on one engine, with its poses."""

    def update(self, ground_truth: torch.Tensor, measured: torch.Tensor) -> None:
        """Advance both branches by one step, and fill them, (5 * sensors, B) each.

        Rows of a sensor: x and y (m), yaw (rad), speed (m/s), yaw rate (rad/s). In a reset no time passes.
        """

    def reset(self, mask: torch.Tensor) -> None:
        """Put the envs in ``mask`` (B,) back to pose 0."""


class _Drives(NamedTuple):
    """Constants of all drives; n is the number of wheels of all of them."""

    wheels: np.ndarray
    """Indices of each wheel's angle in ``qpos`` and of its rate in ``qvel``, (n, 2) int64."""
    shares: np.ndarray
    """Share of each wheel in the left and in the right side, (n, 2); negative where it is reversed."""
    first: np.ndarray
    """First wheel of each sensor, and n, (sensors + 1,)."""
    geometry: np.ndarray
    """Radius (m), track (m) and step of the encoder (rad, 0 for an exact angle), (sensors, 3)."""


def _drives(group: SensorGroup[WheelOdometryBackend]) -> _Drives:
    model, sensors = group.world.model, group.sensors
    wheels = [wheel for sensor in sensors for wheel in sensor._wheels]
    joints = [model.joint(joint) for joint, _ in wheels]
    geometry = np.zeros((len(sensors), 3))
    for row, sensor in zip(geometry, sensors, strict=True):
        options = sensor.options
        row[:2] = options.radius, options.track
        if options.counts_per_revolution is not None:
            row[2] = 2 * math.pi / options.counts_per_revolution
    return _Drives(
        wheels=np.array([(joint.qposadr[0], joint.dofadr[0]) for joint in joints], np.int64),
        shares=np.array([parts for _, parts in wheels]),
        first=np.cumsum([0, *(len(sensor._wheels) for sensor in sensors)]),
        geometry=geometry,
    )


def _errors(group: SensorGroup[WheelOdometryBackend]) -> torch.Tensor:
    """Allocate the parameters in ``ERRORS``, (3, sensors, B), which ``sensor.set`` writes."""
    errors = torch.zeros(len(ERRORS), len(group.sensors), group.n_envs, device=group.device)
    group.parameters |= dict(zip(ERRORS, errors, strict=True))
    return errors


def _memory(group: SensorGroup[WheelOdometryBackend], drives: _Drives) -> tuple[np.ndarray, np.ndarray]:
    """Allocate what odometry remembers.

    Returns:
        Angles of the wheels in the last step, true and as counted, (B, n, 2); and poses (x, y, yaw) of both branches,
        (B, sensors, 2, 3).
    """
    return np.zeros((group.n_envs, len(drives.wheels), 2)), np.zeros((group.n_envs, len(group.sensors), 2, 3))


class CpuWheelOdometry:
    """Wheel odometry on the CPU engine."""

    def __init__(self, group: SensorGroup[WheelOdometryBackend]) -> None:
        from sensorium.sensors.robot import kernels

        drives = _drives(group)
        angles, self._poses = _memory(group, drives)
        engine = [group.world.bind(field).numpy() for field in ("qpos", "qvel")]
        wheels = (drives.wheels, drives.shares, drives.first)
        self._kernel, self._group = kernels.odometry, group
        self._arguments = (*engine, *wheels, angles, self._poses, drives.geometry, _errors(group).numpy(), group.dt)

    def update(self, ground_truth: torch.Tensor, measured: torch.Tensor) -> None:
        group = self._group
        branches = (group.array(ground_truth), group.array(measured))
        launch(self._kernel, *self._arguments, group.advancing, *branches)

    def reset(self, mask: torch.Tensor) -> None:
        self._poses[mask.numpy()] = 0.0


class GpuWheelOdometry:
    """Wheel odometry on the GPU engine. As on the CPU, angles and poses are float64."""

    def __init__(self, group: SensorGroup[WheelOdometryBackend]) -> None:
        from sensorium.sensors.robot import warp_kernels
        from sensorium.sensors.robot.warp_launcher import WarpLauncher

        self._kernel, self._launcher, drives = warp_kernels.odometry, WarpLauncher(group), _drives(group)
        engine = (group.world.bind(field) for field in ("qpos", "qvel"))
        wheels = (drives.wheels, drives.shares, drives.first)
        arrays = (*wheels, *_memory(group, drives), drives.geometry)
        self._inputs = (*engine, *map(self._launcher.upload, arrays), _errors(group), group.dt)

    def update(self, ground_truth: torch.Tensor, measured: torch.Tensor) -> None:
        self._launcher.launch(self._kernel, *self._inputs, *self._launcher.envs(), ground_truth, measured)

    def reset(self, mask: torch.Tensor) -> None:
        """Do nothing: the kernel itself restarts the envs of a reset."""
