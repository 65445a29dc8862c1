"""Backend of elastomer pads on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from sensorium.pipeline import SensorGroup
from sensorium.pipeline.launch import launch
from sensorium.sensors.touch.elastomer_kernels import displace
from sensorium.sensors.touch.probe_field import ProbeField
from sensorium.sensors.touch.skin import Skin

if TYPE_CHECKING:
    from sensorium.sensors.touch.elastomer import ElastomerDisplacement


class CpuElastomer:
    """Elastomer pads of one scene, with the drag of their markers."""

    def __init__(self, group: SensorGroup[CpuElastomer]) -> None:
        self._array, self._field = group.array, ProbeField(group)
        self._skin = Skin(group, [sensor._local()[0] for sensor in group.sensors], width=3)
        field, world, n = self._field, group.world, len(self._field.probes)
        grids = np.array([sensor.options.grid for sensor in group.sensors], np.int64)
        pads = np.zeros((len(group.sensors), 11))  # rotation in the link's frame, thickness, slip limit per depth
        for pad, sensor in zip(pads, group.sensors, strict=True):
            options = sensor.options
            pad[:9] = sensor._frame()[1].ravel()
            pad[9] = options.thickness
            pad[10] = options.friction * 2 * (1 + options.poisson_ratio)
        longest = int(grids.max())
        self._arguments = (
            field.sensors,
            grids,
            pads,
            np.array([_gaussians(sensor.options, longest) for sensor in group.sensors]),
            *(world.bind(name).numpy() for name in ("xmat", "cvel", "subtree_com")),
            world.model.body_rootid.astype(np.int64),
            field.depth,
            field.position,
            field.body,
            group.state("motion", 3 * n).numpy(),  # touching, drag along x and y since first touch
            np.zeros((3, n)),
            np.zeros((6, n)),
            group.dt,
        )

    def update(self, out: torch.Tensor) -> None:
        """Fill ``out`` (3 * markers, B) with displacements in the sensor's frame, m."""
        self._field.update()
        launch(displace, *self._arguments, self._array(out))

    def imperfect(self, data: torch.Tensor) -> None:
        """Apply the imperfections of skin and hardware in place on ``data`` (columns, B)."""
        self._skin.imperfect(data)


def _gaussians(options: ElastomerDisplacement, longest: int) -> np.ndarray:
    """Return the Gaussians of a pad over how many cells two markers are apart, (6, 2 * longest - 1).

    Rows: dilation along y and along x; both times the distance; shear along y and along x.
    """
    (rows, columns), (width, height) = options.grid, options.size
    area = width * height / (rows * columns)
    spread, drag = options.dilation_length, options.shear_length
    bulge = 2 * options.poisson_ratio * area / (2 * np.pi * options.thickness * spread**2)
    apart = np.arange(1 - longest, longest)
    y, x = apart * (height / rows), apart * (width / columns)
    along_y, along_x = bulge * np.exp(-(y**2) / (2 * spread**2)), np.exp(-(x**2) / (2 * spread**2))
    shear_y = area / (2 * np.pi * drag**2) * np.exp(-(y**2) / (2 * drag**2))
    shear_x = np.exp(-(x**2) / (2 * drag**2))
    return np.array([along_y, along_x, y * along_y, x * along_x, shear_y, shear_x])
