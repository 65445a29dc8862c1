"""Picking: which surface a pixel of a camera shows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from sensorium.cameras.imager.lens import Intrinsics
from sensorium.cameras.renderer import CameraView
from sensorium.worlds import World

_VISIBLE_GROUPS = [1, 1, 1, 0, 0, 0]
"""Geom groups that are rendered."""


class PickedSurface(NamedTuple):
    """The surface that a pixel shows."""

    body: str | None
    """Name of the body; None if nothing was hit."""
    body_id: int
    """Id of the body, or -1."""
    geom_id: int
    """Id of the geom, or -1."""
    position: np.ndarray
    """Position of the surface in the world, m, (3,); NaN if nothing was hit."""


def pick(world: World, view: CameraView, intrinsics: Intrinsics, env: int, x: float, y: float) -> PickedSurface:
    """Cast the ray of pixel (x, y) of the image, and return the first surface that it hits.

    Args:
        world: the running engine; its poses must be up to date.
        view: the camera, with its current pose.
        intrinsics: intrinsics of the image, without overscan margins.
        env: id of the env.
        x: column; a whole number means the centre of the pixel. With a lens, every number does.
        y: row, likewise.
    """
    profile = view.options.profile
    if profile is not None and profile.distorts:
        own = Intrinsics(*(value[env : env + 1] for value in intrinsics))
        right, down = (float(side[0, int(y), int(x)]) for side in profile.rays(own, view.options.resolution))
    else:
        u, v = (value + 0.5 if float(value).is_integer() else value for value in (x, y))
        fx, fy, cx, cy = (float(value[env]) for value in intrinsics)
        right, down = (u - cx) / fx, (v - cy) / fy
    if np.isnan(right + down):  # no ray reaches this pixel through the lens
        return _nothing()
    along = torch.tensor([right, -down, -1.0])
    direction = (view.rotation[env].cpu() @ along).double()
    start = view.position[env].cpu().double() + view.near * direction
    distance, geom = world.rays(start.reshape(1, 3), direction.reshape(1, 3), geomgroup=_VISIBLE_GROUPS)
    reach, geom_id = float(distance[env, 0]), int(geom[env, 0])
    if geom_id < 0 or reach < 0 or reach > view.far - view.near:
        return _nothing()
    body = int(world.model.geom_bodyid[geom_id])
    return PickedSurface(world.model.body(body).name, body, geom_id, (start + reach * direction).numpy())


def _nothing() -> PickedSurface:
    return PickedSurface(None, -1, -1, np.full(3, np.nan))
