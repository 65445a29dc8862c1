"""The images that a policy observes, drawn into the picture of the robot."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

_SIZE = 160
"""Length of the longer side of an inset, pixels."""
_FRAME = 2
"""Width of its white frame."""


def as_picture(image: np.ndarray) -> np.ndarray:
    """Return an image (H, W, 3) uint8 as it is, and a depth image (H, W) in m in shades of grey: near is bright."""
    if image.ndim == 3:
        return image
    known = np.isfinite(image) & (image > 0)
    far = float(image[known].max()) if known.any() else 1.0
    shade = np.where(known, 255.0 * (1.0 - 0.9 * np.where(known, image, far) / far), 0.0)
    return np.repeat(shade.astype(np.uint8)[..., None], 3, axis=2)


def draw_insets(picture: np.ndarray, images: Iterable[np.ndarray]) -> None:
    """Draw images in a row at the lower left of a picture (H, W, 3) uint8, in place, as many as fit.

    Args:
        picture: the picture.
        images: what :func:`as_picture` returns, of any size.
    """
    left = _FRAME
    for image in images:
        scale = _SIZE / max(image.shape[:2])
        height, width = (max(1, round(length * scale)) for length in image.shape[:2])
        if left + width + _FRAME > picture.shape[1]:
            return
        rows, columns = (
            np.arange(new) * old // new for new, old in ((height, image.shape[0]), (width, image.shape[1]))
        )
        top = picture.shape[0] - height - _FRAME
        picture[top - _FRAME :, left - _FRAME : left + width + _FRAME] = 255
        picture[top : top + height, left : left + width] = image[rows[:, None], columns]
        left += width + 2 * _FRAME
