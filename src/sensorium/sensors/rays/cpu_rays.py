"""Ray casting on the CPU: one call of the engine per step for all sensors of a class, in the engine's threads."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, cast

import numpy as np
import torch

from sensorium.pipeline import SensorGroup
from sensorium.sensors.rays import kernels, lidar_kernels
from sensorium.sensors.rays.ray_backend import (
    DETECTION,
    IMPERFECTIONS,
    RayBackend,
    allocate_parameters,
    scanning_state,
)
from sensorium.sensors.rays.ray_layout import RayLayout, ReadingLayout, random_keys, reading_layouts
from sensorium.sensors.rays.ray_rig import COLUMNS
from sensorium.worlds import CpuWorld

_CHUNK = 2**19
"""Rays that are aimed, cast and collected together. It bounds the memory beyond the readings for every B."""
_MIN_ENVS = 16
"""Minimum number of envs in a chunk, so that there is work for every thread."""
_MIN_RAYS = 16_000
"""Rays to aim or to collect from which an additional thread is worth waking."""
_MISSING = {"normals": 0.0, "body_ids": -1.0, "intensity": 0.0}
"""Field -> value without a return."""


class CpuRays:
    """Rays of all sensors of one class on the CPU engine."""

    def __init__(self, group: SensorGroup[RayBackend]) -> None:
        world = self._world = cast(CpuWorld, group.world)
        layout = self.layout = RayLayout(group)
        self._group, self._readings = group, reading_layouts(group, layout)
        self._parameters = [parameter.numpy() for parameter in allocate_parameters(group, *IMPERFECTIONS)]
        self._detection = [parameter.numpy() for parameter in allocate_parameters(group, *DETECTION)]
        self._keys, self._scanning = random_keys(group), scanning_state(group, layout)
        self._time, self._draw = world.time.numpy(), group.draw.numpy()
        self._positions = world.bind("xpos").numpy()
        self._matrices = world.bind("xmat").numpy().reshape(-1, world.model.nbody, 9)
        self._pool = ThreadPoolExecutor(max(1, world.threads - 1), "rays")  # starts threads when they are needed
        self._all_envs = np.arange(world.n_envs, dtype=np.int32)
        self._restarted: np.ndarray | None = None
        n_sensors = len(layout.table)
        self._fired = np.zeros((layout.n_slots, world.n_envs), np.uint8)
        self._due = np.zeros((world.n_envs, n_sensors, layout.max_due), np.int64)
        self._describes = layout.needs_normals or bool((layout.table[:, kernels.BODY_IDS] >= 0).any())
        bodies = layout.table[:, kernels.BODY]
        self._own = np.where(bodies > 0, bodies, -1).astype(np.int32)
        self._passes = any(
            excluded.sum() > (own >= 0) for excluded, own in zip(layout.excluded, self._own, strict=True)
        )
        self._plans = [self._plan(whole) for whole in (False, True)]
        n_rays = self._plans[1].n_rays
        chunks = math.ceil(world.n_envs / max(_MIN_ENVS, _CHUNK // n_rays))
        self._n_rows = math.ceil(world.n_envs / chunks)
        self._points, self._directions = np.zeros((2, self._n_rows * n_rays * 3))
        self._chosen = np.zeros((self._n_rows, n_rays), np.int32)
        self._frames = np.zeros((self._n_rows, n_sensors, kernels.POSE))
        self._no_normals = np.zeros((self._n_rows, 0, 3))
        self._turns = np.zeros((self._n_rows, n_sensors), np.int64)
        self._powers = np.zeros((self._n_rows, n_rays if layout.has_echoes else 0))

    def _plan(self, whole: bool) -> _CpuPlan:
        rays = self.layout.count_bundles(whole) * self.layout.table[:, kernels.SPREAD]
        first = np.cumsum([0, *rays])
        sensor_of = np.repeat(np.arange(len(rays)), rays)
        return _CpuPlan(whole, int(first[-1]), first[:-1], sensor_of, self._own[sensor_of])

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown()

    # -- hooks --------------------------------------------------------------------------------------------------------

    def reset(self, mask: torch.Tensor) -> None:
        self._restarted = np.flatnonzero(mask.numpy()).astype(np.int32)

    def update(self, out: torch.Tensor) -> None:
        if self._scanning is None:
            self._cast_due(self._group.array(out))
        else:
            signal, _ = self._scanning
            self._cast_due(signal.numpy())
            out.copy_(signal)

    def roughen(self, data: torch.Tensor) -> None:
        kernels.roughen(self.layout.table, self._group.array(data), *self._parameters, *self._keys, self._draw)

    def hold(self, data: torch.Tensor) -> None:
        if self._scanning is not None:
            kernels.hold(self.layout.table, self._fired, self._group.array(data), self._scanning[1].numpy())

    def post_process(self, data: torch.Tensor, out: torch.Tensor) -> None:
        for reading in self._readings:
            _fill_reading(reading, self._group.array(data), self._group.array(out))

    def fired_beams(self, position: int, env: int) -> np.ndarray:
        return self.layout.scanned_beams(position, self._fired[:, env])

    # -- casting ------------------------------------------------------------------------------------------------------

    def _cast_due(self, out: np.ndarray) -> None:
        """Fill ``out`` (columns, B) with the raw signal of the rays that are due."""
        restarted, self._restarted = self._restarted, None
        ids = self._all_envs if restarted is None else restarted
        plan, layout = self._plans[restarted is not None], self.layout
        if plan.whole:
            self._fired[:, ids] = 1
        elif layout.scans:
            slots = (layout.slots_per_step, layout.table, self._due, self._fired)
            kernels.find_due(ids, self._time, self._group.dt, *slots)
        for begin in range(0, len(ids), self._n_rows):
            some = ids[begin : begin + self._n_rows]
            due, clock = self._due[begin : begin + len(some)], (self._time, self._group.dt, layout.slots_per_step)
            if layout.has_turns:
                lidar_kernels.find_turns(some, *clock, layout.table, self._turns)
            self._cast(plan, some, due, out)
            if layout.has_stamps:
                lidar_kernels.stamp(some, plan.whole, *clock, layout.table, due, self._turns, out)

    def _cast(self, plan: _CpuPlan, ids: np.ndarray, due: np.ndarray, out: np.ndarray) -> None:
        layout, shape = self.layout, (len(ids), plan.n_rays, 3)
        size = math.prod(shape)
        points, directions = self._points[:size].reshape(shape), self._directions[:size].reshape(shape)

        def aim(rows: slice) -> None:
            kernels.aim(
                ids[rows], plan.whole, layout.table, due[rows], self._turns[rows], self._positions, self._matrices,
                layout.ray_starts, layout.ray_vectors, plan.first, self._frames[rows], points[rows], directions[rows],
            )  # fmt: skip

        self._share(aim, shape)
        distances, geoms, surface = self._query(ids, points, directions, plan.own)
        if self._passes:
            self._pass_through(plan, ids, points, directions, distances, geoms, surface)

        def collect(rows: slice) -> None:
            some = (ids[rows], plan.whole, layout.table, due[rows], plan.first)
            which = (*some, self._frames[rows])
            hits = (distances[rows], geoms[rows], surface[rows], directions[rows])
            kernels.collect(*which, layout.limits, layout.scale, distances[rows], self._chosen[rows], out)
            if layout.has_echoes:
                optics = (layout.limits, layout.optics, layout.kinds, layout.surfaces, *self._detection)
                lidar_kernels.find_echoes(*some, *optics, *hits, self._powers[rows], self._chosen[rows], out)
            if self._describes:
                looks = (layout.geom_body, layout.surfaces, layout.optics)
                kernels.describe(*which, layout.mounts, self._chosen[rows], *hits, *looks, out)

        self._share(collect, shape)

    def _share(self, work: Callable[[slice], None], shape: tuple[int, ...]) -> None:
        """Run ``work`` on parts of the envs, in several threads if there is enough of it."""
        threads = min(self._world.threads, math.prod(shape[:2]) // _MIN_RAYS, shape[0] // kernels.BLOCK)
        if threads < 2:
            work(slice(0, shape[0]))
            return
        step = math.ceil(shape[0] / threads / kernels.BLOCK) * kernels.BLOCK  # no two threads write one cache line
        first, *others = (slice(begin, min(begin + step, shape[0])) for begin in range(0, shape[0], step))
        waiting = [self._pool.submit(work, part) for part in others]
        work(first)
        for future in waiting:
            future.result()

    def _query(
        self, ids: np.ndarray, points: np.ndarray, directions: np.ndarray, exclude: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Return distances, geoms and normals of the nearest hits; -1 without a hit."""
        which, normals = None if len(ids) == self._world.n_envs else ids, self.layout.needs_normals
        options = {"bodyexclude": exclude, "ids": which, "normal": normals}
        found = tuple(tensor.numpy() for tensor in self._world.rays(points, directions, **options))
        return found if normals else (*found, self._no_normals)

    def _pass_through(
        self,
        plan: _CpuPlan,
        ids: np.ndarray,
        points: np.ndarray,
        directions: np.ndarray,
        distances: np.ndarray,
        geoms: np.ndarray,
        surface: np.ndarray,
    ) -> None:
        """Continue rays behind hits on excluded bodies, because the engine excludes one body per ray only."""
        geom_body, excluded = self.layout.geom_body, self.layout.excluded
        index, counts = np.zeros(geoms.shape, np.int32), np.zeros(len(ids), np.int64)
        while count := kernels.find_blocked(geoms, geom_body, excluded, plan.sensor_of, index, counts):
            again, vectors = np.zeros((2, len(ids), count, 3))
            passing = np.zeros((len(ids), count), np.int32)
            hits = (distances, geoms, geom_body)
            kernels.aim_again(index, counts, points, directions, *hits, again, vectors, passing)
            kernels.merge(index, counts, distances, geoms, surface, *self._query(ids, again, vectors, passing))


class _CpuPlan(NamedTuple):
    """The rays that an env casts in one call."""

    whole: bool
    """Whether whole revolutions are cast, instead of the part that is due."""
    n_rays: int
    first: np.ndarray
    """First ray of each sensor."""
    sensor_of: np.ndarray
    """Sensor of each ray."""
    own: np.ndarray
    """Body that each ray ignores: the link that carries its sensor."""


def _fill_reading(reading: ReadingLayout, data: np.ndarray, out: np.ndarray) -> None:
    """Compute the reading of one sensor from its intermediate columns."""
    rig, columns, limits = reading.rig, reading.columns, reading.limits
    first, no_return, slots = columns[kernels.DISTANCES], reading.no_return, rig.n_slots
    for name, to in reading.fields.items():
        if name == "distances":
            kernels.limit(data, first, rig.n_beams, limits, reading.no_hit, out, to)
        elif name == "times":
            lidar_kernels.pass_on_times(data, columns[kernels.TIMES], slots, rig.n_beams, out, to)
        elif name != "points":
            source, missing = columns[COLUMNS[name]], np.float32(_MISSING[name])
            kernels.pass_on(data, first, source, rig.n_beams, rig.widths[name], missing, out, to)
        elif rig.pattern.n_frames > 1:
            places = (columns[kernels.TURNS], columns.get(kernels.POSES, -1), slots)
            rays = (rig.n_bundles, *reading.rays)
            lidar_kernels.moving_points(data, first, *places, limits, no_return, *rays, out, to, rig.n_beams)
        elif rig.in_world:
            poses = columns[kernels.POSES]
            kernels.world_points(data, first, poses, slots, limits, no_return, *reading.rays, out, to)
        else:
            kernels.sensor_points(data, first, limits, no_return, *reading.rays, out, to)
