"""Plots of arrays over time: lines, or an image for many columns, with a mark at the current step."""

from __future__ import annotations

import html
from typing import Any

import numpy as np
import viser

from sensorium.viewer.data_source import PageSource, Series, Texts

_MAX_LINES = 16
"""Maximum number of columns that are drawn as lines."""
_WIDTH, _HEIGHT = 480, 200
"""Size in pixels of an image of many columns; with ground truth there are two."""
_NOW = "#111111"
_LEGEND = "<div style='padding:0.2em 1em 0.6em;font-size:0.75em;line-height:1.5'>{}</div>"


class PlotPanel:
    """Plot of one array in a folder of the panel, with a mark at the current step and its values below.

    Args:
        gui: the panel of a viser server.
        folder: folder of the panel.
    """

    def __init__(self, gui: viser.GuiApi, folder: viser.GuiFolderHandle) -> None:
        self._gui, self._folder = gui, folder
        self._drawn: viser.GuiUplotHandle | viser.GuiImageHandle | None = None
        self._legend: viser.GuiHtmlHandle | None = None
        self.shown: Series | Texts | None = None

    def show(self, shown: Series | Texts) -> None:
        """Plot another array."""
        for element in (self._drawn, self._legend):
            if element is not None:
                element.remove()
        self.shown, self._drawn = shown, None
        with self._folder:
            if isinstance(shown, Series):
                self._drawn = self._add_lines(shown) if _is_lines(shown) else self._add_picture(shown)
            self._legend = self._gui.add_html("")

    def mark(self, step: int, time: float) -> None:
        """Mark a step, at a time in seconds."""
        shown, legend, drawn = self.shown, self._legend, self._drawn
        if isinstance(shown, Texts) and legend is not None:
            text = html.escape(shown.entries[min(step, len(shown.entries) - 1)])
            legend.content = _LEGEND.format(f"<pre style='white-space:pre-wrap;margin:0'>{text}</pre>")
        elif isinstance(shown, Series) and legend is not None and drawn is not None:
            row = int(np.searchsorted(shown.times, time + 1e-9, side="right")) - 1
            if _is_lines(shown):
                drawn.data = _marked(shown, self._range, time)
            else:
                drawn.image = _with_mark(self._picture, shown.times, time)
            legend.content = _LEGEND.format(self._describe(shown, row))

    # -- lines --------------------------------------------------------------------------------------------------------

    def _add_lines(self, shown: Series) -> viser.GuiUplotHandle:
        low, high = _limits(shown)
        margin = 0.05 * (high - low) or 0.5
        self._range = low - margin, high + margin
        series: list[Any] = [{"label": "s"}]
        for column, label in enumerate(shown.labels):
            series.append({"label": label or "measured", "stroke": _colour(column), "width": 1.5})
        if shown.truth is not None:
            dashed = {"label": "truth", "width": 1, "dash": [4, 4]}
            series += [{**dashed, "stroke": _colour(column, dark=True)} for column in range(len(shown.labels))]
        series.append({"label": "now", "stroke": _NOW, "width": 1})
        start, end = float(shown.times[0]), float(shown.times[-1])
        return self._gui.add_uplot(
            _marked(shown, self._range, start),
            tuple(series),
            scales={
                "x": {"time": False, "auto": False, "range": (start, max(end, start + 1e-3))},
                "y": {"auto": False, "range": self._range},
            },
            legend={"show": False},
            aspect=1.6,
        )

    # -- images -------------------------------------------------------------------------------------------------------

    def _add_picture(self, shown: Series) -> viser.GuiImageHandle:
        self._range = _limits(shown)
        self._picture = _picture(shown, *self._range)
        text = "columns over time" if shown.truth is None else "columns over time: measured, ground truth below"
        return self._gui.add_image(self._picture, label=text, format="png")

    def _describe(self, shown: Series, row: int) -> str:
        """Return the current values as HTML, each beside its colour."""
        low, high = self._range
        if not _is_lines(shown):
            return f"{shown.measured.shape[1]} columns, from {low:.4g} (dark) to {high:.4g} (light)"
        parts = []
        for column, label in enumerate(shown.labels):
            value = _number(shown.measured[row, column]) if row >= 0 else "–"
            if shown.truth is not None and row >= 0:
                value += f" ({_number(shown.truth[row, column])})"
            dot = f"<span style='color:{_colour(column)}'>●</span>"
            parts.append(f"<span style='white-space:nowrap'>{dot} {html.escape(label)} <b>{value}</b></span>")
        text = " &nbsp; ".join(parts)
        return text if shown.truth is None else f"{text}<br>in parentheses and dashed: ground truth"


def first_lines(source: PageSource) -> str:
    """Return the name of the array to plot first: the first one with lines, not the image of a lidar."""
    for name in source.names:
        shown = source.series(name)
        if isinstance(shown, Series) and _is_lines(shown):
            return name
    return source.names[0]


def _is_lines(shown: Series) -> bool:
    return shown.measured.shape[1] <= _MAX_LINES


def _number(value: float) -> str:
    return f"{value:.4g}"


def _limits(shown: Series) -> tuple[float, float]:
    """Return the minimum and the maximum of the finite values."""
    both = (shown.measured,) if shown.truth is None else (shown.measured, shown.truth)
    finite = np.concatenate([values[np.isfinite(values)] for values in both])
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)


def _marked(shown: Series, limits: tuple[float, float], time: float) -> tuple[np.ndarray, ...]:
    """Return times, columns and the mark: a line below the visible range with a peak at ``time``."""
    low, high = limits
    below, above = 2 * low - high, 2 * high - low
    at = int(np.searchsorted(shown.times, time, side="right"))
    copied = np.clip(at - 1, 0, len(shown.times) - 1)
    columns = shown.measured if shown.truth is None else np.hstack([shown.measured, shown.truth])
    columns = np.insert(columns, [at] * 3, columns[copied], axis=0)
    columns[~np.isfinite(columns)] = np.nan
    times = np.insert(shown.times, [at] * 3, max(time, float(shown.times[0])))
    now = np.full(len(times), below)
    now[at + 1] = above
    return (times, *np.ascontiguousarray(columns.T), now)


def _picture(shown: Series, low: float, high: float) -> np.ndarray:
    """Return the values as colours, (H, W, 3) uint8: columns from top to bottom, time from left to right."""
    from matplotlib import colormaps

    across = np.linspace(0, len(shown.times) - 1, _WIDTH).round().astype(int)
    count = shown.measured.shape[1]
    down = np.arange(_HEIGHT) * count // _HEIGHT
    halves = []
    for values in (shown.measured,) if shown.truth is None else (shown.measured, shown.truth):
        part = values[np.ix_(across, down)].T
        colours = colormaps["viridis"]((part - low) / max(high - low, 1e-9))[..., :3]
        colours[~np.isfinite(part)] = 1.0
        halves += [(colours * 255).astype(np.uint8), np.full((6, _WIDTH, 3), 255, np.uint8)]
    return np.concatenate(halves[:-1])


def _with_mark(picture: np.ndarray, times: np.ndarray, time: float) -> np.ndarray:
    span = max(float(times[-1] - times[0]), 1e-9)
    at = round(float(np.clip((time - times[0]) / span, 0, 1)) * (_WIDTH - 3))
    marked = picture.copy()
    marked[:, at : at + 3] = (255, 255, 255)
    marked[:, at + 1] = (200, 30, 30)
    return marked


def _colour(column: int, dark: bool = False) -> str:
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    rgb = np.array(colormaps["tab10"](column % 10)[:3])
    return str(to_hex(rgb * (0.6 if dark else 1.0)))
