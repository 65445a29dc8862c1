"""The sRGB transfer curve, between linear light and the values that images store."""

from __future__ import annotations

import numpy as np


def encode_srgb(linear: np.ndarray) -> np.ndarray:
    """Return the sRGB values of linear light; both lie in [0, 1]."""
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * np.maximum(linear, 0.0031308) ** (1 / 2.4) - 0.055)


def decode_srgb(encoded: np.ndarray) -> np.ndarray:
    """Return the linear light of sRGB values; both lie in [0, 1]."""
    return np.where(encoded <= 0.04045, encoded / 12.92, ((np.maximum(encoded, 0.04045) + 0.055) / 1.055) ** 2.4)
