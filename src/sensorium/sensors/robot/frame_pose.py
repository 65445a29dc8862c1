"""Frame pose: pose and twist of a link or site, relative to another one or to the world."""

from __future__ import annotations

from typing import Any, NamedTuple

import mujoco
import numpy as np
import torch
from pydantic import Field, field_validator

from sensorium.pipeline import Imperfections, SensorGroup, SignalSource
from sensorium.pipeline.hold import holds_output
from sensorium.pipeline.launch import replayable
from sensorium.pipeline.parameters import as_numbers
from sensorium.sensors.base import Format, SimpleSensor
from sensorium.sensors.options import ChannelOptions
from sensorium.sensors.robot.frame_pose_backend import CpuFramePose, FramePoseBackend, GpuFramePose
from sensorium.worlds import Names, Painter

_PARTS = {
    "pos": (mujoco.mjtSensor.mjSENS_FRAMEPOS, 3),
    "quat": (mujoco.mjtSensor.mjSENS_FRAMEQUAT, 4),
    "lin_vel": (mujoco.mjtSensor.mjSENS_FRAMELINVEL, 3),
    "ang_vel": (mujoco.mjtSensor.mjSENS_FRAMEANGVEL, 3),
}


class FramePose(ChannelOptions, init=False):
    """Options of a pose and twist sensor, such as motion capture or the output of a localisation filter.

    Example:
        >>> hand = scene.add_sensor(sn.FramePose(link="hand", relative_to="base", pos_noise=0.002, rate=120))
        >>> hand.read().pos
    """

    link: str
    """Observed link or site."""
    relative_to: str | None = None
    """Link or site in whose frame the values are expressed. Default: the world."""
    pos: Imperfections = Imperfections()
    """Imperfections of the position, m."""
    rot_noise: float = Field(default=0.0, ge=0)
    """White noise of the orientation per sample: standard deviation in rad about each axis, for small angles."""
    lin_vel: Imperfections = Imperfections()
    """Imperfections of the linear velocity, m/s."""
    ang_vel: Imperfections = Imperfections()
    """Imperfections of the angular velocity, rad/s."""

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
    units = {"pos": "m", "lin_vel": "m/s", "ang_vel": "rad/s"}

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

    def _channels(self) -> dict[str, slice]:
        return {"pos": slice(0, 3), "lin_vel": slice(7, 10), "ang_vel": slice(10, 13)}

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        return {"rot_noise": ("noise", slice(3, 7))}

    def _translate(self, name: str, value: Any) -> tuple[str, Any]:
        # noise of s / 2 on each component of a unit quaternion, normalised again, turns it by s about each axis
        if name == "rot_noise" and value is not None:
            return name, as_numbers("FramePose.rot_noise", value) / 2
        return name, value

    @classmethod
    def _build_group(cls, group: SensorGroup[FramePoseBackend]) -> FramePoseBackend:
        return GpuFramePose(group) if group.is_gpu else CpuFramePose(group)

    @classmethod
    @holds_output
    @replayable
    def _post_process(
        cls, group: SensorGroup[FramePoseBackend], data: torch.Tensor, out: torch.Tensor, is_measured: bool
    ) -> None:
        group.backend.post_process(data, out)
