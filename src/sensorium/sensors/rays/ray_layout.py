"""Rays of a group of sensors, in arrays that the backends of both engines share.

A *beam* is one element of a reading. It is cast as a *bundle* of one ray, or of several if it diverges; a sensor that
reports several echoes has as many beams per bundle. A *slot* is one position of a scanning head, the index along the
last axis of its pattern; a sensor that does not scan has one slot. A *turn* is one frame of a pattern that changes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import mujoco
import numpy as np

from sensorium.pipeline import SensorGroup, formula
from sensorium.sensors.rays import kernels
from sensorium.sensors.rays.ray_rig import RayMount, RayRig, checked_rays
from sensorium.sensors.rays.surfaces import surface_values
from sensorium.worlds import World

_RIM = 4
"""Rays on the rim of a diverging beam, in addition to the one in its centre."""
_GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))
_ECHOES = ("first", "second", "last", "strongest")
"""Kinds of echoes, in the order of the constants of ``lidar_kernels``."""
ALIGNMENTS = {"base": kernels.BASE, "yaw": kernels.YAW, "world": kernels.WORLD}
"""Option ``alignment`` -> its number in ``RayLayout.table``."""
Rays = tuple[np.ndarray, np.ndarray]
"""Origins and unit directions, (n, 3) float32 each."""


class RayLayout:
    """The rays of all sensors of a group.

    Attributes:
        table: one row per sensor; ``kernels`` names its columns.
        ray_starts, ray_vectors: of all rays, in the mounting frames, (rays, 3).
        scale: factor from distance to reading of each beam, (beams,).
        own_rays: of each sensor's bundles in all turns, in its own frame.
        mounted_rays: the same in its mounting frame.
        mounts: rotation of each sensor in its mounting frame, (sensors, 3, 3).
        limits: minimum and maximum range of each sensor, (sensors, 2) m.
        scans: whether any sensor scans.
        has_echoes: whether any sensor detects echoes.
        has_turns: whether any sensor has a pattern that changes.
        has_stamps: whether any sensor has columns of turns or times.
        n_slots: slots of all sensors.
        slots_per_step: slots that each sensor passes in one step, (sensors,); 1 if it does not scan.
        max_due: slots of one sensor that are cast in one step, at most.
        needs_normals: whether any sensor needs the normals of surfaces.
        geom_body: of each geom.
        surfaces: reflectivity and retro-reflection of each geom, (sensors, ngeom, 2).
        optics: near range, separation of echoes and share of the power of each ray, (sensors, 3).
        kinds: the echoes that each sensor reports, (sensors, 4).
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
            scale.append(directions[:, 0] if rig.is_depth else np.ones(rig.n_beams))
            bundle = _diverge(directions, rig)  # (turns * bundles, spread, 3)
            spread = bundle.shape[1]
            mounted = mount.pos + origins @ mount.matrix.T, directions @ mount.matrix.T
            self.mounted_rays.append((mounted[0].astype(np.float32), mounted[1].astype(np.float32)))
            starts.append(np.repeat(mounted[0], spread, axis=0))
            vectors.append(bundle.reshape(-1, 3) @ mount.matrix.T)
            row[kernels.BODY], row[kernels.ALIGNMENT] = model.body(mount.body).id, ALIGNMENTS[rig.alignment]
            row[kernels.BEAMS], row[kernels.FIRST_BEAM] = rig.n_beams, beam
            row[kernels.BUNDLES], row[kernels.ECHOES] = rig.n_bundles, len(rig.power.echoes)
            row[kernels.N_TURNS] = rig.pattern.n_frames
            row[kernels.SPREAD], row[kernels.FIRST_RAY] = spread, ray
            row[kernels.SLOTS], row[kernels.SCANS] = rig.n_slots, rig.scan_rate is not None
            row[kernels.FIRST_SLOT], row[kernels.IN_WORLD] = slot, rig.in_world
            for kind, column in rig.first_columns(part.start).items():
                row[kind] = column
            beam, ray, slot = beam + rig.n_beams, ray + len(vectors[-1]), slot + rig.n_slots
        self.ray_starts, self.ray_vectors, self.scale = map(np.concatenate, (starts, vectors, scale))
        self.mounts = np.array([mount.matrix for mount in mounts])
        self.limits = np.array([mount.limits for mount in mounts])
        self.scans = any(rig.scan_rate is not None for rig in rigs)
        self.has_echoes = bool((self.table[:, kernels.ECHOES] > 0).any())
        self.has_turns = bool((self.table[:, kernels.N_TURNS] > 1).any())
        self.has_stamps = bool((self.table[:, [kernels.TURNS, kernels.TIMES]] >= 0).any())
        self.n_slots = slot
        self.slots_per_step = np.array(
            [1.0 if rig.scan_rate is None else rig.scan_rate * rig.n_slots * group.dt for rig in rigs]
        )
        due = (min(math.ceil(rate - 1e-9), rig.n_slots) for rate, rig in zip(self.slots_per_step, rigs, strict=True))
        self.max_due = max([*due, 1])
        fields = (self.table[:, [kernels.NORMALS, kernels.INTENSITY]] >= 0).any()
        self.needs_normals = bool(fields) or self.has_echoes
        self.geom_body = model.geom_bodyid.astype(np.int64)
        owners = [f"{type(sensor.options).__name__}(uuid={sensor.uuid!r})" for sensor in group.sensors]
        self.surfaces = np.array(
            [surface_values(model, rig.power, owner) for rig, owner in zip(rigs, owners, strict=True)]
        )
        spreads = self.table[:, kernels.SPREAD]
        self.optics = np.array(
            [(rig.power.near_range, rig.power.separation, 1 / n) for rig, n in zip(rigs, spreads, strict=True)]
        )
        self.kinds = np.full((len(rigs), len(_ECHOES)), -1, np.int64)
        for kinds, rig in zip(self.kinds, rigs, strict=True):
            kinds[: len(rig.power.echoes)] = [_ECHOES.index(echo) for echo in rig.power.echoes]
        self.excluded = np.array([_excluded(model, mount) for mount in mounts])

    def count_bundles(self, whole: bool) -> np.ndarray:
        """Return the bundles that each sensor casts in one env: of a whole revolution, or those due in one step."""
        bundles, slots = self.table[:, kernels.BUNDLES], self.table[:, kernels.SLOTS]
        some = np.minimum(self.max_due, slots) * (bundles // slots)
        return np.where(whole | (self.table[:, kernels.SCANS] == 0), bundles, some)

    def scanned_beams(self, position: int, fired: np.ndarray) -> np.ndarray:
        """Return which beams of a sensor were scanned, (beams,) bool, from the slots of all sensors that were."""
        row = self.table[position]
        slots = fired[row[kernels.FIRST_SLOT] : row[kernels.FIRST_SLOT] + row[kernels.SLOTS]]
        return slots[np.arange(row[kernels.BEAMS]) % row[kernels.SLOTS]].astype(bool)

    def segments(
        self, world: World, position: int, env: int, distances: np.ndarray, turns: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return where the beams of a sensor start and end in the world, (beams, 3) m each, at its current pose.

        Args:
            world: the engine.
            position: index of the sensor in its group.
            env: the env.
            distances: (beams,) m; beams with inf end in NaN.
            turns: turn of each slot, (slots,); default: 0.
        """
        body, alignment = self.table[position, kernels.BODY], self.table[position, kernels.ALIGNMENT]
        place, turn = (world.bind(name)[env, body].double().numpy(force=True) for name in ("xpos", "xmat"))
        turn = mounting_turn(turn.reshape(3, 3), alignment)
        beams, bundles = np.arange(len(distances)), self.table[position, kernels.BUNDLES]
        rays = beams % bundles
        if turns is not None:
            rays = rays + turns.astype(int)[beams % len(turns)] * bundles
        starts, vectors = (values[rays] for values in self.mounted_rays[position])
        first = self.table[position, kernels.FIRST_BEAM]
        along = np.where(np.isfinite(distances), distances, np.nan) / self.scale[first : first + len(starts)]
        begin = place + starts @ turn.T
        return begin, begin + along[:, None] * (vectors @ turn.T)


def mounting_turn(turn: np.ndarray, alignment: int) -> np.ndarray:
    """Return the rotation (3, 3) of the frame in which a sensor is mounted, of the rotation of its link."""
    if alignment == kernels.WORLD:
        return np.eye(3)
    if alignment == kernels.BASE:
        return turn
    heading = math.atan2(turn[1, 0], turn[0, 0])
    c, s = math.cos(heading), math.sin(heading)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


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
    """Beams, or bundles of all turns of a pattern that changes, in the frame in which points are computed: the sensor's
    own, or its mounting frame for points in the world frame."""


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
                rays=_repeat(layout.mounted_rays[i] if rig.in_world else layout.own_rays[i], rig),
            )
        )
    return layouts


def _repeat(rays: Rays, rig: RayRig) -> Rays:
    """Return the rays of the bundles for all beams, unless they depend on the turn."""
    if rig.pattern.n_frames > 1:
        return rays
    origins, directions = (np.tile(values, (rig.n_beams // rig.n_bundles, 1)) for values in rays)
    return origins, directions


def random_keys(group: SensorGroup) -> tuple[np.ndarray, np.ndarray]:
    """Return the random keys of each beam's generic noise and of its losses, (beams, 2) uint32 each.

    Distances are a sensor's first columns, so beam i has element i in the generic noise. Losses have elements below
    those of timing and columns.
    """
    beams = [(sensor.uuid, i) for sensor in group.sensors for i in range(sensor._rig.n_beams)]
    noise = [formula.key(group.seed, uuid, i) for uuid, i in beams]
    losses = [formula.key(group.seed, uuid, formula.TIMING - 1 - i) for uuid, i in beams]
    return np.array(noise, np.uint32), np.array(losses, np.uint32)


def _diverge(directions: np.ndarray, rig: RayRig) -> np.ndarray:
    """Return unit directions (bundles, spread, 3): of each beam, and of the rim of its cone.

    The rays of a beam whose echoes are detected cover its cone evenly instead, so that each has the same power.
    """
    if rig.divergence == 0.0:
        return directions[:, None]
    # any axis that is not along the beam gives a frame across it
    helper = np.where(np.abs(directions[:, 2:]) < 0.9, [[0.0, 0.0, 1.0]], [[1.0, 0.0, 0.0]])
    across = np.cross(helper, directions)
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    upward = np.cross(directions, across)
    if rig.power.echoes:  # a sunflower: equal areas in a spiral
        ray = np.arange(rig.power.rays_per_beam)
        angles, away = ray * _GOLDEN_ANGLE, rig.divergence / 2 * np.sqrt((ray + 0.5) / len(ray))
    else:
        angles = np.concatenate([[0.0], np.arange(_RIM) * (2 * np.pi / _RIM)])
        away = np.concatenate([[0.0], np.full(_RIM, rig.divergence / 2)])
    side = np.cos(angles)[:, None] * across[:, None] + np.sin(angles)[:, None] * upward[:, None]
    return np.cos(away)[:, None] * directions[:, None] + np.sin(away)[:, None] * side


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
