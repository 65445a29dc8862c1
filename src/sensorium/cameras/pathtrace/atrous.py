"""The path tracer's own denoiser: an edge-avoiding à-trous wavelet filter, guided by the surfaces in the image.

The filter follows Dammertz et al. (2010), with the variance-guided weights of SVGF (Schied et al., 2017):

1. Each pixel is divided by its albedo, so that textures are not filtered.
2. ``PASSES`` passes average each pixel with 24 others, which are 1, 2, 4, ... pixels apart. Another pixel counts if it
   is in the same plane, has the same normal, and differs in colour by no more than noise explains.
3. The result is multiplied by the albedo again.

Radiance is the mean over a pixel, so a pixel at a silhouette mixes several surfaces. ``GRID`` x ``GRID`` rays per pixel
find these mixed pixels. The filter does not use them. Instead, each of their rays takes the filtered light of the
nearest pixels of the same surface, and the pixel is the mean of its rays. If that contradicts the traced light, the
traced light is kept.

A guide is 9 numbers: position in the camera's CV axes (3), normal (3) and albedo (3). The position is 0 if nothing was
hit.

The result depends only on the input: one thread, IEEE arithmetic, and no transcendental functions except the square
root.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sensorium.cameras.pathtrace.tracers import FirstHits, Viewpoint
from sensorium.jit import helper, kernel

GRID = 4
"""Rays along each side of a pixel, to find its surfaces."""
PASSES = 5
"""Passes of the filter."""
_FLOOR = 0.02
"""Added to albedos: specular reflection does not scale with the albedo, and black surfaces and mirrors have none."""
_MAX_PLANE_DISTANCE = 2.0
"""Maximum distance of pixels of one surface from each other's plane, in pixel widths."""
_MIXED_DISTANCE, _MIXED_COSINE = 0.5, 0.9
"""A pixel is mixed if its rays are farther from one plane, in pixel widths, or if their normals have a lower cosine."""
_NOISE = 9.0
"""Maximum squared difference of colours that counts as noise, in variances."""
_KERNEL = np.array([1 / 16, 1 / 4, 3 / 8, 1 / 4, 1 / 16], np.float32)


class Guides(NamedTuple):
    """The surfaces in each pixel of an image."""

    mean: np.ndarray
    """(H, W, 9) float32: the guide of each pixel, the mean over its rays."""
    mixed: np.ndarray
    """(H, W) int64: row of ``rays`` for a mixed pixel; -1 for a pixel of one surface."""
    rays: np.ndarray
    """(N, GRID * GRID, 9) float32: the guides of the rays of mixed pixels."""
    pixel: float
    """The width of a pixel at a depth of 1 m, m."""


def subdivide(viewpoint: Viewpoint) -> Viewpoint:
    """Return the viewpoint with ``GRID`` times the pixels per side, whose first hits :func:`make_guides` takes."""
    numbers = {name: getattr(viewpoint, name) * GRID for name in ("width", "height", "fx", "fy", "cx", "cy")}
    return replace(viewpoint, **numbers)


def make_guides(viewpoint: Viewpoint, hits: FirstHits) -> Guides:
    """Return the guides of an image from the first hits of ``subdivide(viewpoint)``."""
    size = (viewpoint.height, viewpoint.width)
    mean, mixed = np.zeros((*size, 9), np.float32), np.full(size, -1)
    rays = np.zeros((viewpoint.height * viewpoint.width, GRID * GRID, 9), np.float32)
    blur = 2 * viewpoint.aperture * viewpoint.fx
    numbers = (viewpoint.fx, viewpoint.fy, viewpoint.cx, viewpoint.cy, blur, viewpoint.focus)
    count = _fill_guides(hits.depth, hits.normals, hits.albedo, numbers, mean, mixed, rays)
    return Guides(mean, mixed, rays[:count].copy(), 1 / viewpoint.fx)


def filter_radiance(light: np.ndarray, variance: np.ndarray, effort: np.ndarray, guides: Guides) -> np.ndarray:
    """Return the denoised image.

    Args:
        light: radiance, (H, W, 3) float32; pixels that are not finite are replaced.
        variance: variance of the radiance per unit of effort, (H, W, 3) float32.
        effort: divisor of the variance in each pixel, such as its number of samples, (H, W) float32.
        guides: the surfaces in the image.

    Returns:
        Radiance, (H, W, 3) float32.
    """
    mean, mixed, rays, pixel = guides
    albedo, tolerance = mean[..., 6:], np.float32(_MAX_PLANE_DISTANCE * pixel)
    finite = np.isfinite(light).all(-1) & np.isfinite(variance).all(-1)
    traced = np.where(finite[..., None], light, 0).astype(np.float32)
    noise = np.where(finite[..., None], variance, 0).astype(np.float32)
    values, known = traced / albedo, finite & (mixed < 0)
    spread = np.zeros(mixed.shape, np.float32)
    _smooth_variance((noise / albedo**2).sum(-1), effort, mean, known, tolerance, spread)
    for number in range(PASSES):
        new, new_spread, new_known = np.zeros_like(values), np.zeros_like(spread), np.zeros_like(known)
        _filter_pass(values, spread, known, mean, mixed, tolerance, 2**number, new, new_spread, new_known)
        values, spread, known = new, new_spread, new_known
    out = values * albedo
    _fill_mixed(traced, noise.sum(-1), finite, effort, values, known, mean, mixed, rays, tolerance, out)
    return out


@kernel
def _fill_guides(depth, normals, albedo, numbers, mean, mixed, rays):
    """Fill the guides, and return the number of mixed pixels."""
    fx, fy, cx, cy, blur, focus = numbers
    height, width = mixed.shape
    count = 0
    for row in range(height):
        for column in range(width):
            several = out_of_focus = False
            for ray in range(GRID * GRID):
                own = rays[count, ray]
                i, j = row * GRID + ray // GRID, column * GRID + ray % GRID
                z = depth[i, j]
                if np.isfinite(z):
                    own[0] = z * ((j + 0.5) / GRID - cx) / fx
                    own[1] = z * ((i + 0.5) / GRID - cy) / fy
                    own[2] = z
                    own[3:6] = normals[i, j]
                    own[6:] = np.maximum(albedo[i, j], np.float32(0)) + np.float32(_FLOOR)
                    out_of_focus |= blur * abs(1 / z - 1 / focus) > 1
                else:
                    own[:6] = 0
                    own[6:] = 1
                    out_of_focus |= blur / focus > 1
                first = rays[count, 0]
                if (own[2] > 0) != (first[2] > 0):
                    several = True
                elif own[2] > 0:
                    away = abs(_dot(first[3:6], own[:3]) - _dot(first[3:6], first[:3]))
                    several |= away > _MIXED_DISTANCE * z / fx or _dot(first[3:6], own[3:6]) < _MIXED_COSINE
            guide = mean[row, column]
            for ray in range(GRID * GRID):
                guide += rays[count, ray] / np.float32(GRID * GRID)
            length = np.sqrt(_dot(guide[3:6], guide[3:6]))
            if length > 0:
                guide[3:6] /= length
            if out_of_focus:  # the lens blurs textures and silhouettes, which are sharp in the guides
                guide[6:] = 1
            elif several:
                mixed[row, column] = count
                count += 1
    return count


@helper
def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@helper
def _same_surface(one, other, tolerance, sharpness):
    """Return the weight, 0 to 1, of two guides being of the same surface; cosines are squared ``sharpness`` times."""
    if one[2] <= 0 or other[2] <= 0:
        return np.float32((one[2] <= 0) == (other[2] <= 0))
    cosine = _dot(one[3:6], other[3:6])
    x, y, z = other[0] - one[0], other[1] - one[1], other[2] - one[2]
    here, there = one[3] * x + one[4] * y + one[5] * z, other[3] * x + other[4] * y + other[5] * z
    limit = tolerance * min(one[2], other[2])
    left = 1 - (here * here + there * there) / (limit * limit)
    if cosine <= 0 or left <= 0:
        return np.float32(0)
    for _ in range(sharpness):
        cosine *= cosine
    return cosine * left * left


@kernel
def _smooth_variance(variance, effort, mean, known, tolerance, out):
    """Average the variance over 3 x 3 pixels, since that of one pixel is estimated from few numbers."""
    height, width = out.shape
    for row in range(height):
        for column in range(width):
            if not known[row, column]:
                continue
            total = weight = np.float32(0)
            for i in range(max(row - 1, 0), min(row + 2, height)):
                for j in range(max(column - 1, 0), min(column + 2, width)):
                    if known[i, j]:
                        own = np.float32((2 - abs(i - row)) * (2 - abs(j - column)))
                        own *= _same_surface(mean[row, column], mean[i, j], tolerance, 5)
                        total += own * variance[i, j]
                        weight += own
            if weight > 0:
                out[row, column] = total / weight / effort[row, column]


@kernel
def _filter_pass(values, spread, known, mean, mixed, tolerance, step, out, out_spread, out_known):
    """Average pixels that are ``step`` apart."""
    height, width = spread.shape
    for row in range(height):
        for column in range(width):
            if mixed[row, column] >= 0:
                continue
            here, is_known = values[row, column], known[row, column]
            red = green = blue = weight = variance = np.float32(0)
            for i in range(-2, 3):
                y = row + i * step
                if y < 0 or y >= height:
                    continue
                for j in range(-2, 3):
                    x = column + j * step
                    if x < 0 or x >= width or not known[y, x]:
                        continue
                    own, there = _KERNEL[i + 2] * _KERNEL[j + 2], values[y, x]
                    if i != 0 or j != 0:
                        if is_known:
                            apart = (there[0] - here[0]) ** 2 + (there[1] - here[1]) ** 2 + (there[2] - here[2]) ** 2
                            limit = np.float32(_NOISE) * (spread[row, column] + spread[y, x])
                            if apart >= limit and apart > 0:
                                continue
                            if apart > 0:
                                own *= (1 - apart / limit) ** 2
                        own *= _same_surface(mean[row, column], mean[y, x], tolerance, 6)
                    red += own * there[0]
                    green += own * there[1]
                    blue += own * there[2]
                    variance += own * own * spread[y, x]
                    weight += own
            if weight > 0:
                out[row, column, 0] = red / weight
                out[row, column, 1] = green / weight
                out[row, column, 2] = blue / weight
                out_spread[row, column] = variance / (weight * weight)
                out_known[row, column] = True


@kernel
def _fill_mixed(traced, variance, finite, effort, values, known, mean, mixed, rays, tolerance, out):
    """Fill mixed pixels from the filtered light of pixels at most 2 away, and pixels that the passes left unknown."""
    height, width = mixed.shape
    found = np.zeros(3, np.float32)
    for row in range(height):
        for column in range(width):
            if mixed[row, column] < 0:
                if not known[row, column]:
                    out[row, column] = traced[row, column]
                continue
            found[:] = 0
            missing = 0
            for ray in range(GRID * GRID):
                guide = rays[mixed[row, column], ray]
                red = green = blue = weight = np.float32(0)
                for i in range(max(row - 2, 0), min(row + 3, height)):
                    for j in range(max(column - 2, 0), min(column + 3, width)):
                        if known[i, j]:
                            own = (
                                _same_surface(guide, mean[i, j], tolerance, 4)
                                / np.float32((i - row) ** 2 + (j - column) ** 2) ** 2
                            )
                            red += own * values[i, j, 0]
                            green += own * values[i, j, 1]
                            blue += own * values[i, j, 2]
                            weight += own
                if weight > 1e-4:
                    found[0] += red / weight * guide[6]
                    found[1] += green / weight * guide[7]
                    found[2] += blue / weight * guide[8]
                else:
                    missing += 1
            noise = np.float32(0)
            count = 0
            for i in range(max(row - 1, 0), min(row + 2, height)):
                for j in range(max(column - 1, 0), min(column + 2, width)):
                    noise += variance[i, j]
                    count += 1
            found /= max(GRID * GRID - missing, 1)
            apart = found - traced[row, column]
            believable = missing == 0 and _dot(apart, apart) <= _NOISE * noise / count / effort[row, column]
            out[row, column] = found if believable or not finite[row, column] else traced[row, column]
