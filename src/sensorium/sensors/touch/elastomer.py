"""Elastomer: how the markers on a soft pad move when something is pressed into it (GelSight and its kin)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from pydantic import Field, model_validator

from sensorium.jit import kernel
from sensorium.pipeline.launch import launch, replayable
from sensorium.sensors.base import Format
from sensorium.sensors.options import SimpleSensorOptions
from sensorium.sensors.touch.probes import ProbeSensor, Probing
from sensorium.sensors.touch.tactile_realism import Skin, TactileRealism, realism_parameters


class ElastomerDisplacement(SimpleSensorOptions, TactileRealism, Probing):
    """Options of a soft pad with a grid of markers, whose displacements a camera behind the pad tracks.

    The pad's free surface is the x-y plane of the sensor's frame, its outside along z; markers fill ``size`` evenly.
    Things that reach behind that plane indent the pad. Mount the plane in front of the link's rigid surface, by up to
    ``thickness``, for the engine's own contacts let things go in by next to nothing.

    A marker's displacement is the sum of what every indented marker position q, of depth h(q) and dragged along by
    s(q), does to it at distance r:

    - dilation, outward from the indentation: 2 nu * dA / (2 pi thickness) * h * r / dilation_length² * exp(-r² / (2
      dilation_length²)), where dA is the area of a marker: what is pushed down must go sideways, more so in a thin pad
      and in one that keeps its volume;
    - shear, along s: dA / (2 pi shear_length²) * s * exp(-r² / (2 shear_length²)), so that the middle of a large
      contact moves with the thing that sticks to it;
    - its own depth h, into the pad.

    s is the tangential motion of the thing since it touched, at most friction * 2 (1 + nu) * h: what shear stress holds
    against the pressure before it slips.

    Example:
        >>> gel = scene.add_sensor(sn.ElastomerDisplacement(link="finger", pos=(0, 0, 0.022), grid=(9, 7)))
        >>> gel.read()   # (B, 9, 7, 3) m
    """

    grid: tuple[int, int] = (9, 9)
    """Rows (along y) and columns (along x) of markers, counted from the smallest y and x."""
    size: tuple[float, float] = (0.02, 0.02)
    """Extent of the pad along x and y, m. Markers lie in the middles of equal cells."""
    thickness: float = Field(default=0.004, gt=0)
    """Thickness of the pad, m. Nothing indents it by more."""
    poisson_ratio: float = Field(default=0.48, ge=0, le=0.5)
    """nu: 0.5 for a pad that keeps its volume, 0 for one that does not bulge at all."""
    dilation_length: float = Field(default=0.002, gt=0)
    """Decay length of the dilation, m."""
    shear_length: float = Field(default=0.002, gt=0)
    """Decay length of the shear, m."""
    friction: float = Field(default=1.0, ge=0)
    """Coefficient of friction between pad and things."""

    @model_validator(mode="after")
    def _check_pad(self) -> ElastomerDisplacement:
        if min(self.grid) < 1:
            raise ValueError(f"grid must have at least one row and one column, got {self.grid}")
        if min(self.size) <= 0:
            raise ValueError(f"size must be greater than 0, got {self.size}")
        self._check_taxels(self.grid[0] * self.grid[1])
        return self


ElastomerTaxel = ElastomerDisplacement


class ElastomerDisplacementSensor(ProbeSensor[torch.Tensor], options=ElastomerDisplacement):
    """See :class:`ElastomerDisplacement`. Reads (B, rows, columns, 3) m, in the sensor's frame."""

    kind = "elastomer"
    vector_fields = ("value",)

    def _local(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        (rows, columns), (width, height) = self.options.grid, self.options.size
        x = ((np.arange(columns) + 0.5) / columns - 0.5) * width
        y = ((np.arange(rows) + 0.5) / rows - 0.5) * height
        positions = np.stack([*np.meshgrid(x, y), np.zeros((rows, columns))], axis=-1).reshape(-1, 3)
        return positions, np.broadcast_to((0.0, 0.0, 1.0), positions.shape), np.zeros(len(positions))

    def _get_return_format(self) -> Format:
        return (*self.options.grid, 3)

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        return realism_parameters()

    @classmethod
    def _build_group(cls, group: Any) -> None:
        super()._build_group(group)
        field, world = group.field, group.world
        group.skin = Skin(group, [sensor._local()[0] for sensor in group.sensors], width=3)
        grids = np.array([sensor.options.grid for sensor in group.sensors], np.int64)
        pads = np.zeros((len(group.sensors), 11))  # rotation in the link's frame, thickness, slip limit over depth
        longest = int(grids.max())
        # of each sensor, over how many cells apart: Gaussians of dilation along y, x, and times the distance; of shear
        apart = np.arange(1 - longest, longest)
        tables = np.zeros((len(group.sensors), 6, len(apart)))
        for pad, table, sensor in zip(pads, tables, group.sensors, strict=True):
            options = sensor.options
            pad[:9] = sensor._frame()[1].ravel()
            pad[9] = options.thickness
            pad[10] = options.friction * 2 * (1 + options.poisson_ratio)
            (rows, columns), (width, height) = options.grid, options.size
            area = width * height / (rows * columns)
            spread, drag = options.dilation_length, options.shear_length
            bulge = 2 * options.poisson_ratio * area / (2 * np.pi * options.thickness * spread**2)
            y, x = apart * (height / rows), apart * (width / columns)
            table[0], table[1] = bulge * np.exp(-(y**2) / (2 * spread**2)), np.exp(-(x**2) / (2 * spread**2))
            table[2], table[3] = y * table[0], x * table[1]
            table[4] = area / (2 * np.pi * drag**2) * np.exp(-(y**2) / (2 * drag**2))
            table[5] = np.exp(-(x**2) / (2 * drag**2))
        n = len(field.probes)
        motion = group.state("motion", 3 * n).numpy()  # touching, displacement along x and y since touch
        bound = [world.bind(name).numpy() for name in ("xmat", "cvel", "subtree_com")]
        group.arguments = (
            field.sensors,
            grids,
            pads,
            tables,
            *bound,
            world.model.body_rootid.astype(np.int64),
            field.depth,
            field.position,
            field.body,
            motion,
            np.zeros((3, n)),
            np.zeros((6, n)),
            group.dt,
        )

    @classmethod
    @replayable
    def _update_raw_data(cls, group: Any, out: torch.Tensor) -> None:
        group.field.update()
        launch(_displace, *group.arguments, group.array(out))

    @classmethod
    @replayable
    def _apply_hardware_imperfections(cls, group: Any, data: torch.Tensor) -> None:
        group.skin.imperfect(data)


@kernel
def _displace(
    sensors: np.ndarray,
    grids: np.ndarray,
    pads: np.ndarray,
    tables: np.ndarray,
    xmat: np.ndarray,
    cvel: np.ndarray,
    com: np.ndarray,
    root: np.ndarray,
    depth: np.ndarray,
    position: np.ndarray,
    body: np.ndarray,
    motion: np.ndarray,
    sources: np.ndarray,
    sums: np.ndarray,
    dt: float,
    out: np.ndarray,
) -> None:
    """Displacements of all markers: Gaussians are products of one along y and one along x, so each sum is two passes.

    ``sources`` holds depth and drag of each marker position; ``sums`` what the pass along x made of them (dilation
    along y, along x, drag along x, along y), and then the displacements.
    """
    middle = tables.shape[2] // 2
    for s in range(sensors.shape[0]):
        link, first, last = sensors[s, 0], sensors[s, 1], sensors[s, 2]
        rows, columns = grids[s, 0], grids[s, 1]
        pad, table = pads[s], tables[s]
        for env in range(out.shape[1]):
            touched = False
            for i in range(first, last):
                h = min(depth[env, i], pad[9])
                row = 3 * i
                if h <= 0:
                    sources[0, i], sources[1, i], sources[2, i] = 0.0, 0.0, 0.0
                    motion[row, env], motion[row + 1, env], motion[row + 2, env] = 0.0, 0.0, 0.0
                    continue
                touched = True
                sx = sy = 0.0
                if motion[row, env] > 0:  # at the touch itself nothing has moved yet
                    vx = vy = vz = 0.0
                    for other in range(2):  # velocity of the thing, less that of the link, at the marker
                        b = body[env, i] if other == 0 else link
                        sign = 1.0 if other == 0 else -1.0
                        rx = position[env, i, 0] - com[env, root[b], 0]
                        ry = position[env, i, 1] - com[env, root[b], 1]
                        rz = position[env, i, 2] - com[env, root[b], 2]
                        wx, wy, wz = cvel[env, b, 0], cvel[env, b, 1], cvel[env, b, 2]
                        vx += sign * (cvel[env, b, 3] + wy * rz - wz * ry)
                        vy += sign * (cvel[env, b, 4] + wz * rx - wx * rz)
                        vz += sign * (cvel[env, b, 5] + wx * ry - wy * rx)
                    lx = xmat[env, link, 0] * vx + xmat[env, link, 3] * vy + xmat[env, link, 6] * vz
                    ly = xmat[env, link, 1] * vx + xmat[env, link, 4] * vy + xmat[env, link, 7] * vz
                    lz = xmat[env, link, 2] * vx + xmat[env, link, 5] * vy + xmat[env, link, 8] * vz
                    sx = motion[row + 1, env] + dt * (pad[0] * lx + pad[3] * ly + pad[6] * lz)
                    sy = motion[row + 2, env] + dt * (pad[1] * lx + pad[4] * ly + pad[7] * lz)
                    moved, most = np.sqrt(sx * sx + sy * sy), pad[10] * h
                    if moved > most:  # slips
                        sx, sy = sx * most / moved, sy * most / moved
                motion[row, env], motion[row + 1, env], motion[row + 2, env] = 1.0, sx, sy
                sources[0, i], sources[1, i], sources[2, i] = h, sx, sy
            start = 3 * first
            if not touched:
                out[start : start + 3 * (last - first), env] = 0
                continue
            sums[:, first:last] = 0
            for r in range(rows):
                line = first + r * columns
                pressed = False
                for k in range(columns):
                    h, sx, sy = sources[0, line + k], sources[1, line + k], sources[2, line + k]
                    if h > 0:
                        pressed = True
                        for c in range(columns):
                            apart = middle + c - k
                            sums[0, line + c] += table[1, apart] * h
                            sums[1, line + c] += table[3, apart] * h
                            sums[2, line + c] += table[5, apart] * sx
                            sums[3, line + c] += table[5, apart] * sy
                if pressed:
                    for k in range(rows):
                        apart = middle + k - r
                        even, odd, drag = table[0, apart], table[2, apart], table[4, apart]
                        there = first + k * columns
                        for c in range(columns):
                            sums[4, there + c] += even * sums[1, line + c] + drag * sums[2, line + c]
                            sums[5, there + c] += odd * sums[0, line + c] + drag * sums[3, line + c]
            for i in range(first, last):
                place = start + 3 * (i - first)
                out[place, env], out[place + 1, env], out[place + 2, env] = sums[4, i], sums[5, i], -sources[0, i]
