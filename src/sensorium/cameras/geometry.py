"""Camera geometry: rotations, camera matrices and projection.

Two conventions of camera axes are in use, and every name says which one it means:

====== ========================= ======= ===== ======== ============================
name   used by                   x       y     z        the camera looks along
====== ========================= ======= ===== ======== ============================
**GL** OpenGL, MuJoCo, Blender   right   up    backward -z
**CV** OpenCV, ROS optical frame right   down  forward  +z
====== ========================= ======= ===== ======== ============================

They differ by a rotation of 180° about x.

Pixel (column i, row j) covers [i, i + 1) x [j, j + 1). Its centre is (i + 0.5, j + 0.5), and the centre of the image is
(width / 2, height / 2).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from sensorium._arguments import checked_numbers
from sensorium._tensors import check_plain
from sensorium.errors import OptionError

GL_TO_CV = torch.diag(torch.tensor([1.0, -1.0, -1.0]))
"""Rotation (3, 3) from GL to CV axes; it is its own inverse."""


def rotation(quat: torch.Tensor) -> torch.Tensor:
    """Return the rotation matrices (..., 3, 3) of quaternions (..., 4), (w, x, y, z), of any length except 0."""
    w, x, y, z = (quat / quat.norm(dim=-1, keepdim=True)).unbind(-1)
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def look_at(position: torch.Tensor, target: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Return the rotation of a camera at ``position`` that looks at ``target``.

    Args:
        position: position of the camera in the world, m, (..., 3).
        target: point in the world that the camera looks at, m, (..., 3).
        up: direction in the world that points up in the image, (..., 3) or (3,). Where it is parallel to the viewing
            direction, the coordinate axis that is farthest from parallel replaces it.

    Returns:
        World from camera in GL axes, (..., 3, 3).

    Raises:
        OptionError: ``target`` equals ``position``, or an argument is not a tensor (..., 3).
    """
    for name, value in (("position", position), ("target", target), ("up", up)):
        if isinstance(value, torch.Tensor):
            check_plain(f"look_at: {name}", value)
        if not isinstance(value, torch.Tensor) or value.shape[-1:] != (3,) or value.is_complex():
            raise OptionError(f"look_at: {name} must be a tensor (..., 3), got {value!r:.80}")
        if value.device != position.device:
            raise OptionError(f"look_at: {name} must be on {position.device}, as position, got {value.device}")
    try:
        backward, up = torch.broadcast_tensors(position - target, up)
    except RuntimeError:
        shapes = [tuple(value.shape) for value in (position, target, up)]
        raise OptionError(f"look_at: position, target and up must fit each other, got the shapes {shapes}") from None
    if not backward.is_floating_point():
        backward = backward.float()
    up = up.to(backward)
    length = backward.norm(dim=-1, keepdim=True)
    if not bool((length > 1e-9).all()):
        raise OptionError("lookat must differ from the position of the camera")
    backward = backward / length
    right = torch.linalg.cross(up, backward)
    fallback = torch.nn.functional.one_hot(backward.abs().argmin(-1), 3).to(backward)
    parallel = right.norm(dim=-1, keepdim=True) < 1e-6 * up.norm(dim=-1, keepdim=True)
    right = torch.where(parallel, torch.linalg.cross(fallback, backward), right)
    right = right / right.norm(dim=-1, keepdim=True)
    return torch.stack([right, torch.linalg.cross(backward, right), backward], -1)


def intrinsic_matrix(fx: torch.Tensor, fy: torch.Tensor, cx: torch.Tensor, cy: torch.Tensor) -> torch.Tensor:
    """Return the camera matrices (B, 3, 3) for focal lengths and principal points in pixels, each (B,)."""
    matrix = torch.zeros(*fx.shape, 3, 3, dtype=fx.dtype, device=fx.device)
    matrix[..., 0, 0], matrix[..., 1, 1], matrix[..., 2, 2] = fx, fy, 1.0
    matrix[..., 0, 2], matrix[..., 1, 2] = cx, cy
    return matrix


def camera_to_world(position: torch.Tensor, rotation: torch.Tensor) -> torch.Tensor:
    """Return the homogeneous transforms (B, 4, 4) of positions (B, 3) and rotations (B, 3, 3)."""
    matrix = torch.zeros(*position.shape[:-1], 4, 4, dtype=position.dtype, device=position.device)
    matrix[..., :3, :3], matrix[..., :3, 3], matrix[..., 3, 3] = rotation, position, 1.0
    return matrix


def world_to_camera(position: torch.Tensor, rotation: torch.Tensor) -> torch.Tensor:
    """Return the inverse of :func:`camera_to_world` without its last row, (B, 3, 4)."""
    inverse = rotation.transpose(-1, -2)
    return torch.cat([inverse, -inverse @ position.unsqueeze(-1)], -1)


def project(
    points: torch.Tensor | np.ndarray | Sequence[Sequence[float]],
    intrinsics: torch.Tensor,
    extrinsics_cv: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Project points of the world into the images of all envs, without lens distortion.

    Args:
        points: positions in the world, m, (n, 3), or (B, n, 3) for different points in each env.
        intrinsics: ``camera.intrinsics``, (B, 3, 3).
        extrinsics_cv: ``camera.extrinsics_cv``, (B, 3, 4).

    Returns:
        Pixels (B, n, 2) as (x, y) from the top left corner of the image, and depth (B, n) along the optical axis, m.
        A point behind the camera has a negative depth; its pixel is meaningless.

    Raises:
        OptionError: ``intrinsics`` or ``extrinsics_cv`` is not a tensor of that shape, or ``points`` are not numbers of
            that shape.

    Example:
        >>> pixels, depth = project([[0, 0, 0.5]], camera.intrinsics, camera.extrinsics_cv)
    """
    for name, value, shape in (("intrinsics", intrinsics, (3, 3)), ("extrinsics_cv", extrinsics_cv, (3, 4))):
        if isinstance(value, torch.Tensor):
            check_plain(f"project: {name}", value)
        if not isinstance(value, torch.Tensor) or value.shape[-2:] != shape or not value.is_floating_point():
            raise OptionError(f"project: {name} must be a tensor (B, {shape[0]}, {shape[1]}), got {value!r:.80}")
    world = _points(points, intrinsics)
    try:
        local = world @ extrinsics_cv[..., :3].transpose(-1, -2) + extrinsics_cv[..., 3].unsqueeze(-2)
        image = local @ intrinsics.transpose(-1, -2)
    except RuntimeError:
        given = [f"{tuple(each.shape)} {each.dtype} on {each.device}" for each in (world, intrinsics, extrinsics_cv)]
        raise OptionError(
            f"project: points, intrinsics and extrinsics_cv must fit each other, got {', '.join(given)}"
        ) from None
    return image[..., :2] / image[..., 2:], image[..., 2]


def _points(points: torch.Tensor | np.ndarray | Sequence[Sequence[float]], like: torch.Tensor) -> torch.Tensor:
    """Return points (..., n, 3) with the dtype and device of another tensor."""
    if isinstance(points, torch.Tensor):
        check_plain("project: points", points)
        tensor = points
    else:
        tensor = torch.from_numpy(checked_numbers("project: points", points))
    if tensor.ndim < 2 or tensor.shape[-1] != 3 or tensor.is_complex():
        raise OptionError(f"project: points must have shape (n, 3) or (B, n, 3), got {points!r:.80}")
    return tensor.to(like)
