"""Ray casting on the GPU: launches of Warp kernels, which a CUDA graph captures."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
import warp as wp

from sensorium.pipeline import SensorGroup
from sensorium.sensors.rays import kernels, warp_kernels, warp_lidar_kernels, warp_reading_kernels
from sensorium.sensors.rays.ray_backend import (
    DETECTION,
    IMPERFECTIONS,
    RayBackend,
    allocate_parameters,
    scanning_state,
)
from sensorium.sensors.rays.ray_layout import RayLayout, random_keys, reading_layouts
from sensorium.worlds import GpuWorld, RayBatch

_TO = {
    "distances": warp_reading_kernels.TO_DISTANCES,
    "points": warp_reading_kernels.TO_POINTS,
    "normals": warp_reading_kernels.TO_NORMALS,
    "body_ids": warp_reading_kernels.TO_BODY_IDS,
    "intensity": warp_reading_kernels.TO_INTENSITY,
    "times": warp_reading_kernels.TO_TIMES,
}


class GpuRays:
    """Rays of all sensors of one class on the GPU engine, from aiming to reading.

    Memory is proportional to rays times envs, and is allocated once. In the reset of some envs, the rays of the other
    envs are neither aimed nor cast.
    """

    def __init__(self, group: SensorGroup[RayBackend]) -> None:
        world = self._world = cast(GpuWorld, group.world)
        layout = self.layout = RayLayout(group)
        self._group, self._device, n_envs = group, world.device, world.n_envs
        self._parameters = [wp.from_torch(parameter) for parameter in allocate_parameters(group, *IMPERFECTIONS)]
        self._detection = [wp.from_torch(parameter) for parameter in allocate_parameters(group, *DETECTION)]
        self._keys = [self._array(keys.view(np.int32), np.int32) for keys in random_keys(group)]
        self._draw = wp.from_torch(group.draw.view(torch.int32))
        self._scanning = scanning_state(group, layout)
        self._rays = self._upload_rays()
        beams = layout.table[:, kernels.BEAMS]
        self._beam_sensor = self._array(np.repeat(np.arange(len(beams)), beams), np.int32)
        self._beam_grid = (int(beams.sum()), n_envs)
        self._slots_per_step = self._array(layout.slots_per_step, np.float64)
        self._bodies = [
            wp.from_torch(world.bind(name).reshape(n_envs, world.model.nbody, -1), requires_grad=False)
            for name in ("xpos", "xmat")
        ]
        self._steps = wp.from_torch(world.steps)
        self._all_envs = torch.ones(n_envs, dtype=torch.bool, device=self._device)
        self._fired = torch.ones(layout.n_slots, n_envs, dtype=torch.uint8, device=self._device)
        self._due = self._array(np.zeros((n_envs, len(beams), layout.max_due)), np.int32)
        self._turns = self._array(np.zeros((n_envs, len(beams))), np.int32)
        self._frames = self._array(np.zeros((n_envs, len(beams), kernels.POSE)))
        whole = self._plan(True)
        self._plans = (self._plan(False) if layout.scans else whole, whole)
        readings = reading_layouts(group, layout)
        to = np.full((len(readings), len(_TO)), -1)
        for row, reading in zip(to, readings, strict=True):
            for name, first in reading.fields.items():
                row[_TO[name]] = first
        rays = [
            layout.mounted_rays[i] if reading.rig.in_world else layout.own_rays[i] for i, reading in enumerate(readings)
        ]
        own_rays = [self._vec3(np.concatenate(parts)) for parts in zip(*rays, strict=True)]
        no_hit = self._array(np.array([(reading.no_hit, reading.no_return) for reading in readings]))
        self._reading = (self._array(to, np.int32), no_hit, *own_rays)

    def _upload(self, values: np.ndarray, dtype: npt.DTypeLike = np.float32) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values, dtype)).to(self._device)

    def _array(self, values: np.ndarray, dtype: npt.DTypeLike = np.float32) -> wp.array:
        return wp.from_torch(self._upload(values, dtype))

    def _vec3(self, values: np.ndarray) -> wp.array:
        return wp.from_torch(self._upload(values), dtype=wp.vec3)

    def _upload_rays(self) -> warp_kernels.Rays:
        layout, rays = self.layout, warp_kernels.Rays()
        rays.table = self._array(layout.table, np.int32)
        rays.starts, rays.vectors = self._vec3(layout.ray_starts), self._vec3(layout.ray_vectors)
        rays.scale, rays.limits = self._array(layout.scale), self._array(layout.limits)
        rays.mounts = wp.from_torch(self._upload(layout.mounts), dtype=wp.mat33)
        rays.geom_body = self._array(layout.geom_body, np.int32)
        rays.surfaces = wp.from_torch(self._upload(layout.surfaces), dtype=wp.vec2)
        rays.optics, rays.kinds = self._array(layout.optics), self._array(layout.kinds, np.int32)
        counts = layout.table[:, kernels.BUNDLES] * layout.table[:, kernels.N_TURNS]
        rays.first_own = self._array(np.cumsum(counts) - counts, np.int32)
        return rays

    def _plan(self, whole: bool) -> _GpuPlan:
        layout, bundles = self.layout, self.layout.count_bundles(whole)
        rays = bundles * layout.table[:, kernels.SPREAD]
        sensors = np.arange(len(rays))
        viewer = np.repeat(sensors, rays)
        batch = RayBatch.allocate(self._world.n_envs, viewer, layout.excluded, layout.needs_normals, self._device)
        plan = warp_kernels.CastPlan()
        plan.whole = whole
        plan.sensor_of, plan.bundle_sensor = wp.from_torch(batch.viewer), self._array(sensors.repeat(bundles), np.int32)
        plan.first = self._array(np.cumsum(rays) - rays, np.int32)
        plan.first_bundle = self._array(np.cumsum(bundles) - bundles, np.int32)
        found = [wp.from_torch(batch.distances), wp.from_torch(batch.geoms)]
        vectors = [wp.from_torch(t, dtype=wp.vec3) for t in (batch.points, batch.directions, batch.normals)]
        powers = self._array(np.zeros((self._world.n_envs, len(viewer)) if layout.has_echoes else (0, 0)))
        return _GpuPlan(plan, batch, int(bundles.sum()), powers, *vectors, *found)

    def _launch(self, kernel: object, dim: tuple[int, ...], *inputs: object) -> None:
        arrays = [wp.from_torch(value) if isinstance(value, torch.Tensor) else value for value in inputs]
        wp.launch(kernel, dim=dim, inputs=arrays, device=str(self._device))

    # -- hooks --------------------------------------------------------------------------------------------------------

    def reset(self, mask: torch.Tensor) -> None:
        """Do nothing: ``update`` itself casts the rays of the envs of a reset."""

    def update(self, out: torch.Tensor) -> None:
        if self._scanning is None:
            self._cast(out)
        else:
            signal, _ = self._scanning
            self._cast(signal)
            out.copy_(signal)

    def _cast(self, out: torch.Tensor) -> None:
        """Fill ``out`` (columns, B) with the raw signal of the rays that are due."""
        mask = self._group.restarting
        plan = self._plans[mask is not None]
        envs = self._all_envs if mask is None else mask
        n_envs, slots = len(envs), (self._due, self._turns, self._fired, self._frames)
        engine = (*self._bodies, self._steps, wp.float64(self._group.dt), self._slots_per_step)
        places = (n_envs, len(self.layout.table))
        self._launch(warp_kernels.place, places, self._rays, plan.struct.whole, *engine, envs, *slots, out)
        vectors = (self._turns, self._frames, envs, plan.points, plan.directions)
        self._launch(warp_kernels.aim, (n_envs, len(plan.batch.viewer)), self._rays, plan.struct, self._due, *vectors)
        self._world.cast(plan.batch, envs)
        known = (self._rays, plan.struct, self._due, self._frames, envs)
        hits = (plan.directions, plan.distances, plan.geoms, plan.normals)
        self._launch(warp_kernels.collect, (n_envs, plan.n_bundles), *known, *hits, out)
        if self.layout.has_echoes:
            grid = (n_envs, plan.n_bundles)
            self._launch(warp_lidar_kernels.find_echoes, grid, *known, *self._detection, *hits, plan.powers, out)

    def roughen(self, data: torch.Tensor) -> None:
        inputs = (self._rays, self._beam_sensor, *self._parameters, *self._keys, self._draw)
        self._launch(warp_reading_kernels.roughen, self._beam_grid, *inputs, data)

    def hold(self, data: torch.Tensor) -> None:
        if self._scanning is not None:
            inputs = (self._rays, self._beam_sensor, self._fired, data, self._scanning[1])
            self._launch(warp_reading_kernels.hold, self._beam_grid, *inputs)

    def post_process(self, data: torch.Tensor, out: torch.Tensor) -> None:
        self._launch(
            warp_reading_kernels.read, self._beam_grid, self._rays, self._beam_sensor, *self._reading, data, out
        )

    def fired_beams(self, position: int, env: int) -> np.ndarray:
        return self.layout.scanned_beams(position, self._fired[:, env].numpy(force=True))


class _GpuPlan(NamedTuple):
    """The rays that an env casts, and their memory."""

    struct: Any  # a Warp struct, which has no types
    batch: RayBatch
    n_bundles: int
    powers: wp.array
    """Power of each ray that can be part of an echo; -1 for the others."""
    points: wp.array
    directions: wp.array
    normals: wp.array
    distances: wp.array
    geoms: wp.array
