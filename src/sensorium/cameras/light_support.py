"""Warnings about lights that a renderer draws differently."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from sensorium.worlds.lights import Light


def warn_about_lights(renderer: str, lights: Sequence[Light]) -> None:
    """Warn, by name, about the area lights and textures of lights that a renderer does not have.

    Args:
        renderer: name of the renderer, which has only point, spot and directional lights.
        lights: lights of the scene.
    """
    for light in lights:
        if light.type == "area":
            what = "an area light" if light.texture is None else "an area light with a texture"
            warnings.warn(
                f"the light {light.name!r} is {what}, which the renderer {renderer!r} draws as a point light without "
                "shadows; use renderer='pathtrace', or a light of another type",
                stacklevel=2,
            )
