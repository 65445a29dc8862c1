"""Replacement of collision shapes by boxes or cylinders, and the report of a conversion."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from sensorium.worlds.urdf.description import Link, Shape
from sensorium.worlds.urdf.fitting import Fit, convex_hull, fit_box, fit_cylinder

Approximation = Literal["box", "cylinder"]


@dataclass(frozen=True)
class Replacement:
    """A collision shape that was replaced by a simpler one that encloses it.

    Attributes:
        link: the link of the shape.
        line: its line in the file.
        shape: the original: "sphere", "capsule" or "mesh".
        file: the file of a mesh.
        by: "box" or "cylinder".
        size: box: x, y, z; cylinder: radius and length, m.
        before: volume of the original, m³; for a mesh, that of its convex hull, which is what collides.
        after: volume of the replacement, m³.
    """

    link: str
    line: int
    shape: str
    file: str
    by: str
    size: tuple[float, ...]
    before: float
    after: float

    @property
    def error(self) -> float:
        """Relative increase of the volume: 0.1 for 10%."""
        return self.after / self.before - 1


@dataclass(frozen=True)
class UrdfReport:
    """Report of the conversion of a URDF file; ``print(report)`` shows it as a table.

    Attributes:
        name: name of the robot in the file.
        replacements: collision shapes that were replaced.
        velocity_limits: joint -> limit in the file, rad/s or m/s. The physics does not enforce them.
        touching: pairs of links that touch in the initial state. Collisions between them are excluded.
        notes: content of the file that was changed or that the robot does not have.
    """

    name: str
    replacements: tuple[Replacement, ...] = ()
    velocity_limits: dict[str, float] | None = None
    touching: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        rows = [("link", "before", "after", "size [mm]", "volume [cm³]", "error")]
        for each in self.replacements:
            before = each.file.rsplit("/", 1)[-1] if each.file else each.shape
            size = " x ".join(f"{1e3 * length:.1f}" for length in each.size)
            volumes = f"{1e6 * each.before:.4g} -> {1e6 * each.after:.4g}"
            rows.append((each.link, before, each.by, size, volumes, f"{100 * each.error:+.1f}%"))
        widths = [max(len(row[column]) for row in rows) for column in range(6)]
        table = ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        count = len(self.replacements)
        lines = [f"URDF {self.name!r}: {count} collision shape{'' if count == 1 else 's'} replaced"]
        lines += table if self.replacements else []
        lines += [f"do not collide: {first}, {second}" for first, second in self.touching]
        return "\n".join([*lines, *self.notes])


def approximate(
    link: Link, by: Approximation, vertices: Callable[[Shape], np.ndarray]
) -> tuple[Link, list[Replacement]]:
    """Replace the spheres, capsules and meshes among the collision shapes of a link.

    Args:
        link: the link.
        by: the replacement: "box" or "cylinder".
        vertices: returns the vertices of a mesh, (n, 3) m.

    Returns:
        The new link, and the replacements.

    Raises:
        ValueError: a mesh is flat.
    """
    collisions, report = [], []
    for shape in link.collisions:
        if shape.kind not in ("sphere", "capsule", "mesh"):
            collisions.append(shape)
            continue
        if shape.kind == "mesh":
            hull = convex_hull(vertices(shape))
            before, fit = hull.volume, fit_box(hull) if by == "box" else fit_cylinder(hull)
        else:
            before, fit = _round(shape, by)
        turn = rotation(shape.rpy)
        pos = np.asarray(shape.pos) + turn @ fit.center
        rpy = roll_pitch_yaw(turn @ fit.turn)
        collisions.append(replace(shape, kind=by, size=fit.size, pos=tuple(pos.tolist()), rpy=rpy, file=""))
        report.append(Replacement(link.name, shape.node.line, shape.kind, shape.file, by, fit.size, before, fit.volume))
    return replace(link, collisions=collisions), report


def _round(shape: Shape, by: Approximation) -> tuple[float, Fit]:
    """Return the volume of a sphere or capsule, and the smallest box or cylinder around it."""
    radius, length = (*shape.size, 0.0)[:2]
    whole = length + 2 * radius
    before = math.pi * radius**2 * length + 4 / 3 * math.pi * radius**3
    size = (2 * radius, 2 * radius, whole) if by == "box" else (radius, whole)
    after = 4 * radius**2 * whole if by == "box" else math.pi * radius**2 * whole
    return before, Fit(size, np.zeros(3), np.eye(3), after)


def rotation(rpy: tuple[float, ...]) -> np.ndarray:
    """Return the rotation matrix (3, 3) of roll, pitch, yaw in rad about fixed axes."""
    (cr, cp, cy), (sr, sp, sy) = np.cos(rpy), np.sin(rpy)
    about_x = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    about_y = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    about_z = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    return about_z @ about_y @ about_x


def roll_pitch_yaw(turn: np.ndarray) -> tuple[float, float, float]:
    """Return roll, pitch, yaw in rad of a rotation matrix (3, 3)."""
    cos = math.hypot(turn[0, 0], turn[1, 0])
    pitch = math.atan2(-turn[2, 0], cos)
    if cos < 1e-9:  # gimbal lock: only the sum or difference of roll and yaw is defined
        return math.atan2(-turn[1, 2], turn[1, 1]), pitch, 0.0
    return math.atan2(turn[2, 1], turn[2, 2]), pitch, math.atan2(turn[1, 0], turn[0, 0])
