"""Outputs that are computed from others: points, instances, and normals if the renderer does not provide them.

``rows`` are the envs to compute, as an index into the tensors of the view; n is their number.
"""

from __future__ import annotations

import mujoco
import torch

from sensorium.cameras.geometry import GL_TO_CV
from sensorium.cameras.renderer import CameraView

SOURCE = {"points": "depth", "instance": "segmentation", "normals": "depth"}
"""Derived output -> the base output that it is computed from."""

Rows = slice | torch.Tensor


def list_entities(model: mujoco.MjModel) -> tuple[list[str], torch.Tensor]:
    """Return the names of the entities of a model, "world" first, and the index (nbody,) of each body's entity."""
    names: dict[str, int] = {"world": 0}
    entity_of_body = [
        0 if body == 0 else names.setdefault(model.body(body).name.split("/")[0], len(names))
        for body in range(model.nbody)
    ]
    return list(names), torch.tensor(entity_of_body, dtype=torch.int32)


def fill_instance(segmentation: torch.Tensor, entity_of_body: torch.Tensor, out: torch.Tensor) -> None:
    """Fill ``out`` (n, H, W) with the entity of each pixel of a segmentation (n, H, W, 2); -1 if nothing was hit."""
    body = segmentation[..., 0]
    out.copy_(torch.where(body < 0, -1, entity_of_body[body.clamp(min=0).long()]))


def pixel_rays(view: CameraView, rows: Rows) -> tuple[torch.Tensor, torch.Tensor]:
    """Return x / z (n, 1, W) and y / z (n, H, 1) of the rays through the pixel centres, in CV axes."""
    device = view.fx.device
    x = torch.arange(view.width, device=device) + 0.5
    y = torch.arange(view.height, device=device) + 0.5
    fx, fy, cx, cy = (value[rows].view(-1, 1) for value in (view.fx, view.fy, view.cx, view.cy))
    return ((x - cx) / fx).unsqueeze(1), ((y - cy) / fy).unsqueeze(2)


def fill_points(view: CameraView, depth: torch.Tensor, rows: Rows, out: torch.Tensor) -> None:
    """Fill ``out`` (n, H, W, 3) with the world position of each pixel's surface; NaN if nothing was hit."""
    unproject(view, *pixel_rays(view, rows), depth, torch.isfinite(depth), rows, out)


def unproject(
    view: CameraView,
    x: torch.Tensor,
    y: torch.Tensor,
    depth: torch.Tensor,
    valid: torch.Tensor,
    rows: Rows,
    out: torch.Tensor,
) -> None:
    """Fill ``out`` (n, H, W, 3) with the world positions of depths along rays; NaN where ``valid`` is False.

    Args:
        view: camera, for its pose.
        x: x / z of the rays in CV axes, broadcastable to (n, H, W).
        y: y / z of the rays.
        depth: depth along the optical axis, m, (n, H, W).
        valid: which pixels have a depth, (n, H, W).
        rows: envs.
        out: positions to fill, m.
    """
    local = torch.stack([x * depth, y * depth, depth], -1)
    rotation = (view.rotation[rows] @ GL_TO_CV.to(depth.device)).transpose(1, 2).unsqueeze(1)
    world = local @ rotation + view.position[rows].view(-1, 1, 1, 3)
    out.copy_(torch.where(valid.unsqueeze(-1), world, torch.nan))


def fill_normals(view: CameraView, depth: torch.Tensor, rows: Rows, out: torch.Tensor) -> None:
    """Fill ``out`` (n, H, W, 3) with unit normals in CV axes, computed from depth; 0 if nothing was hit.

    On a plane, 1 / depth is linear in x / z and y / z, so its slopes give the plane's normal up to rounding. Of the
    differences to the two neighbours of a pixel the smaller is used: at an edge, that neighbour is on the same surface.
    """
    inverse = torch.where(torch.isfinite(depth), 1 / depth, 0.0)
    x, y = pixel_rays(view, rows)
    slope_x = _slope(inverse, 2) * view.fx[rows].view(-1, 1, 1)
    slope_y = _slope(inverse, 1) * view.fy[rows].view(-1, 1, 1)
    normal = torch.stack([slope_x, slope_y, inverse - slope_x * x - slope_y * y], -1)
    length = normal.norm(dim=-1, keepdim=True)
    # points p of the plane satisfy normal . p = 1, so this normal points away from the camera
    normal = torch.where(length > 0, -normal / length.clamp(min=1e-30), 0.0)
    out.copy_(torch.where(torch.isfinite(depth).unsqueeze(-1), normal, 0.0))


def _slope(values: torch.Tensor, axis: int) -> torch.Tensor:
    """Return the difference to the next or from the previous pixel, whichever has the smaller magnitude."""
    if values.shape[axis] == 1:
        return torch.zeros_like(values)
    step = values.diff(dim=axis)
    first, last = step.narrow(axis, 0, 1), step.narrow(axis, step.shape[axis] - 1, 1)
    after, before = torch.cat([step, last], axis), torch.cat([first, step], axis)
    return torch.where(after.abs() < before.abs(), after, before)
