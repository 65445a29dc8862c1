"""The device of a memory or a brain."""

from __future__ import annotations

import torch

from sensorium.errors import DeviceError, OptionError


def usable_device(device: str | torch.device) -> torch.device:
    """Return a CPU or CUDA device.

    Raises:
        OptionError: the name is not "cpu" or a CUDA device.
        DeviceError: torch finds no CUDA device.
    """
    try:
        checked = torch.device(device)
    except (RuntimeError, TypeError, ValueError) as error:
        raise OptionError(f"device must be 'cpu' or 'cuda', got {device!r:.80}") from error
    if checked.type not in ("cpu", "cuda"):
        raise OptionError(f"device must be 'cpu' or 'cuda', got {str(checked)!r}")
    if checked.type == "cuda" and not torch.cuda.is_available():
        raise DeviceError(f"device is {str(checked)!r}, but torch finds no CUDA device; use device='cpu'")
    return checked
