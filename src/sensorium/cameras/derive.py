"""Outputs that follow from others: points, instances, and normals where the renderer has none."""

from __future__ import annotations

import mujoco
import torch

from sensorium.cameras.geometry import GL_TO_CV
from sensorium.cameras.renderer import CameraView

SOURCE = {"points": "depth", "instance": "segmentation", "normals": "depth"}
"""What each is made from."""


def instances(model: mujoco.MjModel) -> tuple[list[str], torch.Tensor]:
    """Names of the entities of a model, "world" first, and the entity of each body (n,) by its number in that list."""
    names: dict[str, int] = {"world": 0}
    of_body = [
        0 if body == 0 else names.setdefault(model.body(body).name.split("/")[0], len(names))
        for body in range(model.nbody)
    ]
    return list(names), torch.tensor(of_body, dtype=torch.int32)


def instance(segmentation: torch.Tensor, of_body: torch.Tensor, out: torch.Tensor) -> None:
    """Entity (n, H, W) of each pixel of a segmentation (n, H, W, 2); -1 where nothing was hit."""
    body = segmentation[..., 0]
    out.copy_(torch.where(body < 0, -1, of_body[body.clamp(min=0).long()]))


def rays(view: CameraView, rows: slice | torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """x / z (n, 1, W) and y / z (n, H, 1) of the rays through the pixels' centres, in CV axes."""
    device = view.fx.device
    x = torch.arange(view.width, device=device) + 0.5
    y = torch.arange(view.height, device=device) + 0.5
    fx, fy, cx, cy = (value[rows].view(-1, 1) for value in (view.fx, view.fy, view.cx, view.cy))
    return ((x - cx) / fx).unsqueeze(1), ((y - cy) / fy).unsqueeze(2)


def points(view: CameraView, depth: torch.Tensor, rows: slice | torch.Tensor, out: torch.Tensor) -> None:
    """Where each pixel's surface is in the world, (n, H, W, 3); NaN where nothing was hit."""
    unproject(view, *rays(view, rows), depth, torch.isfinite(depth), rows, out)


def unproject(
    view: CameraView,
    x: torch.Tensor,
    y: torch.Tensor,
    depth: torch.Tensor,
    seen: torch.Tensor,
    rows: slice | torch.Tensor,
    out: torch.Tensor,
) -> None:
    """Points in the world (n, H, W, 3) of depths (n, H, W) along rays x / z, y / z; NaN where not ``seen``."""
    own = torch.stack([x * depth, y * depth, depth], -1)
    turned = (view.rotation[rows] @ GL_TO_CV.to(depth.device)).transpose(1, 2).unsqueeze(1)
    world = own @ turned + view.position[rows].view(-1, 1, 1, 3)
    out.copy_(torch.where(seen.unsqueeze(-1), world, torch.nan))


def normals(view: CameraView, depth: torch.Tensor, rows: slice | torch.Tensor, out: torch.Tensor) -> None:
    """Unit normals (n, H, W, 3) in CV axes from depth; 0 where nothing was hit.

    Along a plane 1 / depth is linear in x / z and y / z, so its slopes are the plane's normal, to rounding. Of the two
    neighbours of a pixel the one with the smaller difference is taken, which at edges is the one on the same surface.
    """
    inverse = torch.where(torch.isfinite(depth), 1 / depth, 0.0)
    x, y = rays(view, rows)
    along_x = _slope(inverse, 2) * view.fx[rows].view(-1, 1, 1)
    along_y = _slope(inverse, 1) * view.fy[rows].view(-1, 1, 1)
    normal = torch.stack([along_x, along_y, inverse - along_x * x - along_y * y], -1)
    length = normal.norm(dim=-1, keepdim=True)
    # for points p of the plane normal . p = 1, so the normal points away from the camera
    normal = torch.where(length > 0, -normal / length.clamp(min=1e-30), 0.0)
    out.copy_(torch.where(torch.isfinite(depth).unsqueeze(-1), normal, 0.0))


def _slope(values: torch.Tensor, axis: int) -> torch.Tensor:
    """Differences to the next pixel or from the one before, whichever is smaller in magnitude."""
    if values.shape[axis] == 1:
        return torch.zeros_like(values)
    step = values.diff(dim=axis)
    first, last = step.narrow(axis, 0, 1), step.narrow(axis, step.shape[axis] - 1, 1)
    after, before = torch.cat([step, last], axis), torch.cat([first, step], axis)
    return torch.where(after.abs() < before.abs(), after, before)
