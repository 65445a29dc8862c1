"""Force/torque sensor: the six-axis wrench between a link and its parent."""

from __future__ import annotations

from typing import NamedTuple

import mujoco
import numpy as np
import torch
from pydantic import Field, model_validator

from sensorium.errors import OptionError
from sensorium.pipeline import Imperfections, SensorGroup, SignalSource
from sensorium.pipeline.hold import holds_output
from sensorium.pipeline.launch import replayable
from sensorium.sensors.base import Format, SimpleSensor, add_site
from sensorium.sensors.options import ChannelOptions, Mounted
from sensorium.sensors.robot.force_torque_backend import CpuForceTorque, ForceTorqueBackend, GpuForceTorque
from sensorium.worlds import Names, Painter

_SITE = mujoco.mjtObj.mjOBJ_SITE


class ForceTorque(ChannelOptions, Mounted, init=False):
    """Options of a six-axis force/torque sensor.

    It reads the wrench that a link's parent exerts on the link and everything attached to it, at the sensor's position
    and in the sensor's frame. At rest the wrench carries the weight: mounted upright, the sensor reads +m g along z.

    ``tool_mass`` subtracts a known tool, as robot controllers do. The tool itself is part of the model; these options
    describe it to the controller. Tare other constant loads with ``force_bias`` and ``torque_bias``.

    Example:
        >>> wrist = scene.add_sensor(sn.ForceTorque(link="hand", tool_mass=0.7, tool_com=(0, 0, 0.06), force_noise=0.1))
        >>> wrist.read().force
    """

    link: str
    """The link that carries the load, or a site on it. The sensor then has the pose of the site: do not set ``pos``,
    ``quat`` or ``euler``. The link is usually one without joints, between the robot's flange and its tool."""
    tool_mass: float = Field(default=0.0, ge=0)
    """Mass of the tool whose weight is subtracted, kg."""
    tool_com: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Centre of mass of the tool in the sensor's frame, m."""
    tool_inertia: bool = False
    """Whether the force that accelerates the tool is subtracted too. The tool is a point mass at ``tool_com``, without
    rotational inertia."""
    force: Imperfections = Imperfections()
    """Imperfections of the force, N. ``saturation`` acts on the whole wrench, tool included."""
    torque: Imperfections = Imperfections()
    """Imperfections of the torque, N·m. ``saturation`` acts on the whole wrench, tool included."""

    @model_validator(mode="after")
    def _check_tool(self) -> ForceTorque:
        if self.tool_mass == 0 and (self.tool_inertia or any(self.tool_com)):
            raise ValueError("tool_com and tool_inertia need tool_mass > 0")
        return self


class ForceTorqueData(NamedTuple):
    """Reading of a force/torque sensor in its own frame, during the substep that ended at the reading."""

    force: torch.Tensor
    """Force on the link, (B, 3) N."""
    torque: torch.Tensor
    """Torque on the link about the sensor's origin, (B, 3) N·m."""


class ForceTorqueSensor(SimpleSensor[ForceTorqueData], options=ForceTorque):
    """Force/torque sensor. See :class:`ForceTorque`.

    Intermediate columns: force, torque, and "felt": the proper acceleration of the tool's centre with
    ``tool_inertia``, and the unit vector opposite to gravity without.
    """

    kind = "force_torque"
    Data = ForceTorqueData
    units = {"force": "N", "torque": "N·m"}

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        site = self._site(spec, names)
        self._mounting_site = site.name
        for part, kind in (("force", mujoco.mjtSensor.mjSENS_FORCE), ("torque", mujoco.mjtSensor.mjSENS_TORQUE)):
            spec.add_sensor(name=f"{self.uuid}:{part}", type=kind, objtype=_SITE, objname=site.name)
        felt = spec.add_sensor(name=f"{self.uuid}:felt", objtype=_SITE)
        if self.options.tool_inertia:
            felt.type, felt.objname = mujoco.mjtSensor.mjSENS_ACCELEROMETER, f"{self.uuid}:tool"
            offset = np.zeros(3)
            mujoco.mju_rotVecQuat(offset, np.asarray(self.options.tool_com), np.asarray(site.quat))
            site.parent.add_site(name=felt.objname, pos=np.asarray(site.pos) + offset, quat=site.quat)
        else:  # the direction opposite to gravity, in the sensor's frame
            felt.type, felt.objname = mujoco.mjtSensor.mjSENS_FRAMEZAXIS, f"{self.uuid}:up"
            felt.reftype, felt.refname = _SITE, site.name
            gravity, up = np.asarray(spec.option.gravity), np.array([1.0, 0.0, 0.0, 0.0])
            if np.linalg.norm(gravity) > 0:
                mujoco.mju_quatZ2Vec(up, -gravity / np.linalg.norm(gravity))
            spec.worldbody.add_site(name=felt.objname, quat=up)

    def _site_name(self) -> str:
        return self._mounting_site

    def _site(self, spec: mujoco.MjSpec, names: Names) -> mujoco.MjsSite:
        options, asked_by = self.options, f"ForceTorque(uuid={self.uuid!r})"
        kind, name = names.link_or_site(options.link, f"{asked_by}.link")
        if kind != _SITE:
            if spec.body(name).parent is None:
                raise OptionError(f"{asked_by}.link: {name!r} has no parent that could carry it; name another link")
            return spec.site(add_site(spec, names, options, self.uuid))
        if any(options.pos) or options.quat is not None or options.euler is not None:
            raise OptionError(f"{asked_by}: the site {name!r} already has a pose; do not set pos, quat or euler")
        site = spec.site(name)
        plain = site.alt.type == mujoco.mjtOrientation.mjORIENTATION_QUAT and np.isnan(site.fromto[0])
        if options.tool_inertia and (not plain or site.frame is not None):
            raise OptionError(
                f"{asked_by}.tool_inertia: the site {name!r} must be defined by pos and quat; "
                "name its link instead, and set pos and quat"
            )
        return site

    def _draw(self, painter: Painter, env: int) -> None:
        super()._draw(painter, env)
        self._draw_vector(painter, env, self._truths.force[env], 0.01)

    def _sources(self) -> list[SignalSource]:
        return [
            SignalSource((f"{self.uuid}:{part}",), axis) for part in ("force", "torque", "felt") for axis in range(3)
        ]

    def _get_intermediate_format(self) -> Format:
        return {"force": (3,), "torque": (3,), "felt": (3,)}

    def _get_return_format(self) -> Format:
        return {"force": (3,), "torque": (3,)}

    def _channels(self) -> dict[str, slice]:
        return {"force": slice(0, 3), "torque": slice(3, 6)}

    @classmethod
    def _build_group(cls, group: SensorGroup[ForceTorqueBackend]) -> ForceTorqueBackend:
        return GpuForceTorque(group) if group.is_gpu else CpuForceTorque(group)

    @classmethod
    @holds_output
    @replayable
    def _post_process(
        cls, group: SensorGroup[ForceTorqueBackend], data: torch.Tensor, out: torch.Tensor, is_measured: bool
    ) -> None:
        group.backend.post_process(data, out)
