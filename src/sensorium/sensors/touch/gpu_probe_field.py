"""Probe field on the GPU, and launches of Warp kernels over its probes."""

from __future__ import annotations

import numpy as np
import torch
import warp as wp

from sensorium.pipeline import SensorGroup
from sensorium.sensors.touch import warp_field_kernels as kernels
from sensorium.sensors.touch.probe_layout import ProbeLayout
from sensorium.sensors.warp_lanes import lanes_on


class GpuProbeField:
    """Probes of all sensors of a class on the GPU engine; see :class:`~sensorium.sensors.touch.probe_field.ProbeField`.

    In the reset of some envs, those of the other envs are not updated.

    Attributes:
        layout: constants of the probes and surfaces.
        struct: the same as the argument ``field`` of Warp kernels.
        distance, point, depth, body: as those of ``ProbeField``, in float32 and int32.
        bodies: poses of the bodies, ``xpos`` and ``xmat``.
    """

    def __init__(self, group: SensorGroup) -> None:
        world, self.layout, self._group = group.world, ProbeLayout(group), group
        self._lanes = lanes_on(group.device)
        layout, n_envs = self.layout, group.n_envs
        self._shape = (n_envs, len(layout.probes))
        self.distance, self.depth = (self._zeros(self._shape) for _ in range(2))
        self.point = self._zeros((*self._shape, 3))
        self.body = self.upload(np.full(self._shape, -1))
        self.bodies = [wp.from_torch(world.bind(name)) for name in ("xpos", "xmat")]
        self._poses = [*(wp.from_torch(world.bind(name)) for name in ("geom_xpos", "geom_xmat")), *self.bodies]
        self._all_envs = wp.from_torch(torch.ones(n_envs, dtype=torch.bool, device=group.device))
        self.struct = kernels.Field()
        first, last = layout.sensors[:, 1], layout.sensors[:, 2]
        for name in ("sensors", "bounds", "probes", "index", "shape", "faces", "heights"):
            setattr(self.struct, name, self.upload(getattr(layout, name)))
        self.struct.owner = self.upload(np.repeat(np.arange(len(first)), last - first))
        self.struct.near = self.upload(np.zeros((n_envs, len(layout.index)), int))
        self.struct.count = self.upload(np.zeros((n_envs, len(first)), int))

    def _zeros(self, shape: tuple[int, ...]) -> wp.array:
        return wp.from_torch(torch.zeros(shape, device=self._group.device))

    def upload(self, values: np.ndarray) -> wp.array:
        """Copy an array to the device; integers become int32, floats keep their type."""
        values = values.astype(np.int32) if values.dtype.kind in "iu" else values
        return wp.from_torch(torch.from_numpy(np.array(values)).to(self._group.device))

    def launch(self, kernel: object, *inputs: object) -> None:
        """Launch a kernel of dimension (probes, B)."""
        self._launch(kernel, self._shape[::-1], *inputs)

    def launch_lanes(self, kernel: object, *inputs: object) -> None:
        """Launch a kernel of dimension (B, sensors, lanes), whose last argument is the number of lanes."""
        self._launch(kernel, (self._group.n_envs, len(self._group.sensors), self._lanes), *inputs, self._lanes)

    def _launch(self, kernel: object, dim: tuple[int, ...], *inputs: object) -> None:
        arguments = [_argument(value) for value in inputs]
        wp.launch(kernel, dim=dim, inputs=arguments, device=str(self._group.device))

    def envs(self) -> wp.array:
        """Return the mask (B,) of the envs that the reset or the step concerns."""
        mask = self._group.restarting
        return self._all_envs if mask is None else wp.from_torch(mask)

    def update(self) -> None:
        """Find the surfaces in the current state of the world."""
        envs = self.envs()
        self.launch_lanes(kernels.find_near, self.struct, *self._poses, envs)
        found = (self.depth, self.body)
        if self.layout.to_nearest:
            nearest = (self.struct, *self._poses, envs, self.distance, self.point, *found)
            self._launch(kernels.nearest_surfaces, self._shape, *nearest)
        if self.layout.along_normals:
            self._launch(kernels.depths_along_normals, self._shape, self.struct, *self._poses, envs, *found)


def _argument(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return wp.from_torch(value)
    return wp.float64(value) if isinstance(value, float) else value
