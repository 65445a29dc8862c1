"""Casting the rays of a group of sensors: one call of the engine a step for all of them, in its threads."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import mujoco
import numpy as np
import torch

from sensorium.errors import OptionError
from sensorium.pipeline import SensorGroup, formula
from sensorium.sensors.rays import kernels
from sensorium.sensors.rays.patterns import Pattern

_CHUNK = 2**19
"""Rays that are aimed, cast and collected together: what is in memory beyond the readings, whatever B is."""
_LEAST_ENVS = 16
"""Envs of a chunk at least, so that there is work for every thread."""
_LEAST_RAYS = 16_000
"""Rays to aim or to collect from which a further thread pays for waking it."""
_RIM = 4
"""Rays on the rim of a diverging beam, besides the one in its middle."""

ALIGNMENTS = {"base": kernels.BASE, "yaw": kernels.YAW, "world": kernels.WORLD}


class RayRig(NamedTuple):
    """What a sensor casts, and what it needs to know of the hits."""

    pattern: Pattern
    shape: tuple[int, ...]
    """The pattern's."""
    alignment: str = "base"
    divergence: float = 0.0
    scan_rate: float | None = None
    fields: tuple[str, ...] = ("distances",)
    """What is read of each ray, distances first."""
    in_world: bool = False
    """Whether points and normals are in the world frame."""
    is_depth: bool = False
    """Whether distances are taken along the sensor's x axis."""

    @property
    def n_beams(self) -> int:
        return math.prod(self.shape)

    @property
    def n_slots(self) -> int:
        """Positions of the scanning head in one revolution."""
        return 1 if self.scan_rate is None else self.shape[-1]


class RayMount(NamedTuple):
    """Where a sensor sits, and what it does not see."""

    body: str
    """Name of the link that carries it."""
    pos: np.ndarray
    """Position (3,) and ..."""
    matrix: np.ndarray
    """... rotation matrix (3, 3) in the link's frame, or what the rig's alignment makes of that."""
    excluded: tuple[str, ...]
    """Names of further bodies that rays pass through."""
    exclude_tree: bool
    """Whether they pass through all bodies of the link's kinematic tree."""
    limits: tuple[float, float]
    """Nearest and farthest return, m."""


class Casting:
    """The rays of all sensors of a group, as both engines see them.

    Args:
        group: the group; everything bound here stays at its address.
        rigs: one for each of its sensors.
        mounts: likewise.
        columns: per sensor, the first column of each kind of signal (``kernels.DISTANCES`` to ``kernels.POSES``).
    """

    fired: Any
    """Which slots were scanned in this step, (slots of all sensors, B)."""

    def __init__(
        self, group: SensorGroup, rigs: list[RayRig], mounts: list[RayMount], columns: list[dict[int, int]]
    ) -> None:
        model = group.world.model
        self._group = group
        self.table = np.full((len(rigs), kernels.N_TABLE), -1, np.int64)
        self.starts, self.vectors = [], []  # of each sensor's beams, in its own frame
        starts, vectors, scale = [], [], []
        beam = ray = slot = 0
        for row, rig, mount, places in zip(self.table, rigs, mounts, columns, strict=True):
            origins, directions = checked_rays(rig.pattern)
            self.starts.append(origins.astype(np.float32))
            self.vectors.append(directions.astype(np.float32))
            scale.append(directions[:, 0] if rig.is_depth else np.ones(len(origins)))
            bundle = _diverge(directions, rig.divergence)  # (beams, spread, 3)
            spread = bundle.shape[1]
            starts.append(np.repeat(mount.pos + origins @ mount.matrix.T, spread, axis=0))
            vectors.append(bundle.reshape(-1, 3) @ mount.matrix.T)
            row[kernels.BODY], row[kernels.ALIGNMENT] = model.body(mount.body).id, ALIGNMENTS[rig.alignment]
            row[kernels.BEAMS], row[kernels.FIRST_BEAM] = len(origins), beam
            row[kernels.SPREAD], row[kernels.FIRST_RAY] = spread, ray
            row[kernels.SLOTS], row[kernels.SCANS] = rig.n_slots, rig.scan_rate is not None
            row[kernels.FIRST_SLOT], row[kernels.IN_WORLD] = slot, rig.in_world
            for kind, column in places.items():
                row[kind] = column
            beam, ray, slot = beam + len(origins), ray + len(vectors[-1]), slot + rig.n_slots
        self._starts, self._vectors, self._scale = map(np.concatenate, (starts, vectors, scale))
        self.mounted = [
            (start[::spread].astype(np.float32), vector[::spread].astype(np.float32))
            for start, vector, spread in zip(starts, vectors, self.table[:, kernels.SPREAD], strict=True)
        ]
        """Per sensor, origins and directions of the beams in the frame that it is mounted in."""
        self._mounts = np.array([mount.matrix for mount in mounts])
        self.limits = np.array([mount.limits for mount in mounts])
        self.scans = any(rig.scan_rate is not None for rig in rigs)
        self._n_slots = slot
        self._per_step = np.array([(rig.scan_rate or 0.0) * rig.n_slots * group.dt for rig in rigs])
        most = (min(math.ceil(rate - 1e-9), rig.n_slots) for rate, rig in zip(self._per_step, rigs, strict=True))
        self._most_due = max([*most, 1])
        """Slots of a sensor that are cast in one step, at most."""
        self._needs_normals = bool((self.table[:, [kernels.NORMALS, kernels.INTENSITY]] >= 0).any())
        self._geom_body, self._reflectivity = model.geom_bodyid.astype(np.int64), _reflectivity(model)
        self._excluded = np.array([_excluded(model, mount) for mount in mounts])

    def fired_beams(self, position: int, env: int) -> np.ndarray:
        """Which beams of a scanning sensor were scanned in the last step, (beams,) bool."""
        row = self.table[position]
        slots = self.fired[row[kernels.FIRST_SLOT] : row[kernels.FIRST_SLOT] + row[kernels.SLOTS], env]
        slots = slots.numpy(force=True) if isinstance(slots, torch.Tensor) else slots
        return slots[np.arange(row[kernels.BEAMS]) % row[kernels.SLOTS]].astype(bool)

    def spans(self, position: int, env: int, distances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the beams of one sensor start and end in the world, (beams, 3) each, by the pose as it is now."""
        body, alignment = self.table[position, kernels.BODY], self.table[position, kernels.ALIGNMENT]
        world = self._group.world
        place, turn = (world.bind(name)[env, body].double().numpy(force=True) for name in ("xpos", "xmat"))
        turn = turn.reshape(3, 3)
        if alignment == kernels.YAW:
            heading = math.atan2(turn[1, 0], turn[0, 0])
            c, s = math.cos(heading), math.sin(heading)
            turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
        elif alignment == kernels.WORLD:
            turn = np.eye(3)
        starts, vectors = self.mounted[position]
        first = self.table[position, kernels.FIRST_BEAM]
        along = np.where(np.isfinite(distances), distances, np.nan) / self._scale[first : first + len(starts)]
        begin = place + starts @ turn.T
        return begin, begin + along[:, None] * (vectors @ turn.T)

    def _counts(self, whole: bool) -> np.ndarray:
        """Bundles that each sensor casts in one env: whole revolutions, or the part that is due in one step."""
        beams, slots = self.table[:, kernels.BEAMS], self.table[:, kernels.SLOTS]
        some = np.minimum(self._most_due, slots) * (beams // slots)
        return np.where(whole | (self.table[:, kernels.SCANS] == 0), beams, some)


class Caster(Casting):
    """The rays of all sensors of a group on the CPU engine, in its threads."""

    def __init__(
        self, group: SensorGroup, rigs: list[RayRig], mounts: list[RayMount], columns: list[dict[int, int]]
    ) -> None:
        super().__init__(group, rigs, mounts, columns)
        world = self._world = group.world
        self._dt = group.dt
        self._time = world.time.numpy()
        self._positions = world.bind("xpos").numpy()
        self._matrices = world.bind("xmat").numpy().reshape(-1, world.model.nbody, 9)
        self._threads: int = world.threads  # type: ignore[attr-defined]
        self._pool = ThreadPoolExecutor(max(1, self._threads - 1), "rays")  # starts threads when they are needed
        self._everyone = np.arange(world.n_envs, dtype=np.int32)
        self.restarted: np.ndarray | None = None
        """Ids of envs that start afresh: the next cast is of all their rays, and of no other env's."""
        self.fired = np.zeros((self._n_slots, world.n_envs), np.uint8)
        self._due = np.zeros((world.n_envs, len(rigs), self._most_due), np.int64)
        self._describes = self._needs_normals or bool((self.table[:, kernels.BODY_IDS] >= 0).any())
        self._own = np.where(self.table[:, kernels.BODY] > 0, self.table[:, kernels.BODY], -1).astype(np.int32)
        self._passes = any(excluded.sum() > (own >= 0) for excluded, own in zip(self._excluded, self._own, strict=True))
        self._plans = [self._plan(whole) for whole in (False, True)]
        widest = self._plans[1].n_rays
        parts = math.ceil(world.n_envs / max(_LEAST_ENVS, _CHUNK // widest))
        self._n_rows = math.ceil(world.n_envs / parts)
        self._points, self._directions = np.zeros((2, self._n_rows * widest * 3))
        self._chosen = np.zeros((self._n_rows, widest), np.int32)
        self._frames = np.zeros((self._n_rows, len(rigs), kernels.POSE))
        self._no_normals = np.zeros((self._n_rows, 0, 3))

    def _plan(self, whole: bool) -> _CpuPlan:
        rays = self._counts(whole) * self.table[:, kernels.SPREAD]
        first = np.cumsum([0, *rays])
        sensor_of = np.repeat(np.arange(len(rays)), rays)
        return _CpuPlan(whole, int(first[-1]), first[:-1], sensor_of, self._own[sensor_of])

    def cast(self, out: np.ndarray) -> None:
        """Fill ``out`` (columns, B) with the raw signal of the rays that are due; others keep what they have."""
        restarted, self.restarted = self.restarted, None
        ids = self._everyone if restarted is None else restarted
        plan = self._plans[restarted is not None]
        if plan.whole:
            self.fired[:, ids] = 1
        elif self.scans:
            kernels.find_due(ids, self._time, self._dt, self._per_step, self.table, self._due, self.fired)
        for begin in range(0, len(ids), self._n_rows):
            some = ids[begin : begin + self._n_rows]
            self._cast(plan, some, self._due[begin : begin + len(some)], out)

    def _cast(self, plan: _CpuPlan, ids: np.ndarray, due: np.ndarray, out: np.ndarray) -> None:
        shape = (len(ids), plan.n_rays, 3)
        size = math.prod(shape)
        points, directions = self._points[:size].reshape(shape), self._directions[:size].reshape(shape)

        def aim(rows: slice) -> None:
            kernels.aim(
                ids[rows], plan.whole, self.table, due[rows], self._positions, self._matrices, self._starts,
                self._vectors, plan.first, self._frames[rows], points[rows], directions[rows],
            )  # fmt: skip

        self._share(aim, shape)
        distances, geoms, surface = self._query(ids, points, directions, plan.own)
        if self._passes:
            self._pass_through(plan, ids, points, directions, distances, geoms, surface)

        def collect(rows: slice) -> None:
            kernels.collect(
                ids[rows], plan.whole, self.table, due[rows], plan.first, self._frames[rows], self.limits, self._scale,
                distances[rows], self._chosen[rows], out,
            )  # fmt: skip
            if self._describes:
                kernels.describe(
                    ids[rows], plan.whole, self.table, due[rows], plan.first, self._frames[rows], self._mounts,
                    self._chosen[rows], geoms[rows], surface[rows], directions[rows], self._geom_body,
                    self._reflectivity, out,
                )  # fmt: skip

        self._share(collect, shape)

    def _share(self, work: Callable[[slice], None], shape: tuple[int, ...]) -> None:
        """Run ``work`` on parts of the envs in several threads, where it is enough for that."""
        threads = min(self._threads, math.prod(shape[:2]) // _LEAST_RAYS, shape[0] // kernels.BLOCK)
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
        which = None if len(ids) == self._world.n_envs else ids
        options = {"bodyexclude": exclude, "ids": which, "normal": self._needs_normals}
        found = tuple(tensor.numpy() for tensor in self._world.rays(points, directions, **options))
        return found if self._needs_normals else (*found, self._no_normals)

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
        """Let rays go on behind hits on excluded bodies, of which the engine itself takes one a ray."""
        index, counts = np.zeros(geoms.shape, np.int32), np.zeros(len(ids), np.int64)
        while count := kernels.find_blocked(geoms, self._geom_body, self._excluded, plan.sensor_of, index, counts):
            again, vectors = np.zeros((2, len(ids), count, 3))
            passing = np.zeros((len(ids), count), np.int32)
            kernels.aim_again(
                index, counts, points, directions, distances, geoms, self._geom_body, again, vectors, passing
            )
            kernels.merge(index, counts, distances, geoms, surface, *self._query(ids, again, vectors, passing))


class _CpuPlan(NamedTuple):
    """Which rays an env casts in a call."""

    whole: bool
    n_rays: int
    first: np.ndarray
    """First ray of each sensor."""
    sensor_of: np.ndarray
    """Sensor of each ray."""
    own: np.ndarray
    """Body that each ray ignores: the link that carries its sensor."""


def checked_rays(pattern: Pattern) -> tuple[np.ndarray, np.ndarray]:
    """Origins and directions of a pattern, (n, 3) each; an OptionError says what is wrong with them."""
    origins, directions = (np.ascontiguousarray(rays, np.float64) for rays in pattern.rays())
    expected, name = (math.prod(pattern.shape), 3), type(pattern).__name__
    if expected[0] < 1:
        raise OptionError(f"{name}.shape must hold at least one ray, got {pattern.shape}")
    for what, rays in (("origins", origins), ("directions", directions)):
        if rays.shape != expected:
            raise OptionError(f"{name}.rays(): {what} must have shape {expected} by its shape, got {rays.shape}")
        if not np.isfinite(rays).all():
            raise OptionError(f"{name}.rays(): {what} must be finite")
    if np.abs(np.linalg.norm(directions, axis=1) - 1).max() > 1e-6:
        raise OptionError(f"{name}.rays(): directions must be unit vectors")
    return origins, directions


def loss_keys(seed: int, uuid: str, n_beams: int) -> np.ndarray:
    """Keys of the draws that say which returns are lost: elements below those of timing and columns."""
    return np.array([formula.key(seed, uuid, formula.TIMING - 1 - i) for i in range(n_beams)], np.uint32)


def noise_keys(seed: int, uuid: str, n_beams: int) -> np.ndarray:
    """Keys of the generic noise of the distances, which are a sensor's first columns."""
    return np.array([formula.key(seed, uuid, i) for i in range(n_beams)], np.uint32)


def _diverge(directions: np.ndarray, divergence: float) -> np.ndarray:
    """Unit directions (beams, spread, 3): the beam's own, and those on the rim of its cone of full angle divergence."""
    if divergence == 0.0:
        return directions[:, None]
    # any axis that is not along the beam gives a frame across it
    helper = np.where(np.abs(directions[:, 2:]) < 0.9, [[0.0, 0.0, 1.0]], [[1.0, 0.0, 0.0]])
    across = np.cross(helper, directions)
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    upward = np.cross(directions, across)
    angles = np.arange(_RIM) * (2 * np.pi / _RIM)
    rim = np.cos(angles)[:, None] * across[:, None] + np.sin(angles)[:, None] * upward[:, None]
    half = divergence / 2
    tilted = np.cos(half) * directions[:, None] + np.sin(half) * rim
    return np.concatenate([directions[:, None], tilted], axis=1)


def _excluded(model: mujoco.MjModel, mount: RayMount) -> np.ndarray:
    """Which bodies the rays of a sensor pass through, (nbody,) bool. The world itself only when named."""
    excluded = np.zeros(model.nbody, bool)
    excluded[[model.body(name).id for name in mount.excluded]] = True
    own = model.body(mount.body).id
    if own > 0:
        excluded[own] = True
        if mount.exclude_tree:
            excluded |= model.body_rootid == model.body_rootid[own]
    return excluded


def _reflectivity(model: mujoco.MjModel) -> np.ndarray:
    """Of each geom: the mean of its colour, that of its material where the geom itself has the engine's default."""
    rgba = model.geom_rgba.astype(np.float64)
    plain = (model.geom_matid >= 0) & (model.geom_rgba == np.array([0.5, 0.5, 0.5, 1.0], np.float32)).all(axis=1)
    rgba[plain] = model.mat_rgba[model.geom_matid[plain]]
    return rgba[:, :3].mean(axis=1)
