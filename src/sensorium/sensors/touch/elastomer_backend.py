"""Backends of elastomer pads on the CPU and on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import torch

from sensorium.pipeline import SensorGroup
from sensorium.pipeline.launch import launch
from sensorium.sensors.touch.skin_sensor import SkinBackend

if TYPE_CHECKING:
    from sensorium.sensors.touch.elastomer import ElastomerDisplacement


class ElastomerBackend(SkinBackend, Protocol):
    """Elastomer pads of one scene on one engine, with the drag of their markers."""

    def update(self, out: torch.Tensor) -> None:
        """Fill ``out`` (3 * markers, B) with displacements in the sensor's frame, m."""


class _Pads(NamedTuple):
    """Constants of all pads, as the kernels take them."""

    grids: np.ndarray
    """Rows and columns of markers, (S, 2)."""
    pads: np.ndarray
    """Rotation in the link's frame, thickness, and slip limit per depth, (S, 11)."""
    tables: np.ndarray
    """See :func:`_gaussians`, (S, 6, 2 * longest - 1)."""


def _pads(group: SensorGroup[ElastomerBackend]) -> _Pads:
    grids = np.array([sensor.options.grid for sensor in group.sensors], np.int64)
    pads = np.zeros((len(group.sensors), 11))
    for pad, sensor in zip(pads, group.sensors, strict=True):
        options = sensor.options
        pad[:9] = sensor._frame()[1].ravel()
        pad[9] = options.thickness
        pad[10] = options.friction * 2 * (1 + options.poisson_ratio)
    longest = int(grids.max())
    return _Pads(grids, pads, np.array([_gaussians(sensor.options, longest) for sensor in group.sensors]))


def _motion(group: SensorGroup[ElastomerBackend]) -> torch.Tensor:
    """Allocate whether each marker touches, and its drag along x and y since first touch, (3 * markers, B)."""
    return group.state("motion")


class CpuElastomer:
    """Elastomer pads on the CPU engine."""

    def __init__(self, group: SensorGroup[ElastomerBackend]) -> None:
        from sensorium.sensors.touch.elastomer_kernels import displace
        from sensorium.sensors.touch.probe_field import ProbeField
        from sensorium.sensors.touch.skin import Skin

        self._kernel, self._array, self._field = displace, group.array, ProbeField(group)
        self._skin = Skin(group, [sensor._local()[0] for sensor in group.sensors], width=3)
        field, world, n = self._field, group.world, len(self._field.probes)
        self._arguments = (
            field.sensors,
            *_pads(group),
            *(world.bind(name).numpy() for name in ("xmat", "cvel", "subtree_com")),
            world.model.body_rootid.astype(np.int64),
            field.depth,
            field.position,
            field.body,
            _motion(group).numpy(),
            np.zeros((3, n)),
            np.zeros((6, n)),
            group.dt,
        )

    def update(self, out: torch.Tensor) -> None:
        self._field.update()
        launch(self._kernel, *self._arguments, self._array(out))

    def imperfect(self, data: torch.Tensor) -> None:
        self._skin.imperfect(data)


class GpuElastomer:
    """Elastomer pads on the GPU engine."""

    def __init__(self, group: SensorGroup[ElastomerBackend]) -> None:
        from sensorium.sensors.touch import warp_elastomer_kernels as kernels
        from sensorium.sensors.touch.gpu_probe_field import GpuProbeField
        from sensorium.sensors.touch.gpu_skin import GpuSkin

        self._kernels, self._field = kernels, GpuProbeField(group)
        self._skin = GpuSkin(group, [sensor._local()[0] for sensor in group.sensors], width=3)
        field, world, shape = self._field, group.world, (len(self._field.layout.probes), group.n_envs)
        struct = kernels.Pads()
        for name, values in _pads(group)._asdict().items():
            setattr(struct, name, field.upload(values))
        struct.root = field.upload(world.model.body_rootid)
        self._common = (field.struct, struct)
        sources, sums = (field.upload(np.zeros((count, *shape))) for count in (3, 4))
        self._touched = field.upload(np.zeros((len(group.sensors), group.n_envs), int))
        moving = (*field.bodies, world.bind("cvel"), world.bind("subtree_com"), field.depth, field.body)
        self._drag_inputs = (*moving, _motion(group), group.dt, sources, self._touched)
        self._sum_inputs = (sources, self._touched, sums)

    def update(self, out: torch.Tensor) -> None:
        field, kernels = self._field, self._kernels
        field.update()
        self._touched.zero_()
        field.launch(kernels.drag, *self._common, *self._drag_inputs)
        field.launch(kernels.sum_rows, *self._common, *self._sum_inputs)
        field.launch(kernels.displace, *self._common, *self._sum_inputs, out)

    def imperfect(self, data: torch.Tensor) -> None:
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
