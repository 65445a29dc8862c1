"""Things to pick up and to put things on, made of primitives."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sensorium.errors import NameNotFoundError, did_you_mean, shorten
from sensorium.worlds import Box, Cylinder, Sphere
from sensorium.worlds.primitives import Primitive


@dataclass(frozen=True)
class Thing:
    """One kind of object.

    Attributes:
        shape: the primitive.
        text: what people call it.
        half: half extents (x, y, z) of the box around it as it stands, m.
        turns: by which angles about z a grip from above may be turned, rad: what is round takes any (empty).
    """

    shape: Primitive
    text: str
    half: tuple[float, float, float]
    turns: tuple[float, ...]

    @property
    def radius(self) -> float:
        """Of a vertical cylinder around it, m."""
        return math.hypot(self.half[0], self.half[1])


_GRIP = (1.0, 0.01, 0.0005)


def _box(text: str, size: tuple[float, float, float], mass: float, color: tuple[float, float, float]) -> Thing:
    # fingers close along y of the object at turn 0; a side wider than the hand cannot be gripped
    sides = ((0.0, size[1]), (math.pi / 2, size[0]))
    turns = tuple(turn + half for turn, side in sides if side <= 0.07 for half in (0.0, math.pi))
    shape = Box(size=size, mass=mass, rgba=(*color, 1.0), friction=_GRIP)
    return Thing(shape, text, (size[0] / 2, size[1] / 2, size[2] / 2), turns)


def _cylinder(text: str, radius: float, height: float, mass: float, color: tuple[float, float, float]) -> Thing:
    shape = Cylinder(radius=radius, height=height, mass=mass, rgba=(*color, 1.0), friction=_GRIP)
    return Thing(shape, text, (radius, radius, height / 2), ())


THINGS: dict[str, Thing] = {
    "red_cube": _box("the red cube", (0.045, 0.045, 0.045), 0.12, (0.8, 0.15, 0.12)),
    "green_block": _box("the green block", (0.09, 0.04, 0.04), 0.16, (0.15, 0.6, 0.25)),
    "blue_brick": _box("the blue brick", (0.12, 0.055, 0.035), 0.25, (0.12, 0.3, 0.75)),
    "yellow_tower": _box("the yellow tower", (0.04, 0.04, 0.1), 0.15, (0.9, 0.75, 0.1)),
    "soda_can": _cylinder("the soda can", 0.03, 0.11, 0.2, (0.75, 0.75, 0.8)),
    "white_cup": _cylinder("the white cup", 0.034, 0.08, 0.15, (0.93, 0.92, 0.88)),
    "puck": _cylinder("the black puck", 0.032, 0.03, 0.1, (0.08, 0.08, 0.09)),
    "orange_ball": Thing(
        Sphere(radius=0.03, mass=0.1, rgba=(0.95, 0.5, 0.1, 1.0), friction=(1.0, 0.01, 0.002)),
        "the orange ball",
        (0.03, 0.03, 0.03),
        (),
    ),
}
"""The things, by name."""


def find(names: tuple[str, ...]) -> dict[str, Thing]:
    """Things by name."""
    look_up("object", names, THINGS)
    return {name: THINGS[name] for name in names}


def look_up(what: str, names: Iterable[str], known: Mapping[str, Any]) -> None:
    """Raise an error that says which of the names is not known."""
    for name in names:
        if name not in known:
            raise NameNotFoundError(
                f"there is no {what} {name!r}{did_you_mean(name, known) or f'; there are {shorten(known)}'}"
            )
