"""From radiance to the numbers of a picture: tone mapping, and the sRGB curve."""

from __future__ import annotations

from typing import Literal

import numpy as np

ToneMapper = Literal["linear", "reinhard", "filmic"]
"""How radiance is squeezed into [0, 1].

============ ===============================================================================================
``linear``   as it is; what is brighter than 1 is white
``reinhard`` y / (1 + y) of the luminance y; nothing is ever white
``filmic``   the S-curve of film, x (2.51 x + 0.03) / (x (2.43 x + 0.59) + 0.14), a fit to the one of ACES
============ ===============================================================================================
"""

LUMINANCE = (0.2126, 0.7152, 0.0722)
"""Weights of red, green and blue light of sRGB."""


def tone_map(radiance: np.ndarray, mapper: ToneMapper) -> np.ndarray:
    """Linear values in [0, 1] of radiance (..., 3)."""
    light = np.maximum(radiance, 0.0)
    if mapper == "reinhard":
        light = light / (1 + light @ np.asarray(LUMINANCE, light.dtype))[..., None]
    elif mapper == "filmic":
        light = light * (2.51 * light + 0.03) / (light * (2.43 * light + 0.59) + 0.14)
    return np.minimum(light, 1.0)


def encode_srgb(linear: np.ndarray) -> np.ndarray:
    """sRGB values of linear ones, all in [0, 1]."""
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * np.maximum(linear, 0.0031308) ** (1 / 2.4) - 0.055)


def decode_srgb(encoded: np.ndarray) -> np.ndarray:
    """Linear values of sRGB ones, all in [0, 1]."""
    return np.where(encoded <= 0.04045, encoded / 12.92, ((np.maximum(encoded, 0.04045) + 0.055) / 1.055) ** 2.4)


def picture(radiance: np.ndarray, mapper: ToneMapper) -> np.ndarray:
    """The uint8 sRGB image of radiance (..., 3)."""
    return np.rint(encode_srgb(tone_map(radiance, mapper)) * 255).astype(np.uint8)
