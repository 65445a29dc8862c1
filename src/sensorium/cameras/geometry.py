"""Where cameras are, where they look, and where points land in their images.

Two sets of camera axes are in use, and every name says which: **GL** (OpenGL, MuJoCo, Blender) has x right, y up, z
backward, the camera looks along -z; **CV** (OpenCV, ROS optical frames) has x right, y down, z forward. They differ by
a turn of 180° about x. Pixel (column i, row j) covers [i, i + 1) x [j, j + 1), so its centre lies at
(i + 0.5, j + 0.5), and the centre of an image is (width / 2, height / 2).
"""

from __future__ import annotations

import math
from typing import Any

import torch

from sensorium.errors import OptionError

GL_TO_CV = torch.diag(torch.tensor([1.0, -1.0, -1.0]))
"""Turns vectors in GL axes into CV axes, and back."""


def focal_length(fov: float, height: int) -> float:
    """Focal length in pixels of a vertical field of view in degrees."""
    return height / (2 * math.tan(math.radians(fov) / 2))


def rotation(quat: torch.Tensor) -> torch.Tensor:
    """Rotation matrices (..., 3, 3) of quaternions (..., 4) as (w, x, y, z), of any length but 0."""
    w, x, y, z = (quat / quat.norm(dim=-1, keepdim=True)).unbind(-1)
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def look_at(position: torch.Tensor, target: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Rotation (..., 3, 3), world from camera in GL axes, of a camera at ``position`` that looks at ``target``.

    ``up`` is what points up in the image; where it is parallel to the view, the axis that is least so takes its place.
    """
    back = position - target
    length = back.norm(dim=-1, keepdim=True)
    if not bool((length > 1e-9).all()):
        raise OptionError("lookat must not be the position of the camera itself")
    back = back / length
    side = torch.linalg.cross(up.expand_as(back), back)
    spare = torch.nn.functional.one_hot(back.abs().argmin(-1), 3).to(back)
    parallel = side.norm(dim=-1, keepdim=True) < 1e-6 * up.norm(dim=-1, keepdim=True)
    side = torch.where(parallel, torch.linalg.cross(spare, back), side)
    side = side / side.norm(dim=-1, keepdim=True)
    return torch.stack([side, torch.linalg.cross(back, side), back], -1)


def intrinsic_matrix(fx: torch.Tensor, fy: torch.Tensor, cx: torch.Tensor, cy: torch.Tensor) -> torch.Tensor:
    """The camera matrices (B, 3, 3) of focal lengths and principal points (B,)."""
    matrix = torch.zeros(*fx.shape, 3, 3, dtype=fx.dtype, device=fx.device)
    matrix[..., 0, 0], matrix[..., 1, 1], matrix[..., 2, 2] = fx, fy, 1.0
    matrix[..., 0, 2], matrix[..., 1, 2] = cx, cy
    return matrix


def camera_to_world(position: torch.Tensor, turned: torch.Tensor) -> torch.Tensor:
    """Homogeneous (B, 4, 4) of a position (B, 3) and a rotation (B, 3, 3)."""
    matrix = torch.zeros(*position.shape[:-1], 4, 4, dtype=position.dtype, device=position.device)
    matrix[..., :3, :3], matrix[..., :3, 3], matrix[..., 3, 3] = turned, position, 1.0
    return matrix


def world_to_camera(position: torch.Tensor, turned: torch.Tensor) -> torch.Tensor:
    """The inverse, without its last row: (B, 3, 4)."""
    back = turned.transpose(-1, -2)
    return torch.cat([back, -back @ position.unsqueeze(-1)], -1)


def project(points: Any, intrinsics: torch.Tensor, extrinsics_cv: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Where points of the world land in the images of all envs.

    Args:
        points: (n, 3) or (B, n, 3), world frame, m.
        intrinsics: ``camera.intrinsics``, (B, 3, 3).
        extrinsics_cv: ``camera.extrinsics_cv``, (B, 3, 4).

    Returns:
        Pixels (B, n, 2) as (x, y) from the top left corner of the image, and depth (B, n), m. Points behind the camera
        have a negative depth, and pixels that mean nothing.
    """
    world = torch.as_tensor(points, dtype=intrinsics.dtype, device=intrinsics.device)
    own = world @ extrinsics_cv[..., :3].transpose(-1, -2) + extrinsics_cv[..., 3].unsqueeze(-2)
    image = own @ intrinsics.transpose(-1, -2)
    return image[..., :2] / image[..., 2:], image[..., 2]
