"""``episode_numbers``: checks of the numbers that ``scene.set_episodes`` takes."""

from __future__ import annotations

import torch

from sensorium._arguments import is_masked
from sensorium._tensors import check_plain
from sensorium.errors import OptionError
from sensorium.worlds.world import ArrayLike

_MAX_EPISODE = 2**31 - 1
"""The highest number of an episode or env in the counter of random numbers."""


def episode_numbers(name: str, values: ArrayLike, n_envs: int) -> torch.Tensor:
    """Return values as int64, one or ``n_envs`` of them.

    Raises:
        OptionError: they are not so many integers in [0, 2^31). Those on a GPU are not read, which would synchronise.
    """
    allowed = f"{name} must be an integer in [0, {_MAX_EPISODE}], or one per env ({n_envs})"
    try:
        tensor = torch.as_tensor(None if is_masked(values) else values)
        check_plain(name, tensor)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError(f"{allowed}; got {values!r}") from error
    is_whole = not tensor.numel() or not (
        tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool
    )
    if is_whole and tensor.device.type == "cpu":
        numbers = tensor.to(torch.int64)  # unsigned dtypes cannot be compared
        is_whole = not bool(((numbers < 0) | (numbers > _MAX_EPISODE)).any())
    if not is_whole or tuple(tensor.shape) not in ((), (1,), (n_envs,)):
        raise OptionError(f"{allowed}; got {values!r}")
    return tensor.to(torch.int64)
