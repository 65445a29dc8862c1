"""Arguments of camera methods, checked and as tensors with one row per env."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from sensorium._arguments import is_masked
from sensorium._tensors import plain_tensor
from sensorium.cameras.geometry import rotation
from sensorium.errors import OptionError
from sensorium.sensors.field_of_view import check_names, check_square

Numbers = float | Sequence[float] | Sequence[Sequence[float]] | np.ndarray | torch.Tensor
"""A number, a vector, or one row per env."""
Offset = Sequence[float] | Sequence[Sequence[float]] | Sequence[Sequence[Sequence[float]]] | np.ndarray | torch.Tensor
"""A homogeneous transform (4, 4) or a pose (7,), or one per env."""

_MAX_SKEW = 1e-4
"""Largest deviation of a rotation matrix from an orthonormal one."""


def per_env_rows(name: str, values: Numbers, columns: int, rows: int, device: torch.device) -> torch.Tensor:
    """Return an argument as a float32 tensor (rows, columns).

    Raises:
        OptionError: it is not finite numbers of shape (columns,) or (rows, columns).
    """
    tensor = _to_tensor(name, values, device)
    if name == "focal_length" and tensor.ndim == 0:  # the same along x and y
        tensor = tensor.expand(columns)
    if tensor.shape not in ((columns,), (1, columns), (rows, columns)):
        raise OptionError(f"{name} must have shape ({columns},) or ({rows}, {columns}), got {tuple(tensor.shape)}")
    if name in ("quat", "up") and not bool((tensor.norm(dim=-1) > 1e-9).all()):
        raise OptionError(f"{name} must not be zero, got {values!r}")
    return tensor.expand(rows, columns)


def offset_rows(offset: Offset, rows: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the argument ``offset`` of ``attach`` as positions (rows, 3) and rotations (rows, 3, 3), float32.

    Raises:
        OptionError: it is neither rigid transforms nor poses.
    """
    tensor = _to_tensor("attach: offset", offset, device)
    shape = tuple(tensor.shape)
    if shape in ((7,), (1, 7), (rows, 7)):
        if not bool((tensor[..., 3:].norm(dim=-1) > 1e-9).all()):
            raise OptionError(f"attach: the quaternion of offset must not be zero, got {offset!r}")
        return tensor[..., :3].expand(rows, 3), rotation(tensor[..., 3:]).expand(rows, 3, 3)
    if shape not in ((4, 4), (1, 4, 4), (rows, 4, 4)):
        raise OptionError(
            f"attach: offset must be a transform of shape (4, 4) or ({rows}, 4, 4), or a pose of shape (7,) or "
            f"({rows}, 7): position and quaternion (w, x, y, z); got shape {shape}"
        )
    turn, last = tensor[..., :3, :3], tensor.new_tensor([0.0, 0.0, 0.0, 1.0])
    skew = (turn @ turn.transpose(-1, -2) - torch.eye(3, device=device)).abs().amax()
    if not bool((skew < _MAX_SKEW) & (torch.linalg.det(turn) > 0).all() & (tensor[..., 3, :] == last).all()):
        raise OptionError(
            "attach: offset must be a rigid transform: a rotation matrix in the upper left 3 x 3 numbers, and the last "
            f"row 0, 0, 0, 1; got {offset!r}"
        )
    return tensor[..., :3, 3].expand(rows, 3), turn.expand(rows, 3, 3)


def focal_rows(
    angles: Mapping[str, Numbers | None],
    focal_length: Numbers | None,
    size: tuple[int, int],
    rows: int,
    device: torch.device,
) -> torch.Tensor | None:
    """Return the focal lengths (rows, 2) in pixels that arguments of ``set_intrinsics`` set; None if they set none.

    Args:
        angles: "fov", "hfov" and "vfov" in degrees, a number or one per env (rows,), or None.
        focal_length: focal length in pixels.
        size: width and height of the image, pixels.
        rows: number of envs.
        device: device of the result.

    Raises:
        OptionError: a value is out of range, or values contradict each other.
    """
    try:
        check_names("vertical", {n: v is not None for n, v in angles.items()}, "focal_length", focal_length is not None)
        if focal_length is not None:
            focal = per_env_rows("focal_length", focal_length, 2, rows, device)
            if not bool((focal > 0).all()):
                raise OptionError(f"focal_length must be > 0, got {focal_length!r}")
            return focal
        given = {name: _angle_rows(name, value, rows, device) for name, value in angles.items() if value is not None}
        vertical, horizontal = given.get("fov", given.get("vfov")), given.get("hfov")
        fx = None if horizontal is None else _from_angles(horizontal, size[0])
        fy = None if vertical is None else _from_angles(vertical, size[1])
        if fx is None or fy is None:
            same = fx if fy is None else fy
            return None if same is None else same.unsqueeze(1).expand(-1, 2)
        assert horizontal is not None
        assert vertical is not None
        worst = int((fx / fy - 1).abs().argmax())
        angle, other = float(horizontal[worst]), float(vertical[worst])
        check_square(float(fx[worst]), float(fy[worst]), angle, other, size, "focal_length=(fx, fy)")
        return torch.stack([fx, fy], 1)
    except ValueError as error:  # OptionError too
        raise OptionError(f"set_intrinsics: {error}") from None


def _angle_rows(name: str, values: Numbers, rows: int, device: torch.device) -> torch.Tensor:
    angle = _to_tensor(name, values, device)
    if tuple(angle.shape) not in ((), (1,), (rows,), (rows, 1)):
        raise OptionError(f"{name} must be a number or have shape ({rows},), got {tuple(angle.shape)}")
    if not bool(((angle > 0) & (angle < 180)).all()):
        raise OptionError(f"{name} must be > 0 and < 180 degrees, got {values!r}")
    return angle.reshape(-1).expand(rows)


def _from_angles(angle: torch.Tensor, pixels: int) -> torch.Tensor:
    return pixels / (2 * torch.tan(torch.deg2rad(angle) / 2))


def _to_tensor(name: str, values: Numbers | Offset, device: torch.device) -> torch.Tensor:
    """Return an argument as a float32 tensor of its own shape; raise OptionError unless it is finite numbers."""
    try:
        if is_masked(values):
            raise TypeError("it has masked elements")
        if isinstance(values, torch.Tensor):
            tensor = plain_tensor(name, values)
        else:
            tensor = torch.as_tensor(np.asarray(values, float))
    except OptionError:
        raise
    except (TypeError, ValueError) as error:
        raise OptionError(f"{name} must be numbers, got {values!r}") from error
    tensor = tensor.to(device=device, dtype=torch.float32)
    if not bool(torch.isfinite(tensor).all()):
        raise OptionError(f"{name} must be finite, got {values!r}")
    return tensor
