"""Objects that a robot can pick up or drive to, made of primitives."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sensorium.tasks.checks import check_names
from sensorium.worlds import Box, Cylinder, Sphere
from sensorium.worlds.primitives import Primitive


@dataclass(frozen=True)
class TaskObject:
    """One kind of object.

    Attributes:
        shape: the primitive.
        text: its name in instructions, with the article.
        half: half extents (x, y, z) of its bounding box as it stands, m.
        turns: angles about z at which a gripper can grip it from above, rad. Empty for round objects: any angle.
    """

    shape: Primitive
    text: str
    half: tuple[float, float, float]
    turns: tuple[float, ...]

    @property
    def radius(self) -> float:
        """Radius of the vertical bounding cylinder, m."""
        return math.hypot(self.half[0], self.half[1])


_FRICTION = (1.0, 0.01, 0.0005)
_MAX_GRIP_WIDTH = 0.07
"""Widest side that a gripper closes around, m."""


def _box(text: str, size: tuple[float, float, float], mass: float, color: tuple[float, float, float]) -> TaskObject:
    # At turn 0 the fingers close along the object's y axis.
    sides = ((0.0, size[1]), (math.pi / 2, size[0]))
    turns = tuple(turn + half for turn, side in sides if side <= _MAX_GRIP_WIDTH for half in (0.0, math.pi))
    shape = Box(size=size, mass=mass, rgba=(*color, 1.0), friction=_FRICTION)
    return TaskObject(shape, text, (size[0] / 2, size[1] / 2, size[2] / 2), turns)


def _cylinder(text: str, radius: float, height: float, mass: float, color: tuple[float, float, float]) -> TaskObject:
    shape = Cylinder(radius=radius, height=height, mass=mass, rgba=(*color, 1.0), friction=_FRICTION)
    return TaskObject(shape, text, (radius, radius, height / 2), ())


OBJECTS: dict[str, TaskObject] = {
    "red_cube": _box("the red cube", (0.045, 0.045, 0.045), 0.12, (0.8, 0.15, 0.12)),
    "green_block": _box("the green block", (0.09, 0.04, 0.04), 0.16, (0.15, 0.6, 0.25)),
    "blue_brick": _box("the blue brick", (0.12, 0.055, 0.035), 0.25, (0.12, 0.3, 0.75)),
    "yellow_tower": _box("the yellow tower", (0.04, 0.04, 0.1), 0.15, (0.9, 0.75, 0.1)),
    "soda_can": _cylinder("the soda can", 0.03, 0.11, 0.2, (0.75, 0.75, 0.8)),
    "white_cup": _cylinder("the white cup", 0.034, 0.08, 0.15, (0.93, 0.92, 0.88)),
    "puck": _cylinder("the black puck", 0.032, 0.03, 0.1, (0.08, 0.08, 0.09)),
    "orange_ball": TaskObject(
        Sphere(radius=0.03, mass=0.1, rgba=(0.95, 0.5, 0.1, 1.0), friction=(1.0, 0.01, 0.002)),
        "the orange ball",
        (0.03, 0.03, 0.03),
        (),
    ),
}
"""The objects, by name."""


def check_object_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of objects in an option, after checking them.

    Raises:
        ValueError: there is no name, or a name occurs twice.
        NameNotFoundError: there is no object of that name.
    """
    if not names or len(set(names)) < len(names):
        raise ValueError(f"must name at least one object, each only once; got {names}")
    check_names("object", names, OBJECTS)
    return names


def find_objects(names: tuple[str, ...]) -> dict[str, TaskObject]:
    """Return objects by name.

    Raises:
        NameNotFoundError: there is no object of that name.
    """
    check_names("object", names, OBJECTS)
    return {name: OBJECTS[name] for name in names}
