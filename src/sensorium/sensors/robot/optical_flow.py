"""Optical flow: angular rate at which the ground passes a downward-looking sensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
import torch
from pydantic import Field, field_validator, model_validator

from sensorium.pipeline import Imperfections, SensorGroup
from sensorium.pipeline.hold import holds_output
from sensorium.pipeline.launch import replayable
from sensorium.sensors.base import Format, SimpleSensor, add_site
from sensorium.sensors.options import Mounted, SimpleSensorOptions
from sensorium.sensors.robot.optical_flow_backend import CpuOpticalFlow, GpuOpticalFlow, OpticalFlowBackend
from sensorium.worlds import Names

_PARTS = {
    "vel": mujoco.mjtSensor.mjSENS_VELOCIMETER,
    "gyro": mujoco.mjtSensor.mjSENS_GYRO,
    "range": mujoco.mjtSensor.mjSENS_RANGEFINDER,
}


class OpticalFlow(SimpleSensorOptions, Mounted, init=False):
    """Options of an optical flow sensor that looks along the -z axis of its frame (down, if mounted upright).

    The ground is assumed to be at rest. The generic imperfections act on the flow, in rad/s.

    Example:
        >>> flow = scene.add_sensor(sn.OpticalFlow(link="drone", gyro_compensation=True, noise=0.02))
        >>> flow.read().flow
    """

    min_range: float = Field(default=0.08, ge=0)
    """Minimum distance to the ground, m."""
    max_range: float = Field(default=30.0, gt=0)
    """Maximum distance to the ground, m."""
    max_flow: float = Field(default=7.4, gt=0)
    """Maximum flow along each axis, rad/s."""
    gyro_compensation: bool = False
    """Whether the flow caused by the sensor's own rotation is subtracted."""
    range: Imperfections = Imperfections()
    """Imperfections of the distance, m."""

    @model_validator(mode="after")
    def _check_ranges(self) -> OpticalFlow:
        if self.min_range >= self.max_range:
            raise ValueError(
                f"min_range must be < max_range, got min_range={self.min_range:g} with max_range={self.max_range:g}"
            )
        return self

    @field_validator("interpolate")
    @classmethod
    def _interpolate(cls, value: bool) -> bool:
        if value:
            raise ValueError("must be False: the quality is either 0 or 1")
        return value


class OpticalFlowData(NamedTuple):
    """Reading of an optical flow sensor in its own frame."""

    flow: torch.Tensor
    """Angular rate of the ground at the image centre along the sensor's x and y axes, (B, 2) rad/s; 0 if the quality
    is 0. Flying forward (+x) at height h with speed v gives (-v / h, 0)."""
    distance: torch.Tensor
    """Distance to the ground along the viewing direction, clamped to the range limits, (B, 1) m."""
    quality: torch.Tensor
    """1 if the flow is valid, 0 if the ground is out of range or the flow exceeds ``max_flow``, (B, 1)."""


class OpticalFlowSensor(SimpleSensor[OpticalFlowData], options=OpticalFlow):
    """Optical flow sensor. See :class:`OpticalFlow`."""

    kind = "optical_flow"
    Data = OpticalFlowData
    units = {"flow": "rad/s", "distance": "m"}

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        site = add_site(spec, names, self.options, self.uuid)
        mount, view = spec.site(site), f"{self.uuid}:view"
        down = np.zeros(4)  # the engine's rangefinder looks along +z
        mujoco.mju_mulQuat(down, np.asarray(mount.quat), np.array([0.0, 1.0, 0.0, 0.0]))
        mount.parent.add_site(name=view, pos=mount.pos, quat=down)
        for part, kind in _PARTS.items():
            where = view if part == "range" else site
            name, site_type = f"{self.uuid}:{part}", mujoco.mjtObj.mjOBJ_SITE
            sensor = spec.add_sensor(name=name, type=kind, objtype=site_type, objname=where)
            if part == "range":
                sensor.intprm[0] = 1 << int(mujoco.mjtRayDataField.mjRAYDATA_DIST)

    def _get_intermediate_format(self) -> Format:
        return {"flow": (2,), "distance": (1,)}

    def _plotted_names(self, field: str) -> Sequence[str]:
        return ("x", "y")

    def _get_return_format(self) -> Format:
        return {"flow": (2,), "distance": (1,), "quality": (1,)}

    def _channels(self) -> dict[str, slice]:
        return {"": slice(0, 2), "range": slice(2, 3)}

    @classmethod
    def _build_group(cls, group: SensorGroup[OpticalFlowBackend]) -> OpticalFlowBackend:
        return GpuOpticalFlow(group) if group.is_gpu else CpuOpticalFlow(group)

    @classmethod
    @replayable
    def _update_raw_data(cls, group: SensorGroup[OpticalFlowBackend], out: torch.Tensor) -> None:
        group.backend.update(out)

    @classmethod
    @holds_output
    @replayable
    def _post_process(
        cls, group: SensorGroup[OpticalFlowBackend], data: torch.Tensor, out: torch.Tensor, is_measured: bool
    ) -> None:
        group.backend.post_process(data, out)
