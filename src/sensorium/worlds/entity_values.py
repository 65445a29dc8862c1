"""``entity_values``: checks of the numbers that the setters of entities and robots take."""

from __future__ import annotations

import numpy as np
import torch

from sensorium._arguments import is_masked
from sensorium._tensors import plain_tensor
from sensorium.errors import OptionError
from sensorium.worlds.device import upload
from sensorium.worlds.world import ArrayLike, World


def entity_values(option: str, values: ArrayLike, columns: int, rows: int, world: World) -> torch.Tensor:
    """Return values broadcast to (rows, columns), on the world's device.

    Args:
        option: name of the argument, for messages.
        values: a number, or of shape (columns,), (1, columns) or (rows, columns).
        columns: number of joints, actuators or coordinates.
        rows: number of envs.
        world: the world.

    Raises:
        OptionError: they are not finite numbers of that shape. Those on a GPU are not read, which would synchronise.
    """
    try:
        return _convert(option, values, columns, rows, world)
    except (TypeError, ValueError, RuntimeError):  # of tensors that are not plain; a check of each would take 0.5 us
        if isinstance(values, torch.Tensor):
            plain_tensor(option, values)
        raise


def _convert(option: str, values: ArrayLike, columns: int, rows: int, world: World) -> torch.Tensor:
    try:
        array = values if isinstance(values, torch.Tensor) else np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:  # RuntimeError: tensors with a gradient
        raise OptionError(f"{option} must be numbers in rows of equal length, got {values!r}") from error
    if isinstance(array, np.ndarray) and (array.dtype.kind not in "fiu" or is_masked(values)):
        raise OptionError(f"{option} must be numbers, got {values!r}")
    tensor = torch.as_tensor(array)
    if tensor.dtype == torch.bool or tensor.is_complex():
        raise OptionError(f"{option} must be numbers, got {tensor.dtype}")
    if tensor.requires_grad:
        tensor = tensor.detach()  # the state must not keep the graph of a network
    tensor = tensor.to(dtype=world.bind("qpos").dtype)
    if world.device.type == "cpu":
        tensor = tensor.cpu()
    if tensor.shape not in ((), (columns,), (1, columns), (rows, columns)):
        raise OptionError(
            f"{option} must be a number or have shape ({columns},) or ({rows}, {columns}), got {tuple(tensor.shape)}"
        )
    # values in device tensors are not validated, since that would synchronise with the GPU
    if tensor.device.type == "cpu" and not bool(torch.isfinite(tensor).all()):
        raise OptionError(f"{option} must be finite, got NaN or infinity")
    if option == "quat" and tensor.device.type == "cpu" and not bool((tensor.norm(dim=-1) > 1e-6).all()):
        raise OptionError("quat must not be zero")
    return upload(tensor, world.device).expand(rows, columns)
