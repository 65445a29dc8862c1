"""``Painter``: lines, arrows, points and frames drawn into rendered images, to show what sensors measure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
import torch

from sensorium.worlds.world import ArrayLike

Rgba = tuple[float, float, float, float]
_AXES: tuple[Rgba, ...] = ((0.9, 0.2, 0.2, 1.0), (0.2, 0.8, 0.2, 1.0), (0.25, 0.4, 1.0, 1.0))


class PaintedShape(NamedTuple):
    """One shape in the world frame."""

    kind: int
    """A sphere, a capsule or an arrow, as ``mujoco.mjtGeom``."""
    size: np.ndarray
    """Size as MuJoCo defines it for that kind, (3,) m. The third value of an arrow is its full length."""
    position: np.ndarray
    """Centre, or the start of an arrow, (3,) m."""
    rotation: np.ndarray
    """Rotation matrix, (3, 3). Capsules and arrows lie along z."""
    rgba: Rgba
    """Colour: red, green, blue, alpha in [0, 1]."""


class Painter:
    """Collects shapes in the world frame and adds them to a scene that MuJoCo renders. Lengths are metres.

    Example:
        >>> painter.arrow((0, 0, 0.2), (0, 0, 0.3), (1, 0.5, 0, 1))
    """

    def __init__(self) -> None:
        self.shapes: list[PaintedShape] = []

    def __len__(self) -> int:
        return len(self.shapes)

    def points(self, positions: ArrayLike, rgba: Rgba = (1.0, 0.8, 0.1, 1.0), radius: float = 0.008) -> None:
        """Draw spheres at ``positions`` (..., 3); positions that are not finite are skipped."""
        for position in _rows(positions):
            if np.isfinite(position).all():
                self._add(mujoco.mjtGeom.mjGEOM_SPHERE, [radius] * 3, position, np.eye(3), rgba)

    def line(self, start: ArrayLike, end: ArrayLike, rgba: Rgba = (1.0, 0.4, 0.1, 0.6), width: float = 0.003) -> None:
        """Draw a straight line between two points (3,)."""
        self._span(mujoco.mjtGeom.mjGEOM_CAPSULE, width, start, end, rgba)

    def arrow(
        self, start: ArrayLike, vector: ArrayLike, rgba: Rgba = (0.1, 0.8, 0.9, 1.0), width: float = 0.008
    ) -> None:
        """Draw an arrow from the point ``start`` (3,) along ``vector`` (3,)."""
        origin = np.asarray(start, float)
        self._span(mujoco.mjtGeom.mjGEOM_ARROW, width, origin, origin + np.asarray(vector, float), rgba)

    def frame(self, position: ArrayLike, rotation: ArrayLike, size: float = 0.08) -> None:
        """Draw the axes x (red), y (green), z (blue) of a frame at ``position`` (3,) with ``rotation`` (3, 3)."""
        for axis, rgba in enumerate(_AXES):
            self.arrow(position, size * np.asarray(rotation, float).reshape(3, 3)[:, axis], rgba, size / 12)

    def add_to(self, scene: mujoco.MjvScene) -> int:
        """Add the shapes to ``scene``; return the number of shapes that did not fit."""
        room = scene.maxgeom - scene.ngeom
        for kind, size, position, rotation, rgba in self.shapes[:room]:
            geom = scene.geoms[scene.ngeom]
            mujoco.mjv_initGeom(geom, kind, size, position, rotation.flatten(), np.asarray(rgba, np.float32))
            geom.category = mujoco.mjtCatBit.mjCAT_DECOR
            scene.ngeom += 1
        return max(0, len(self.shapes) - room)

    def _span(self, kind: int, width: float, start: ArrayLike, end: ArrayLike, rgba: Rgba) -> None:
        """Add a capsule or an arrow from ``start`` to ``end``; skip it if it is not finite or has no length."""
        first, last = np.asarray(start, float).reshape(3), np.asarray(end, float).reshape(3)
        vector = last - first
        length = float(np.linalg.norm(vector))
        if not np.isfinite(length) or length < 1e-9:
            return
        z = vector / length
        x = np.cross(z, [0.0, 1.0, 0.0] if abs(z[1]) < 0.9 else [1.0, 0.0, 0.0])
        x /= np.linalg.norm(x)
        rotation = np.stack([x, np.cross(z, x), z], axis=1)
        if kind == mujoco.mjtGeom.mjGEOM_ARROW:  # its position is its start; that of a capsule is its centre
            self._add(kind, [width, width, length], first, rotation, rgba)
        else:
            self._add(kind, [width, length / 2, 0.0], (first + last) / 2, rotation, rgba)

    def _add(self, kind: int, size: Sequence[float], position: np.ndarray, rotation: np.ndarray, rgba: Rgba) -> None:
        shape = PaintedShape(int(kind), np.asarray(size, float), np.asarray(position, float), rotation, rgba)
        self.shapes.append(shape)


def _rows(positions: ArrayLike) -> np.ndarray:
    array = positions.numpy(force=True) if isinstance(positions, torch.Tensor) else np.asarray(positions)
    return array.astype(float).reshape(-1, 3)
