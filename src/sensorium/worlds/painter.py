"""Lines, arrows, points and frames to be drawn into rendered images: what sensors look at, and what they feel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import mujoco
import numpy as np

Rgba = tuple[float, float, float, float]
_AXES: tuple[Rgba, ...] = ((0.9, 0.2, 0.2, 1.0), (0.2, 0.8, 0.2, 1.0), (0.25, 0.4, 1.0, 1.0))


class PaintedShape(NamedTuple):
    """One shape, in world coordinates."""

    kind: int
    """A ball, a capsule or an arrow, as ``mujoco.mjtGeom``."""
    size: np.ndarray
    """As MuJoCo wants it for that kind, (3,) m; an arrow's third is its whole length."""
    position: np.ndarray
    """Of the middle; of an arrow, where it starts, (3,) m."""
    rotation: np.ndarray
    """3 x 3; what is long lies along z."""
    rgba: Rgba
    """Colour."""


class Painter:
    """Collects shapes in world coordinates (m), and adds them to a scene that MuJoCo renders.

    Example:
        >>> painter.arrow((0, 0, 0.2), (0, 0, 0.3), (1, 0.5, 0, 1))
    """

    def __init__(self) -> None:
        self.shapes: list[PaintedShape] = []

    def __len__(self) -> int:
        return len(self.shapes)

    def points(self, positions: Any, rgba: Rgba = (1.0, 0.8, 0.1, 1.0), radius: float = 0.008) -> None:
        """Balls at ``positions`` (..., 3); those that are not finite are left out."""
        for position in _rows(positions):
            if np.isfinite(position).all():
                self._add(mujoco.mjtGeom.mjGEOM_SPHERE, [radius] * 3, position, np.eye(3), rgba)

    def line(self, start: Any, end: Any, rgba: Rgba = (1.0, 0.4, 0.1, 0.6), width: float = 0.003) -> None:
        """A straight line."""
        self._span(mujoco.mjtGeom.mjGEOM_CAPSULE, width, start, end, rgba)

    def arrow(self, start: Any, vector: Any, rgba: Rgba = (0.1, 0.8, 0.9, 1.0), width: float = 0.008) -> None:
        """An arrow from ``start`` along ``vector``."""
        start = np.asarray(start, float)
        self._span(mujoco.mjtGeom.mjGEOM_ARROW, width, start, start + np.asarray(vector, float), rgba)

    def frame(self, position: Any, rotation: Any, size: float = 0.08) -> None:
        """Axes x (red), y (green), z (blue) of a frame, ``rotation`` its 3 x 3 matrix."""
        for axis, rgba in enumerate(_AXES):
            self.arrow(position, size * np.asarray(rotation, float).reshape(3, 3)[:, axis], rgba, size / 12)

    def add_to(self, scene: mujoco.MjvScene) -> int:
        """Add the shapes to ``scene``; returns how many there was no room for."""
        room = scene.maxgeom - scene.ngeom
        for kind, size, position, rotation, rgba in self.shapes[:room]:
            geom = scene.geoms[scene.ngeom]
            mujoco.mjv_initGeom(geom, kind, size, position, rotation.flatten(), np.asarray(rgba, np.float32))
            geom.category = mujoco.mjtCatBit.mjCAT_DECOR
            scene.ngeom += 1
        return max(0, len(self.shapes) - room)

    def _span(self, kind: int, width: float, start: Any, end: Any, rgba: Rgba) -> None:
        start, end = np.asarray(start, float).reshape(3), np.asarray(end, float).reshape(3)
        vector = end - start
        length = float(np.linalg.norm(vector))
        if not np.isfinite(length) or length < 1e-9:
            return
        z = vector / length
        x = np.cross(z, [0.0, 1.0, 0.0] if abs(z[1]) < 0.9 else [1.0, 0.0, 0.0])
        x /= np.linalg.norm(x)
        rotation = np.stack([x, np.cross(z, x), z], axis=1)
        if kind == mujoco.mjtGeom.mjGEOM_ARROW:  # grows from its origin; a capsule from its middle, by half its length
            self._add(kind, [width, width, length], start, rotation, rgba)
        else:
            self._add(kind, [width, length / 2, 0.0], (start + end) / 2, rotation, rgba)

    def _add(self, kind: int, size: Sequence[float], position: Any, rotation: np.ndarray, rgba: Rgba) -> None:
        shape = PaintedShape(int(kind), np.asarray(size, float), np.asarray(position, float), rotation, rgba)
        self.shapes.append(shape)


def _rows(positions: Any) -> np.ndarray:
    array = positions.numpy(force=True) if hasattr(positions, "numpy") else np.asarray(positions)
    return array.astype(float).reshape(-1, 3)
