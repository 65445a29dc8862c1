"""Arrays over time in a panel: lines, or a picture where there are many columns; and where in them the page is."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from sensorium.viewer.data_source import Series, Texts

_LINES = 16
"""Columns up to which an array is drawn as lines."""
_WIDTH, _HEIGHT = 480, 200
"""Pixels of a picture of many columns, of one of its halves."""
_NOW = "#111111"
_LEGEND = "<div style='padding:0.2em 1em 0.6em;font-size:0.75em;line-height:1.5'>{}</div>"


class PlotPanel:
    """One array in a folder of the panel, with a mark at the present step, and the values there below it."""

    def __init__(self, gui: Any, folder: Any) -> None:
        self._gui, self._folder = gui, folder
        self._drawn: Any = None
        self._legend: Any = None
        self.shown: Series | Texts | None = None

    def show(self, shown: Series | Texts) -> None:
        """Draw another array."""
        for element in (self._drawn, self._legend):
            if element is not None:
                element.remove()
        self.shown, self._drawn = shown, None
        with self._folder:
            if isinstance(shown, Series):
                self._drawn = self._add_lines(shown) if _is_lines(shown) else self._add_picture(shown)
            self._legend = self._gui.add_html("")

    def mark(self, step: int, time: float) -> None:
        """Show where the page is."""
        shown = self.shown
        if isinstance(shown, Texts):
            said = html.escape(shown.said[min(step, len(shown.said) - 1)])
            self._legend.content = _LEGEND.format(f"<pre style='white-space:pre-wrap;margin:0'>{said}</pre>")
        elif shown is not None:
            row = int(np.searchsorted(shown.times, time + 1e-9, side="right")) - 1
            if _is_lines(shown):
                self._drawn.data = _marked(shown, self._range, time)
            else:
                self._drawn.image = _with_mark(self._picture, shown.times, time)
            self._legend.content = _LEGEND.format(self._describe(shown, row))

    # -- lines --------------------------------------------------------------------------------------------------------

    def _add_lines(self, shown: Series) -> Any:
        low, high = _limits(shown)
        room = 0.05 * (high - low) or 0.5
        self._range = low - room, high + room
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

    # -- pictures -----------------------------------------------------------------------------------------------------

    def _add_picture(self, shown: Series) -> Any:
        self._range = _limits(shown)
        self._picture = _picture(shown, *self._range)
        text = "columns over time" if shown.truth is None else "columns over time: measured, ground truth below"
        return self._gui.add_image(self._picture, label=text, format="png")

    def _describe(self, shown: Series, row: int) -> str:
        """The values now, each beside its colour."""
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
        return text if shown.truth is None else f"{text}<br>in brackets and dashed: ground truth"


def _is_lines(shown: Series) -> bool:
    return shown.measured.shape[1] <= _LINES


def _number(value: float) -> str:
    return f"{value:.4g}"


def _limits(shown: Series) -> tuple[float, float]:
    """The least and the greatest value."""
    both = (shown.measured,) if shown.truth is None else (shown.measured, shown.truth)
    finite = np.concatenate([values[np.isfinite(values)] for values in both])
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)


def _marked(shown: Series, limits: tuple[float, float], time: float) -> tuple[np.ndarray, ...]:
    """Times, columns, and the mark: a line that runs below what can be seen, and once up and down, at ``time``."""
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
    """Columns from top to bottom, time from left to right, as colours, (H, W, 3) uint8."""
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
