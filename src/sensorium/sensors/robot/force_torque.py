"""Force/torque: the six-axis wrench between a link and its parent."""

from __future__ import annotations

from typing import Any, NamedTuple

import mujoco
import numpy as np
import torch
from pydantic import Field, model_validator

from sensorium.errors import OptionError
from sensorium.pipeline import Imperfections, SignalSource
from sensorium.pipeline.launch import launch, replayable
from sensorium.sensors.base import Format, SimpleSensor, add_site
from sensorium.sensors.options import ChannelOptions, Mounted
from sensorium.worlds import Names, Painter

_SITE = mujoco.mjtObj.mjOBJ_SITE


class ForceTorque(ChannelOptions, Mounted, init=False):
    """Options of a six-axis force/torque sensor: the wrench that a link's parent puts on the link (with all that hangs
    on it), at the sensor's place and in its frame. At rest it bears the weight: mounted upright it reads +m g along z.

    ``tool_mass`` takes a known tool out of it, as robot controllers do. The tool is a part of the model like any other;
    these options say what the controller believes of it. What else is constant can be tared by ``force_bias`` and
    ``torque_bias``.

    Example:
        >>> wrist = scene.add_sensor(sn.ForceTorque(link="hand", tool_mass=0.7, tool_com=(0, 0, 0.06), force_noise=0.1))
        >>> wrist.read().force
    """

    link: str
    """The link that is borne, or a site on it, whose pose it then has: leave ``pos``, ``quat`` and ``euler`` out. The
    link is usually one without joints, between the robot's flange and its tool."""
    tool_mass: float = Field(default=0.0, ge=0)
    """Mass in kg whose weight is taken out of the reading."""
    tool_com: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Centre of that mass in the sensor's frame, m."""
    tool_inertia: bool = False
    """Whether the force that accelerates the tool's mass is taken out too; it is a point at ``tool_com``, without a
    rotational inertia of its own."""
    force: Imperfections = Imperfections()
    """Imperfections of the force, N. ``saturation`` acts on the whole wrench, tool included."""
    torque: Imperfections = Imperfections()
    """Imperfections of the torque, N·m. ``saturation`` acts on the whole wrench, tool included."""

    @model_validator(mode="after")
    def _check_tool(self) -> ForceTorque:
        if self.tool_mass == 0 and (self.tool_inertia or any(self.tool_com)):
            raise ValueError("tool_com and tool_inertia need a tool_mass greater than 0")
        return self


class ForceTorqueData(NamedTuple):
    """What a force/torque sensor reads, in its own frame; of the substep that ended now."""

    force: torch.Tensor
    """Force on the link, (B, 3) N."""
    torque: torch.Tensor
    """Torque on the link about the sensor's origin, (B, 3) N·m."""


class ForceTorqueSensor(SimpleSensor[ForceTorqueData], options=ForceTorque):
    """See :class:`ForceTorque`. Intermediate columns: force, torque, and what the tool's mass feels: the proper
    acceleration of the tool's centre, or of a tool at rest."""

    kind = "force_torque"
    Data = ForceTorqueData

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        site = self._site(spec, names)
        self._at = site.name
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
        return self._at

    def _site(self, spec: mujoco.MjSpec, names: Names) -> mujoco.MjsSite:
        options, asked_by = self.options, f"ForceTorque(uuid={self.uuid!r})"
        kind, name = names.link_or_site(options.link, f"{asked_by}.link")
        if kind != _SITE:
            if spec.body(name).parent is None:
                raise OptionError(f"{asked_by}.link: {name!r} has no parent to bear it; name another link")
            return spec.site(add_site(spec, names, options, self.uuid))
        if any(options.pos) or options.quat is not None or options.euler is not None:
            raise OptionError(f"{asked_by}: the site {name!r} has a pose; leave pos, quat and euler out")
        site = spec.site(name)
        plain = site.alt.type == mujoco.mjtOrientation.mjORIENTATION_QUAT and np.isnan(site.fromto[0])
        if options.tool_inertia and (not plain or site.frame is not None):
            raise OptionError(
                f"{asked_by}.tool_inertia needs the pose of {name!r} as pos and quat; "
                "name its link instead, and give pos and quat"
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
    def _build_group(cls, group: Any) -> None:
        # every element of the result is one of the wrench less at most two of what the tool feels, times the tool's
        # mass for forces; its centre x force for torques
        gravity = float(np.linalg.norm(group.world.model.opt.gravity))
        rows, weights = [], []
        for sensor, part in zip(group.sensors, group.slices, strict=True):
            options = sensor.options
            mass = options.tool_mass * (1.0 if options.tool_inertia else gravity)
            com = [mass * offset for offset in options.tool_com]
            for axis in range(3):
                rows.append([part.start + axis, part.start + 6 + axis, part.start + 6])
                weights.append([mass, 0.0])
            for axis in range(3):
                after, last = (axis + 1) % 3, (axis + 2) % 3
                rows.append([part.start + 3 + axis, part.start + 6 + last, part.start + 6 + after])
                weights.append([com[after], -com[last]])
        group.rows, group.weights = np.array(rows, np.int64), np.array(weights, np.float32)
        if not group.world.is_gpu:
            from sensorium.sensors.robot import kernels as robot_kernels

            group.kernel = robot_kernels.subtract_two
        else:
            group.rows = torch.from_numpy(group.rows).to(group.device).T
            group.weights = torch.from_numpy(group.weights).to(group.device).T.unsqueeze(-1)

    @classmethod
    @replayable
    def _post_process(cls, group: Any, data: torch.Tensor, out: torch.Tensor, is_measured: bool) -> None:
        if not group.world.is_gpu:
            launch(group.kernel, group.array(data), group.rows, group.weights, group.array(out))
        else:
            wrench, one, other = (data[rows] for rows in group.rows)
            out.copy_(wrench - group.weights[0] * one - group.weights[1] * other)
