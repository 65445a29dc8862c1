"""Checks of a CUDA device before the GPU engine uses it."""

from __future__ import annotations

import torch
import warp as wp

from sensorium.errors import DeviceError


def check_cuda(device: str) -> torch.device:
    """Return the CUDA device of that name, with its index.

    Raises:
        DeviceError: it does not exist, Warp does not find it, or its driver is too old.
    """
    found = torch.device(device)
    index = torch.cuda.current_device() if found.index is None else found.index
    if index >= torch.cuda.device_count():
        raise DeviceError(f"device={device!r} does not exist: there are {torch.cuda.device_count()} CUDA devices")
    if wp.get_cuda_device_count() == 0:
        raise DeviceError(
            f"device={device!r}: torch finds a GPU, but Warp finds none; install a build of warp-lang with CUDA, or "
            "build with device='cpu'"
        )
    if not wp.is_conditional_graph_supported():
        raise DeviceError(
            f"device={device!r}: the NVIDIA driver is too old (it supports CUDA {wp.get_cuda_driver_version()}); "
            "install one for CUDA 12.4 or newer, or build with device='cpu'"
        )
    return torch.device("cuda", index)
