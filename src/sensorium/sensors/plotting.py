"""Plots of readings: measured values beside ground truth, with names and units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import torch

from sensorium._arguments import checked
from sensorium.errors import OptionError
from sensorium.figure_files import write_figure
from sensorium.sensors.pictures import ImagePair, Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sensorium.sensors.base import Sensor

MAX_LINES = 12
"""Maximum number of columns of a field that are drawn as lines or bars."""
_WIDTH = 10.0
"""Width of a figure, inches."""
_IMAGE_WIDTH = 2.45
"""Width of one image of three in a row, inches."""


class Fields(Protocol):
    """A reading of several fields: a named tuple of tensors."""

    def _asdict(self) -> Mapping[str, torch.Tensor | None]:
        """Return field name -> tensor; None for fields that are not read."""


class Lines(NamedTuple):
    """A panel of lines over time: measured solid, ground truth dashed."""

    label: str
    times: np.ndarray
    measured: np.ndarray
    """(n, columns)."""
    truth: np.ndarray | None
    names: Sequence[str]
    time_label: str = "time, s"


class Bars(NamedTuple):
    """A panel of bars, one pair for each column."""

    label: str
    measured: np.ndarray
    truth: np.ndarray
    names: Sequence[str]


class FigureRow(NamedTuple):
    """One row of a figure."""

    title: str
    """Sensor, in the first of its rows; otherwise ""."""
    panel: Lines | Bars | Picture

    @property
    def height(self) -> float:
        """Height of the row, inches."""
        if isinstance(self.panel, Lines | Bars):
            return 2.0
        return float(np.clip(_IMAGE_WIDTH * self.panel.aspect, 0.9, 4.0)) + 0.7


def fields(reading: torch.Tensor | Fields, env: int) -> dict[str, np.ndarray]:
    """Return field name -> values of one env; a plain tensor is the field "value"."""
    return {name: tensor.numpy(force=True) for name, tensor in field_tensors(reading, env).items()}


def field_tensors(reading: torch.Tensor | Fields, env: int) -> dict[str, torch.Tensor]:
    """Return field name -> values of one env, as views on the device."""
    parts: Mapping[str, torch.Tensor | None]
    parts = {"value": reading} if isinstance(reading, torch.Tensor) else reading._asdict()
    return {name: tensor[env] for name, tensor in parts.items() if tensor is not None}


def check_env(sensor: Sensor, env: int) -> None:
    """Check that a sensor can be drawn in one env.

    Raises:
        NotBuiltError: the sensor has not been built.
        OptionError: there is no such env.
    """
    if sensor._readings is None:
        sensor._unbuilt("plot")
    if type(env) is not int or not 0 <= env < sensor.group.n_envs:
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
    own, true = ({name: values[0] if length else values for name, values in one.items()} for one in (measured, truth))
    panels: list[Lines | Bars | Picture] = [*sensor._plotted_pictures(own, true)]
    if not panels and length:
        times = -sensor.group.dt * np.arange(length)
        for name, values in measured.items():
            panels.append(over_time(sensor, name, times, values, truth[name], "time before now, s"))
    elif not panels:
        panels = [_reading(sensor, name, values, truth[name]) for name, values in measured.items()]
    return draw_rows([FigureRow(sensor.uuid if i == 0 else "", panel) for i, panel in enumerate(panels)], path)


def over_time(
    sensor: Sensor, name: str, times: np.ndarray, measured: np.ndarray, truth: np.ndarray, label: str = "time, s"
) -> Lines | ImagePair:
    """Return the panel of a field over time: lines, or an image of many columns.

    Args:
        sensor: the sensor.
        name: the field.
        times: (n,) s, rising or falling.
        measured: (n, ...).
        truth: (n, ...).
        label: label of the time axis.
    """
    flat, true = measured.reshape(len(times), -1), truth.reshape(len(times), -1)
    names = column_names(sensor, name, measured.shape[1:])
    if flat.shape[1] <= MAX_LINES:
        return Lines(field_label(sensor, name), times, flat, true, names, label)
    order = np.argsort(times)
    return ImagePair(
        _plain(name),
        sensor._plotted_unit(name),
        true[order].T.astype(float),
        flat[order].T.astype(float),
        extent=(float(times.min()), float(times.max()) + 1e-9, 0, flat.shape[1]),
        labels=(label, "column"),
        top_row_first=False,
        names=tuple(names) if len(names) <= 40 and not names[0].isdigit() else (),
        stretch=True,
    )


def _reading(sensor: Sensor, name: str, measured: np.ndarray, truth: np.ndarray) -> Bars | ImagePair:
    if measured.size <= MAX_LINES:
        names = column_names(sensor, name, measured.shape)
        return Bars(field_label(sensor, name), measured.reshape(-1), truth.reshape(-1), names)
    vectors = name in sensor.vector_fields
    true, seen = as_image(truth, vectors), as_image(measured, vectors)
    return ImagePair(_plain(name), sensor._plotted_unit(name), true, seen, stretch=len(true) == 1)


def field_label(sensor: Sensor, name: str) -> str:
    """Return the label of an axis for a field, with its unit: "lin_acc, m/s²"."""
    unit = sensor._plotted_unit(name)
    return f"{_plain(name)}, {unit}" if unit and name != "value" else unit or _plain(name)


def column_names(sensor: Sensor, name: str, shape: Sequence[int]) -> list[str]:
    """Return a name for each column of a field of a shape; numbers where the sensor has no names."""
    count = int(np.prod(shape, dtype=int))
    names = [str(each) for each in sensor._plotted_names(name)]
    return names if len(names) == count else [str(i) for i in range(count)]


def _plain(name: str) -> str:
    return "reading" if name == "value" else name


# -- drawing -----------------------------------------------------------------------------------------------------------


def draw_rows(rows: Sequence[FigureRow], path: str | Path | None) -> Figure:
    """Draw rows below each other, save the figure if there is a path, and return it."""
    from matplotlib.figure import Figure

    heights = [row.height for row in rows]
    figure = Figure(figsize=(_WIDTH, sum(heights) + 0.3), layout="constrained")
    grid = figure.add_gridspec(len(rows), 3, height_ratios=heights)
    for number, row in enumerate(rows):
        if isinstance(row.panel, Lines | Bars):
            first = figure.add_subplot(grid[number, :])
            if isinstance(row.panel, Lines):
                _lines(first, row.panel)
            else:
                _bars(first, row.panel)
        else:
            cells = np.array([figure.add_subplot(grid[number, column]) for column in range(3)], dtype=object)
            row.panel.draw(cells)
            first = cells[0]
        below = rows[number + 1].panel if number + 1 < len(rows) else None
        if isinstance(row.panel, Lines) and isinstance(below, Lines) and row.panel.time_label == below.time_label:
            first.set_xlabel("")  # the panel below has the same time axis
        if row.title:
            above = 6 if isinstance(row.panel, Lines | Bars) else 22 + 13 * first.get_title().count("\n")
            first.annotate(
                row.title, (0, 1), (0, above), xycoords="axes fraction", textcoords="offset points", weight="bold"
            )  # above the titles of its axes
    return finish_figure(figure, path)


def finish_figure(figure: Figure, path: str | Path | None) -> Figure:
    """Save a figure if there is a path, and return it."""
    if path is not None:
        write_figure(figure, Path(path), dpi=100)
    return figure


def _lines(axes: Axes, panel: Lines) -> None:
    count = panel.measured.shape[1]
    switches = panel.measured.dtype == bool
    style: dict[str, Any] = {"drawstyle": "steps-post"} if switches else {}
    for column in range(count):
        colour = _colour(column, count)
        name = panel.names[column] if count > 1 else "measured"
        axes.plot(panel.times, panel.measured[:, column], color=colour, linewidth=1.2, label=name, **style)
    for column in range(count if panel.truth is not None else 0):
        assert panel.truth is not None
        dark = "0.15" if count == 1 else tuple(0.55 * part for part in _colour(column, count)[:3])
        values = panel.truth[:, column]
        axes.plot(panel.times, values, "--", color=dark, linewidth=1, label="_truth", **style)
    if switches:
        axes.set_yticks([0, 1], ["off", "on"])
    if panel.truth is not None:
        _legend(axes, count)
    else:
        axes.set_ylim(bottom=0.0)  # sizes of errors
    axes.set_xlabel(panel.time_label, fontsize="small")
    axes.set_ylabel(panel.label, fontsize="small")
    axes.tick_params(labelsize="small")
    axes.margins(x=0.01)
    axes.grid(alpha=0.3)


def _legend(axes: Axes, count: int) -> None:
    """Add a legend beside the axes, where it covers no curve: the columns, and which line is the truth."""
    from matplotlib.lines import Line2D

    handles: list[Any] = axes.get_legend_handles_labels()[0]
    if count > 1:
        handles = [*handles, Line2D([], [], color="0.4", linewidth=1.2, label="measured")]
    handles = [*handles, Line2D([], [], color="0.15", linestyle="--", linewidth=1, label="ground truth")]
    axes.legend(handles=handles, fontsize="x-small", loc="upper left", bbox_to_anchor=(1.005, 1.02), frameon=False)


def _colour(column: int, count: int) -> tuple[float, ...]:
    from matplotlib import colormaps

    return tuple(colormaps["tab10" if count <= 10 else "tab20"](column % 20 if count > 10 else column % 10))


def _bars(axes: Axes, panel: Bars) -> None:
    places = np.arange(len(panel.measured))
    axes.bar(places - 0.2, panel.truth.astype(float), 0.4, color="0.7", label="ground truth")
    axes.bar(places + 0.2, panel.measured.astype(float), 0.4, color="C3", label="measured")
    axes.legend(fontsize="x-small", loc="upper left", bbox_to_anchor=(1.005, 1.02), frameon=False)
    axes.set_xticks(places, panel.names if len(places) > 1 else [""])
    axes.set_ylabel(panel.label, fontsize="small")
    axes.tick_params(labelsize="small")
    axes.grid(alpha=0.3, axis="y")


def as_image(values: np.ndarray, vectors: bool) -> np.ndarray:
    """Return values as an image: the first axis, and all others flattened; vectors along the last axis as lengths."""
    values = values.astype(float)
    if vectors:
        values = np.linalg.norm(values, axis=-1)
    return values.reshape(values.shape[0], -1) if values.ndim > 1 else values[None]
