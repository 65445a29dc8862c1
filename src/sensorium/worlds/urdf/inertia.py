"""Masses and inertias that a body can have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sensorium.worlds.markup import Problems
from sensorium.worlds.urdf.description import Inertial, Link

_SLACK = 2e-5
"""By how much the greatest principal moment may exceed the sum of the others, as a part of itself: the model is written
down with six digits."""
_RADIUS = 1e-3
"""Metres: a mended mass is spread at least as far as this."""
_LEAST = 1e-12
"""The least mass in kg and moment of inertia in kg m² that MuJoCo computes with."""


def settle_inertia(link: Link, mend: bool, problems: Problems, notes: list[str]) -> Link:
    """The link with an inertia that a body can have, or without one where it weighs nothing.

    A mass of 0 with an inertia of 0 is what files say of frames: they weigh nothing. Everything else that no body can
    have is a problem, or is mended and noted.

    Args:
        link: the link.
        mend: whether to mend it.
        problems: where it is noted if not.
        notes: where it is noted if so.
    """
    inertial = link.inertial
    if inertial is None or (inertial.mass == 0 and not inertial.inertia.any()):
        return replace(link, inertial=None)
    wrong = _wrong(inertial)
    if wrong is None:
        return replace(link, inertial=replace(inertial, inertia=_lifted(inertial.inertia)))
    if not mend:
        problems.add(inertial.node, f"link {link.name!r}: {wrong}. Mend it, or give mend=True")
        return link
    if inertial.mass < _LEAST:
        notes.append(f"mended: link {link.name!r} weighs nothing, for {wrong}")
        return replace(link, inertial=None)
    moments, axes = np.linalg.eigh(inertial.inertia)
    moments = np.maximum(moments, max(inertial.mass * _RADIUS**2, _LEAST))
    notes.append(f"mended: link {link.name!r} has greater moments of inertia, for {wrong}")
    lifted = _lifted(axes @ np.diag(moments) @ axes.T)
    return replace(link, inertial=replace(inertial, inertia=lifted))


def _wrong(inertial: Inertial) -> str | None:
    """What no body can have."""
    if inertial.mass < _LEAST:
        return f"its mass must be greater than 0, got {inertial.mass:g} (a frame that weighs nothing has no <inertial>)"
    moments = np.linalg.eigvalsh(inertial.inertia)
    listed = ", ".join(f"{value:.4g}" for value in moments) + " kg m²"
    if moments[0] < max(_LEAST, 1e-12 * moments[2]):
        return f"its inertia must be positive definite, but its principal moments are {listed}"
    if moments[2] - moments[0] - moments[1] > _SLACK * moments[2]:
        return f"its greatest principal moment of inertia exceeds the sum of the others, {listed}"
    return None


def _lifted(inertia: np.ndarray) -> np.ndarray:
    """The inertia with as much more about every axis as its greatest moment needs not to exceed the sum of the others
    by rounding, for MuJoCo allows none: nothing, but for bodies that are flat."""
    moments = np.linalg.eigvalsh(inertia)
    return inertia + np.eye(3) * max(0.0, moments[2] - moments[0] - moments[1] + _SLACK * moments[2])
