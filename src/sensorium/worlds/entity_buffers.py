"""Checks of the buffers of entities that users set, before ``write_replay_data`` writes them."""

from __future__ import annotations

import warnings

import torch

from sensorium.errors import OptionError
from sensorium.tree import Buffer

_TOLERANCE = 1e-4
"""Difference up to which a pose counts as unchanged, m or a component of a unit quaternion."""


def check_buffer(name: str, buffer: Buffer, shape: torch.Size) -> None:
    """Raise OptionError if a buffer was set to a value that cannot be written.

    Values in device tensors are not validated, since that would synchronise with the GPU.

    Args:
        name: name of the entity and the buffer.
        buffer: the buffer.
        shape: shape that its value must have.
    """
    if not buffer.is_set:
        return
    value = buffer.value
    if not isinstance(value, torch.Tensor) or value.shape != shape:
        got = tuple(value.shape) if isinstance(value, torch.Tensor) else repr(value)
        raise OptionError(f"{name} must be a tensor of shape {tuple(shape)}, got {got}")
    if value.device.type != "cpu":
        return
    if not bool(torch.isfinite(value).all()):
        raise OptionError(f"{name} must be finite, got NaN or infinity")
    if name.endswith(".orientation") and not bool((value.norm(dim=1) > 1e-6).all()):
        raise OptionError(f"{name} must be quaternions (w, x, y, z) with a length > 0")


def restore_fixed(name: str, buffer: Buffer, current: torch.Tensor) -> None:
    """Set a buffer of the pose of a fixed entity back to the current pose; warn if it was changed by hand."""
    if not buffer.loaded and not torch.allclose(buffer.value, current, atol=_TOLERANCE):
        warnings.warn(
            f"write_replay_data: {name} was set, but the entity has a fixed base and is not moved; add it with "
            "free=True",
            stacklevel=2,
        )
    buffer.update(current)
