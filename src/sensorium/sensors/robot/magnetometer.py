"""Magnetometer: the magnetic field in the sensor's frame, and the compass heading computed from it."""

from __future__ import annotations

from typing import NamedTuple

import mujoco
import torch
from pydantic import field_validator

from sensorium.pipeline import SensorGroup, SignalSource
from sensorium.pipeline.hold import holds_output
from sensorium.pipeline.imperfections import Matrix3
from sensorium.pipeline.launch import replayable
from sensorium.sensors.base import Format, SimpleSensor, add_site
from sensorium.sensors.options import Mounted, SimpleSensorOptions
from sensorium.sensors.robot.magnetometer_backend import CpuMagnetometer, GpuMagnetometer, MagnetometerBackend
from sensorium.worlds import Names


class Magnetometer(SimpleSensorOptions, Mounted):
    """Options of a magnetometer with a compass.

    The generic imperfections act on the field, in T; ``bias`` is hard iron. The heading is computed from the measured
    field.

    Example:
        >>> compass = scene.add_sensor(sn.Magnetometer(link="body", bias=(2e-6, 0, 0), declination=0.05))
        >>> compass.read().heading
    """

    soft_iron: Matrix3 | None = None
    """Matrix that is applied to the true field before the hard iron: measured = matrix @ field + bias."""
    declination: float = 0.0
    """Angle by which magnetic north lies east of true north, rad; added to the heading. The scene's
    ``magnetic_field`` defines magnetic north (by default along +y, where the declination is 0)."""
    tilt_compensation: bool = True
    """Whether the heading is computed from the horizontal part of the field, with the true direction of up as an ideal
    inclinometer would measure it. If False, the sensor is assumed to be level."""

    @field_validator("interpolate")
    @classmethod
    def _interpolate(cls, value: bool) -> bool:
        if value:
            raise ValueError("must be False: headings jump from pi to -pi")
        return value


class MagnetometerData(NamedTuple):
    """Reading of a magnetometer."""

    field: torch.Tensor
    """Magnetic field in the sensor's frame, (B, 3) T."""
    heading: torch.Tensor
    """Angle from true north to the sensor's x axis, clockwise seen from above, (B, 1) rad in (-pi, pi]."""


class MagnetometerSensor(SimpleSensor[MagnetometerData], options=Magnetometer):
    """Magnetometer with a compass. See :class:`Magnetometer`."""

    Data = MagnetometerData
    units = {"field": "T", "heading": "rad"}

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
    def _build_group(cls, group: SensorGroup[MagnetometerBackend]) -> MagnetometerBackend:
        return GpuMagnetometer(group) if group.is_gpu else CpuMagnetometer(group)

    @classmethod
    @holds_output
    @replayable
    def _post_process(
        cls, group: SensorGroup[MagnetometerBackend], data: torch.Tensor, out: torch.Tensor, is_measured: bool
    ) -> None:
        group.backend.post_process(data, out)
