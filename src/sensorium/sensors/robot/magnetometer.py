"""Magnetometer: the magnetic field in the sensor's frame, and the heading that a compass makes of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import mujoco
import numpy as np
import torch
from pydantic import field_validator

from sensorium.pipeline import SignalSource
from sensorium.pipeline.imperfections import Matrix3
from sensorium.pipeline.launch import launch, replayable
from sensorium.sensors.base import Format, SimpleSensor, add_site
from sensorium.sensors.options import Mounted, SimpleSensorOptions
from sensorium.worlds import Names


class Magnetometer(SimpleSensorOptions, Mounted):
    """Options of a magnetometer with a compass. The generic imperfections are about the field, in T; the heading is
    computed from the field as it is measured. ``bias`` is hard iron.

    Example:
        >>> compass = scene.add_sensor(sn.Magnetometer(link="body", bias=(2e-6, 0, 0), declination=0.05))
        >>> compass.read().heading
    """

    soft_iron: Matrix3 | None = None
    """Matrix through which the true field passes before the hard iron is added: measured = matrix @ field + bias."""
    declination: float = 0.0
    """Angle in rad by which magnetic north lies east of true north; added to the heading. The scene's
    ``magnetic_field`` says where magnetic north is (by default along +y, so that the declination is 0)."""
    tilt_compensation: bool = True
    """Whether the heading is that of the horizontal part of the field, by the true direction of up, as from an ideal
    inclinometer; otherwise the sensor is taken to be level."""

    @field_validator("interpolate")
    @classmethod
    def _interpolate(cls, value: bool) -> bool:
        if value:
            raise ValueError("headings jump at half a turn, so there is nothing between two of them; leave it out")
        return value


class MagnetometerData(NamedTuple):
    """What a magnetometer reads."""

    field: torch.Tensor
    """Magnetic field in the sensor's frame, (B, 3) T."""
    heading: torch.Tensor
    """Angle from true north to the sensor's x axis, clockwise seen from above, (B, 1) rad in (-pi, pi]."""


class MagnetometerSensor(SimpleSensor[MagnetometerData], options=Magnetometer):
    """See :class:`Magnetometer`."""

    Data = MagnetometerData

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        site, site_type = add_site(spec, names, self.options, self.uuid), mujoco.mjtObj.mjOBJ_SITE
        kind = mujoco.mjtSensor.mjSENS_MAGNETOMETER
        spec.add_sensor(name=f"{self.uuid}:field", type=kind, objtype=site_type, objname=site)
        up = spec.add_sensor(name=f"{self.uuid}:up", type=mujoco.mjtSensor.mjSENS_FRAMEZAXIS)
        up.objtype, up.objname = mujoco.mjtObj.mjOBJ_XBODY, spec.worldbody.name
        up.reftype, up.refname = site_type, site

    def _sources(self) -> list[SignalSource]:
        return [SignalSource((f"{self.uuid}:{part}",), axis) for part in ("field", "up") for axis in range(3)]

    def _get_intermediate_format(self) -> Format:
        return {"field": (3,), "up": (3,)}

    def _get_return_format(self) -> Format:
        return {"field": (3,), "heading": (1,)}

    def _channels(self) -> dict[str, slice]:
        return {"": slice(0, 3)}

    def _mixed_parts(self) -> list[slice]:
        return [slice(0, 3)]

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        return {"soft_iron": ("mix", slice(0, 3)), "declination": ("custom", slice(0, 1))}

    @classmethod
    def _build_group(cls, group: Any) -> None:
        group.levelled = np.array([sensor.options.tilt_compensation for sensor in group.sensors])
        declination = torch.zeros(len(group.sensors), group.n_envs, device=group.device)
        group.parameters["declination"] = group.declination = declination
        if not group.world.is_gpu:
            from sensorium.sensors.robot import kernels as robot_kernels

            group.kernel, group.declination = robot_kernels.headings, declination.numpy()
        else:
            group.levelled = torch.from_numpy(group.levelled).to(group.device).view(-1, 1, 1)
            group.level = torch.tensor([0.0, 0.0, 1.0], device=group.device).view(1, 3, 1)

    @classmethod
    @replayable
    def _post_process(cls, group: Any, data: torch.Tensor, out: torch.Tensor, is_measured: bool) -> None:
        if not group.world.is_gpu:
            launch(group.kernel, group.array(data), group.levelled, group.declination, group.array(out))
            return
        field, up = data.view(-1, 2, 3, group.n_envs).unbind(1)
        up = torch.where(group.levelled, up, group.level)
        east = up[:, 2] * field[:, 1] - up[:, 1] * field[:, 2]
        north = field[:, 0] - up[:, 0] * (field * up).sum(1)
        angle = torch.atan2(east, north) + group.declination
        rows = out.view(-1, 4, group.n_envs)
        rows[:, :3], rows[:, 3] = field, torch.atan2(angle.sin(), angle.cos())
