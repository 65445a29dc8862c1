"""Interface of the ray-casting sensors to an engine. ``cpu_rays.py`` and ``gpu_rays.py`` implement it."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch

from sensorium.pipeline import SensorGroup
from sensorium.sensors.rays.ray_layout import RayLayout

IMPERFECTIONS = ("noise_per_metre", "ray_dropout")
"""Imperfections of all ray-casting sensors, in the order in which the kernels take them."""
DETECTION = ("extinction", "threshold")
"""Parameters of lidars that detect echoes, in the order in which the kernels take them."""


class RayBackend(Protocol):
    """Rays of all sensors of one class on one engine."""

    layout: RayLayout

    def update(self, out: torch.Tensor) -> None:
        """Cast the rays that are due, and fill ``out`` (columns, B). Beams that are not due keep their signal."""

    def roughen(self, data: torch.Tensor) -> None:
        """Add the noise that grows with range, and lose returns, in ``data`` (columns, B)."""

    def hold(self, data: torch.Tensor) -> None:
        """Restore the last distances of the beams that were not scanned in this step, including their noise."""

    def post_process(self, data: torch.Tensor, out: torch.Tensor) -> None:
        """Fill ``out`` (return columns, B) from the intermediate columns ``data``."""

    def reset(self, mask: torch.Tensor) -> None:
        """Cast all rays of the envs in ``mask`` (B,) at the next update, and none of the other envs."""

    def fired_beams(self, position: int, env: int) -> np.ndarray:
        """Return which beams of a scanning sensor were scanned in the last step, (beams,) bool."""


def allocate_parameters(group: SensorGroup[RayBackend], *names: str) -> list[torch.Tensor]:
    """Allocate parameters of the options ``names``, (sensors, B) each, which ``sensor.set`` writes."""
    allocated = list(torch.zeros(len(names), len(group.sensors), group.n_envs, device=group.device))
    group.parameters |= dict(zip(names, allocated, strict=True))
    return allocated


def scanning_state(group: SensorGroup[RayBackend], layout: RayLayout) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Allocate what scanning sensors remember, (columns, B) each, or return None if no sensor scans.

    Returns:
        The raw signal of each beam when it was last scanned, and its distance with imperfections.
    """
    return (group.state("signal"), group.state("held")) if layout.scans else None
