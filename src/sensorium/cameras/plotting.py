"""Plots of camera images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from sensorium.errors import OptionError
from sensorium.sensors.plotting import finish_figure, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sensorium.cameras.camera import CameraSensor

_SHUFFLE = 2654435761
"""Multiplier that gives neighbouring ids different colours."""


def plot_camera(camera: CameraSensor, env: int, path: str | Path | None) -> Figure:
    """Plot all outputs of one env, one row each: ground truth and measured; of a history, the newest frame.

    Raises:
        OptionError: ``env`` is out of range, or the camera has no outputs.
    """
    if not isinstance(env, int) or not 0 <= env < camera.group.n_envs:
        raise OptionError(f"plot: env must be an integer in [0, {camera.group.n_envs}), got {env!r}")
    if not camera.outputs:
        raise OptionError(
            f"plot: camera {camera.uuid!r} has no outputs to plot; enable one, such as enable_rgb_rendering()"
        )
    figure, grid = new_figure(len(camera.outputs), 2, camera.uuid)
    truth, measured = camera.read_ground_truth(), camera.read()
    for name, row in zip(camera.outputs, grid, strict=True):
        for axes, data, title in zip(row, (truth, measured), ("ground truth", "measured"), strict=True):
            images = getattr(data, name)[env]
            picture = as_picture(name, images[0] if camera.options.history_length else images)
            drawn = axes.imshow(picture, interpolation="nearest")
            axes.set_title(f"{name}, {title}", fontsize="small")
            axes.set_axis_off()
            if name == "depth":
                figure.colorbar(drawn, ax=axes, shrink=0.8, label="m")
    return finish_figure(figure, path)


def as_picture(output: str, image: torch.Tensor) -> np.ndarray:
    """Convert one image (H, W, ...) of an output to a picture for display.

    Returns:
        (H, W, 3): uint8 for "rgb", otherwise floats in [0, 1]. "depth" stays (H, W), in metres, NaN if there is none.
    """
    values = image.numpy(force=True)
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
