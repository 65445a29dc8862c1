"""Inertial measurement unit: accelerometer, gyroscope and magnetometer in one housing."""

from __future__ import annotations

from typing import Literal, NamedTuple

import mujoco
import torch
from pydantic import Field

from sensorium.pipeline import SignalSource
from sensorium.sensors.base import Format, SimpleSensor, add_site
from sensorium.sensors.options import Mounted, PerAxis, Range, SensorOptions, Spread
from sensorium.worlds import Names, Painter

Matrix3 = tuple[tuple[float, float, float], tuple[float, float, float], tuple[float, float, float]]

_PARTS = {
    "acc": mujoco.mjtSensor.mjSENS_ACCELEROMETER,
    "gyro": mujoco.mjtSensor.mjSENS_GYRO,
    "mag": mujoco.mjtSensor.mjSENS_MAGNETOMETER,
}


class IMU(SensorOptions, Mounted):
    """Options of an IMU. Values are in the sensor's frame, at its mounting pose on the link.

    Accelerometer, gyroscope and magnetometer each have the generic imperfections under their own prefix (``acc_``,
    ``gyro_``, ``mag_``; see :class:`~sensorium.sensors.options.SimpleSensorOptions`). Each also has an axis matrix
    ``*_misalignment`` that is applied to the true signal first: measured = matrix @ signal. Its diagonal is the scale,
    off-diagonal elements are axis skew and cross-coupling.

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
    acc_noise_density: Spread | None = None
    """White noise of the accelerometer per √Hz, m/s²: another way to give ``acc_noise``."""
    acc_scale_error: PerAxis = 0.0
    """Relative error of the accelerometer's scale factor."""
    acc_bias_spread: Spread = 0.0
    """Offset of the accelerometer drawn at every reset, standard deviation, m/s²."""
    acc_bias_instability: Spread = 0.0
    """Gauss-Markov drift of the accelerometer, standard deviation, m/s²."""
    acc_correlation_time: float = Field(default=100.0, gt=0)
    """Time constant of that drift, s."""
    acc_temperature_drift: PerAxis = 0.0
    """Offset of the accelerometer per °C away from 25 °C, m/s²."""
    acc_outliers: float = Field(default=0.0, ge=0, le=1)
    """Probability that a sample of the accelerometer is an outlier."""
    acc_outlier_size: Spread = 0.0
    """How far such an outlier lies off, m/s²."""
    acc_bandwidth: float | None = Field(default=None, gt=0)
    """-3 dB frequency of the accelerometer, Hz."""
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
    gyro_noise_density: Spread | None = None
    """White noise of the gyroscope per √Hz, rad/s: another way to give ``gyro_noise``."""
    gyro_scale_error: PerAxis = 0.0
    """Relative error of the gyroscope's scale factor."""
    gyro_bias_spread: Spread = 0.0
    """Offset of the gyroscope drawn at every reset, standard deviation, rad/s."""
    gyro_bias_instability: Spread = 0.0
    """Gauss-Markov drift of the gyroscope, standard deviation, rad/s."""
    gyro_correlation_time: float = Field(default=100.0, gt=0)
    """Time constant of that drift, s."""
    gyro_temperature_drift: PerAxis = 0.0
    """Offset of the gyroscope per °C away from 25 °C, rad/s."""
    gyro_outliers: float = Field(default=0.0, ge=0, le=1)
    """Probability that a sample of the gyroscope is an outlier."""
    gyro_outlier_size: Spread = 0.0
    """How far such an outlier lies off, rad/s."""
    gyro_bandwidth: float | None = Field(default=None, gt=0)
    """-3 dB frequency of the gyroscope, Hz."""
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
    mag_noise_density: Spread | None = None
    """White noise of the magnetometer per √Hz, T: another way to give ``mag_noise``."""
    mag_scale_error: PerAxis = 0.0
    """Relative error of the magnetometer's scale factor."""
    mag_bias_spread: Spread = 0.0
    """Offset of the magnetometer drawn at every reset, standard deviation, T."""
    mag_bias_instability: Spread = 0.0
    """Gauss-Markov drift of the magnetometer, standard deviation, T."""
    mag_correlation_time: float = Field(default=100.0, gt=0)
    """Time constant of that drift, s."""
    mag_temperature_drift: PerAxis = 0.0
    """Offset of the magnetometer per °C away from 25 °C, T."""
    mag_outliers: float = Field(default=0.0, ge=0, le=1)
    """Probability that a sample of the magnetometer is an outlier."""
    mag_outlier_size: Spread = 0.0
    """How far such an outlier lies off, T."""
    mag_bandwidth: float | None = Field(default=None, gt=0)
    """-3 dB frequency of the magnetometer, Hz."""
    temperature: float = 25.0
    """Temperature of the housing, °C."""
    filter_order: Literal[1, 2] = 2
    """Order of the filters that the bandwidths give: 1, or 2 (Butterworth)."""


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

    def _parts(self) -> dict[str, slice]:
        return {"acc_": slice(0, 3), "gyro_": slice(3, 6), "mag_": slice(6, 9)}

    def _mixed_parts(self) -> list[slice]:
        return list(self._parts().values())

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        return {f"{prefix}misalignment": ("mix", part) for prefix, part in self._parts().items()}
