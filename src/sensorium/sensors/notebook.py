"""How sensors look in a notebook: what they measure and the true value, pictures of images, and their options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from sensorium import _notebook
from sensorium.errors import SensoriumError

if TYPE_CHECKING:
    from sensorium.sensors.base import Sensor

MIN_IMAGE = 16
"""Rows and columns from which an array is shown as a picture."""


class NotebookView:
    """Mixin of sensors: their representation in notebooks."""

    def _repr_html_(self) -> str:
        return sensor_html(cast("Sensor[Any]", self))


def sensor_html(sensor: Sensor[Any]) -> str:
    """Return name and options of a sensor, and its reading in env 0 beside the ground truth if the scene was built."""
    title = f"{type(sensor).__name__} {sensor.uuid!r}"
    options = sensor.options._repr_html_()
    try:
        measured, truth = _fields(sensor.read()), _fields(sensor.read_ground_truth())
    except SensoriumError:
        return _notebook.heading(f"{title}, not built") + options
    rows, pictures = [], ""
    for name, value in measured.items():
        true = truth.get(name)
        shape = "(B" + "".join(f", {size}" for size in value.shape[1:]) + ")"
        if _is_image(value):
            pictures += _notebook.picture(value[0], f"{name}, measured")
            if true is not None and not np.array_equal(value[0], true[0], equal_nan=value.dtype.kind == "f"):
                pictures += _notebook.picture(true[0], f"{name}, true")
            rows.append((name, shape, "see the picture", "see the picture"))
        else:
            rows.append((name, shape, _notebook.numbers(value[0]), "" if true is None else _notebook.numbers(true[0])))
    table = _notebook.table(("field", "shape", "measured in env 0", "true in env 0"), rows)
    return _notebook.heading(title) + table + pictures + options


def _fields(reading: object) -> dict[str, np.ndarray]:
    """Return the fields of a reading that are there, as arrays."""
    names = getattr(reading, "_fields", None)
    parts = {"reading": reading} if names is None else {name: getattr(reading, name) for name in names}
    return {name: value.detach().cpu().numpy() for name, value in parts.items() if isinstance(value, torch.Tensor)}


def _is_image(value: np.ndarray) -> bool:
    image = value[0]
    plain = image.ndim == 2 or (image.ndim == 3 and image.shape[2] == 3 and image.dtype == np.uint8)
    return plain and min(image.shape[:2]) >= MIN_IMAGE
