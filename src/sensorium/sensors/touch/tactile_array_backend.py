"""Backend of tactile arrays on the CPU."""

from __future__ import annotations

import numpy as np
import torch

from sensorium.pipeline import SensorGroup
from sensorium.pipeline.launch import launch
from sensorium.sensors.touch.probe_field import ProbeField
from sensorium.sensors.touch.probe_sensor import unit
from sensorium.sensors.touch.skin import Skin
from sensorium.sensors.touch.taxel_kernels import share_wrenches, spring_forces


class CpuTactileArray:
    """Tactile arrays of one scene, with the displacement of their springs."""

    def __init__(self, group: SensorGroup[CpuTactileArray]) -> None:
        self._array, self._field = group.array, ProbeField(group)
        field, world, model = self._field, group.world, group.world.model
        local = [sensor._local() for sensor in group.sensors]
        self._skin = Skin(group, [positions for positions, _, _ in local], width=3, blocks=2)
        axes = [tangents(normals) for _, normals, _ in local]  # (n, 3, 3) in the sensor's frame, rows t1, t2, normal
        rotations = [sensor._frame()[1] for sensor in group.sensors]
        in_link = np.concatenate([rows @ rotation.T for rows, rotation in zip(axes, rotations, strict=True)])
        shown = np.concatenate(
            [
                rows if sensor.options.frame == "sensor" else np.broadcast_to(np.eye(3), rows.shape)
                for rows, sensor in zip(axes, group.sensors, strict=True)
            ]
        )
        options = [sensor.options for sensor in group.sensors]
        law = np.array(
            [
                (o.exponent, o.stiffness or 0.0, o.damping, o.shear_stiffness, o.twist_stiffness, o.friction)
                for o in options
            ]
        )
        addresses = [[int(model.sensor(name).adr[0]) for name in sensor._wrenches] for sensor in group.sensors]
        wrenches = np.full((len(addresses), max(1, *map(len, addresses))), -1, np.int64)
        for row, of_sensor in zip(wrenches, addresses, strict=True):
            row[: len(of_sensor)] = of_sensor
        n = len(field.probes)
        common = field.sensors, field.probes, np.ascontiguousarray(in_link), np.ascontiguousarray(shown), law
        xpos, xmat, cvel = (world.bind(name).numpy() for name in ("xpos", "xmat", "cvel"))
        com, data = world.bind("subtree_com").numpy(), world.bind("sensordata").numpy()
        self._shares = any(o.stiffness is None for o in options)
        self._springs = any(o.stiffness is not None for o in options)
        self._share_arguments = (*common, wrenches, data, xpos, xmat, field.depth, np.zeros((n, 2)))
        # touching, displacement along t1 and t2, and rotation about the normal since first touch
        motion = group.state("motion", 4 * n).numpy()
        bodies = (xmat, cvel, com, model.body_rootid.astype(np.int64))
        self._spring_arguments = (*common, *bodies, field.depth, field.position, field.body, motion, group.dt)

    def update(self, out: torch.Tensor) -> None:
        """Fill ``out`` (6 * taxels, B): of each sensor its forces (N), then its torques (N·m)."""
        self._field.update()
        array = self._array(out)
        if self._shares:
            launch(share_wrenches, *self._share_arguments, array)
        if self._springs:
            launch(spring_forces, *self._spring_arguments, array)

    def imperfect(self, data: torch.Tensor) -> None:
        """Apply the imperfections of skin and hardware in place on ``data`` (columns, B)."""
        self._skin.imperfect(data)


def tangents(normals: np.ndarray) -> np.ndarray:
    """Return right-handed frames (n, 3, 3) with rows t1, t2, normal.

    t1 is perpendicular to y (along x for normals along z), and for normals along y perpendicular to x.
    """
    along_y = np.abs(normals[:, 1]) > 0.999
    across = np.where(along_y[:, None], (1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
    first = unit(np.cross(across, normals))
    return np.stack([first, np.cross(normals, first), normals], axis=1)
