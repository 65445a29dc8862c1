"""``plain_tensor`` and ``host_array``: tensors that users pass must hold plain numbers.

They are separate from ``_arguments``, which does not import torch.
"""

from __future__ import annotations

import numpy as np
import torch

from sensorium.errors import OptionError

_WITHOUT_VALUES = ("MaskedTensor", "FakeTensor")
"""Names of the subclasses of torch's tensors that lack some or all values."""


def plain_tensor(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Return a dense tensor without its gradient: state that is written from it must not keep the graph of a network.

    Arguments and errors are those of :func:`check_plain`.
    """
    check_plain(name, tensor)
    return tensor.detach() if tensor.requires_grad else tensor


def check_plain(name: str, tensor: torch.Tensor) -> None:
    """Raise an error if a tensor is not dense or has no values. A call costs 0.5 us and never waits for a GPU.

    Args:
        name: name of the argument, for the message.
        tensor: what was given.

    Raises:
        OptionError: it is sparse, quantised, nested or masked, or on the device "meta", where tensors have no values.
    """
    kind = unusual_kind(tensor)
    if kind is not None:
        raise OptionError(f"{name} must be a dense tensor of numbers, got {kind}")


def unusual_kind(tensor: torch.Tensor) -> str | None:
    """Return what a tensor is that is not dense or has no values; None for others."""
    if tensor.is_nested:
        return "a nested tensor; pad it with torch.nested.to_padded_tensor"
    if tensor.is_quantized:
        return f"a quantised tensor ({tensor.dtype}); convert it with dequantize()"
    if tensor.layout is not torch.strided:
        return f"a sparse tensor ({tensor.layout}); convert it with to_dense()"
    if tensor.is_meta:
        return 'a tensor on the device "meta", which has no values'
    if type(tensor) is not torch.Tensor and type(tensor).__name__ in _WITHOUT_VALUES:
        return f"a {type(tensor).__name__}, which lacks values"
    return None


def host_array(name: str, tensor: torch.Tensor) -> np.ndarray:
    """Return a tensor as an array on the host; bfloat16, which NumPy does not have, as float32.

    Arguments and errors are those of :func:`check_plain`.
    """
    plain = plain_tensor(name, tensor)
    return (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy(force=True)
