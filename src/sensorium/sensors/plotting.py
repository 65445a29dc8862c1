"""Plots of readings: measured values beside ground truth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
import torch

from sensorium._arguments import checked
from sensorium.errors import OptionError
from sensorium.files import write_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sensorium.sensors.base import Sensor

_LINES = 12
"""Maximum number of columns of a field that are drawn as lines; fields with more are drawn as an image over time."""


Extent = tuple[float, float, float, float]
"""Left, right, bottom and top of an image."""


class Fields(Protocol):
    """A reading of several fields: a named tuple of tensors."""

    def _asdict(self) -> Mapping[str, torch.Tensor | None]:
        """Return field name -> tensor; None for fields that are not read."""


def fields(reading: torch.Tensor | Fields, env: int) -> dict[str, np.ndarray]:
    """Return field name -> values of one env; a plain tensor is the field "value"."""
    parts: Mapping[str, torch.Tensor | None]
    parts = {"value": reading} if isinstance(reading, torch.Tensor) else reading._asdict()
    return {name: tensor[env].numpy(force=True) for name, tensor in parts.items() if tensor is not None}


def check_env(sensor: Sensor, env: int) -> None:
    """Check that a sensor can be drawn in one env.

    Raises:
        NotBuiltError: the sensor has not been built.
        OptionError: there is no such env.
    """
    if sensor._readings is None:
        sensor._unbuilt("plot")
    if not isinstance(env, int) or not 0 <= env < sensor.group.n_envs:
        raise OptionError(f"env must be an integer in [0, {sensor.group.n_envs}), got {env!r}")


@checked
def plot_reading(sensor: Sensor, env: int = 0, path: str | Path | None = None) -> Figure:
    """Draw the current reading of a sensor in one env beside ground truth, or its history if it keeps one.

    Args:
        sensor: the sensor.
        env: the env.
        path: file to save the figure to. Default: it is only returned.
    """
    check_env(sensor, env)
    measured, truth = fields(sensor.read(), env), fields(sensor.read_ground_truth(), env)
    length = sensor.options.history_length
    many = {name: values[0].size > _LINES if length else values.ndim >= 2 for name, values in measured.items()}
    wide = any(many.values())
    figure, grid = new_figure(len(measured), 2 if wide else 1, sensor.uuid)
    for (name, values), row in zip(measured.items(), grid, strict=True):
        if length and many[name]:
            extent = (-sensor.group.dt * (length - 1), 0.0, 0, values[0].size)
            _pictures(row, values.reshape(length, -1).T[:, ::-1], truth[name].reshape(length, -1).T[:, ::-1], extent)
        elif length:
            times = -sensor.group.dt * np.arange(length)
            _lines(row[0], times, values.reshape(length, -1), truth[name].reshape(length, -1))
        elif many[name]:
            vectors = name in sensor.vector_fields
            _pictures(row, as_image(values, vectors), as_image(truth[name], vectors))
        else:
            _bars(row[0], values.reshape(-1), truth[name].reshape(-1))
        if length:
            row[0].set_xlabel("s before now")
        if wide and not many[name]:
            row[1].set_visible(False)
        row[0].set_ylabel(name)
    return finish_figure(figure, path)


class Trace:
    """Recorder of the readings of sensors in one env over time.

    Call ``take()`` after every step and ``plot()`` at the end.

    Args:
        *sensors: the sensors.
        env: the env.

    Example:
        >>> trace = sn.Trace(imu, touch)
        >>> for _ in range(200):
        ...     scene.step()
        ...     trace.take()
        >>> trace.plot("out/imu.png")
    """

    def __init__(self, *sensors: Sensor, env: int = 0) -> None:
        if not sensors:
            raise OptionError("Trace needs at least one sensor")
        for sensor in sensors:
            check_env(sensor, env)
        self.sensors, self.env = sensors, env
        self.times: list[float] = []
        self._taken: list[list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]] = [[] for _ in sensors]

    def take(self) -> None:
        """Store the current readings and ground truths."""
        self.times.append(float(self.sensors[0].group.world.time[self.env]))
        for sensor, taken in zip(self.sensors, self._taken, strict=True):
            readings = (sensor.read(), sensor.read_ground_truth())
            measured, truth = ({name: a.copy() for name, a in fields(one, self.env).items()} for one in readings)
            taken.append((measured, truth))

    def values(self, sensor: Sensor) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return field name -> (measured, ground truth) of a sensor, each (times, ...).

        Raises:
            OptionError: the sensor is not traced.
        """
        if not any(one is sensor for one in self.sensors):
            raise OptionError(f"{sensor!r} is not traced; traced: {', '.join(one.uuid for one in self.sensors)}")
        taken = self._taken[[one is sensor for one in self.sensors].index(True)]
        names = taken[0][0] if taken else ()
        return {name: (np.stack([m[name] for m, _ in taken]), np.stack([t[name] for _, t in taken])) for name in names}

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw all fields over time: measured as solid lines, ground truth dashed; fields of many columns as images.

        Args:
            path: file to save the figure to. Default: it is only returned.

        Raises:
            OptionError: ``take()`` was never called.
        """
        if not self.times:
            raise OptionError("nothing to plot: call take() after each step")
        panels = [
            (f"{sensor.uuid}\n{name}", *both) for sensor in self.sensors for name, both in self.values(sensor).items()
        ]
        wide = any(measured[0].size > _LINES for _, measured, _ in panels)
        figure, grid = new_figure(len(panels), 2 if wide else 1, "")
        times = np.asarray(self.times)
        for (title, measured, truth), row in zip(panels, grid, strict=True):
            flat, true = measured.reshape(len(times), -1), truth.reshape(len(times), -1)
            if flat.shape[1] <= _LINES:
                _lines(row[0], times, flat, true)
                if wide:
                    row[1].set_visible(False)
            else:
                extent = (times[0], times[-1], 0, flat.shape[1])
                _pictures(row, flat.T, true.T, extent=extent)
            row[0].set_ylabel(title)
        for axes in grid[-1]:
            axes.set_xlabel("s")
        return finish_figure(figure, path)


def new_figure(rows: int, columns: int, title: str) -> tuple[Figure, np.ndarray]:
    """Return a figure and its grid of axes, (rows, columns)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.5 * columns + 2, 1.9 * rows + 0.8), layout="constrained")
    if title:
        figure.suptitle(title)
    return figure, figure.subplots(rows, columns, squeeze=False)


def finish_figure(figure: Figure, path: str | Path | None) -> Figure:
    """Save a figure if there is a path, and return it."""
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_figure(figure, Path(path), dpi=90)
    return figure


def _lines(axes: Axes, times: np.ndarray, measured: np.ndarray, truth: np.ndarray) -> None:
    for column in range(measured.shape[1]):
        colour = f"C{column % 10}"
        axes.plot(times, truth[:, column], "--", color=colour, linewidth=1, alpha=0.7)
        label = "xyz"[column] if measured.shape[1] == 3 else str(column)
        axes.plot(times, measured[:, column], color=colour, linewidth=1.2, label=label)
    if measured.shape[1] > 1:
        axes.legend(fontsize="x-small", loc="upper right", ncols=4)
    axes.grid(alpha=0.3)


def _bars(axes: Axes, measured: np.ndarray, truth: np.ndarray) -> None:
    places = np.arange(len(measured))
    axes.bar(places - 0.2, truth.astype(float), 0.4, color="0.7", label="ground truth")
    axes.bar(places + 0.2, measured.astype(float), 0.4, label="measured")
    axes.legend(fontsize="x-small")
    axes.grid(alpha=0.3, axis="y")


def _pictures(row: Iterable[Axes], measured: np.ndarray, truth: np.ndarray, extent: Extent | None = None) -> None:
    """Draw two images with one colour scale."""
    images = [np.asarray(truth, float), np.asarray(measured, float)]
    finite = np.concatenate([image[np.isfinite(image)] for image in images])
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    for axes, image, title in zip(row, images, ("ground truth", "measured"), strict=True):
        aspect: Literal["auto", "equal"] = (
            "auto" if extent is not None or image.shape[1] > 4 * image.shape[0] else "equal"
        )
        drawn = axes.imshow(
            image, vmin=low, vmax=high, aspect=aspect, origin="lower", extent=extent, interpolation="nearest"
        )
        axes.set_title(title, fontsize="small")
        axes.figure.colorbar(drawn, ax=axes, shrink=0.8)


def as_image(values: np.ndarray, vectors: bool) -> np.ndarray:
    """Return values as an image: the first axis, and all others flattened; vectors along the last axis as lengths."""
    values = values.astype(float)
    if vectors:
        values = np.linalg.norm(values, axis=-1)
    return values.reshape(values.shape[0], -1) if values.ndim > 1 else values[None]
