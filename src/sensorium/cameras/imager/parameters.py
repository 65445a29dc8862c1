"""Tables and kernel parameters of an imager, computed once from its profile."""

from __future__ import annotations

import math

import numpy as np
import torch
import warp as wp

from sensorium.cameras.imager import kernels
from sensorium.cameras.imager.lens import Margins
from sensorium.cameras.imager.profile import CameraProfile
from sensorium.cameras.imager.snippets.color import MAX_DARK
from sensorium.cameras.imager.snippets.common import LINEAR_STEPS
from sensorium.errors import OptionError
from sensorium.pipeline import formula
from sensorium.worlds.srgb import decode_srgb

_RGB, _DEPTH = 0, 1
"""Elements of the random keys for the noise of colour and of depth."""

_LUMA = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
_CHROMA = (
    (17, 18, 24, 47, 99, 99, 99, 99),
    (18, 21, 26, 66, 99, 99, 99, 99),
    (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99),
    *(((99,) * 8,) * 4),
)
"""Quantisation tables K.1 and K.2 of the JPEG standard."""


class Tables:
    """Look-up tables of the kernels, as tensors on a device.

    Attributes:
        decode: sRGB to linear light, (256,) float32.
        guess: linear light, in ``LINEAR_STEPS`` steps, to its sRGB value or one less, uint8.
        thresholds: linear light at which the next sRGB value begins, (256,) float32.
        reciprocal: 1 / i for electron counts i, float32; that of 0 is not used.
    """

    def __init__(self, device: torch.device) -> None:
        codes = np.arange(256)
        thresholds = decode_srgb((codes + 0.5) / 255)
        # each entry is for the smallest light of its cell, and the cell of a light may have been rounded up
        smallest = (np.arange(LINEAR_STEPS + 1) - 0.01) / LINEAR_STEPS
        guess = np.searchsorted(thresholds, smallest, side="right").clip(0, 255)
        thresholds[255] = 2.0
        reciprocal = 1 / np.maximum(np.arange(MAX_DARK + 1), 1)
        self.decode = torch.from_numpy(decode_srgb(codes / 255).astype(np.float32)).to(device)
        self.guess = torch.from_numpy(guess.astype(np.uint8)).to(device)
        self.thresholds = torch.from_numpy(thresholds.astype(np.float32)).to(device)
        self.reciprocal = torch.from_numpy(reciprocal.astype(np.float32)).to(device)


def image_params(
    profile: CameraProfile, size: tuple[int, int], margins: Margins, tables: Tables, seed: int, uuid: str
) -> kernels.ImageParams:
    """Return the parameters of colour and lens; the caller sets ``mask``, ``draw``, ``intrinsics`` and ``map``.

    Args:
        profile: the camera profile.
        size: width and height of the measured images.
        margins: overscan margins of the rendered images.
        tables: look-up tables.
        seed: seed of the scene.
        uuid: name of the camera.
    """
    width, height = size
    params = kernels.ImageParams()
    params.decode, params.guess = flatten(tables.decode), flatten(tables.guess)
    params.thresholds, params.reciprocal = flatten(tables.thresholds), flatten(tables.reciprocal)
    params.width, params.height, params.left, params.top = width, height, margins.left, margins.top
    params.source_width = width + margins.left + margins.right
    params.source_height = height + margins.top + margins.bottom
    params.moved, params.shaded = int(moves_pixels(profile)), int(profile.vignette > 0)
    params.key0, params.key1 = formula.key(seed, uuid, _RGB)
    params.red, params.blue = (1 / (1 + part) - 1 for part in profile.chromatic_aberration)  # in the source
    params.exposure = 2.0**profile.exposure
    params.gain_red, params.gain_green, params.gain_blue = profile.gains
    params.noisy = int(profile.full_well is not None)
    if profile.full_well is not None:
        params.electrons = profile.full_well * 100.0 / profile.iso
        params.full_scale = 2.0**profile.bit_depth - 1
        params.per_electron = params.full_scale / params.electrons
        params.read_noise = profile.read_noise
    return params


def depth_params(profile: CameraProfile, seed: int, uuid: str) -> kernels.DepthParams:
    """Return the parameters of depth measurement."""
    params = kernels.DepthParams()
    params.noisy = int(any(profile.depth_noise) or profile.disparity_noise > 0)
    params.shadowed, params.edge_width = int(profile.stereo_shadow), profile.edge_width
    params.key0, params.key1 = formula.key(seed, uuid, _DEPTH)
    params.constant, params.linear, params.square = profile.depth_noise
    for name in ("baseline", "disparity_noise", "disparity_step", "edge_dropout", "edge_threshold", "min_range"):
        setattr(params, name, getattr(profile, name))
    params.focal = profile.disparity_focal_length or 0.0
    params.max_range = math.inf if profile.max_range is None else profile.max_range
    return params


def jpeg_params(profile: CameraProfile, size: tuple[int, int], quantum: torch.Tensor) -> kernels.JpegParams:
    """Return the parameters of compression; the caller sets the mask. ``quantum`` is a :func:`quantisation_table`."""
    params = kernels.JpegParams()
    params.quantum = flatten(quantum)
    params.width, params.height = size
    params.half = int(profile.jpeg_subsampling == "4:2:0")
    return params


def quantisation_table(quality: int) -> torch.Tensor:
    """Return the quantisation steps of luma and chroma at a JPEG quality from 1 to 100, (2, 8, 8) float32."""
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    return torch.from_numpy(np.clip((np.array([_LUMA, _CHROMA]) * scale + 50) // 100, 1, 255).astype(np.float32))


def count_blocks(profile: CameraProfile, size: tuple[int, int]) -> int:
    """Return the number of 8 x 8 JPEG blocks of luma and chroma of one image."""
    width, height = size
    half = 2 if profile.jpeg_subsampling == "4:2:0" else 1
    luma, chroma = (math.ceil(width / 8 / n) * math.ceil(height / 8 / n) for n in (1, half))
    return luma + 2 * chroma


def moves_pixels(profile: CameraProfile) -> bool:
    """Return whether the lens shows pixels at other positions than the renderer."""
    return profile.distorts or any(profile.chromatic_aberration)


def flatten(tensor: torch.Tensor) -> wp.array:
    """Return a tensor's memory as a flat Warp array, without a copy.

    Raises:
        OptionError: the tensor is not contiguous.
    """
    if not tensor.is_contiguous():
        raise OptionError(f"images must be contiguous, got shape {tuple(tensor.shape)}, strides {tensor.stride()}")
    return wp.from_torch(tensor.view(-1), dtype=wp.dtype_from_torch(tensor.dtype))
