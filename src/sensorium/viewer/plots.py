"""Live plot of one sensor: its measurements over the last seconds beside ground truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import viser

from sensorium.sensors.base import Sensor
from sensorium.sensors.plotting import as_image, column_names, field_label, fields

SECONDS = 5.0
_MAX_POINTS = 500
"""Maximum number of points of a line."""
_MAX_LINES = 6
"""Maximum number of columns that are drawn as lines; fields with more are shown as an image of their current values."""
_TRUTH = "#30343b"
_COLOURS = ("#c8502d", "#2f6fb0", "#3a8f4d", "#8d5bb5", "#b98a1d", "#4d5560")


class SensorHistory:
    """The readings of one field of a sensor in one env over the last seconds, kept on the sensor's device.

    Args:
        sensor: the sensor.
        field: name of the field; "value" for a sensor that reads a plain tensor.
        env: number of the env.
        dt: seconds per step.
        seconds: duration of the history.
    """

    def __init__(self, sensor: Sensor[Any], field: str, env: int, dt: float, seconds: float = SECONDS) -> None:
        self.sensor, self.field, self.env = sensor, field, env
        self.shape = tuple(self._values(sensor.read()).shape)
        self.n_columns = int(np.prod(self.shape, dtype=int))
        self.stride = max(1, round(seconds / dt / _MAX_POINTS))
        self.dt = dt * self.stride
        self._ring: torch.Tensor | None = None
        self._taken = self._skipped = 0
        if self.n_columns <= _MAX_LINES:
            length = max(2, round(seconds / self.dt))
            self._ring = torch.zeros(length, 2, self.n_columns, device=self._values(sensor.read()).device)

    @property
    def is_image(self) -> bool:
        """Whether the field has too many columns for lines."""
        return self._ring is None

    def take(self) -> None:
        """Store the current reading. Does not synchronise with the device."""
        if self._ring is None:
            return
        self._skipped += 1
        if self._skipped < self.stride and self._taken:
            return
        self._skipped = 0
        row = self._ring[self._taken % len(self._ring)]
        row[0].copy_(self._values(self.sensor.read()).reshape(-1))
        row[1].copy_(self._values(self.sensor.read_ground_truth()).reshape(-1))
        self._taken += 1

    def lines(self) -> tuple[np.ndarray, np.ndarray]:
        """Return times relative to now in seconds, (n,), and measured and true values (n, 2, columns), oldest first."""
        assert self._ring is not None
        length = len(self._ring)
        count = min(self._taken, length)
        values = self._ring.roll(-(self._taken % length), 0)[length - count :].numpy(force=True)
        return -self.dt * np.arange(count - 1, -1, -1), values

    def image(self) -> np.ndarray:
        """Return the current reading as colours, (H, W, 3) uint8: measured above ground truth."""
        from matplotlib import colormaps

        vectors = self.field in self.sensor.vector_fields
        readings = (self.sensor.read(), self.sensor.read_ground_truth())
        both = [as_image(self._values(reading).numpy(force=True), vectors) for reading in readings]
        finite = np.concatenate([values[np.isfinite(values)] for values in both])
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
        gap = np.full((1, both[0].shape[1]), np.nan)
        values = np.vstack([both[0], gap, both[1]])
        colours = colormaps["viridis"]((values - low) / max(high - low, 1e-9))[..., :3]
        colours[~np.isfinite(values)] = 1.0
        times = max(1, 320 // values.shape[1])
        rows = max(times, min(12, 240 // values.shape[0]))
        return np.repeat(np.repeat((colours * 255).astype(np.uint8), times, axis=1), rows, axis=0)

    def _values(self, reading: object) -> torch.Tensor:
        tensor: torch.Tensor = reading if isinstance(reading, torch.Tensor) else getattr(reading, self.field)
        own = tensor[self.env]
        return own[0] if self.sensor.options.history_length else own


def fields_of(sensor: Sensor[Any]) -> list[str]:
    """Return the names of the fields that a sensor reads; ["value"] for a plain tensor."""
    reading = sensor.read()
    if isinstance(reading, torch.Tensor):
        return ["value"]
    return [name for name, value in reading._asdict().items() if value is not None]


def first_plot(sensors: Mapping[str, Sensor[Any]]) -> tuple[str, str]:
    """Return the uuid and the field to plot first: the first one with lines, not the image of a lidar.

    Args:
        sensors: uuid -> sensor, at least one.
    """
    for uuid, sensor in sensors.items():
        for name, values in fields(sensor.read(), 0).items():
            own = values[0] if sensor.options.history_length else values
            if own.size <= _MAX_LINES:
                return uuid, name
    uuid = next(iter(sensors))
    return uuid, fields_of(sensors[uuid])[0]


def add_plot(gui: viser.GuiApi, history: SensorHistory) -> viser.GuiImageHandle | viser.GuiUplotHandle:
    """Add the element that shows a history to the panel."""
    if history.is_image:
        return gui.add_image(history.image(), label="measured, ground truth below", format="png")
    labels = column_names(history.sensor, history.field, history.shape)
    series: list[Any] = [{"label": "s"}]
    for truth in (False, True):  # ground truth last, on top of the noisier measurements
        for column, label in enumerate(labels):
            name = "truth" if truth else "measured"
            text = name if history.n_columns == 1 else f"{label} {name}"
            style = (
                {"stroke": _TRUTH, "width": 1, "dash": [4, 4]} if truth else {"stroke": _COLOURS[column], "width": 1.5}
            )
            series.append({"label": text, **style})
    start = -history.dt * (len(history._ring) - 1) if history._ring is not None else -SECONDS
    return gui.add_uplot(
        _data(history),
        tuple(series),
        scales={"x": {"time": False, "auto": False, "range": (start, 0.0)}, "y": {"auto": True}},
        title=f"{field_label(history.sensor, history.field)} (dashed: ground truth)",
        legend={"show": history.n_columns > 1},
        aspect=1.5,
    )


def update_plot(element: viser.GuiImageHandle | viser.GuiUplotHandle, history: SensorHistory) -> None:
    """Show the current content of a history."""
    if history.is_image:
        element.image = history.image()
    else:
        element.data = _data(history)


def _data(history: SensorHistory) -> tuple[np.ndarray, ...]:
    times, values = history.lines()
    columns = values.reshape(len(times), -1).T.astype(np.float64)
    return (times.astype(np.float64), *(np.ascontiguousarray(column) for column in columns))
