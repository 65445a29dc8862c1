"""Frame pose: pose and twist of a link or site, relative to another one or to the world."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import mujoco
import numpy as np
import torch
from pydantic import Field, field_validator

from sensorium.pipeline import SensorGroup, SignalSource
from sensorium.pipeline.launch import replayable
from sensorium.pipeline.parameters import as_numbers
from sensorium.sensors.base import Format, SimpleSensor
from sensorium.sensors.options import PerAxis, SensorOptions, Spread
from sensorium.sensors.robot.frame_pose_backend import CpuFramePose, FramePoseBackend, GpuFramePose
from sensorium.worlds import Names, Painter

_PARTS = {
    "pos": (mujoco.mjtSensor.mjSENS_FRAMEPOS, 3),
    "quat": (mujoco.mjtSensor.mjSENS_FRAMEQUAT, 4),
    "lin_vel": (mujoco.mjtSensor.mjSENS_FRAMELINVEL, 3),
    "ang_vel": (mujoco.mjtSensor.mjSENS_FRAMEANGVEL, 3),
}


class FramePose(SensorOptions):
    """Options of a pose and twist sensor, such as motion capture or the output of a localisation filter.

    Example:
        >>> hand = scene.add_sensor(sn.FramePose(link="hand", relative_to="base", pos_noise=0.002, rate=120))
        >>> hand.read().pos
    """

    link: str
    """Observed link or site."""
    relative_to: str | None = None
    """Link or site in whose frame the values are expressed. Default: the world."""
    pos_noise: Spread = 0.0
    """White noise of the position per sample, m."""
    pos_bias: PerAxis = 0.0
    """Offset of the position, m."""
    pos_random_walk: Spread = 0.0
    """Drift of the position, m per √s."""
    pos_resolution: Spread = 0.0
    """Quantisation step of the position, m."""
    pos_noise_density: Spread | None = None
    """White noise of the position per √Hz, m: another way to give ``pos_noise``."""
    pos_scale_error: PerAxis = 0.0
    """Relative error of the position's scale factor."""
    pos_bias_spread: Spread = 0.0
    """Offset of the position drawn at every reset, standard deviation, m."""
    pos_bias_instability: Spread = 0.0
    """Gauss-Markov drift of the position, standard deviation, m."""
    pos_correlation_time: float = Field(default=100.0, gt=0)
    """Time constant of that drift, s."""
    pos_temperature_drift: PerAxis = 0.0
    """Offset of the position per °C away from 25 °C, m."""
    pos_outliers: float = Field(default=0.0, ge=0, le=1)
    """Probability that a sample of the position is an outlier."""
    pos_outlier_size: Spread = 0.0
    """How far such an outlier lies off, m."""
    pos_bandwidth: float | None = Field(default=None, gt=0)
    """-3 dB frequency of the position, Hz."""
    rot_noise: float = Field(default=0.0, ge=0)
    """White noise of the orientation per sample: standard deviation in rad about each axis, for small angles."""
    lin_vel_noise: Spread = 0.0
    """White noise of the linear velocity per sample, m/s."""
    lin_vel_bias: PerAxis = 0.0
    """Offset of the linear velocity, m/s."""
    lin_vel_noise_density: Spread | None = None
    """White noise of the linear velocity per √Hz, m/s: another way to give ``lin_vel_noise``."""
    lin_vel_scale_error: PerAxis = 0.0
    """Relative error of the linear velocity's scale factor."""
    lin_vel_bias_spread: Spread = 0.0
    """Offset of the linear velocity drawn at every reset, standard deviation, m/s."""
    lin_vel_bias_instability: Spread = 0.0
    """Gauss-Markov drift of the linear velocity, standard deviation, m/s."""
    lin_vel_correlation_time: float = Field(default=100.0, gt=0)
    """Time constant of that drift, s."""
    lin_vel_temperature_drift: PerAxis = 0.0
    """Offset of the linear velocity per °C away from 25 °C, m/s."""
    lin_vel_outliers: float = Field(default=0.0, ge=0, le=1)
    """Probability that a sample of the linear velocity is an outlier."""
    lin_vel_outlier_size: Spread = 0.0
    """How far such an outlier lies off, m/s."""
    lin_vel_bandwidth: float | None = Field(default=None, gt=0)
    """-3 dB frequency of the linear velocity, Hz."""
    ang_vel_noise: Spread = 0.0
    """White noise of the angular velocity per sample, rad/s."""
    ang_vel_bias: PerAxis = 0.0
    """Offset of the angular velocity, rad/s."""
    ang_vel_noise_density: Spread | None = None
    """White noise of the angular velocity per √Hz, rad/s: another way to give ``ang_vel_noise``."""
    ang_vel_scale_error: PerAxis = 0.0
    """Relative error of the angular velocity's scale factor."""
    ang_vel_bias_spread: Spread = 0.0
    """Offset of the angular velocity drawn at every reset, standard deviation, rad/s."""
    ang_vel_bias_instability: Spread = 0.0
    """Gauss-Markov drift of the angular velocity, standard deviation, rad/s."""
    ang_vel_correlation_time: float = Field(default=100.0, gt=0)
    """Time constant of that drift, s."""
    ang_vel_temperature_drift: PerAxis = 0.0
    """Offset of the angular velocity per °C away from 25 °C, rad/s."""
    ang_vel_outliers: float = Field(default=0.0, ge=0, le=1)
    """Probability that a sample of the angular velocity is an outlier."""
    ang_vel_outlier_size: Spread = 0.0
    """How far such an outlier lies off, rad/s."""
    ang_vel_bandwidth: float | None = Field(default=None, gt=0)
    """-3 dB frequency of the angular velocity, Hz."""
    temperature: float = 25.0
    """Temperature of the sensor, °C."""
    filter_order: Literal[1, 2] = 2
    """Order of the filters that the bandwidths give: 1, or 2 (Butterworth)."""

    @field_validator("interpolate")
    @classmethod
    def _interpolate(cls, value: bool) -> bool:
        if value:
            raise ValueError("must be False: quaternions cannot be interpolated component by component")
        return value


class FramePoseData(NamedTuple):
    """Pose and twist, in the frame of ``relative_to``."""

    pos: torch.Tensor
    """Position, (B, 3) m."""
    quat: torch.Tensor
    """Orientation, (B, 4) unit quaternion (w, x, y, z)."""
    lin_vel: torch.Tensor
    """Linear velocity, (B, 3) m/s, as seen from ``relative_to``, which may move itself."""
    ang_vel: torch.Tensor
    """Angular velocity, (B, 3) rad/s, as seen from ``relative_to``."""


class FramePoseSensor(SimpleSensor[FramePoseData], options=FramePose):
    """Pose and twist sensor. See :class:`FramePose`."""

    kind = "frame_pose"
    Data = FramePoseData

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        options, asked_by = self.options, f"FramePose(uuid={self.uuid!r})"
        objtype, objname = names.link_or_site(options.link, f"{asked_by}.link")
        for part, (kind, _) in _PARTS.items():
            sensor = spec.add_sensor(name=f"{self.uuid}:{part}", type=kind, objtype=objtype, objname=objname)
            if options.relative_to is not None:
                reftype, refname = names.link_or_site(options.relative_to, f"{asked_by}.relative_to")
                sensor.reftype, sensor.refname = reftype, refname

    def _draw(self, painter: Painter, env: int) -> None:
        if self.options.relative_to is None:
            w, x, y, z = self._truths.quat[env].double().tolist()
            rotation = np.zeros(9)
            mujoco.mju_quat2Mat(rotation, np.array([w, x, y, z]))
            painter.frame(self._truths.pos[env].numpy(force=True), rotation)

    def _sources(self) -> list[SignalSource]:
        return [SignalSource((f"{self.uuid}:{part}",), i) for part, (_, count) in _PARTS.items() for i in range(count)]

    def _get_return_format(self) -> Format:
        return {part: (count,) for part, (_, count) in _PARTS.items()}

    def _parts(self) -> dict[str, slice]:
        return {"pos_": slice(0, 3), "rot_": slice(3, 7), "lin_vel_": slice(7, 10), "ang_vel_": slice(10, 13)}

    def _translate(self, name: str, value: Any) -> tuple[str, Any]:
        # noise of s / 2 on each component of a unit quaternion, normalised again, turns it by s about each axis
        if name == "rot_noise" and value is not None:
            return name, as_numbers("FramePose.rot_noise", value) / 2
        return name, value

    @classmethod
    def _build_group(cls, group: SensorGroup[FramePoseBackend]) -> FramePoseBackend:
        return GpuFramePose(group) if group.is_gpu else CpuFramePose(group)

    @classmethod
    @replayable
    def _post_process(
        cls, group: SensorGroup[FramePoseBackend], data: torch.Tensor, out: torch.Tensor, is_measured: bool
    ) -> None:
        group.backend.post_process(data, out)
