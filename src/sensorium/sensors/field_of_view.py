"""Fields of view: the options ``fov``, ``hfov`` and ``vfov`` of cameras and pinhole patterns, in pixels.

``hfov`` is the angle between the left and the right edge of the image, ``vfov`` that between the top and the bottom
edge. With one of them pixels are square. ``fov`` is another name for ``vfov`` in a ``Camera``, as in MuJoCo and OpenGL,
and for ``hfov`` in a ``DepthCamera`` and its pattern, as in data sheets.
"""

from __future__ import annotations

import math
from typing import Literal

FovAxis = Literal["horizontal", "vertical"]
"""What ``fov`` means."""

MAX_MISMATCH = 0.05
"""Largest relative difference between fx and fy if ``hfov`` and ``vfov`` are both set. Data sheets round angles, and
state them for the whole imager."""


def focal_from_angle(angle: float, pixels: int) -> float:
    """Return the focal length in pixels for a field of view in degrees over this many pixels."""
    return pixels / (2 * math.tan(math.radians(angle) / 2))


def angle_from_focal(focal: float, pixels: int) -> float:
    """Return the field of view in degrees: the inverse of :func:`focal_from_angle`."""
    return math.degrees(2 * math.atan(pixels / (2 * focal)))


def check_names(axis: FovAxis, angles: dict[str, bool], other: str, other_is_set: bool) -> None:
    """Check that the options of the field of view do not contradict each other.

    Args:
        axis: what ``fov`` means.
        angles: whether "fov", "hfov" and "vfov" are set.
        other: name of the option that sets focal lengths directly.
        other_is_set: whether that is set too.

    Raises:
        ValueError: they do.
    """
    given = [name for name, is_set in angles.items() if is_set]
    if given and other_is_set:
        raise ValueError(f"{', '.join(given)} and {other} set the same parameter; set only one of them")
    if "fov" in given and len(given) > 1:
        rest = " and ".join(given[1:])
        raise ValueError(
            f"fov is the {axis} field of view and contradicts {rest}; set hfov, vfov or both instead of fov"
        )


def check_square(fx: float, fy: float, hfov: float, vfov: float, size: tuple[int, int], other: str) -> None:
    """Check that ``hfov`` and ``vfov`` together fit the aspect ratio of the image, within :data:`MAX_MISMATCH`.

    Args:
        fx: focal length for ``hfov``, pixels.
        fy: focal length for ``vfov``, pixels.
        hfov: horizontal field of view, degrees.
        vfov: vertical field of view, degrees.
        size: width and height, pixels.
        other: what sets pixels that are not square, for the message.

    Raises:
        ValueError: they do not.
    """
    if abs(fx / fy - 1) > MAX_MISMATCH:
        raise ValueError(
            f"hfov={hfov:g} and vfov={vfov:g} contradict each other at {size[0]} x {size[1]} pixels, where "
            f"hfov={hfov:g} gives vfov={angle_from_focal(fx, size[1]):.4g}; set only one of them, or {other} for "
            "pixels that are not square"
        )


def focal_lengths(
    axis: FovAxis,
    size: tuple[int, int],
    fov: float | None,
    hfov: float | None,
    vfov: float | None,
    other: str,
) -> tuple[float, float] | None:
    """Return the focal lengths (fx, fy) in pixels that the angles set; None if no angle is set.

    Args:
        axis: what ``fov`` means.
        size: width and height, pixels.
        fov: field of view along ``axis``, degrees.
        hfov: horizontal field of view, degrees.
        vfov: vertical field of view, degrees.
        other: what sets pixels that are not square, for messages.

    Raises:
        ValueError: ``hfov`` and ``vfov`` contradict each other.
    """
    if fov is not None:
        hfov, vfov = (fov, None) if axis == "horizontal" else (None, fov)
    fx = None if hfov is None else focal_from_angle(hfov, size[0])
    fy = None if vfov is None else focal_from_angle(vfov, size[1])
    if fx is None or fy is None:
        focal = fx if fy is None else fy
        return None if focal is None else (focal, focal)
    assert hfov is not None
    assert vfov is not None
    check_square(fx, fy, hfov, vfov, size, other)
    return fx, fy
