"""Boxes or cylinders in place of collision shapes that are slower, and the report of what was done."""

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
    """A collision shape that a simpler one replaces, which holds all of it.

    Attributes:
        link: whose shape it is.
        line: where it stands in the file.
        shape: what it was: "sphere", "capsule" or "mesh".
        file: the mesh.
        by: "box" or "cylinder".
        size: of the box along x, y, z; of the cylinder radius and length, m.
        before: volume it had, m³; of a mesh, that of its convex hull, which is what collides.
        after: volume it has now, m³.
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
        """By how much the volume is greater, as a part of what it was: 0.1 for 10%."""
        return self.after / self.before - 1


@dataclass(frozen=True)
class UrdfReport:
    """What became of a URDF file; print it to see it as a table.

    Attributes:
        name: of the robot, in the file.
        replacements: collision shapes that were replaced.
        velocity_limits: joint -> rad/s or m/s, as the file says; physics does not keep to them.
        touching: pairs of links that touch at the start, and so never collide with each other.
        notes: what the file says and the robot does not have.
    """

    name: str
    replacements: tuple[Replacement, ...] = ()
    velocity_limits: dict[str, float] | None = None
    touching: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        rows = [("link", "was", "is", "size [mm]", "volume [cm³]", "error")]
        for each in self.replacements:
            was = each.file.rsplit("/", 1)[-1] if each.file else each.shape
            size = " x ".join(f"{1e3 * length:.1f}" for length in each.size)
            volumes = f"{1e6 * each.before:.4g} -> {1e6 * each.after:.4g}"
            rows.append((each.link, was, each.by, size, volumes, f"{100 * each.error:+.1f}%"))
        widths = [max(len(row[column]) for row in rows) for column in range(6)]
        table = ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        lines = [f"URDF {self.name!r}: {len(self.replacements)} collision shapes replaced"]
        lines += table if self.replacements else []
        lines += [f"do not collide: {first}, {second}" for first, second in self.touching]
        return "\n".join([*lines, *self.notes])


def approximate(
    link: Link, by: Approximation, vertices: Callable[[Shape], np.ndarray]
) -> tuple[Link, list[Replacement]]:
    """A link whose spheres, capsules and meshes collide as boxes or cylinders around them.

    Args:
        link: the link.
        by: what they become.
        vertices: of a mesh, (n, 3).

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
    """The volume of a sphere or capsule, and what fits around it."""
    radius, length = (*shape.size, 0.0)[:2]
    whole = length + 2 * radius
    before = math.pi * radius**2 * length + 4 / 3 * math.pi * radius**3
    size = (2 * radius, 2 * radius, whole) if by == "box" else (radius, whole)
    after = 4 * radius**2 * whole if by == "box" else math.pi * radius**2 * whole
    return before, Fit(size, np.zeros(3), np.eye(3), after)


def rotation(rpy: tuple[float, ...]) -> np.ndarray:
    """The rotation of roll, pitch, yaw about fixed axes, (3, 3)."""
    (cr, cp, cy), (sr, sp, sy) = np.cos(rpy), np.sin(rpy)
    about_x = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    about_y = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    about_z = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    return about_z @ about_y @ about_x


def roll_pitch_yaw(turn: np.ndarray) -> tuple[float, float, float]:
    """Roll, pitch, yaw of a rotation."""
    cos = math.hypot(turn[0, 0], turn[1, 0])
    pitch = math.atan2(-turn[2, 0], cos)
    if cos < 1e-9:  # straight up or down: only the sum or difference of the others is known
        return math.atan2(-turn[1, 2], turn[1, 1]), pitch, 0.0
    return math.atan2(turn[2, 1], turn[2, 2]), pitch, math.atan2(turn[1, 0], turn[0, 0])
