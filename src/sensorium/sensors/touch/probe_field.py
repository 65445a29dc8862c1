"""Probe field: the nearest tracked surface to every probe of a class of sensors, or the depth along its normal."""

from __future__ import annotations

import numpy as np

from sensorium.pipeline import SensorGroup
from sensorium.pipeline.launch import launch
from sensorium.sensors.touch.nearest import nearest_surfaces
from sensorium.sensors.touch.normal_depth import depths_along_normals
from sensorium.sensors.touch.probe_layout import ProbeLayout


class ProbeField:
    """Probes of all sensors of a class, and the nearest surface to each, or the depth along its normal.

    Attributes:
        sensors: those of :class:`~sensorium.sensors.touch.probe_layout.ProbeLayout`, (S, 5).
        probes: those of the layout, (N, 9).
        distance: signed distance to the nearest tracked surface, at most the probe's reach, (B, N) m.
        point: nearest point of it in the world frame, or the probe's own position if it is out of reach, (B, N, 3) m.
        position: the probe in the world frame, (B, N, 3) m.
        depth: how far the probe is pressed in, (B, N) m; 0 out of reach. To the nearest surface: how far the sphere of
            radius reach around the probe goes into it, ``reach - distance``, times the cosine between the probe's
            normal and the surface's inward one if the probe has a normal. Along the normal: how far the body reaches
            behind the point that lies in front of the probe by its reach. Distance and point are not set then.
        body: body of this surface, or -1 out of reach, (B, N).
    """

    def __init__(self, group: SensorGroup) -> None:
        world, layout = group.world, ProbeLayout(group)
        self.sensors, self.probes = layout.sensors, layout.probes
        found = np.zeros((world.n_envs, len(layout.probes), 11))
        self.distance, self.depth = found[:, :, 0], found[:, :, 10]
        self.point, self.position = found[:, :, 1:4], found[:, :, 7:10]
        self.body = np.full((world.n_envs, len(layout.probes)), -1, np.int64)
        self._kernels = [nearest_surfaces] if layout.to_nearest else []
        self._kernels += [depths_along_normals] if layout.along_normals else []
        self._arguments = (
            *(world.bind(field).numpy() for field in ("geom_xpos", "geom_xmat", "xpos", "xmat")),
            layout.sensors,
            layout.bounds,
            layout.probes,
            layout.index,
            layout.shape,
            layout.faces,
            layout.heights,
            np.zeros(max(len(layout.index), 1), np.int64),
            found,
            self.body,
        )

    def update(self) -> None:
        """Find the surfaces in the current state of the world."""
        for kernel in self._kernels:
            launch(kernel, *self._arguments)
