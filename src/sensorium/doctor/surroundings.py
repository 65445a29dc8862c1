"""The surroundings of the robot in our own logs, from the model in their metadata."""

from __future__ import annotations

from typing import NamedTuple
from xml.etree import ElementTree

from sensorium.logs import Log

_KEPT = ("compiler", "option", "size", "default", "asset", "worldbody")
"""Parts of a model that its surroundings need."""


class Surroundings(NamedTuple):
    """What is around a robot."""

    model: str
    """MJCF, without anything that moves."""
    pos: tuple[float, ...] | None
    """Position of a robot that is fixed to the world, m; None for one that moves, or at the origin."""
    quat: tuple[float, ...] | None
    """Its orientation (w, x, y, z)."""


def find_surroundings(log: Log, robot: str) -> Surroundings | None:
    """Return the surroundings of a robot in the model of a log; None if the log has no model of them.

    Args:
        log: the log.
        robot: name of the robot in the scene of the log.
    """
    text = log.metadata.get("scene", {}).get("mjcf", "")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError:
        return None
    world = root.find("worldbody")
    if world is None:
        return None
    own = [body for body in world.findall("body") if body.get("name", "").startswith(f"{robot}/")]
    for body in own:
        world.remove(body)
    fixed = [body for body in own if body.find("freejoint") is None and body.find("joint[@type='free']") is None]
    for part in list(root):
        if part.tag not in _KEPT:
            root.remove(part)
    for parent in list(world.iter()):
        for child in list(parent):
            if child.tag in ("joint", "freejoint", "camera", "site", "light"):
                parent.remove(child)
    if not len(world):
        return None
    for each in world.iter():
        if "name" in each.attrib:
            each.set("name", each.get("name", "").replace("/", "_"))
    pos, quat = (_numbers(fixed[0].get(name)) if fixed else None for name in ("pos", "quat"))
    return Surroundings(ElementTree.tostring(root, encoding="unicode"), pos, quat)


def _numbers(text: str | None) -> tuple[float, ...] | None:
    return None if text is None else tuple(float(each) for each in text.split())
