"""Backends of tactile arrays on the CPU and on the GPU."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import torch

from sensorium.pipeline import SensorGroup
from sensorium.pipeline.launch import launch
from sensorium.sensors.touch.probe_sensor import unit
from sensorium.sensors.touch.skin_sensor import SkinBackend


class TactileArrayBackend(SkinBackend, Protocol):
    """Tactile arrays of one scene on one engine, with the displacement of their springs."""

    def update(self, out: torch.Tensor) -> None:
        """Fill ``out`` (6 * taxels, B): of each sensor its forces (N), then its torques (N·m)."""


class _Taxels(NamedTuple):
    """Constants of all taxels, as the kernels take them."""

    axes: np.ndarray
    """Tangents and normal of each taxel in its link's frame, (N, 3, 3)."""
    shown: np.ndarray
    """The same in the frame of the readings."""
    law: np.ndarray
    """Exponent, stiffness (0: forces come from the engine), damping, shear stiffness, twist stiffness and friction of
    each sensor, (S, 6)."""
    wrenches: np.ndarray
    """First elements of each sensor's wrenches in ``sensordata``, (S, most wrenches), -1 beyond the last."""


def _taxels(group: SensorGroup[TactileArrayBackend]) -> _Taxels:
    model, sensors = group.world.model, group.sensors
    axes = [tangents(sensor._local()[1]) for sensor in sensors]  # (n, 3, 3) in the sensor's frame, rows t1, t2, normal
    rotations = [sensor._frame()[1] for sensor in sensors]
    shown = [
        rows if sensor.options.frame == "sensor" else np.broadcast_to(np.eye(3), rows.shape)
        for rows, sensor in zip(axes, sensors, strict=True)
    ]
    options = [sensor.options for sensor in sensors]
    addresses = [[int(model.sensor(name).adr[0]) for name in sensor._wrenches] for sensor in sensors]
    wrenches = np.full((len(addresses), max(1, *map(len, addresses))), -1, np.int64)
    for row, of_sensor in zip(wrenches, addresses, strict=True):
        row[: len(of_sensor)] = of_sensor
    return _Taxels(
        np.concatenate([rows @ rotation.T for rows, rotation in zip(axes, rotations, strict=True)]),
        np.concatenate(shown),
        np.array(
            [
                (o.exponent, o.stiffness or 0.0, o.damping, o.shear_stiffness, o.twist_stiffness, o.friction)
                for o in options
            ]
        ),
        wrenches,
    )


def _motion(group: SensorGroup[TactileArrayBackend]) -> torch.Tensor:
    """Allocate whether each taxel touches, and its displacement along t1 and t2 and rotation about the normal since
    first touch, (4 * taxels, B)."""
    return group.state("motion", 4 * sum(sensor.options.count for sensor in group.sensors))


class CpuTactileArray:
    """Tactile arrays on the CPU engine."""

    def __init__(self, group: SensorGroup[TactileArrayBackend]) -> None:
        from sensorium.sensors.touch import taxel_kernels
        from sensorium.sensors.touch.probe_field import ProbeField
        from sensorium.sensors.touch.skin import Skin

        self._kernels, self._array, self._field = taxel_kernels, group.array, ProbeField(group)
        self._skin = Skin(group, [sensor._local()[0] for sensor in group.sensors], width=3, blocks=2)
        field, world, taxels = self._field, group.world, _taxels(group)
        common = (field.sensors, field.probes, *taxels[:3])
        xpos, xmat, cvel = (world.bind(name).numpy() for name in ("xpos", "xmat", "cvel"))
        com, data = world.bind("subtree_com").numpy(), world.bind("sensordata").numpy()
        self._shares, self._springs = (taxels.law[:, 1] == 0).any(), (taxels.law[:, 1] > 0).any()
        loads = np.zeros((len(field.probes), 2))
        self._share_arguments = (*common, taxels.wrenches, data, xpos, xmat, field.depth, loads)
        bodies, motion = (xmat, cvel, com, world.model.body_rootid.astype(np.int64)), _motion(group).numpy()
        self._spring_arguments = (*common, *bodies, field.depth, field.position, field.body, motion, group.dt)

    def update(self, out: torch.Tensor) -> None:
        self._field.update()
        array = self._array(out)
        if self._shares:
            launch(self._kernels.share_wrenches, *self._share_arguments, array)
        if self._springs:
            launch(self._kernels.spring_forces, *self._spring_arguments, array)

    def imperfect(self, data: torch.Tensor) -> None:
        self._skin.imperfect(data)


class GpuTactileArray:
    """Tactile arrays on the GPU engine."""

    def __init__(self, group: SensorGroup[TactileArrayBackend]) -> None:
        from sensorium.sensors.touch import warp_taxel_kernels as kernels
        from sensorium.sensors.touch.gpu_probe_field import GpuProbeField
        from sensorium.sensors.touch.gpu_skin import GpuSkin

        self._kernels, self._field = kernels, GpuProbeField(group)
        self._skin = GpuSkin(group, [sensor._local()[0] for sensor in group.sensors], width=3, blocks=2)
        field, world, taxels = self._field, group.world, _taxels(group)
        struct = kernels.Taxels()
        for name, values in taxels._asdict().items():
            setattr(struct, name, field.upload(values))
        self._common = (field.struct, struct)
        self._shares, self._springs = (taxels.law[:, 1] == 0).any(), (taxels.law[:, 1] > 0).any()
        weights, loads = (field.upload(np.zeros((group.n_envs, len(taxels.axes)))) for _ in range(2))
        solution = field.upload(np.zeros((len(group.sensors), kernels.SOLUTION, group.n_envs)))
        self._solved, self._scratch = (loads, solution), (field.depth, weights, loads, solution)
        self._wrenches = (world.bind("sensordata"), *field.bodies)
        root = field.upload(world.model.body_rootid)
        bodies = (*field.bodies, world.bind("cvel"), world.bind("subtree_com"), root)
        self._spring_inputs = (*bodies, field.depth, field.body, _motion(group), group.dt)

    def update(self, out: torch.Tensor) -> None:
        field, kernels = self._field, self._kernels
        field.update()
        if self._shares:
            field.launch_lanes(kernels.solve_loads, *self._common, *self._wrenches, field.envs(), *self._scratch)
            field.launch(kernels.share_wrenches, *self._common, *self._solved, out)
        if self._springs:
            field.launch(kernels.spring_forces, *self._common, *self._spring_inputs, out)

    def imperfect(self, data: torch.Tensor) -> None:
        self._skin.imperfect(data)


def tangents(normals: np.ndarray) -> np.ndarray:
    """Return right-handed frames (n, 3, 3) with rows t1, t2, normal.

    t1 is perpendicular to y (along x for normals along z), and for normals along y perpendicular to x.
    """
    along_y = np.abs(normals[:, 1]) > 0.999
    across = np.where(along_y[:, None], (1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
    first = unit(np.cross(across, normals))
    return np.stack([first, np.cross(normals, first), normals], axis=1)
