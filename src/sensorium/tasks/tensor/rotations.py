"""Rotations by quaternions (w, x, y, z) as torch operations on rows."""

from __future__ import annotations

import torch


def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the products a b of quaternions, (B, 4)."""
    w1, x1, y1, z1 = a.unbind(1)
    w2, x2, y2, z2 = b.unbind(1)
    return torch.stack(
        (
            w1 * w2 - x1 * x2 - y1 * y2 - z1 * z2,
            w1 * x2 + x1 * w2 + y1 * z2 - z1 * y2,
            w1 * y2 - x1 * z2 + y1 * w2 + z1 * x2,
            w1 * z2 + x1 * y2 - y1 * x2 + z1 * w2,
        ),
        dim=1,
    )


def about_z(angle: torch.Tensor) -> torch.Tensor:
    """Return quaternions (B, 4) that turn by angles (B,) in rad about the z axis."""
    zero = torch.zeros_like(angle)
    return torch.stack((torch.cos(angle / 2), zero, zero, torch.sin(angle / 2)), dim=1)


def about_y(angle: torch.Tensor) -> torch.Tensor:
    """Return quaternions (B, 4) that turn by angles (B,) in rad about the y axis."""
    zero = torch.zeros_like(angle)
    return torch.stack((torch.cos(angle / 2), zero, torch.sin(angle / 2), zero), dim=1)


def rotate_back(quat: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    """Return vectors (B, 3) of the outer frame in the frame that quaternions (B, 4) turn."""
    w, axis = quat[:, :1], quat[:, 1:]
    twice = 2 * cross(vector, axis)
    return vector + w * twice + cross(twice, axis)


def up(quat: torch.Tensor) -> torch.Tensor:
    """Return the outer z axis in the frames that quaternions (B, 4) turn, (B, 3)."""
    w, x, y, z = quat.unbind(1)
    return torch.stack((2 * (x * z - w * y), 2 * (y * z + w * x), cos_tilt(quat)), dim=1)


def cos_tilt(quat: torch.Tensor) -> torch.Tensor:
    """Return the cosine of the angle by which quaternions (B, 4) tilt the z axis, (B,)."""
    _, x, y, _ = quat.unbind(1)
    return 1 - 2 * (x * x + y * y)


def cross(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return cross products (B, 3), one row at a time, so that the rounding does not depend on the number of rows."""
    return torch.linalg.cross(a, b, dim=1)
