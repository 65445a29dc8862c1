"""Contact probes: spheres on a link that measure how deep they go into the surfaces that they touch."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from pydantic import Field, model_validator

from sensorium.pipeline import SensorGroup
from sensorium.pipeline.hold import holds_output
from sensorium.pipeline.imperfections import Spread
from sensorium.pipeline.launch import replayable
from sensorium.sensors.base import Format
from sensorium.sensors.options import SimpleSensorOptions
from sensorium.sensors.touch.contact_probe_backend import (
    CpuDepthProbes,
    CpuSwitchProbes,
    DepthProbesBackend,
    GpuDepthProbes,
    GpuSwitchProbes,
    SwitchProbesBackend,
)
from sensorium.sensors.touch.probe_sensor import (
    Point,
    Probing,
    check_count,
    check_normals,
    per_probe,
    unit,
)
from sensorium.sensors.touch.skin_sensor import SkinSensor
from sensorium.sensors.touch.tactile_realism import TactileRealism


class ContactDepthProbe(SimpleSensorOptions, TactileRealism, Probing):
    """Options of probes that read how deep they are pressed in.

    A probe is a sphere of ``radius`` at its position. With ``depth="nearest"``, its depth is how far this sphere goes
    into the nearest tracked surface: max(0, radius - signed distance from its centre to the surface). If the probe has
    a normal, the depth is multiplied by the cosine between the normal and the direction into the surface, or by 0 if
    that is negative: a probe on the front of a finger does not feel anything behind it.

    With ``depth="normal"``, the depth is how far a tracked body reaches behind the point that lies in front of the
    probe's position by ``radius``, along the normal: what a plunger measures.

    The generic imperfections act on the depth, in m; those of tactile skins act before them.

    Example:
        >>> tip = scene.add_sensor(sn.ContactDepthProbe(link="finger", pos=(0, 0, 0.05), radius=0.004, noise=1e-4))
        >>> tip.read()   # (B, 1) m
    """

    positions: tuple[Point, ...] = Field(default=((0.0, 0.0, 0.0),), min_length=1)
    """Centres of the probes, in the sensor's frame, m. Default: one at its origin."""
    normals: Point | tuple[Point, ...] | None = None
    """Directions out of the link's surface, in the sensor's frame, one for all probes or one per probe. Default: probes
    feel in all directions."""
    radius: Spread = 0.005
    """Radius of the probes, m, one for all probes or one per probe."""
    depth: Literal["nearest", "normal"] = "nearest"
    """Which depth: into the nearest surface, or along the probe's normal. The latter needs ``normals``."""

    @model_validator(mode="after")
    def _check_probes(self) -> ContactDepthProbe:
        count = len(self.positions)
        if isinstance(self.radius, tuple):
            check_count("radius", self.radius, count)
        if self.normals is not None:
            check_normals(self.normals, count)
        elif self.depth == "normal":
            raise ValueError("depth='normal' needs normals; give normals, or use depth='nearest'")
        self._check_taxels(count)
        return self


class ContactProbe(ContactDepthProbe):
    """Options of probes that read whether they touch.

    The depth of a :class:`ContactDepthProbe` drives a switch with hysteresis: it closes when the depth reaches
    ``contact_threshold``, and opens when the depth falls below ``release_threshold``. Imperfections act on the depth
    before the switch: noise makes it bounce, and hysteresis prevents that.

    Example:
        >>> tip = scene.add_sensor(
        ...     sn.ContactProbe(link="finger", radius=0.004, contact_threshold=0.002, release_threshold=0.001)
        ... )
        >>> tip.read()   # (B, 1) bool
    """

    contact_threshold: float = Field(default=0.0, ge=0)
    """Depth at which a switch closes, m. At 0, it closes at any depth > 0."""
    release_threshold: float | None = Field(default=None, ge=0)
    """Depth below which a switch opens, m. Default: ``contact_threshold``, without hysteresis."""

    @model_validator(mode="after")
    def _check_thresholds(self) -> ContactProbe:
        if self.release_threshold is not None and self.release_threshold > self.contact_threshold:
            raise ValueError(
                f"release_threshold must be <= contact_threshold, got release_threshold={self.release_threshold:g} "
                f"with contact_threshold={self.contact_threshold:g}"
            )
        return self


KinematicContactProbe = ContactProbe


class ContactDepthProbeSensor(SkinSensor[torch.Tensor], options=ContactDepthProbe):
    """Contact depth probe. See :class:`ContactDepthProbe`. Reads (B, n) m."""

    kind = "contact_depth_probe"
    units = {"value": "m"}

    def _local(self) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        options, count = self.options, len(self.options.positions)
        normals = None if options.normals is None else unit(per_probe(options.normals, count, 3))
        return np.asarray(options.positions), normals, per_probe(options.radius, count, 1)[:, 0]

    def _rigid_depth(self) -> float | None:
        return 0.0 if self.options.depth == "normal" else None

    def _get_return_format(self) -> Format:
        return (len(self.options.positions),)

    @classmethod
    def _build_group(cls, group: SensorGroup[DepthProbesBackend]) -> DepthProbesBackend:
        return GpuDepthProbes(group) if group.is_gpu else CpuDepthProbes(group)


class ContactProbeSensor(ContactDepthProbeSensor, options=ContactProbe):
    """Contact probe. See :class:`ContactProbe`. Reads (B, n) bool.

    The intermediate columns are the depths of the probes, followed by the states of their switches (1 closed, 0 open).
    As part of the signal, states are held between samples and cleared by a reset.
    """

    kind = "contact_probe"
    units = {}

    def _get_intermediate_format(self) -> Format:
        n = len(self.options.positions)
        return {"depth": (n,), "closed": (n,)}

    def _channels(self) -> dict[str, slice]:
        return {"": slice(0, len(self.options.positions))}

    @classmethod
    def _get_cache_dtype(cls) -> torch.dtype:
        return torch.bool

    @classmethod
    def _build_group(cls, group: SensorGroup[DepthProbesBackend]) -> SwitchProbesBackend:
        return GpuSwitchProbes(group) if group.is_gpu else CpuSwitchProbes(group)

    @classmethod
    @holds_output
    @replayable
    def _post_process(
        cls, group: SensorGroup[SwitchProbesBackend], data: torch.Tensor, out: torch.Tensor, is_measured: bool
    ) -> None:
        group.backend.post_process(data, out)
