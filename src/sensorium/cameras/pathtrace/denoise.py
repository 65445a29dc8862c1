"""The choice between the path tracer's denoisers, and how an image is traced and denoised with each of them."""

from __future__ import annotations

import importlib.util
import platform
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from sensorium.cameras.pathtrace.tracers import FirstHits, ScalarTracer, VectorTracer, Viewpoint
from sensorium.errors import DeviceError

if TYPE_CHECKING:
    from sensorium.cameras.pathtrace.atrous import Guides

Denoiser = Literal["oidn", "atrous"]
"""Open Image Denoise, or the à-trous filter of ``atrous.py``."""
NAMES: dict[Denoiser, str] = {"oidn": "Open Image Denoise", "atrous": "the à-trous filter"}
_GROUPS = 4
"""Independent images from whose differences the variance of each pixel is estimated."""
_RETRACED_SHARE = 0.01
"""Share of the pixels that are traced again: those with the most noise."""
_RETRACE_FACTOR = 12
"""Additional samples of these pixels, as a multiple of the samples of other pixels: 12% of the image's paths."""
_MAX_RAYS = 1 << 20
"""Maximum number of rays at once for guides, at least one row of pixels; larger images take several bands."""


def choose_denoiser(option: bool | Denoiser) -> Denoiser | None:
    """Return the denoiser that a camera's ``denoise`` option selects on this machine; None for no denoising.

    Raises:
        DeviceError: the option is "oidn", and Open Image Denoise is not installed.
    """
    if option is False:
        return None
    if option == "atrous":
        return "atrous"
    if importlib.util.find_spec("pyoidn") is not None:
        return "oidn"
    if option is True:
        return "atrous"
    system = f"{platform.system()} {platform.machine()}"
    remedy = "install it (pip install 'sensorium[photoreal]')"
    if not (sys.platform == "linux" and platform.machine() in ("x86_64", "AMD64")):
        remedy = f"its package, pyoidn, exists only for Linux x86-64, and this is {system}"
    raise DeviceError(
        f"denoise='oidn' needs Open Image Denoise, which is not installed; {remedy}; denoise='atrous' works everywhere"
    )


def denoise_oidn(light: np.ndarray, hits: FirstHits) -> np.ndarray:
    """Return radiance (H, W, 3) denoised by Open Image Denoise."""
    import pyoidn

    albedo = np.ascontiguousarray(np.clip(hits.albedo, 0, 1))
    colour = np.ascontiguousarray(light, np.float32)
    return np.asarray(pyoidn.denoise(colour, albedo=albedo, normal=np.ascontiguousarray(hits.normals), hdr=True))


def trace_atrous(tracer: ScalarTracer | VectorTracer, viewpoint: Viewpoint, samples: int, seed: int) -> np.ndarray:
    """Trace an image, and denoise it by the à-trous filter.

    The samples are traced in groups, and the variance of each pixel is estimated from the differences between groups.
    The filter cannot denoise pixels without similar neighbours: the reflection of a lamp in a mirror can be most of the
    error of an image and few pixels wide. So, with LLVM, the pixels of the highest variance are traced again with more
    samples.

    Returns:
        Radiance, (H, W, 3) float32.
    """
    from sensorium.cameras.pathtrace.atrous import filter_radiance

    light, variance = _trace_groups(tracer, viewpoint, samples, seed)
    effort = np.ones(light.shape[:2], np.float32)
    if isinstance(tracer, VectorTracer):
        noisy = _noisiest_pixels(light, variance)
        if len(noisy):
            again = tracer.pixels(viewpoint, noisy, samples * _RETRACE_FACTOR, _group_seed(seed, _GROUPS))
            rows = light.reshape(-1, 3)
            before = np.where(np.isfinite(rows[noisy]), rows[noisy], again)
            rows[noisy] = (before + np.float32(_RETRACE_FACTOR) * again) / np.float32(1 + _RETRACE_FACTOR)
            effort.reshape(-1)[noisy] = 1 + _RETRACE_FACTOR
    return filter_radiance(light, variance, effort, _trace_guides(tracer, viewpoint))


def _trace_groups(
    tracer: ScalarTracer | VectorTracer, viewpoint: Viewpoint, samples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the radiance and its variance."""
    ends = np.arange(_GROUPS + 1) * samples // _GROUPS
    counts = [int(count) for count in np.diff(ends) if count > 0]
    images = [tracer.radiance(viewpoint, count, _group_seed(seed, number)) for number, count in enumerate(counts)]
    light = np.zeros_like(images[0])
    for count, image in zip(counts, images, strict=True):
        light += image * np.float32(count / samples)
    if len(images) == 1:
        return light, _local_variance(light)
    variance = np.zeros_like(light)
    for count, image in zip(counts, images, strict=True):
        variance += (image - light) ** 2 * np.float32(count / samples / (len(counts) - 1))
    return light, variance


def _local_variance(light: np.ndarray) -> np.ndarray:
    """Estimate the variance of an image with one sample per pixel as the variance over 3 x 3 pixels."""
    height, width, _ = light.shape
    padded = np.pad(np.where(np.isfinite(light), light, 0), ((1, 1), (1, 1), (0, 0)), mode="edge")
    around = np.stack([padded[i : i + height, j : j + width] for i in range(3) for j in range(3)])
    return np.asarray(around.var(0, dtype=np.float32))


def _noisiest_pixels(light: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return the numbers of the pixels with the highest variance in 3 x 3 pixels; pixels that are not finite first."""
    height, width, _ = light.shape
    total = np.where(np.isfinite(variance), variance, 0).sum(-1)
    padded = np.pad(total, 1)
    score = np.sum([padded[i : i + height, j : j + width] for i in range(3) for j in range(3)], axis=0)
    score[~(np.isfinite(light) & np.isfinite(variance)).all(-1)] = np.inf
    order = np.argsort(-score.reshape(-1), kind="stable")[: max(1, int(_RETRACED_SHARE * height * width))]
    return order[score.reshape(-1)[order] > 0].astype(np.uint32)


def _trace_guides(tracer: ScalarTracer | VectorTracer, viewpoint: Viewpoint) -> Guides:
    from sensorium.cameras.pathtrace.atrous import GRID, Guides, make_guides, subdivide

    rows = max(1, _MAX_RAYS // (GRID * GRID * viewpoint.width))
    bands = []
    for start in range(0, viewpoint.height, rows):
        band = replace(viewpoint, height=min(rows, viewpoint.height - start), cy=viewpoint.cy - start)
        bands.append(make_guides(band, tracer.first_hits(subdivide(band))))
    firsts = np.cumsum([0, *(len(band.rays) for band in bands)])
    mixed = [np.where(band.mixed < 0, -1, band.mixed + first) for band, first in zip(bands, firsts, strict=False)]
    return Guides(
        np.concatenate([band.mean for band in bands]),
        np.concatenate(mixed),
        np.concatenate([band.rays for band in bands]),
        1 / viewpoint.fx,
    )


def _group_seed(seed: int, group: int) -> int:
    """Return a seed for a group of the same frame, far from the seeds of passes, which count up from it."""
    return (seed + group * 0x9E3779B9) & 0xFFFFFFFF
