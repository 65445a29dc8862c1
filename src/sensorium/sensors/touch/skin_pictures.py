"""Pictures of what skins feel: pressure as colour and shear as arrows, at the places of the taxels."""

from __future__ import annotations

import numpy as np

from sensorium.sensors.pictures import SkinPicture

_ROUNDING = 1e-12
"""Values below this size are rounding errors, which would fill the colour scale."""


def skin_picture(title: str, unit: str, positions: np.ndarray, measured: np.ndarray, truth: np.ndarray) -> SkinPicture:
    """Return the picture of values at points of a skin, seen along the axis in which it is thinnest.

    Args:
        title: name of the values.
        unit: their unit.
        positions: positions of the points in the sensor's frame, (n, 3) m.
        measured: (n,) numbers, or (n, 3) vectors in the sensor's frame.
        truth: the same of ground truth.
    """
    extent = np.ptp(positions, axis=0)
    depth = min(range(3), key=lambda axis: (extent[axis], -axis))
    plane = [axis for axis in range(3) if axis != depth]
    vectors = measured.size > len(positions)
    shape = (len(positions), 3) if vectors else (len(positions),)
    values = [one.reshape(shape).astype(float) for one in (truth, measured)]
    values = [np.where(np.abs(one) < _ROUNDING, 0.0, one) for one in values]
    if vectors:
        values = [one[:, [*plane, depth]] for one in values]
    names = ("xyz"[plane[0]], "xyz"[plane[1]])
    normal = f"along {'xyz'[depth]}" if vectors else ""
    return SkinPicture(title, unit, positions[:, plane], values[0], values[1], axis_names=names, normal=normal)
