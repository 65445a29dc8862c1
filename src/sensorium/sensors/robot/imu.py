"""Inertial measurement unit: accelerometer, gyroscope and magnetometer in one housing."""

from __future__ import annotations

from typing import NamedTuple

import mujoco
import torch
from pydantic import field_validator

from sensorium.pipeline import AxisImperfections, SignalSource
from sensorium.sensors.base import Format, SimpleSensor, add_site
from sensorium.sensors.options import ChannelOptions, Mounted
from sensorium.worlds import Names, Painter

_PARTS = {
    "acc": mujoco.mjtSensor.mjSENS_ACCELEROMETER,
    "gyro": mujoco.mjtSensor.mjSENS_GYRO,
    "mag": mujoco.mjtSensor.mjSENS_MAGNETOMETER,
}


class IMU(ChannelOptions, Mounted, init=False):
    """Options of an IMU. Values are in the sensor's frame, at its mounting pose on the link.

    Each channel has its own :class:`~sensorium.pipeline.Imperfections`; ``acc_noise=0.02`` is short for
    ``acc=sn.Imperfections(noise=0.02)``.

    Example:
        >>> imu = scene.add_sensor(sn.IMU(link="torso", acc_noise=0.02, gyro_bias=(0.01, 0, 0), delay=0.005))
        >>> imu.read().lin_acc
    """

    acc: AxisImperfections = AxisImperfections()
    """Imperfections of the accelerometer, m/s²."""
    gyro: AxisImperfections = AxisImperfections()
    """Imperfections of the gyroscope, rad/s."""
    mag: AxisImperfections = AxisImperfections()
    """Imperfections of the magnetometer, T. ``bias`` is hard iron, ``misalignment`` soft iron."""

    @field_validator("acc", "gyro", "mag")
    @classmethod
    def _check_axes(cls, value: AxisImperfections) -> AxisImperfections:
        return value.with_three_axes()


class IMUData(NamedTuple):
    """Reading of an IMU in its own frame."""

    lin_acc: torch.Tensor
    """Proper acceleration during the substep that ended at the reading, (B, 3) m/s²: about +9.81 upwards at rest, 0 in
    free fall."""
    ang_vel: torch.Tensor
    """Angular velocity, (B, 3) rad/s."""
    mag: torch.Tensor
    """Magnetic field, (B, 3) T."""


class IMUSensor(SimpleSensor[IMUData], options=IMU):
    """Inertial measurement unit. See :class:`IMU`."""

    Data = IMUData
    units = {"lin_acc": "m/s²", "ang_vel": "rad/s", "mag": "T"}

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        site = add_site(spec, names, self.options, self.uuid)
        for part, kind in _PARTS.items():
            spec.add_sensor(name=f"{self.uuid}:{part}", type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=site)

    def _draw(self, painter: Painter, env: int) -> None:
        super()._draw(painter, env)
        self._draw_vector(painter, env, self._truths.lin_acc[env], 0.02)

    def _sources(self) -> list[SignalSource]:
        return [SignalSource((f"{self.uuid}:{part}",), axis) for part in _PARTS for axis in range(3)]

    def _get_return_format(self) -> Format:
        return {"lin_acc": (3,), "ang_vel": (3,), "mag": (3,)}

    def _channels(self) -> dict[str, slice]:
        return {"acc": slice(0, 3), "gyro": slice(3, 6), "mag": slice(6, 9)}
