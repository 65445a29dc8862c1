"""Tone mapping: from radiance to the 8-bit values of an image."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sensorium.worlds.srgb import encode_srgb

if TYPE_CHECKING:
    from sensorium.cameras.options import ToneMapper

LUMINANCE = (0.2126, 0.7152, 0.0722)
"""Weights of red, green and blue in the luminance of linear sRGB light."""


def tone_map(radiance: np.ndarray, mapper: ToneMapper) -> np.ndarray:
    """Compress radiance (..., 3) to linear light in [0, 1]; see :data:`sensorium.cameras.options.ToneMapper`."""
    light = np.maximum(radiance, 0.0)
    if mapper == "reinhard":
        light = light / (1 + light @ np.asarray(LUMINANCE, light.dtype))[..., None]
    elif mapper == "filmic":
        light = light * (2.51 * light + 0.03) / (light * (2.43 * light + 0.59) + 0.14)
    return np.minimum(light, 1.0)


def to_srgb8(radiance: np.ndarray, mapper: ToneMapper) -> np.ndarray:
    """Return the uint8 sRGB image of radiance (..., 3)."""
    return np.rint(encode_srgb(tone_map(radiance, mapper)) * 255).astype(np.uint8)
