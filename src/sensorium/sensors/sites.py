"""``add_site``: the site of the model that a sensor is mounted on."""

from __future__ import annotations

from typing import Any

import mujoco

from sensorium._arguments import checked
from sensorium.worlds import Names
from sensorium.worlds.compose import pose


@checked
def add_site(spec: mujoco.MjSpec, names: Names, options: Any, uuid: str) -> str:
    """Add a site at the pose of :class:`~sensorium.sensors.options.Mounted` options and return its name."""
    body = names.body(options.link, f"{type(options).__name__}(uuid={uuid!r}).link")
    position, orientation = pose(options.pos, options.quat, options.euler)
    name = f"{uuid}:site"
    body.add_site(name=name, pos=position, quat=orientation)
    return name
