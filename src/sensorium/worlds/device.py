"""What to say when the GPU that was asked for cannot be used. Imports no GPU library itself."""

from __future__ import annotations

import torch

from sensorium.errors import DeviceError


def no_cuda(device: str) -> DeviceError:
    """The error for a machine on which torch finds no CUDA device."""
    build = torch.version.cuda
    why = "this torch is a CPU build" if build is None else f"torch (CUDA {build}) finds no usable GPU or driver"
    return DeviceError(
        f"device={device!r} needs an NVIDIA GPU, a driver for CUDA 12.4 or newer, and a CUDA build of torch; {why}. "
        "Install them, or build with device='cpu'"
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether that is what an error of torch or Warp says."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in text or "failed to allocate" in text
