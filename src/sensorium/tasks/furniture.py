"""Furniture with drawers and doors, as MJCF made of primitives.

The frame of a piece has its origin on the floor below the centre of its front. Its x axis points out of the front,
towards the robot, and its z axis points up. The root link of a piece is a mocap body: it can be placed differently in
each env, and does not move when it is pulled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_WOOD, _FRONT, _STEEL = "0.62 0.47 0.33 1", "0.86 0.83 0.77 1", "0.35 0.36 0.38 1"
_PANEL = 0.018
"""Thickness of boards, m."""


@dataclass(frozen=True)
class OpenablePart:
    """A drawer or a door of a piece of furniture.

    Attributes:
        piece: name of the piece of furniture.
        link: name of its link in the piece. Its joint is LINK_joint and its handle is LINK_handle.
        text: its name in instructions, with the article.
        handle: centre of its handle in the frame of the piece when closed, m.
        extents: full extents of the handle's bar in the handle's frame (x out of the front, z along the bar), m.
        distance: (min, max) distance of the closed handle along x from the mount of the robot's arm, m.
        lateral: (min, max) offset of the closed handle along y from the mount of the robot's arm, m.
        turn: maximum rotation of the piece about z to either side, rad.
        height: maximum offset of the piece along z, up or down, m.
    """

    piece: str
    link: str
    text: str
    handle: tuple[float, float, float]
    extents: tuple[float, float, float]
    distance: tuple[float, float]
    lateral: tuple[float, float]
    turn: float
    height: float


def _board(
    size: tuple[float, float, float], pos: tuple[float, float, float], rgba: str = _WOOD, attributes: str = ""
) -> str:
    half = " ".join(f"{length / 2:.5g}" for length in size)
    return f'<geom type="box" size="{half}" pos="{_numbers(pos)}" rgba="{rgba}" {attributes}/>'


def _numbers(values: tuple[float, ...]) -> str:
    return " ".join(f"{value:.5g}" for value in values)


def _handle(
    link: str, pos: tuple[float, float, float], length: float, radius: float, gap: float, horizontal: bool
) -> str:
    """Return the body of a bar that two posts hold at a distance ``gap`` from the front.

    ``pos`` is the centre of the bar in the frame of the drawer or door. The handle's frame has x out of the front and z
    along the bar.
    """
    turn = math.sqrt(0.5)
    quat = f"{turn} {-turn} 0 0" if horizontal else "1 0 0 0"
    end = length / 2 - radius
    bar = f'<geom type="capsule" size="{radius}" fromto="0 0 {-end} 0 0 {end}" class="handle"/>'
    posts = "".join(
        f'<geom type="capsule" size="{0.8 * radius}" fromto="0 0 {z} {-gap} 0 {z}" class="handle"/>'
        for z in (-end, end)
    )
    return f'<body name="{link}_handle" pos="{_numbers(pos)}" quat="{quat}">{bar}{posts}</body>'


def _model(name: str, root: str) -> str:
    return f"""
<mujoco model="{name}">
  <compiler angle="radian" autolimits="true"/>
  <default>
    <geom density="500" friction="0.6"/>
    <joint solreffriction="0.005 1" solimpfriction="0.98 0.9999 0.001"/>
    <default class="handle"><geom density="2700" rgba="{_STEEL}" friction="1 0.01 0.0005" condim="4"/></default>
    <default class="trim"><geom contype="0" conaffinity="0"/></default>
  </default>
  <worldbody>{root}</worldbody>
</mujoco>"""


# -- chest of drawers -------------------------------------------------------------------------------------------------

_CHEST = (0.40, 0.46, 0.74)  # depth, width, height
_DRAWER = (0.34, 0.41, 0.17)
_DRAWER_HEIGHTS = {"lower": 0.42, "upper": 0.62}
_STROKE = 0.25
_BAR = (0.009, 0.15, 0.048)  # radius, length, and distance of its centre from the front


def _drawer(link: str, height: float) -> str:
    depth, width, tall = _DRAWER
    radius, length, gap = _BAR
    inside = width - 0.03
    return f"""
<body name="{link}" pos="0 0 {height}">
  <joint name="{link}_joint" type="slide" axis="1 0 0" range="0 {_STROKE}" damping="12" frictionloss="3"/>
  {_board((_PANEL, width, tall), (-_PANEL / 2, 0, 0), _FRONT)}
  {_board((depth, inside, 0.01), (-depth / 2, 0, -tall / 2 + 0.015))}
  {_board((0.01, inside, tall - 0.05), (-depth + 0.005, 0, 0))}
  {_board((depth, 0.01, tall - 0.05), (-depth / 2, inside / 2, 0))}
  {_board((depth, 0.01, tall - 0.05), (-depth / 2, -inside / 2, 0))}
  {_handle(link, (gap, 0, 0), length, radius, gap, horizontal=True)}
</body>"""


def _case(depth: float, width: float, low: float, high: float) -> str:
    """Return sides, back, top and bottom, and a plinth that reaches below the floor, since a piece may stand higher."""
    tall, middle = high - low, (high + low) / 2
    side = (width - _PANEL) / 2
    return "".join(
        [
            _board((depth, _PANEL, tall), (-depth / 2, side, middle)),
            _board((depth, _PANEL, tall), (-depth / 2, -side, middle)),
            _board((_PANEL, width - 0.02, tall), (-depth + _PANEL / 2 + 0.005, 0, middle)),
            _board((depth - 0.01, width - 0.02, _PANEL), (-depth / 2, 0, low + _PANEL / 2)),
            _board((depth, width + 0.01, _PANEL), (-depth / 2, 0, high + _PANEL / 2)),
            _board((depth - 0.06, width - 0.06, low + 0.1), (-depth / 2, 0, low / 2 - 0.05), attributes='class="trim"'),
        ]
    )


def chest() -> str:
    """Return the MJCF of a chest with two drawers, "upper" and "lower", which slide by 0.25 m."""
    depth, width, high = _CHEST
    drawers = "".join(_drawer(link, height) for link, height in _DRAWER_HEIGHTS.items())
    shelf = _board((depth - 0.01, width - 0.02, _PANEL), (-depth / 2, 0, sum(_DRAWER_HEIGHTS.values()) / 2))
    return _model(
        "chest", f'<body name="case" mocap="true">{_case(depth, width, 0.31, high - 0.02)}{shelf}{drawers}</body>'
    )


# -- cabinet ----------------------------------------------------------------------------------------------------------

_CABINET = (0.36, 0.42, 0.86)
_CABINET_LOW = 0.34
_CABINET_DOOR = (0.40, 0.46)  # width, height
_CABINET_HANDLE = 0.15  # y


def cabinet() -> str:
    """Return the MJCF of a cabinet whose "door" turns by 90 degrees about its left edge, as seen from the front."""
    depth, width, high = _CABINET
    wide, tall = _CABINET_DOOR
    middle = (_CABINET_LOW + high) / 2
    radius, length, gap = _BAR
    shelf = _board((depth - 0.05, width - 0.02, _PANEL), (-depth / 2 - 0.02, 0, middle))
    door = f"""
<body name="door" pos="0 {-wide / 2} {middle}">
  <joint name="door_joint" type="hinge" axis="0 0 -1" range="0 {math.pi / 2:.6g}" damping="0.6" frictionloss="0.25"/>
  {_board((_PANEL, wide, tall), (_PANEL / 2 + 0.002, wide / 2, 0), _FRONT)}
  {_handle("door", (_PANEL + 0.002 + gap, wide / 2 + _CABINET_HANDLE, 0), length, radius, gap, horizontal=False)}
</body>"""
    return _model(
        "cabinet", f'<body name="case" mocap="true">{_case(depth, width, _CABINET_LOW, high)}{shelf}{door}</body>'
    )


# -- room door --------------------------------------------------------------------------------------------------------

_DOOR = (0.04, 0.80, 2.0)
_DOOR_MASS = 15.0
_SILL = 0.04  # gap between door and floor, larger than the door may be lowered
_DOOR_HANDLE = (0.70, 1.0)  # distance from the hinge, height above the floor
_DOOR_BAR = (0.011, 0.26, 0.06)


def room_door() -> str:
    """Return the MJCF of a door of 0.8 x 2 m and 15 kg in a wall.

    It turns by 90 degrees about its left edge, as seen from the front.
    """
    thick, wide, tall = _DOOR
    radius, length, gap = _DOOR_BAR
    jamb, wall = 0.05, 0.7
    edge = wide / 2 + 0.006
    frame = "".join(
        [
            *(_board((0.12, jamb, tall), (-0.06, side * (edge + jamb / 2), tall / 2), _FRONT) for side in (-1, 1)),
            *(
                _board((0.10, wall, tall + jamb), (-0.06, side * (edge + jamb + wall / 2), (tall + jamb) / 2), _FRONT)
                for side in (-1, 1)
            ),
            _board((0.12, wide + 0.012, jamb), (-0.06, 0, tall + jamb / 2 + 0.006), _FRONT),
        ]
    )
    reach, height = _DOOR_HANDLE
    door = f"""
<body name="door" pos="0 {-wide / 2} 0">
  <joint name="door_joint" type="hinge" axis="0 0 -1" range="0 {math.pi / 2:.6g}" damping="3" frictionloss="1.5"/>
  {_board((thick, wide, tall - _SILL), (-thick / 2, wide / 2, (tall + _SILL) / 2), _WOOD, f'mass="{_DOOR_MASS}"')}
  {_handle("door", (gap, reach, height), length, radius, gap, horizontal=False)}
</body>"""
    return _model("room_door", f'<body name="frame" mocap="true">{frame}{door}</body>')


# -- openable parts ---------------------------------------------------------------------------------------------------


def _extents(bar: tuple[float, float, float]) -> tuple[float, float, float]:
    return 2 * bar[0], 2 * bar[0], bar[1]


def _drawer_part(link: str) -> OpenablePart:
    return OpenablePart(
        piece="chest",
        link=link,
        text=f"the {link} drawer",
        handle=(_BAR[2], 0.0, _DRAWER_HEIGHTS[link]),
        extents=_extents(_BAR),
        distance=(0.56, 0.66),
        lateral=(-0.2, 0.2),
        turn=0.3,
        height=0.05,
    )


OPENABLE_PARTS: dict[str, tuple[OpenablePart, ...]] = {
    "drawer": (_drawer_part("upper"), _drawer_part("lower")),
    "cabinet": (
        OpenablePart(
            piece="cabinet",
            link="door",
            text="the cabinet",
            handle=(_PANEL + 0.002 + _BAR[2], _CABINET_HANDLE, (_CABINET_LOW + _CABINET[2]) / 2),
            extents=_extents(_BAR),
            distance=(0.54, 0.64),
            lateral=(-0.3, 0.0),
            turn=0.3,
            height=0.05,
        ),
    ),
    "room_door": (
        OpenablePart(
            piece="room_door",
            link="door",
            text="the door",
            handle=(_DOOR_BAR[2], _DOOR_HANDLE[0] - _DOOR[1] / 2, _DOOR_HANDLE[1]),
            extents=_extents(_DOOR_BAR),
            distance=(0.6, 0.7),
            lateral=(0.1, 0.3),
            turn=0.2,
            height=0.03,
        ),
    ),
}
"""Drawers and doors, by kind of furniture."""

PIECES = {"chest": chest, "cabinet": cabinet, "room_door": room_door}
"""Functions that return the MJCF of each piece, by its name."""
