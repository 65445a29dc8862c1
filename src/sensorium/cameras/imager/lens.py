"""Lens geometry: Brown's and Kannala and Brandt's distortion, forward and back, and the maps that imagers look up.

Conventions are OpenCV's: a ray (x, y, 1) in camera axes (x right, y down) has *undistorted* coordinates (x, y), and the
lens puts it at the *distorted* (x', y'), which is the pixel (fx x' + cx, fy y' + cy). A renderer gives the undistorted
(pinhole) image, so the measured image at a pixel shows what lies at the undistorted coordinates of it. Pixels are
counted from the image's edge: the centre of pixel i lies at i + 0.5.

All is computed in float64 on the device of the intrinsics.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from sensorium.cameras.imager.profile import CameraProfile

Tensor = torch.Tensor

_ITERATIONS = 20
_CLOSE = 1e-10
"""Distorted coordinates that are so near to what was asked for are it (1e-6 of a pixel of a 10,000 pixel lens)."""
_STEEPEST = math.tan(math.radians(89.5))
"""Rays further off the axis are in no pinhole image."""
OUTSIDE = -1e6
"""Source position of a pixel that no ray reaches."""
FIELDS = 3
"""Values a pixel of a map: source x, source y, vignette."""
_POSITION, _GAIN = 2.0**10, 2.0**16
"""Maps are rounded to such fractions, so that the last bits of a device's tangent do not show."""


class Intrinsics(NamedTuple):
    """A pinhole camera's focal lengths and principal point, pixels, each (B,)."""

    fx: Tensor
    fy: Tensor
    cx: Tensor
    cy: Tensor


class Margins(NamedTuple):
    """Pixels beyond the edges of an image."""

    left: int
    top: int
    right: int
    bottom: int


NO_MARGINS = Margins(0, 0, 0, 0)


def undistort(profile: CameraProfile, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The rays that the lens puts at (x, y), and whether there is one: where distortion folds over, there is none."""
    x, y = x.double(), y.double()
    if profile.projection == "fisheye":
        return _undistort_fisheye(profile, x, y)
    if profile.distorts:
        return _undistort_brown(profile, x, y)
    return x, y, torch.ones_like(x, dtype=torch.bool)


def _brown(profile: CameraProfile, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Distorted x and y, and the derivatives dx'/dx, dy'/dy and dx'/dy = dy'/dx."""
    k1, k2, k3, p1, p2 = profile.k1, profile.k2, profile.k3, profile.p1, profile.p2
    rr = x * x + y * y
    radial = 1 + rr * (k1 + rr * (k2 + rr * k3))
    slope = 2 * (k1 + rr * (2 * k2 + rr * 3 * k3))  # of radial, by rr / 2
    new_x = x * radial + 2 * p1 * x * y + p2 * (rr + 2 * x * x)
    new_y = y * radial + p1 * (rr + 2 * y * y) + 2 * p2 * x * y
    xx = radial + x * x * slope + 2 * p1 * y + 6 * p2 * x
    yy = radial + y * y * slope + 6 * p1 * y + 2 * p2 * x
    xy = x * y * slope + 2 * p1 * x + 2 * p2 * y
    return new_x, new_y, xx, yy, xy


def _undistort_brown(profile: CameraProfile, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """By Newton's method, in steps that are bounded, for it must not leap over the fold into another solution."""
    u, v = x.clone(memory_format=torch.contiguous_format), y.clone(memory_format=torch.contiguous_format)
    todo = torch.arange(x.numel(), device=x.device)  # what has not converged
    for _ in range(_ITERATIONS):
        now_u, now_v = u.view(-1)[todo], v.view(-1)[todo]
        new_x, new_y, xx, yy, xy = _brown(profile, now_u, now_v)
        ex, ey = x.reshape(-1)[todo] - new_x, y.reshape(-1)[todo] - new_y
        far = ex.abs() + ey.abs() >= _CLOSE
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


def _bend(profile: CameraProfile, angle: Tensor) -> tuple[Tensor, Tensor]:
    """Distorted radius of rays off the axis by an angle, and its derivative."""
    k1, k2, k3, k4 = profile.k1, profile.k2, profile.k3, profile.k4
    aa = angle * angle
    bent = angle * (1 + aa * (k1 + aa * (k2 + aa * (k3 + aa * k4))))
    return bent, 1 + aa * (3 * k1 + aa * (5 * k2 + aa * (7 * k3 + aa * 9 * k4)))


def _undistort_fisheye(profile: CameraProfile, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r = torch.sqrt(x * x + y * y)
    angle = r.clamp(max=math.pi / 2)
    for _ in range(_ITERATIONS):
        bent, slope = _bend(profile, angle)
        error = r - bent
        if bool(error.abs().max() < _CLOSE):
            break
        angle = (angle + (error / torch.where(slope.abs() < 0.05, 0.05, slope)).clamp(-0.3, 0.3)).clamp(0.0, math.pi)
    bent, slope = _bend(profile, angle)
    stretch = torch.tan(angle)
    reached = ((bent - r).abs() < 1e-6) & (slope > 0) & (angle < math.atan(_STEEPEST))
    scale = torch.where(r > 1e-12, stretch / r.clamp(min=1e-12), 1.0)
    return x * scale, y * scale, reached


def rays(profile: CameraProfile, intrinsics: Intrinsics, size: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
    """The rays (x, y, 1) that the pixels of (width, height) images show, each (B, H, W), and whether there is one."""
    width, height = size
    device = intrinsics.fx.device
    fx, fy, cx, cy = (value.double().reshape(-1, 1, 1) for value in intrinsics)
    columns = torch.arange(width, dtype=torch.float64, device=device) + 0.5
    rows = torch.arange(height, dtype=torch.float64, device=device)[:, None] + 0.5
    return undistort(profile, ((columns - cx) / fx).expand(-1, height, -1), ((rows - cy) / fy).expand(-1, -1, width))


def make_map(
    profile: CameraProfile, intrinsics: Intrinsics, size: tuple[int, int], source: tuple[int, int, Margins]
) -> Tensor:
    """What each pixel of the measured images shows: (B, H, W, 3) float32, its position in the source, and its vignette.

    Args:
        profile: the lens.
        intrinsics: of the measured images.
        size: width and height of the measured images.
        source: width and height of the images of the renderer, and how far they reach beyond the measured ones.

    Positions count from the centre of the source's first pixel. A pixel that shows nothing has ``OUTSIDE``.
    """
    width, height = size
    source_width, source_height, beyond = source
    fx, fy, cx, cy = (value.double().reshape(-1, 1, 1) for value in intrinsics)
    x, y, reached = rays(profile, intrinsics, size)
    across = 1 / (1 + (x * x + y * y))  # cos² of the angle off axis
    gain = torch.where(reached, 1 - profile.vignette * (1 - across * across), 0.0)
    if profile.distorts:
        left, top = x * fx + cx + (beyond.left - 0.5), y * fy + cy + (beyond.top - 0.5)
    else:  # exactly themselves
        columns = torch.arange(width, dtype=torch.float64, device=x.device) + float(beyond.left)
        rows = torch.arange(height, dtype=torch.float64, device=x.device)[:, None] + float(beyond.top)
        left, top = columns.expand_as(x), rows.expand_as(x)
    seen = reached & (left >= -0.5) & (left < source_width - 0.5) & (top >= -0.5) & (top < source_height - 0.5)
    left, top = (torch.where(seen, (v * _POSITION).round() / _POSITION, OUTSIDE) for v in (left, top))
    return torch.stack([left, top, (gain * _GAIN).round() / _GAIN], -1).float().contiguous()


def margins(profile: CameraProfile, intrinsics: Intrinsics, size: tuple[int, int], limit: float) -> Margins:
    """How far what the lens sees reaches beyond the pinhole image; see ``CameraProfile.overscan``."""
    width, height = size
    fx, fy, cx, cy = (value.double().reshape(-1, 1) for value in intrinsics)
    device = fx.device
    columns = torch.arange(width, dtype=torch.float64, device=device) + 0.5
    rows = torch.arange(height, dtype=torch.float64, device=device) + 0.5
    first, last = torch.full_like(rows, 0.5), torch.full_like(rows, width - 0.5)
    top, bottom = torch.full_like(columns, 0.5), torch.full_like(columns, height - 0.5)
    border_x, border_y = torch.cat([columns, columns, first, last]), torch.cat([top, bottom, rows, rows])
    x, y, reached = undistort(profile, (border_x - cx) / fx, (border_y - cy) / fy)
    most = 1 / (1 + min(0.0, *profile.chromatic_aberration))  # what is shown smaller reaches further out
    lost = 1e9 if profile.projection == "fisheye" else 0.0  # rays beside or behind the camera, or no rays at all

    def beyond(position: Tensor, focal: Tensor, centre: Tensor, side: int) -> list[int]:
        away = torch.where(reached, position * focal, torch.sign(position) * lost) * most + centre
        ends = (-float(away.min()), float(away.max()) - side)
        return [min(max(0, math.ceil(end - 1e-9)), int(limit * side)) for end in ends]

    left, right = beyond(x, fx, cx, width)
    above, below = beyond(y, fy, cy, height)
    return Margins(left, above, right, below)
