"""A live plot of one sensor: what it measured over the last seconds, beside ground truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from sensorium.sensors.base import Sensor
from sensorium.sensors.plotting import as_image

SECONDS = 5.0
_POINTS = 500
"""Points of a line, at most."""
_LINES = 6
"""Columns up to which a field is drawn as lines; beyond, its values now are an image."""
_TRUTH = "#30343b"
_COLOURS = ("#c8502d", "#2f6fb0", "#3a8f4d", "#8d5bb5", "#b98a1d", "#4d5560")


class Recording:
    """What one field of a sensor read in one env over the last seconds. Kept where the sensor's readings are."""

    def __init__(self, sensor: Sensor[Any], field: str, env: int, dt: float, seconds: float = SECONDS) -> None:
        self.sensor, self.field, self.env = sensor, field, env
        self.shape = tuple(self._values(sensor.read()).shape)
        self.n_columns = int(np.prod(self.shape, dtype=int))
        self.stride = max(1, round(seconds / dt / _POINTS))
        self.dt = dt * self.stride
        self._ring: torch.Tensor | None = None
        self._taken = self._skipped = 0
        if self.n_columns <= _LINES:
            length = max(2, round(seconds / self.dt))
            self._ring = torch.zeros(length, 2, self.n_columns, device=self._values(sensor.read()).device)

    @property
    def is_image(self) -> bool:
        """Whether it has too many columns for lines."""
        return self._ring is None

    def take(self) -> None:
        """Keep what is read now. Never waits for the device."""
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
        """Seconds before now, (n,), and values (n, 2, columns): measured and ground truth, oldest first."""
        assert self._ring is not None
        length = len(self._ring)
        count = min(self._taken, length)
        values = self._ring.roll(-(self._taken % length), 0)[length - count :].numpy(force=True)
        return -self.dt * np.arange(count - 1, -1, -1), values

    def image(self) -> np.ndarray:
        """What is read now: measured above ground truth, as colours, (H, W, 3) uint8."""
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

    def _values(self, reading: Any) -> torch.Tensor:
        tensor = reading if isinstance(reading, torch.Tensor) else getattr(reading, self.field)
        own = tensor[self.env]
        return own[0] if self.sensor.options.history_length else own


def fields_of(sensor: Sensor[Any]) -> list[str]:
    """Names of what a sensor reads; a plain tensor is "value"."""
    reading = sensor.read()
    if isinstance(reading, torch.Tensor):
        return ["value"]
    return [name for name, value in reading._asdict().items() if value is not None]


def add_plot(gui: Any, recording: Recording) -> Any:
    """The element that shows a recording."""
    if recording.is_image:
        return gui.add_image(recording.image(), label="measured, ground truth below", format="png")
    labels = "xyz" if recording.n_columns == 3 else [str(i) for i in range(recording.n_columns)]
    series: list[Any] = [{"label": "s"}]
    for truth in (False, True):  # truth last, on top: measured is noisier and would hide it
        for column, label in enumerate(labels):
            name = "truth" if truth else "measured"
            text = name if recording.n_columns == 1 else f"{label} {name}"
            look = (
                {"stroke": _TRUTH, "width": 1, "dash": [4, 4]} if truth else {"stroke": _COLOURS[column], "width": 1.5}
            )
            series.append({"label": text, **look})
    start = -recording.dt * (len(recording._ring) - 1) if recording._ring is not None else -SECONDS
    return gui.add_uplot(
        _data(recording),
        tuple(series),
        scales={"x": {"time": False, "auto": False, "range": (start, 0.0)}, "y": {"auto": True}},
        title="measured; dashed: ground truth",
        legend={"show": False},
        aspect=1.5,
    )


def update_plot(element: Any, recording: Recording) -> None:
    """Show what the recording has now."""
    if recording.is_image:
        element.image = recording.image()
    else:
        element.data = _data(recording)


def _data(recording: Recording) -> tuple[np.ndarray, ...]:
    times, values = recording.lines()
    columns = values.reshape(len(times), -1).T.astype(np.float64)
    return (times.astype(np.float64), *(np.ascontiguousarray(column) for column in columns))
