"""The choice between the path tracer's denoisers, and how each traces and denoises an image."""

from __future__ import annotations

import importlib.util
import platform
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from sensorium.cameras.pathtrace.tracers import Lens, ScalarTracer, Surfaces, VectorTracer
from sensorium.errors import DeviceError

if TYPE_CHECKING:
    from sensorium.cameras.pathtrace.atrous import Guides

Denoiser = Literal["oidn", "atrous"]
"""Open Image Denoise, or the à-trous filter of ``atrous.py``."""
NAMES: dict[Denoiser, str] = {"oidn": "Open Image Denoise", "atrous": "the à-trous filter"}
_GROUPS = 4
"""Independent images whose differences tell the variance of each pixel."""
_HARD = 0.01
"""The part of the pixels that are traced again: those with the most noise."""
_MORE = 12
"""How many times the samples of other pixels they get in addition: 12% of the paths of the image."""
_MOST_RAYS = 1 << 20
"""Rays traced at once for guides, at least one row of pixels; larger images take several bands."""


def denoiser_of(wanted: bool | Denoiser) -> Denoiser | None:
    """Return the denoiser that a camera's ``denoise`` option means on this machine; None for no denoising.

    Raises:
        DeviceError: Open Image Denoise was asked for by name and is not installed.
    """
    if wanted is False:
        return None
    if wanted == "atrous":
        return "atrous"
    if importlib.util.find_spec("pyoidn") is not None:
        return "oidn"
    if wanted is True:
        return "atrous"
    system = f"{platform.system()} {platform.machine()}"
    remedy = "install it (pip install 'sensorium[photoreal]')"
    if not (sys.platform == "linux" and platform.machine() in ("x86_64", "AMD64")):
        remedy = f"its package, pyoidn, is for Linux x86-64 alone, and this is {system}"
    raise DeviceError(
        f"denoise='oidn' needs Open Image Denoise, which is not installed; {remedy}; denoise='atrous' works everywhere"
    )


def oidn(light: np.ndarray, surfaces: Surfaces) -> np.ndarray:
    """Return radiance (H, W, 3), denoised by Open Image Denoise."""
    import pyoidn

    albedo = np.ascontiguousarray(np.clip(surfaces.albedo, 0, 1))
    colour = np.ascontiguousarray(light, np.float32)
    return np.asarray(pyoidn.denoise(colour, albedo=albedo, normal=np.ascontiguousarray(surfaces.normals), hdr=True))


def atrous(tracer: ScalarTracer | VectorTracer, lens: Lens, samples: int, seed: int) -> np.ndarray:
    """Trace an image and denoise it by the à-trous filter.

    The samples are traced in groups, whose differences tell the variance of each pixel. The filter cannot help pixels
    without similar neighbours: the reflection of a lamp in a mirror may be most of the error of an image and few
    pixels wide. With LLVM the pixels of the highest variance are therefore traced again, with more samples.

    Returns:
        Radiance, (H, W, 3) float32.
    """
    from sensorium.cameras.pathtrace.atrous import filtered

    light, variance = _in_groups(tracer, lens, samples, seed)
    effort = np.ones(light.shape[:2], np.float32)
    if isinstance(tracer, VectorTracer):
        hard = _hardest(light, variance)
        if len(hard):
            again = tracer.pixels(lens, hard, samples * _MORE, _other(seed, _GROUPS))
            rows = light.reshape(-1, 3)
            before = np.where(np.isfinite(rows[hard]), rows[hard], again)
            rows[hard] = (before + np.float32(_MORE) * again) / np.float32(1 + _MORE)
            effort.reshape(-1)[hard] = 1 + _MORE
    return filtered(light, variance, effort, _guides(tracer, lens))


def _in_groups(
    tracer: ScalarTracer | VectorTracer, lens: Lens, samples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Radiance, and the variance of it."""
    ends = np.arange(_GROUPS + 1) * samples // _GROUPS
    counts = [int(count) for count in np.diff(ends) if count > 0]
    images = [tracer.radiance(lens, count, _other(seed, number)) for number, count in enumerate(counts)]
    light = np.zeros_like(images[0])
    for count, image in zip(counts, images, strict=True):
        light += image * np.float32(count / samples)
    if len(images) == 1:
        return light, _variance_around(light)
    variance = np.zeros_like(light)
    for count, image in zip(counts, images, strict=True):
        variance += (image - light) ** 2 * np.float32(count / samples / (len(counts) - 1))
    return light, variance


def _variance_around(light: np.ndarray) -> np.ndarray:
    """The variance of a single sample, as that over 3 x 3 pixels."""
    height, width, _ = light.shape
    padded = np.pad(np.where(np.isfinite(light), light, 0), ((1, 1), (1, 1), (0, 0)), mode="edge")
    around = np.stack([padded[i : i + height, j : j + width] for i in range(3) for j in range(3)])
    return np.asarray(around.var(0, dtype=np.float32))


def _hardest(light: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The pixels, numbered row by row, of the highest variance in 3 x 3 pixels; pixels that are not finite first."""
    height, width, _ = light.shape
    total = np.where(np.isfinite(variance), variance, 0).sum(-1)
    padded = np.pad(total, 1)
    score = np.sum([padded[i : i + height, j : j + width] for i in range(3) for j in range(3)], axis=0)
    score[~(np.isfinite(light) & np.isfinite(variance)).all(-1)] = np.inf
    order = np.argsort(-score.reshape(-1), kind="stable")[: max(1, int(_HARD * height * width))]
    return order[score.reshape(-1)[order] > 0].astype(np.uint32)


def _guides(tracer: ScalarTracer | VectorTracer, lens: Lens) -> Guides:
    from sensorium.cameras.pathtrace.atrous import GRID, Guides, finer, guides_of

    rows = max(1, _MOST_RAYS // (GRID * GRID * lens.width))
    bands = []
    for start in range(0, lens.height, rows):
        band = replace(lens, height=min(rows, lens.height - start), cy=lens.cy - start)
        bands.append(guides_of(band, tracer.surfaces(finer(band))))
    firsts = np.cumsum([0, *(len(band.rays) for band in bands)])
    mixed = [np.where(band.mixed < 0, -1, band.mixed + first) for band, first in zip(bands, firsts, strict=False)]
    return Guides(
        np.concatenate([band.mean for band in bands]),
        np.concatenate(mixed),
        np.concatenate([band.rays for band in bands]),
        1 / lens.fx,
    )


def _other(seed: int, number: int) -> int:
    """A seed for a further image of the same frame: passes over one image count up from its seed."""
    return (seed + number * 0x9E3779B9) & 0xFFFFFFFF
