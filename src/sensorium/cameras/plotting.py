"""Plots of camera images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from sensorium.sensors.pictures import ImagePair, Picture

_SHUFFLE = 2654435761
"""Multiplier that gives neighbouring ids different colours."""


def camera_pictures(
    outputs: Sequence[str], measured: Mapping[str, np.ndarray], truth: Mapping[str, np.ndarray]
) -> list[Picture]:
    """Return the pictures of a camera's reading, one for each output: true and measured image and their difference.

    Args:
        outputs: outputs to show.
        measured: output -> image (H, W, ...).
        truth: the same of ground truth.
    """
    found: list[Picture] = []
    for name in outputs:
        true, seen = as_picture(name, truth[name]), as_picture(name, measured[name])
        if name == "depth":
            found.append(ImagePair(name, "m", true, seen))
            continue
        errors, unit = _errors(name, truth[name], measured[name])
        found.append(ImagePair(name, "", true, seen, errors=errors, error_unit=unit))
    return found


def _errors(output: str, truth: np.ndarray, measured: np.ndarray) -> tuple[np.ndarray, str]:
    """Return the error of each pixel (H, W), >= 0, and its unit."""
    if output == "rgb":
        return np.abs(measured.astype(float) - truth).mean(axis=-1), "levels of 255"
    if output == "normals":
        hit = truth.any(axis=-1) & measured.any(axis=-1)
        chords = np.linalg.norm(measured.astype(float) - truth, axis=-1)  # exact for small angles, unlike the cosine
        return np.where(hit, np.degrees(2 * np.arcsin(np.clip(chords / 2, 0, 1))), np.nan), "°"
    if output == "points":
        return np.linalg.norm(measured.astype(float) - truth, axis=-1), "m"
    differs = (measured != truth).astype(float)
    return differs.max(axis=-1) if differs.ndim == 3 else differs, "differs"


def as_picture(output: str, image: torch.Tensor | np.ndarray) -> np.ndarray:
    """Convert one image (H, W, ...) of an output to a picture for display.

    Returns:
        (H, W, 3): uint8 for "rgb", otherwise floats in [0, 1]. "depth" stays (H, W), in metres, NaN if there is none.
    """
    values = image.numpy(force=True) if isinstance(image, torch.Tensor) else image
    if output == "rgb":
        return values
    if output == "depth":
        return np.where(np.isfinite(values) & (values > 0), values, np.nan)
    if output == "normals":
        return values / 2 + 0.5
    if output == "points":
        if np.isnan(values).all():
            return np.zeros_like(values)
        low, high = np.nanmin(values, axis=(0, 1)), np.nanmax(values, axis=(0, 1))
        return np.nan_to_num((values - low) / np.maximum(high - low, 1e-9))
    ids = values[..., 1] if output == "segmentation" else values
    mixed = (ids.astype(np.uint64) + 1) * np.uint64(_SHUFFLE)
    colours = np.stack([(mixed >> np.uint64(shift)) & np.uint64(255) for shift in (8, 16, 24)], -1) / 255.0
    return np.where(ids[..., None] < 0, 0.0, colours)
