"""``CameraData``: what reading a camera returns."""

from __future__ import annotations

from typing import NamedTuple

import torch

from sensorium.cameras.renderer import BASE_OUTPUTS

OUTPUT_SHAPES: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
    **BASE_OUTPUTS,
    "instance": ((), torch.int32),
    "points": ((3,), torch.float32),
}
"""Output -> shape after (B, H, W), and dtype."""


class CameraData(NamedTuple):
    """Images of a camera; None for outputs that are not enabled.

    Shapes are (B, H, W, ...), or (B, N, H, W, ...) for a history of N steps.
    """

    rgb: torch.Tensor | None = None
    """Colour, sRGB, (B, H, W, 3) uint8."""
    depth: torch.Tensor | None = None
    """Depth along the optical axis, m, (B, H, W) float32; inf if there is no surface before the far plane. With a
    profile that models depth measurement, 0 if there is no reading."""
    segmentation: torch.Tensor | None = None
    """(body id, geom id), (B, H, W, 2) int32; -1 if nothing was hit. ``camera.segmentation_names`` and
    ``camera.geom_names`` map ids to names."""
    instance: torch.Tensor | None = None
    """Entity, (B, H, W) int32: an index of ``camera.instance_names``; -1 if nothing was hit."""
    normals: torch.Tensor | None = None
    """Unit surface normals that face the camera, in CV axes (x right, y down, z forward), (B, H, W, 3) float32; 0 if
    nothing was hit."""
    points: torch.Tensor | None = None
    """Position in the world of the surface in each pixel, m, (B, H, W, 3) float32; NaN if nothing was hit. With a
    profile that models depth measurement, the points are computed from the measured depth and the camera's pose, and
    are NaN if there is no reading."""
