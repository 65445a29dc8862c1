"""What every layer needs to know of a GPU, without a GPU library: how to reach it, and what to say when it cannot."""

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


def too_little_memory(device: torch.device, what: str, advice: str) -> DeviceError:
    """The error for a GPU without the room for ``what``; ``advice``: what to lower."""
    free, total = torch.cuda.mem_get_info(device)
    return DeviceError(
        f"the GPU has too little memory for {what}: {free / 2**30:.1f} of {total / 2**30:.1f} GiB are free. {advice}"
    )


def upload(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A small tensor on its way to the device, without waiting for it."""
    if tensor.device.type == "cpu" and device.type == "cuda":
        # through memory of its own, for what the caller has pinned the caller may write to at once
        staged = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor)
        return staged.to(device, non_blocking=True)
    return tensor.to(device)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether that is what an error of torch or Warp says."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in text or "failed to allocate" in text
