"""How the imager's kernels are launched: on the CPU a thread processes a run of pixels, on a GPU one pixel."""

from __future__ import annotations

from typing import Protocol

import torch
import warp as wp

from sensorium.cameras.imager.snippets.common import LANES


class Launcher(Protocol):
    """Launches Warp kernels on one device."""

    def chunks(self, width: int) -> int:
        """Return the number of threads for a row of ``width`` pixels."""
        ...

    def values_per_thread(self, row_length: int) -> int:
        """Return how many values of a row of ``row_length`` values a thread processes."""
        ...

    def launch(self, kernel: wp.Kernel, dim: int | tuple[int, ...], *inputs: object) -> None:
        """Launch a kernel with ``dim`` threads."""
        ...


class CpuLauncher:
    """Launcher for the CPU: ``LANES`` pixels, or a row of values, per thread."""

    def chunks(self, width: int) -> int:
        return -(-width // LANES)

    def values_per_thread(self, row_length: int) -> int:
        return row_length

    def launch(self, kernel: wp.Kernel, dim: int | tuple[int, ...], *inputs: object) -> None:
        wp.launch(kernel, dim=dim, inputs=list(inputs), device="cpu")


class GpuLauncher:
    """Launcher for a CUDA device: one pixel or value per thread, in order with torch's current stream."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def chunks(self, width: int) -> int:
        return width

    def values_per_thread(self, row_length: int) -> int:
        return 1

    def launch(self, kernel: wp.Kernel, dim: int | tuple[int, ...], *inputs: object) -> None:
        stream = wp.stream_from_torch(torch.cuda.current_stream(self._device))
        wp.launch(kernel, dim=dim, inputs=list(inputs), device=str(self._device), stream=stream)


def make_launcher(device: torch.device) -> Launcher:
    """Return the launcher for a device."""
    return GpuLauncher(device) if device.type == "cuda" else CpuLauncher()
