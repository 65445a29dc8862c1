"""Optical flow: how fast the ground passes below a downward-looking sensor."""

from __future__ import annotations

from typing import Any, NamedTuple

import mujoco
import numpy as np
import torch
from pydantic import Field, field_validator, model_validator

from sensorium.pipeline import Imperfections
from sensorium.pipeline.launch import launch, replayable
from sensorium.sensors.base import Format, SimpleSensor, add_site
from sensorium.sensors.options import Mounted, SimpleSensorOptions
from sensorium.worlds import Names

_PARTS = {
    "vel": mujoco.mjtSensor.mjSENS_VELOCIMETER,
    "gyro": mujoco.mjtSensor.mjSENS_GYRO,
    "range": mujoco.mjtSensor.mjSENS_RANGEFINDER,
}


class OpticalFlow(SimpleSensorOptions, Mounted, init=False):
    """Options of a flow sensor that looks along the -z axis of its frame (down, when mounted upright) at ground that
    does not move. The generic imperfections are about the flow, in rad/s.

    Example:
        >>> flow = scene.add_sensor(sn.OpticalFlow(link="drone", gyro_compensation=True, noise=0.02))
        >>> flow.read().flow
    """

    min_range: float = Field(default=0.08, ge=0)
    """Least distance to the ground at which it works, m."""
    max_range: float = Field(default=30.0, gt=0)
    """Greatest distance, m."""
    max_flow: float = Field(default=7.4, gt=0)
    """Fastest flow that it can follow along each axis, rad/s."""
    gyro_compensation: bool = False
    """Whether the part of the flow that comes of the sensor's own rotation is taken out."""
    range: Imperfections = Imperfections()
    """Imperfections of the distance, m."""

    @model_validator(mode="after")
    def _check_ranges(self) -> OpticalFlow:
        if self.min_range >= self.max_range:
            raise ValueError(f"min_range must be below max_range, got {self.min_range:g} and {self.max_range:g}")
        return self

    @field_validator("interpolate")
    @classmethod
    def _interpolate(cls, value: bool) -> bool:
        if value:
            raise ValueError("there is nothing between a flow that can be trusted and one that cannot; leave it out")
        return value


class OpticalFlowData(NamedTuple):
    """What a flow sensor reads, in its own frame."""

    flow: torch.Tensor
    """Angular rate at which the ground in the middle of the image moves along the sensor's x and y axes, (B, 2) rad/s;
    0 where the quality is 0. Flying forward (+x) at height h with speed v gives (-v / h, 0)."""
    distance: torch.Tensor
    """Distance to the ground along the view, within the range limits, (B, 1) m."""
    quality: torch.Tensor
    """1 where the flow can be trusted, 0 where the ground is out of range or passes too fast, (B, 1)."""


class OpticalFlowSensor(SimpleSensor[OpticalFlowData], options=OpticalFlow):
    """See :class:`OpticalFlow`."""

    kind = "optical_flow"
    Data = OpticalFlowData

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

    def _get_return_format(self) -> Format:
        return {"flow": (2,), "distance": (1,), "quality": (1,)}

    def _channels(self) -> dict[str, slice]:
        return {"": slice(0, 2), "range": slice(2, 3)}

    @classmethod
    def _build_group(cls, group: Any) -> None:
        model, sensors = group.world.model, group.sensors
        group.at = np.array([[model.sensor(f"{s.uuid}:{part}").adr[0] for part in _PARTS] for s in sensors], np.int64)
        group.turning = np.array([0.0 if sensor.options.gyro_compensation else 1.0 for sensor in sensors])
        limits = [(s.options.min_range, s.options.max_range, s.options.max_flow) for s in sensors]
        group.limits = np.array(limits, np.float64)
        group.sensed = group.world.bind("sensordata")
        if not group.world.is_gpu:
            from sensorium.sensors.robot import kernels as robot_kernels

            group.kernels, group.sensed = robot_kernels, group.sensed.numpy()
        else:
            group.at = torch.from_numpy(group.at).to(group.device)
            group.turning = torch.from_numpy(group.turning).float().to(group.device).unsqueeze(-1)
            group.limits = torch.from_numpy(group.limits).float().to(group.device).T.unsqueeze(-1)

    @classmethod
    @replayable
    def _update_raw_data(cls, group: Any, out: torch.Tensor) -> None:
        if not group.world.is_gpu:
            launch(group.kernels.flows, group.sensed, group.at, group.turning, group.array(out))
            return
        velocity, rate, ranger = group.at.unbind(1)
        distance = group.sensed[:, ranger].T
        x = group.turning * group.sensed[:, rate + 1].T - group.sensed[:, velocity].T / distance
        y = -group.turning * group.sensed[:, rate].T - group.sensed[:, velocity + 1].T / distance
        rows = out.view(-1, 3, group.n_envs)
        rows[:, 0], rows[:, 1] = torch.where(distance > 0, x, 0.0), torch.where(distance > 0, y, 0.0)
        rows[:, 2] = torch.where(distance > 0, distance, torch.inf)  # which no noise changes

    @classmethod
    @replayable
    def _post_process(cls, group: Any, data: torch.Tensor, out: torch.Tensor, is_measured: bool) -> None:
        if not group.world.is_gpu:
            launch(group.kernels.flow_qualities, group.array(data), group.limits, group.array(out))
            return
        least, most, fastest = group.limits
        x, y, distance = data.view(-1, 3, group.n_envs).unbind(1)
        good = (distance >= least) & (distance <= most) & (x.abs() <= fastest) & (y.abs() <= fastest)
        rows = out.view(-1, 4, group.n_envs)
        rows[:, 0], rows[:, 1], rows[:, 3] = x * good, y * good, good
        rows[:, 2] = torch.minimum(torch.maximum(distance, least), most)
