"""What a pixel of a camera shows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from sensorium.cameras.imager.lens import Intrinsics
from sensorium.cameras.renderer import CameraView
from sensorium.worlds import World

_SEEN = [1, 1, 1, 0, 0, 0]
"""Groups of geoms that are drawn."""


class Picked(NamedTuple):
    """What a pixel shows."""

    body: str | None
    """Name of the body; None where nothing was hit."""
    body_id: int
    """Its number, or -1."""
    geom_id: int
    """Number of the geom, or -1."""
    position: np.ndarray
    """Where in the world, m, (3,); NaN where nothing was hit."""


def pick(world: World, view: CameraView, intrinsics: Intrinsics, env: int, x: float, y: float) -> Picked:
    """The first surface along the ray of pixel (x, y) of the image, by casting it; poses must be up to date."""
    profile = view.options.profile
    if profile is not None and profile.distorts:
        own = Intrinsics(*(value[env : env + 1] for value in intrinsics))
        right, down = (float(side[0, int(y), int(x)]) for side in profile.rays(own, view.options.resolution))
    else:
        u, v = (value + 0.5 if float(value).is_integer() else value for value in (x, y))
        fx, fy, cx, cy = (float(value[env]) for value in intrinsics)
        right, down = (u - cx) / fx, (v - cy) / fy
    if np.isnan(right + down):  # no light from there comes through the lens
        return Picked(None, -1, -1, np.full(3, np.nan))
    along = torch.tensor([right, -down, -1.0])
    direction = (view.rotation[env].cpu() @ along).double()
    start = view.position[env].cpu().double() + view.near * direction
    distance, geom = world.rays(start.reshape(1, 3), direction.reshape(1, 3), geomgroup=_SEEN)
    reach, number = float(distance[env, 0]), int(geom[env, 0])
    if number < 0 or reach < 0 or reach > view.far - view.near:
        return Picked(None, -1, -1, np.full(3, np.nan))
    body = int(world.model.geom_bodyid[number])
    return Picked(world.model.body(body).name, body, number, (start + reach * direction).numpy())
