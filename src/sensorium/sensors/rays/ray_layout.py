"""Rays of a group of sensors, in arrays that the backends of both engines share.

A *beam* is one element of a reading. It is cast as one *ray*, or, if it diverges, as a *bundle* of rays. A *slot* is
one position of a scanning head, the index along the last axis of its pattern; a sensor that does not scan has one slot.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import mujoco
import numpy as np

from sensorium.pipeline import SensorGroup, formula
from sensorium.sensors.rays import kernels
from sensorium.sensors.rays.ray_rig import RayMount, RayRig, checked_rays
from sensorium.worlds import World

_RIM = 4
"""Rays on the rim of a diverging beam, in addition to the one in its centre."""
_ALIGNMENTS = {"base": kernels.BASE, "yaw": kernels.YAW, "world": kernels.WORLD}
Rays = tuple[np.ndarray, np.ndarray]
"""Origins and unit directions, (n, 3) float32 each."""


class RayLayout:
    """The rays of all sensors of a group.

    Attributes:
        table: one row per sensor; ``kernels`` names its columns.
        ray_starts, ray_vectors: of all rays, in the mounting frames, (rays, 3).
        scale: factor from distance to reading of each beam, (beams,).
        own_rays: of each sensor's beams, in its own frame.
        mounted_rays: the same in its mounting frame.
        mounts: rotation of each sensor in its mounting frame, (sensors, 3, 3).
        limits: minimum and maximum range of each sensor, (sensors, 2) m.
        scans: whether any sensor scans.
        n_slots: slots of all sensors.
        slots_per_step: slots that each sensor passes in one step, (sensors,).
        max_due: slots of one sensor that are cast in one step, at most.
        needs_normals: whether any sensor needs the normals of surfaces.
        geom_body, reflectivity: of each geom.
        excluded: bodies that the rays of each sensor pass through, (sensors, nbody) bool.
    """

    def __init__(self, group: SensorGroup) -> None:
        model = group.world.model
        rigs: list[RayRig] = [sensor._rig for sensor in group.sensors]
        mounts: list[RayMount] = [sensor._mount for sensor in group.sensors]
        self.table = np.full((len(rigs), kernels.N_TABLE), -1, np.int64)
        self.own_rays: list[Rays] = []
        self.mounted_rays: list[Rays] = []
        starts, vectors, scale = [], [], []
        beam = ray = slot = 0
        for row, rig, mount, part in zip(self.table, rigs, mounts, group.slices, strict=True):
            origins, directions = checked_rays(rig.pattern)
            self.own_rays.append((origins.astype(np.float32), directions.astype(np.float32)))
            scale.append(directions[:, 0] if rig.is_depth else np.ones(len(origins)))
            bundle = _diverge(directions, rig.divergence)  # (beams, spread, 3)
            spread = bundle.shape[1]
            starts.append(np.repeat(mount.pos + origins @ mount.matrix.T, spread, axis=0))
            vectors.append(bundle.reshape(-1, 3) @ mount.matrix.T)
            centres = starts[-1][::spread], vectors[-1][::spread]
            self.mounted_rays.append((centres[0].astype(np.float32), centres[1].astype(np.float32)))
            row[kernels.BODY], row[kernels.ALIGNMENT] = model.body(mount.body).id, _ALIGNMENTS[rig.alignment]
            row[kernels.BEAMS], row[kernels.FIRST_BEAM] = len(origins), beam
            row[kernels.SPREAD], row[kernels.FIRST_RAY] = spread, ray
            row[kernels.SLOTS], row[kernels.SCANS] = rig.n_slots, rig.scan_rate is not None
            row[kernels.FIRST_SLOT], row[kernels.IN_WORLD] = slot, rig.in_world
            for kind, column in rig.first_columns(part.start).items():
                row[kind] = column
            beam, ray, slot = beam + len(origins), ray + len(vectors[-1]), slot + rig.n_slots
        self.ray_starts, self.ray_vectors, self.scale = map(np.concatenate, (starts, vectors, scale))
        self.mounts = np.array([mount.matrix for mount in mounts])
        self.limits = np.array([mount.limits for mount in mounts])
        self.scans = any(rig.scan_rate is not None for rig in rigs)
        self.n_slots = slot
        self.slots_per_step = np.array([(rig.scan_rate or 0.0) * rig.n_slots * group.dt for rig in rigs])
        due = (min(math.ceil(rate - 1e-9), rig.n_slots) for rate, rig in zip(self.slots_per_step, rigs, strict=True))
        self.max_due = max([*due, 1])
        self.needs_normals = bool((self.table[:, [kernels.NORMALS, kernels.INTENSITY]] >= 0).any())
        self.geom_body, self.reflectivity = model.geom_bodyid.astype(np.int64), _reflectivity(model)
        self.excluded = np.array([_excluded(model, mount) for mount in mounts])

    def count_bundles(self, whole: bool) -> np.ndarray:
        """Return the bundles that each sensor casts in one env: of a whole revolution, or those due in one step."""
        beams, slots = self.table[:, kernels.BEAMS], self.table[:, kernels.SLOTS]
        some = np.minimum(self.max_due, slots) * (beams // slots)
        return np.where(whole | (self.table[:, kernels.SCANS] == 0), beams, some)

    def scanned_beams(self, position: int, fired: np.ndarray) -> np.ndarray:
        """Return which beams of a sensor were scanned, (beams,) bool, from the slots of all sensors that were."""
        row = self.table[position]
        slots = fired[row[kernels.FIRST_SLOT] : row[kernels.FIRST_SLOT] + row[kernels.SLOTS]]
        return slots[np.arange(row[kernels.BEAMS]) % row[kernels.SLOTS]].astype(bool)

    def segments(self, world: World, position: int, env: int, distances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return where the beams of a sensor start and end in the world, (beams, 3) m each, at its current pose.

        Args:
            world: the engine.
            position: index of the sensor in its group.
            env: the env.
            distances: (beams,) m; beams with inf end in NaN.
        """
        body, alignment = self.table[position, kernels.BODY], self.table[position, kernels.ALIGNMENT]
        place, turn = (world.bind(name)[env, body].double().numpy(force=True) for name in ("xpos", "xmat"))
        turn = turn.reshape(3, 3)
        if alignment == kernels.YAW:
            heading = math.atan2(turn[1, 0], turn[0, 0])
            c, s = math.cos(heading), math.sin(heading)
            turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
        elif alignment == kernels.WORLD:
            turn = np.eye(3)
        starts, vectors = self.mounted_rays[position]
        first = self.table[position, kernels.FIRST_BEAM]
        along = np.where(np.isfinite(distances), distances, np.nan) / self.scale[first : first + len(starts)]
        begin = place + starts @ turn.T
        return begin, begin + along[:, None] * (vectors @ turn.T)


class ReadingLayout(NamedTuple):
    """Layout of the reading of one sensor, computed from its intermediate columns."""

    rig: RayRig
    columns: dict[int, int]
    """Kind of signal -> its first intermediate column in the group."""
    fields: dict[str, int]
    """Field -> its first return column in the group."""
    limits: np.ndarray
    """Minimum and maximum range, (2,) m."""
    no_hit: np.float32
    """Distance without a return."""
    no_return: np.float32
    """Distance of the point without a return: ``no_hit``, or NaN if that is not a distance."""
    rays: Rays
    """Beams in the frame in which points are computed: the sensor's own, or its mounting frame for world points."""


def reading_layouts(group: SensorGroup, layout: RayLayout) -> list[ReadingLayout]:
    """Return how the readings of all sensors of a group are computed."""
    layouts = []
    for i, sensor in enumerate(group.sensors):
        rig, options, fields = sensor._rig, sensor.options, {}
        to = group.return_slices[i].start
        for name, width in rig.widths.items():
            fields[name] = to
            to += width * rig.n_beams
        no_hit = np.float32(options.max_range if options.no_hit is None else options.no_hit)
        layouts.append(
            ReadingLayout(
                rig=rig,
                columns=rig.first_columns(group.slices[i].start),
                fields=fields,
                limits=layout.limits[i],
                no_hit=no_hit,
                no_return=no_hit if 0 <= no_hit < np.inf else np.float32(np.nan),
                rays=layout.mounted_rays[i] if rig.in_world else layout.own_rays[i],
            )
        )
    return layouts


def random_keys(group: SensorGroup) -> tuple[np.ndarray, np.ndarray]:
    """Return the random keys of each beam's generic noise and of its losses, (beams, 2) uint32 each.

    Distances are a sensor's first columns, so beam i has element i in the generic noise. Losses have elements below
    those of timing and columns.
    """
    beams = [(sensor.uuid, i) for sensor in group.sensors for i in range(sensor._rig.n_beams)]
    noise = [formula.key(group.seed, uuid, i) for uuid, i in beams]
    losses = [formula.key(group.seed, uuid, formula.TIMING - 1 - i) for uuid, i in beams]
    return np.array(noise, np.uint32), np.array(losses, np.uint32)


def _diverge(directions: np.ndarray, divergence: float) -> np.ndarray:
    """Return unit directions (beams, spread, 3): of each beam, and of the rim of its cone of a full angle."""
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
    """Return which bodies the rays of a sensor pass through, (nbody,) bool; the world only if it is named."""
    excluded = np.zeros(model.nbody, bool)
    excluded[[model.body(name).id for name in mount.excluded]] = True
    own = model.body(mount.body).id
    if own > 0:
        excluded[own] = True
        if mount.exclude_tree:
            excluded |= model.body_rootid == model.body_rootid[own]
    return excluded


def _reflectivity(model: mujoco.MjModel) -> np.ndarray:
    """Return the mean colour of each geom, or of its material if the geom has the engine's default colour."""
    rgba = model.geom_rgba.astype(np.float64)
    plain = (model.geom_matid >= 0) & (model.geom_rgba == np.array([0.5, 0.5, 0.5, 1.0], np.float32)).all(axis=1)
    rgba[plain] = model.mat_rgba[model.geom_matid[plain]]
    return rgba[:, :3].mean(axis=1)
