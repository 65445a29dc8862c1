"""Proximity: distances from points on a link to the nearest surface."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field

from sensorium.pipeline import SensorGroup
from sensorium.pipeline.launch import replayable
from sensorium.sensors.base import Format
from sensorium.sensors.options import SimpleSensorOptions
from sensorium.sensors.touch.probe_sensor import Point, ProbeSensor, Probing
from sensorium.sensors.touch.proximity_backend import CpuProximity, GpuProximity, ProximityBackend


class Proximity(SimpleSensorOptions, Probing):
    """Options of proximity probes (infrared, capacitive).

    Each probe is a point on a link that reads the distance to the nearest tracked surface in any direction. The generic
    imperfections act on the distances, in m; they do not change the nearest points.

    Example:
        >>> near = scene.add_sensor(sn.Proximity(link="hand", positions=((0, 0, 0.05), (0, 0.02, 0.05)), max_range=0.2))
        >>> near.read().distances   # (B, 2) m
    """

    positions: tuple[Point, ...] = Field(default=((0.0, 0.0, 0.0),), min_length=1)
    """Positions of the probes in the sensor's frame, m. Default: one at its origin."""
    max_range: float = Field(default=0.5, gt=0)
    """Distance at which readings saturate, m, unless ``saturation`` is set."""
    frame: Literal["world", "sensor"] = "world"
    """Frame of the nearest points."""


SurfaceDistanceProbe = Proximity


class ProximityData(NamedTuple):
    """Reading of n proximity probes."""

    distances: torch.Tensor
    """Distance to the nearest surface, (B, n) m; negative inside it, ``max_range`` if none is nearer."""
    points: torch.Tensor
    """Nearest point of this surface in ``frame``, (B, n, 3) m; the probe's own position if no surface is in range."""


class ProximitySensor(ProbeSensor[ProximityData], options=Proximity):
    """Proximity probes. See :class:`Proximity`."""

    Data = ProximityData
    units = {"distances": "m", "points": "m"}

    def _local(self) -> tuple[np.ndarray, None, np.ndarray]:
        positions = np.asarray(self.options.positions)
        return positions, None, np.full(len(positions), self.options.max_range)

    def _get_return_format(self) -> Format:
        n = len(self.options.positions)
        return {"distances": (n,), "points": (n, 3)}

    def _channels(self) -> dict[str, slice]:
        return {"": slice(0, len(self.options.positions))}

    def _initial(self) -> list[tuple[str, Any]]:
        given = super()._initial()
        return given if self.options.saturation else [*given, ("saturation", (None, self.options.max_range))]

    @classmethod
    def _build_group(cls, group: SensorGroup[ProximityBackend]) -> ProximityBackend:
        return GpuProximity(group) if group.is_gpu else CpuProximity(group)

    @classmethod
    @replayable
    def _update_raw_data(cls, group: SensorGroup[ProximityBackend], out: torch.Tensor) -> None:
        group.backend.update(out)
