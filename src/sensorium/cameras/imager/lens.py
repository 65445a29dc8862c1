"""Lens geometry: the Brown and the Kannala-Brandt distortion models, their inverses, and the lens maps of imagers.

The conventions are OpenCV's. A ray (x, y, 1) in camera axes (x right, y down) has *undistorted* coordinates (x, y). The
lens maps it to the *distorted* (x', y'), which is the pixel (fx x' + cx, fy y' + cy). A renderer draws the undistorted
(pinhole) image, so each pixel of the measured image shows the rendered image at its undistorted coordinates. Pixel
coordinates start at the image's edge: the centre of pixel i is i + 0.5.

All computations are in float64 on the device of the intrinsics.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from sensorium.cameras.imager.profile import CameraProfile

Tensor = torch.Tensor

_ITERATIONS = 20
"""Maximum number of Newton iterations."""
_TOLERANCE = 1e-10
"""Error of distorted coordinates at which iterations stop (1e-6 pixels for a focal length of 10,000 pixels)."""
_MAX_TANGENT = math.tan(math.radians(89.5))
"""Rays farther off the axis are not in a pinhole image."""
OUTSIDE = -1e6
"""Source position of a pixel that no ray reaches."""
FIELDS = 3
"""Values per pixel of a lens map: source x, source y, vignette."""
_POSITION_STEPS, _GAIN_STEPS = 2.0**10, 2.0**16
"""Maps are rounded to these fractions, so that they do not depend on the last bits of a device's tangent."""


class Intrinsics(NamedTuple):
    """Focal lengths and principal point of a pinhole camera, in pixels, each (B,)."""

    fx: Tensor
    fy: Tensor
    cx: Tensor
    cy: Tensor


class Margins(NamedTuple):
    """Overscan margins: pixels that are rendered beyond the edges of an image."""

    left: int
    top: int
    right: int
    bottom: int


NO_MARGINS = Margins(0, 0, 0, 0)


def undistort(profile: CameraProfile, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Invert the distortion.

    Args:
        profile: profile with the lens.
        x: distorted x coordinates.
        y: distorted y coordinates.

    Returns:
        Undistorted x and y, and whether there is such a ray. Where the distortion folds over, there is none.
    """
    x, y = x.double(), y.double()
    if profile.projection == "fisheye":
        return _undistort_fisheye(profile, x, y)
    if profile.distorts:
        return _undistort_brown(profile, x, y)
    return x, y, torch.ones_like(x, dtype=torch.bool)


def _brown(profile: CameraProfile, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return distorted x and y, and the derivatives dx'/dx, dy'/dy and dx'/dy = dy'/dx."""
    k1, k2, k3, p1, p2 = profile.k1, profile.k2, profile.k3, profile.p1, profile.p2
    rr = x * x + y * y
    radial = 1 + rr * (k1 + rr * (k2 + rr * k3))
    slope = 2 * (k1 + rr * (2 * k2 + rr * 3 * k3))  # derivative of radial by rr / 2
    new_x = x * radial + 2 * p1 * x * y + p2 * (rr + 2 * x * x)
    new_y = y * radial + p1 * (rr + 2 * y * y) + 2 * p2 * x * y
    xx = radial + x * x * slope + 2 * p1 * y + 6 * p2 * x
    yy = radial + y * y * slope + 6 * p1 * y + 2 * p2 * x
    xy = x * y * slope + 2 * p1 * x + 2 * p2 * y
    return new_x, new_y, xx, yy, xy


def _undistort_brown(profile: CameraProfile, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Invert Brown's model by Newton's method; bounded steps keep it from jumping over the fold to another solution."""
    u, v = x.clone(memory_format=torch.contiguous_format), y.clone(memory_format=torch.contiguous_format)
    todo = torch.arange(x.numel(), device=x.device)  # not yet converged
    for _ in range(_ITERATIONS):
        now_u, now_v = u.view(-1)[todo], v.view(-1)[todo]
        new_x, new_y, xx, yy, xy = _brown(profile, now_u, now_v)
        ex, ey = x.reshape(-1)[todo] - new_x, y.reshape(-1)[todo] - new_y
        far = ex.abs() + ey.abs() >= _TOLERANCE
        det = xx * yy - xy * xy
        det = torch.where(det.abs() < 0.05, 0.05, det)
        u.view(-1)[todo] = now_u + ((ex * yy - ey * xy) / det).clamp(-0.3, 0.3)
        v.view(-1)[todo] = now_v + ((ey * xx - ex * xy) / det).clamp(-0.3, 0.3)
        todo = todo[far]
        if not len(todo):
            break
    new_x, new_y, xx, yy, xy = _brown(profile, u, v)
    near = (new_x - x).abs() + (new_y - y).abs() < 1e-6
    return u, v, near & (xx * yy - xy * xy > 0) & (xx + yy > 0)


def _fisheye_radius(profile: CameraProfile, angle: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distorted radius of rays at an angle off the axis, and its derivative."""
    k1, k2, k3, k4 = profile.k1, profile.k2, profile.k3, profile.k4
    aa = angle * angle
    radius = angle * (1 + aa * (k1 + aa * (k2 + aa * (k3 + aa * k4))))
    return radius, 1 + aa * (3 * k1 + aa * (5 * k2 + aa * (7 * k3 + aa * 9 * k4)))


def _undistort_fisheye(profile: CameraProfile, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r = torch.sqrt(x * x + y * y)
    angle = r.clamp(max=math.pi / 2)
    for _ in range(_ITERATIONS):
        radius, slope = _fisheye_radius(profile, angle)
        error = r - radius
        if bool(error.abs().max() < _TOLERANCE):
            break
        angle = (angle + (error / torch.where(slope.abs() < 0.05, 0.05, slope)).clamp(-0.3, 0.3)).clamp(0.0, math.pi)
    radius, slope = _fisheye_radius(profile, angle)
    stretch = torch.tan(angle)
    reached = ((radius - r).abs() < 1e-6) & (slope > 0) & (angle < math.atan(_MAX_TANGENT))
    scale = torch.where(r > 1e-12, stretch / r.clamp(min=1e-12), 1.0)
    return x * scale, y * scale, reached


def rays(profile: CameraProfile, intrinsics: Intrinsics, size: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the rays of all pixels of (width, height) images: x / z, y / z, and whether there is a ray; (B, H, W)."""
    width, height = size
    device = intrinsics.fx.device
    fx, fy, cx, cy = (value.double().reshape(-1, 1, 1) for value in intrinsics)
    columns = torch.arange(width, dtype=torch.float64, device=device) + 0.5
    rows = torch.arange(height, dtype=torch.float64, device=device)[:, None] + 0.5
    return undistort(profile, ((columns - cx) / fx).expand(-1, height, -1), ((rows - cy) / fy).expand(-1, -1, width))


def make_map(
    profile: CameraProfile, intrinsics: Intrinsics, size: tuple[int, int], source: tuple[int, int, Margins]
) -> Tensor:
    """Return the lens map: which position of the rendered image each pixel of the measured image shows.

    Args:
        profile: profile with the lens.
        intrinsics: intrinsics of the measured images.
        size: width and height of the measured images.
        source: width and height of the rendered images, and their overscan margins.

    Returns:
        (B, H, W, 3) float32: x and y of the position in the source, relative to the centre of its first pixel, and the
        vignette. The position of a pixel that shows nothing is ``OUTSIDE``.
    """
    width, height = size
    source_width, source_height, beyond = source
    fx, fy, cx, cy = (value.double().reshape(-1, 1, 1) for value in intrinsics)
    x, y, reached = rays(profile, intrinsics, size)
    across = 1 / (1 + (x * x + y * y))  # cos² of the angle off the axis
    gain = torch.where(reached, 1 - profile.vignette * (1 - across * across), 0.0)
    if profile.distorts:
        left, top = x * fx + cx + (beyond.left - 0.5), y * fy + cy + (beyond.top - 0.5)
    else:  # exactly the same pixels
        columns = torch.arange(width, dtype=torch.float64, device=x.device) + float(beyond.left)
        rows = torch.arange(height, dtype=torch.float64, device=x.device)[:, None] + float(beyond.top)
        left, top = columns.expand_as(x), rows.expand_as(x)
    seen = reached & (left >= -0.5) & (left < source_width - 0.5) & (top >= -0.5) & (top < source_height - 0.5)
    left, top = (torch.where(seen, (v * _POSITION_STEPS).round() / _POSITION_STEPS, OUTSIDE) for v in (left, top))
    return torch.stack([left, top, (gain * _GAIN_STEPS).round() / _GAIN_STEPS], -1).float().contiguous()


def margins(profile: CameraProfile, intrinsics: Intrinsics, size: tuple[int, int], limit: float) -> Margins:
    """Return how far the lens sees beyond the pinhole image; see ``CameraProfile.overscan``."""
    width, height = size
    fx, fy, cx, cy = (value.double().reshape(-1, 1) for value in intrinsics)
    device = fx.device
    columns = torch.arange(width, dtype=torch.float64, device=device) + 0.5
    rows = torch.arange(height, dtype=torch.float64, device=device) + 0.5
    first, last = torch.full_like(rows, 0.5), torch.full_like(rows, width - 0.5)
    top, bottom = torch.full_like(columns, 0.5), torch.full_like(columns, height - 0.5)
    border_x, border_y = torch.cat([columns, columns, first, last]), torch.cat([top, bottom, rows, rows])
    x, y, reached = undistort(profile, (border_x - cx) / fx, (border_y - cy) / fy)
    scale = 1 / (1 + min(0.0, *profile.chromatic_aberration))  # a channel that is shown smaller needs more source
    # pixels without a ray: for a fisheye they look beside or behind the camera, otherwise there is nothing to show
    lost = 1e9 if profile.projection == "fisheye" else 0.0

    def beyond(position: Tensor, focal: Tensor, centre: Tensor, side: int) -> list[int]:
        away = torch.where(reached, position * focal, torch.sign(position) * lost) * scale + centre
        ends = (-float(away.min()), float(away.max()) - side)
        return [min(max(0, math.ceil(end - 1e-9)), int(limit * side)) for end in ends]

    left, right = beyond(x, fx, cx, width)
    above, below = beyond(y, fy, cy, height)
    return Margins(left, above, right, below)
