"""Check and repair of masses and inertias."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sensorium.worlds.markup import Problems
from sensorium.worlds.urdf.description import Inertial, Link

_SLACK = 2e-5
"""Relative amount by which the largest principal moment may exceed the sum of the others, since the model is written
with six digits."""
_MIN_RADIUS = 1e-3
"""Min radius of gyration of a repaired inertia, m."""
_MIN_VALUE = 1e-12
"""Min mass in kg and moment of inertia in kg m² in MuJoCo."""


def check_inertia(link: Link, repair: bool, problems: Problems, notes: list[str]) -> Link:
    """Return the link with a physically possible inertia, or without one if it has no mass.

    Frames have a mass of 0 and an inertia of 0 in many files; they have no mass. Everything else that is physically
    impossible is a problem, or is repaired.

    Args:
        link: the link.
        repair: whether to repair it.
        problems: where a problem is added if it is not repaired.
        notes: where a repair is listed.
    """
    inertial = link.inertial
    if inertial is None or (inertial.mass == 0 and not inertial.inertia.any()):
        return replace(link, inertial=None)
    wrong = _wrong(inertial)
    if wrong is None:
        return replace(link, inertial=replace(inertial, inertia=_lifted(inertial.inertia)))
    if not repair:
        fix = ". Fix it, or give repair=True"
        problems.tolerate(inertial.node, f"link {link.name!r}: {wrong}", "it is repaired", fix)
        return link
    if inertial.mass < _MIN_VALUE:
        notes.append(f"repaired: link {link.name!r} has no mass now, since {wrong}")
        return replace(link, inertial=None)
    moments, axes = np.linalg.eigh(inertial.inertia)
    moments = np.maximum(moments, max(inertial.mass * _MIN_RADIUS**2, _MIN_VALUE))
    notes.append(f"repaired: link {link.name!r} has larger moments of inertia now, since {wrong}")
    lifted = _lifted(axes @ np.diag(moments) @ axes.T)
    return replace(link, inertial=replace(inertial, inertia=lifted))


def _wrong(inertial: Inertial) -> str | None:
    """Return why an inertia is physically impossible, or None."""
    if inertial.mass < _MIN_VALUE:
        return f"its mass must be > 0, got {inertial.mass:g} (a frame without mass has no <inertial>)"
    moments = np.linalg.eigvalsh(inertial.inertia)
    listed = ", ".join(f"{value:.4g}" for value in moments) + " kg m²"
    if moments[0] < max(_MIN_VALUE, 1e-12 * moments[2]):
        return f"its inertia must be positive definite, but its principal moments are {listed}"
    if moments[2] - moments[0] - moments[1] > _SLACK * moments[2]:
        return f"its largest principal moment of inertia exceeds the sum of the others, {listed}"
    return None


def _lifted(inertia: np.ndarray) -> np.ndarray:
    """Return the inertia, slightly larger about every axis for flat bodies.

    MuJoCo does not accept a largest moment above the sum of the others, not even by rounding.
    """
    moments = np.linalg.eigvalsh(inertia)
    return inertia + np.eye(3) * max(0.0, moments[2] - moments[0] - moments[1] + _SLACK * moments[2])
