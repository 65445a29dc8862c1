"""Proximity: how far the nearest surface is from points on a link."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field

from sensorium.jit import kernel
from sensorium.pipeline.launch import launch, replayable
from sensorium.sensors.base import Format
from sensorium.sensors.options import SimpleSensorOptions
from sensorium.sensors.touch.probes import Point, ProbeSensor, Probing


class Proximity(SimpleSensorOptions, Probing):
    """Options of proximity probes (infrared, capacitive): the distance from each of some points on a link to the
    nearest surface of what is tracked, in any direction.

    The generic imperfections act on the distances, in metres; the points stay as they are.

    Example:
        >>> near = scene.add_sensor(sn.Proximity(link="hand", positions=((0, 0, 0.05), (0, 0.02, 0.05)), max_range=0.2))
        >>> near.read().distances   # (B, 2) m
    """

    positions: tuple[Point, ...] = Field(default=((0.0, 0.0, 0.0),), min_length=1)
    """The probes, in the sensor's frame, m. Default: one at its origin."""
    max_range: float = Field(default=0.5, gt=0)
    """Distance at which readings saturate, m (where ``saturation`` says nothing else)."""
    frame: Literal["world", "sensor"] = "world"
    """The frame that the nearest points are given in."""


SurfaceDistanceProbe = Proximity


class ProximityData(NamedTuple):
    """What n proximity probes read."""

    distances: torch.Tensor
    """Distance to the nearest surface, (B, n) m; negative inside it, ``max_range`` where there is none nearer."""
    points: torch.Tensor
    """The nearest point of that surface, (B, n, 3) m, in the frame of the options; the probe's own position where there
    is none in range."""


class ProximitySensor(ProbeSensor[ProximityData], options=Proximity):
    """See :class:`Proximity`."""

    Data = ProximityData

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
    def _build_group(cls, group: Any) -> None:
        super()._build_group(group)
        frames = np.zeros((len(group.sensors), 13))  # position and rotation in the link's frame; whether to use it
        for row, sensor in zip(frames, group.sensors, strict=True):
            position, rotation = sensor._frame()
            row[:3], row[3:12], row[12] = position, rotation.ravel(), sensor.options.frame == "sensor"
        field, bind = group.field, group.world.bind
        group.arguments = field.sensors, frames, bind("xpos").numpy(), bind("xmat").numpy(), field.distance, field.point

    @classmethod
    @replayable
    def _update_raw_data(cls, group: Any, out: torch.Tensor) -> None:
        group.field.update()
        launch(_fill, *group.arguments, group.array(out))


@kernel
def _fill(
    sensors: np.ndarray,
    frames: np.ndarray,
    xpos: np.ndarray,
    xmat: np.ndarray,
    distance: np.ndarray,
    point: np.ndarray,
    out: np.ndarray,
) -> None:
    for env in range(out.shape[1]):
        for s in range(sensors.shape[0]):
            link, first, last = sensors[s, 0], sensors[s, 1], sensors[s, 2]
            start, count = 4 * first, last - first
            m, f = xmat[env, link], frames[s]
            for i in range(count):
                out[start + i, env] = distance[env, first + i]
                x, y, z = point[env, first + i, 0], point[env, first + i, 1], point[env, first + i, 2]
                if f[12] > 0:  # world to link to sensor
                    x, y, z = x - xpos[env, link, 0], y - xpos[env, link, 1], z - xpos[env, link, 2]
                    lx = m[0] * x + m[3] * y + m[6] * z - f[0]
                    ly = m[1] * x + m[4] * y + m[7] * z - f[1]
                    lz = m[2] * x + m[5] * y + m[8] * z - f[2]
                    x = f[3] * lx + f[6] * ly + f[9] * lz
                    y = f[4] * lx + f[7] * ly + f[10] * lz
                    z = f[5] * lx + f[8] * ly + f[11] * lz
                column = start + count + 3 * i
                out[column, env], out[column + 1, env], out[column + 2, env] = x, y, z
