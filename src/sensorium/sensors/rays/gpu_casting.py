"""Casting the rays of a group of sensors on the GPU: launches of kernels, which a CUDA graph holds."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import torch
import warp as wp

from sensorium.pipeline import SensorGroup
from sensorium.sensors.rays import kernels
from sensorium.sensors.rays import warp_kernels as ray_warp
from sensorium.sensors.rays.casting import Casting, RayMount, RayRig
from sensorium.worlds import GpuWorld, RayBatch

_TO = {
    "distances": ray_warp.TO_DISTANCES,
    "points": ray_warp.TO_POINTS,
    "normals": ray_warp.TO_NORMALS,
    "body_ids": ray_warp.TO_BODY_IDS,
    "intensity": ray_warp.TO_INTENSITY,
}


class GraphCaster(Casting):
    """The rays of all sensors of a group in a world that captures, from aiming to reading.

    Memory is of the order of rays x envs, allocated here once. In the reset of some envs, the other envs' rays are
    neither aimed nor cast.
    """

    def __init__(
        self, group: SensorGroup, rigs: list[RayRig], mounts: list[RayMount], columns: list[dict[int, int]]
    ) -> None:
        super().__init__(group, rigs, mounts, columns)
        world = self._world = cast(GpuWorld, group.world)
        self._device, n_envs, n_bodies = world.device, world.n_envs, world.model.nbody
        self._rays = ray_warp.Rays()
        self._rays.table = self._array(self.table, np.int32)
        self._rays.starts, self._rays.vectors = self._vec3(self._starts), self._vec3(self._vectors)
        self._rays.scale, self._rays.limits = self._array(self._scale), self._array(self.limits)
        self._rays.mounts = wp.from_torch(self._upload(self._mounts), dtype=wp.mat33)
        self._rays.geom_body = self._array(self._geom_body, np.int32)
        self._rays.reflectivity = self._array(self._reflectivity)
        beams = self.table[:, kernels.BEAMS]
        self._beam_sensor = self._array(np.repeat(np.arange(len(rigs)), beams), np.int32)
        self._beam_grid = (int(beams.sum()), n_envs)
        self._per_step_wp = self._array(self._per_step, np.float64)
        self._bodies = [
            wp.from_torch(world.bind(name).reshape(n_envs, n_bodies, -1), requires_grad=False)
            for name in ("xpos", "xmat")
        ]
        self._steps = wp.from_torch(world.steps)
        self._everyone = torch.ones(n_envs, dtype=torch.bool, device=self._device)
        self.fired = torch.ones(self._n_slots, n_envs, dtype=torch.uint8, device=self._device)
        self._fired_wp = wp.from_torch(self.fired)
        due = np.zeros((n_envs, len(rigs), self._most_due), np.int32)
        self._due = self._array(due, np.int32)
        self._frames = self._array(np.zeros((n_envs, len(rigs), kernels.POSE)))
        whole = self._plan(True)
        self._plans = (self._plan(False) if self.scans else whole, whole)

    def _upload(self, values: np.ndarray, dtype: Any = np.float32) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values, dtype)).to(self._device)

    def _array(self, values: np.ndarray, dtype: Any = np.float32) -> wp.array:
        return wp.from_torch(self._upload(values, dtype))

    def _vec3(self, values: np.ndarray) -> wp.array:
        return wp.from_torch(self._upload(values), dtype=wp.vec3)

    def _plan(self, whole: bool) -> _GpuPlan:
        bundles = self._counts(whole)
        rays = bundles * self.table[:, kernels.SPREAD]
        sensors = np.arange(len(rays))
        viewer = np.repeat(sensors, rays)
        batch = RayBatch.allocate(self._world.n_envs, viewer, self._excluded, self._needs_normals, self._device)
        plan = ray_warp.CastPlan()
        plan.whole = whole
        plan.sensor_of, plan.bundle_sensor = wp.from_torch(batch.viewer), self._array(sensors.repeat(bundles), np.int32)
        plan.first = self._array(np.cumsum(rays) - rays, np.int32)
        plan.first_bundle = self._array(np.cumsum(bundles) - bundles, np.int32)
        found = [wp.from_torch(batch.distances), wp.from_torch(batch.geoms)]
        vectors = [wp.from_torch(t, dtype=wp.vec3) for t in (batch.points, batch.directions, batch.normals)]
        return _GpuPlan(plan, batch, int(bundles.sum()), *vectors, *found)

    def set_readers(self, fields: list[dict[str, int]], no_hit: np.ndarray, rays: list[Any], keys: list[Any]) -> None:
        """Say what is read.

        Args:
            fields: per sensor, the first return column of each field that is read.
            no_hit: (sensors, 2), what a distance, and the distance of a point, is without a return.
            rays: per sensor, origins and directions (beams, 3) of the beams, in the frame in which points are made.
            keys: of the noise and of the losses of each beam, (beams, 2) uint32 each.
        """
        to = np.full((len(fields), len(_TO)), -1, np.int32)
        for row, places in zip(to, fields, strict=True):
            for name, first in places.items():
                row[_TO[name]] = first
        self._to, self._no_hit = self._array(to, np.int32), self._array(no_hit)
        self._own_rays = [self._vec3(np.concatenate(parts)) for parts in zip(*rays, strict=True)]
        self._keys = [self._array(words.view(np.int32), np.int32) for words in keys]

    def _launch(self, kernel: Any, dim: tuple[int, ...], *inputs: Any) -> None:
        wp.launch(kernel, dim=dim, inputs=list(inputs), device=str(self._device))

    def cast(self, out: torch.Tensor) -> None:
        """Fill ``out`` (columns, B) with the raw signal of the rays that are due; others keep what they have."""
        mask = self._group.restarting
        plan = self._plans[mask is not None]
        envs = self._everyone if mask is None else mask
        n_envs, mask_wp, columns = len(envs), wp.from_torch(envs), wp.from_torch(out)
        places = (n_envs, len(self.table))
        self._launch(
            ray_warp.place, places, self._rays, plan.struct.whole, *self._bodies, self._steps, self._per_step_wp,
            mask_wp, self._due, self._fired_wp, self._frames, columns,
        )  # fmt: skip
        known = (self._rays, plan.struct, self._due, self._frames, mask_wp)
        self._launch(ray_warp.aim, (n_envs, len(plan.batch.viewer)), *known, plan.points, plan.directions)
        self._world.cast(plan.batch, envs)
        hits = (plan.directions, plan.distances, plan.geoms, plan.normals)
        self._launch(ray_warp.collect, (n_envs, plan.n_bundles), *known, *hits, columns)

    def roughen(self, data: torch.Tensor) -> None:
        """Noise that grows with range, and lost returns, on the distances in ``data`` (columns, B)."""
        group = self._group
        parameters = [wp.from_torch(group.parameters[name]) for name in ("noise_per_metre", "ray_dropout")]
        inputs = (self._rays, self._beam_sensor, *parameters, *self._keys, wp.from_torch(group.counter))
        self._launch(ray_warp.roughen, self._beam_grid, *inputs, wp.from_torch(data))

    def hold(self, data: torch.Tensor, held: torch.Tensor) -> None:
        """What was not scanned in this step reads as it did, noise and all."""
        columns = (wp.from_torch(data), wp.from_torch(held))
        self._launch(ray_warp.hold, self._beam_grid, self._rays, self._beam_sensor, self._fired_wp, *columns)

    def read(self, data: torch.Tensor, out: torch.Tensor) -> None:
        """From intermediate columns to what is read."""
        inputs = (self._rays, self._beam_sensor, self._to, self._no_hit, *self._own_rays)
        self._launch(ray_warp.read, self._beam_grid, *inputs, wp.from_torch(data), wp.from_torch(out))


class _GpuPlan(NamedTuple):
    """Which rays an env casts, and where they are kept."""

    struct: Any
    batch: RayBatch
    n_bundles: int
    points: wp.array
    directions: wp.array
    normals: wp.array
    distances: wp.array
    geoms: wp.array
