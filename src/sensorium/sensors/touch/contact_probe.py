"""Contact probes: spheres on a link that feel how deep they go into what they touch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from pydantic import Field, model_validator

from sensorium.jit import kernel
from sensorium.pipeline.imperfections import Spread
from sensorium.pipeline.launch import launch, replayable
from sensorium.sensors.base import Format
from sensorium.sensors.options import SimpleSensorOptions
from sensorium.sensors.touch.probes import (
    Point,
    ProbeSensor,
    Probing,
    check_count,
    check_normals,
    per_probe,
    unit,
)
from sensorium.sensors.touch.tactile_realism import Skin, TactileRealism, realism_parameters


class ContactDepthProbe(SimpleSensorOptions, TactileRealism, Probing):
    """Options of probes that read how deep they are pressed in.

    A probe is a sphere of ``radius`` at its position. Its depth is how far that sphere goes into the nearest surface
    of what is tracked: radius - signed distance from its centre to that surface, and 0 where that is negative. With a
    normal, only the component along it counts: times the cosine between the normal and the direction into the surface,
    0 where that points away, so that a probe on the front of a finger feels nothing behind it.

    The generic imperfections act on the depth, in metres; those of tactile skins before them.

    Example:
        >>> tip = scene.add_sensor(sn.ContactDepthProbe(link="finger", pos=(0, 0, 0.05), radius=0.004, noise=1e-4))
        >>> tip.read()   # (B, 1) m
    """

    positions: tuple[Point, ...] = Field(default=((0.0, 0.0, 0.0),), min_length=1)
    """Centres of the probes, in the sensor's frame, m. Default: one at its origin."""
    normals: Point | tuple[Point, ...] | None = None
    """Direction out of the link's surface, in the sensor's frame, one for all or one a probe. Default: a probe feels
    all around."""
    radius: Spread = 0.005
    """Radius of the probes, m, one for all or one a probe."""

    @model_validator(mode="after")
    def _check_probes(self) -> ContactDepthProbe:
        count = len(self.positions)
        if isinstance(self.radius, tuple):
            check_count("radius", self.radius, count)
        if self.normals is not None:
            check_normals(self.normals, count)
        self._check_taxels(count)
        return self


class ContactProbe(ContactDepthProbe):
    """Options of probes that read whether they touch: the depth of a :class:`ContactDepthProbe`, through a switch with
    hysteresis.

    A switch closes when the depth reaches ``contact_threshold``, and opens when it falls below ``release_threshold``.
    Imperfections act on the depth before the switch: noise makes it bounce, hysteresis keeps it from that.

    Example:
        >>> tip = scene.add_sensor(
        ...     sn.ContactProbe(link="finger", radius=0.004, contact_threshold=0.002, release_threshold=0.001)
        ... )
        >>> tip.read()   # (B, 1) bool
    """

    contact_threshold: float = Field(default=0.0, ge=0)
    """Depth at which a switch closes, m. At 0 it closes with any depth at all."""
    release_threshold: float | None = Field(default=None, ge=0)
    """Depth below which it opens again, m. Default: ``contact_threshold``, without hysteresis."""

    @model_validator(mode="after")
    def _check_thresholds(self) -> ContactProbe:
        if self.release_threshold is not None and self.release_threshold > self.contact_threshold:
            raise ValueError(
                f"release_threshold must not exceed contact_threshold, got release_threshold="
                f"{self.release_threshold:g} with contact_threshold={self.contact_threshold:g}"
            )
        return self


KinematicContactProbe = ContactProbe


class ContactDepthProbeSensor(ProbeSensor[torch.Tensor], options=ContactDepthProbe):
    """See :class:`ContactDepthProbe`. Reads (B, n) m."""

    kind = "contact_depth_probe"

    def _local(self) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        options, count = self.options, len(self.options.positions)
        normals = None if options.normals is None else unit(per_probe(options.normals, count, 3))
        return np.asarray(options.positions), normals, per_probe(options.radius, count, 1)[:, 0]

    def _get_return_format(self) -> Format:
        return (len(self.options.positions),)

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        return realism_parameters()

    @classmethod
    def _build_group(cls, group: Any) -> None:
        super()._build_group(group)
        group.skin = Skin(group, [sensor._local()[0] for sensor in group.sensors], width=1)

    @classmethod
    @replayable
    def _update_raw_data(cls, group: Any, out: torch.Tensor) -> None:
        group.field.update()
        launch(_fill, group.field.sensors, group.field.depth, 1, group.array(out))

    @classmethod
    @replayable
    def _apply_hardware_imperfections(cls, group: Any, data: torch.Tensor) -> None:
        group.skin.imperfect(data)


class ContactProbeSensor(ContactDepthProbeSensor, options=ContactProbe):
    """See :class:`ContactProbe`. Reads (B, n) bool.

    Behind the depths of a sensor lie the states of its switches, in both branches: 1 closed, 0 open. So they are part
    of the signal, which is held between samples and reset with it.
    """

    kind = "contact_probe"

    def _get_intermediate_format(self) -> Format:
        n = len(self.options.positions)
        return {"depth": (n,), "closed": (n,)}

    def _channels(self) -> dict[str, slice]:
        return {"": slice(0, len(self.options.positions))}

    @classmethod
    def _get_cache_dtype(cls) -> torch.dtype:
        return torch.bool

    @classmethod
    def _build_group(cls, group: Any) -> None:
        super()._build_group(group)
        every = [sensor.options for sensor in group.sensors]
        closes = [options.contact_threshold for options in every]
        opens = [options.release_threshold for options in every]
        group.thresholds = np.array(
            [(close, close if open_ is None else open_) for close, open_ in zip(closes, opens, strict=True)], np.float32
        )
        count = group.n_columns // 2
        group.closed = [group.state(branch, count).numpy() for branch in ("truth", "measured")]

    @classmethod
    @replayable
    def _update_raw_data(cls, group: Any, out: torch.Tensor) -> None:
        group.field.update()
        array = group.array(out)
        launch(_fill, group.field.sensors, group.field.depth, 2, array)
        launch(_switch, group.field.sensors, group.thresholds, group.closed[0], array)

    @classmethod
    @replayable
    def _apply_hardware_imperfections(cls, group: Any, data: torch.Tensor) -> None:
        super()._apply_hardware_imperfections(group, data)
        launch(_switch, group.field.sensors, group.thresholds, group.closed[1], group.array(data))

    @classmethod
    @replayable
    def _post_process(cls, group: Any, data: torch.Tensor, out: torch.Tensor, is_measured: bool) -> None:
        launch(_show, group.field.sensors, group.array(data), group.array(out))


@kernel
def _fill(sensors: np.ndarray, depth: np.ndarray, per_probe: int, out: np.ndarray) -> None:
    """The depths of each sensor at the start of its columns, of which it has ``per_probe`` a probe."""
    for s in range(sensors.shape[0]):
        first, last = sensors[s, 1], sensors[s, 2]
        for i in range(first, last):
            for env in range(out.shape[1]):
                out[(per_probe - 1) * first + i, env] = depth[env, i]


@kernel
def _switch(sensors: np.ndarray, thresholds: np.ndarray, closed: np.ndarray, data: np.ndarray) -> None:
    """From the depths of each sensor to the states of its switches behind them; ``closed`` remembers them."""
    for s in range(sensors.shape[0]):
        first, last = sensors[s, 1], sensors[s, 2]
        for i in range(first, last):
            for env in range(data.shape[1]):
                depth = data[first + i, env]
                threshold = thresholds[s, 1] if closed[i, env] > 0 else thresholds[s, 0]
                closed[i, env] = 1.0 if depth >= threshold and depth > 0 else 0.0
                data[last + i, env] = closed[i, env]


@kernel
def _show(sensors: np.ndarray, data: np.ndarray, out: np.ndarray) -> None:
    """The states of the switches alone."""
    for s in range(sensors.shape[0]):
        for i in range(sensors[s, 1], sensors[s, 2]):
            for env in range(out.shape[1]):
                out[i, env] = data[sensors[s, 2] + i, env] > 0
