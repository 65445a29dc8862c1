"""GPU helpers that need no GPU library: uploads without synchronisation, and error messages."""

from __future__ import annotations

import torch

from sensorium.errors import DeviceError


def no_cuda(device: str) -> DeviceError:
    """Return the error for a machine on which torch finds no CUDA device."""
    build = torch.version.cuda
    why = "this torch is a CPU build" if build is None else f"torch (CUDA {build}) finds no usable GPU or driver"
    return DeviceError(
        f"device={device!r} needs an NVIDIA GPU, a driver for CUDA 12.4 or newer, and a CUDA build of torch; {why}. "
        "Install them, or build with device='cpu'"
    )


def too_little_memory(device: torch.device, what: str, advice: str) -> DeviceError:
    """Return the error for a GPU with too little memory.

    Args:
        device: the GPU.
        what: what does not fit, for the message.
        advice: what to lower, as a sentence.
    """
    free, total = torch.cuda.mem_get_info(device)
    return DeviceError(
        f"the GPU has too little memory for {what}: {free / 2**30:.1f} of {total / 2**30:.1f} GiB are free. {advice}"
    )


def upload(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a small tensor on ``device``, without waiting for the transfer."""
    if tensor.device.type == "cpu" and device.type == "cuda":
        # through a pinned copy: the caller may write to its own memory before the transfer is done
        staged = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor)
        return staged.to(device, non_blocking=True)
    return tensor.to(device)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error of torch or Warp says that memory is exhausted."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in text or "failed to allocate" in text
