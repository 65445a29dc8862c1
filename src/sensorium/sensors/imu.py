"""Inertial measurement unit: accelerometer, gyroscope and magnetometer in one housing."""

from __future__ import annotations

from typing import NamedTuple

import mujoco
import torch

from sensorium.pipeline import Source
from sensorium.sensors.base import Format, SimpleSensor, add_site
from sensorium.sensors.options import Mounted, PerAxis, Range, SensorOptions, Spread
from sensorium.worlds import Names

Matrix3 = tuple[tuple[float, float, float], tuple[float, float, float], tuple[float, float, float]]

_PARTS = {
    "acc": mujoco.mjtSensor.mjSENS_ACCELEROMETER,
    "gyro": mujoco.mjtSensor.mjSENS_GYRO,
    "mag": mujoco.mjtSensor.mjSENS_MAGNETOMETER,
}


class IMU(SensorOptions, Mounted):
    """Options of an IMU. Values are in the sensor's frame, at its mounting pose on the link.

    Each part has the generic imperfections under its own prefix (see
    :class:`~sensorium.sensors.options.SimpleSensorOptions` for what each does), and an axis matrix ``*_misalignment``
    through which the true signal passes first: measured = matrix @ signal. Off-diagonal elements are axis skew and
    cross-coupling, the diagonal is scale.

    Example:
        >>> imu = scene.add_sensor(sn.IMU(link="torso", acc_noise=0.02, gyro_bias=(0.01, 0, 0), delay=0.005))
        >>> imu.read().lin_acc
    """

    acc_noise: Spread = 0.0
    """White noise of the accelerometer per sample, m/s²."""
    acc_bias: PerAxis = 0.0
    """Offset of the accelerometer, m/s²."""
    acc_random_walk: Spread = 0.0
    """Drift of the accelerometer, m/s² per √s."""
    acc_resolution: Spread = 0.0
    """Quantisation step of the accelerometer, m/s²."""
    acc_saturation: Range | None = None
    """(min, max) of the accelerometer, m/s²."""
    acc_deadband: Spread = 0.0
    """Dead band of the accelerometer, m/s²."""
    acc_misalignment: Matrix3 | None = None
    """Axis matrix of the accelerometer."""
    gyro_noise: Spread = 0.0
    """White noise of the gyroscope per sample, rad/s."""
    gyro_bias: PerAxis = 0.0
    """Offset of the gyroscope, rad/s."""
    gyro_random_walk: Spread = 0.0
    """Drift of the gyroscope, rad/s per √s."""
    gyro_resolution: Spread = 0.0
    """Quantisation step of the gyroscope, rad/s."""
    gyro_saturation: Range | None = None
    """(min, max) of the gyroscope, rad/s."""
    gyro_deadband: Spread = 0.0
    """Dead band of the gyroscope, rad/s."""
    gyro_misalignment: Matrix3 | None = None
    """Axis matrix of the gyroscope."""
    mag_noise: Spread = 0.0
    """White noise of the magnetometer per sample, T."""
    mag_bias: PerAxis = 0.0
    """Offset of the magnetometer (hard iron), T."""
    mag_random_walk: Spread = 0.0
    """Drift of the magnetometer, T per √s."""
    mag_resolution: Spread = 0.0
    """Quantisation step of the magnetometer, T."""
    mag_saturation: Range | None = None
    """(min, max) of the magnetometer, T."""
    mag_deadband: Spread = 0.0
    """Dead band of the magnetometer, T."""
    mag_misalignment: Matrix3 | None = None
    """Axis matrix of the magnetometer (soft iron)."""


class IMUData(NamedTuple):
    """What an IMU reads, in its own frame."""

    lin_acc: torch.Tensor
    """Proper acceleration, (B, 3) m/s²: about +9.81 upwards at rest, 0 in free fall. Of the substep that ended now."""
    ang_vel: torch.Tensor
    """Angular velocity, (B, 3) rad/s."""
    mag: torch.Tensor
    """Magnetic field, (B, 3) T."""


class IMUSensor(SimpleSensor[IMUData], options=IMU):
    """See :class:`IMU`."""

    Data = IMUData

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        site = add_site(spec, names, self.options, self.uuid)
        for part, kind in _PARTS.items():
            spec.add_sensor(name=f"{self.uuid}:{part}", type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=site)

    def _sources(self) -> list[Source]:
        return [Source((f"{self.uuid}:{part}",), axis) for part in _PARTS for axis in range(3)]

    def _get_return_format(self) -> Format:
        return {"lin_acc": (3,), "ang_vel": (3,), "mag": (3,)}

    def _parts(self) -> dict[str, slice]:
        return {"acc_": slice(0, 3), "gyro_": slice(3, 6), "mag_": slice(6, 9)}

    def _mixed_parts(self) -> list[slice]:
        return list(self._parts().values())

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        return {f"{prefix}misalignment": ("mix", part) for prefix, part in self._parts().items()}
