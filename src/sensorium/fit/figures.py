"""Figures of a fitted sensor and its validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from sensorium.fit.allan import allan_deviation
from sensorium.fit.comparison import MotionComparison, RestComparison
from sensorium.fit.field_names import axis_name, si_unit
from sensorium.fit.logs import SensorLog
from sensorium.fit.rest import rest_segments

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sensorium.fit.estimate import Twin

COLOURS = ("C3", "C2", "C0")
"""Colours of the axes x, y, z."""
NAMES = {
    "gyro": "Gyroscope",
    "acc": "Accelerometer",
    "mag": "Magnetometer",
    "pos": "Position",
    "vel": "Velocity",
    "joint_pos": "Joint positions",
    "joint_vel": "Joint velocities",
}
MAX_AXES = 6
"""Max axes that figures of comparisons show."""
_MAX_POINTS = 4000
"""Max points of a line, to keep files small."""


CAPTIONS = {
    "log": "Readings of the log. Grey: parts in which the sensor is at rest.",
    "estimates": "Noise density and bias with 95 % intervals.",
    "allan": "Allan deviation of the rest of the log. Shaded: 95 % intervals.",
    "rest": "Shaded: 95 % interval of the log's Allan deviation.",
    "motion": "The twin follows the reference. A reference that is smoothed has no motion above its cut-off frequency: "
    "there the log has more power than the twin.",
}
"""Kind of figure -> what it shows."""


def caption_of(name: str) -> str:
    """Return the caption of a figure: of "rest" for "gyro_rest"."""
    return CAPTIONS.get(name.rpartition("_")[2], "")


def title_of(channel: str) -> str:
    """Return the name of a channel in titles."""
    return NAMES.get(channel, channel.replace("_", " ").capitalize())


def draw_log(log: SensorLog, channels: list[str], units: Mapping[str, str] | None) -> Figure:
    """Draw the readings of a log over time, with its rest segments shaded."""
    figure, rows = _figure(len(channels), 1, 1.9)
    rest = rest_segments(log)
    for axes, channel in zip(rows, channels, strict=True):
        values = log.channels[channel]
        every = slice(None, None, max(1, len(log) // _MAX_POINTS))
        for k, column in enumerate(values.T[:12]):
            axes.plot(
                log.time[every],
                column[every],
                color=_colour(k, values),
                linewidth=0.6,
                label=axis_name(channel, k, values.shape[1]),
            )
        for run in rest:
            axes.axvspan(log.time[run.start], log.time[run.stop - 1], color="0.9", zorder=0)
        axes.set_ylabel(f"{title_of(channel)}\n{_unit(channel, units)}")
        axes.margins(x=0)
        if 1 < values.shape[1] <= MAX_AXES:
            axes.legend(loc="upper right", ncols=values.shape[1], fontsize=7)
    rows[0].set_title("The log; grey: at rest" if rest else "The log")
    rows[-1].set_xlabel("time in s")
    return figure


def draw_allan(log: SensorLog, channels: list[str], units: Mapping[str, str] | None) -> Figure | None:
    """Draw the Allan deviation of the rest segments of a log, with 95 % intervals; None without rest."""
    rest = rest_segments(log, 2.0)
    if not rest:
        return None
    figure, columns = _figure(1, len(channels), 3.6)
    for axes, channel in zip(columns, channels, strict=True):
        curve = allan_deviation(np.nan_to_num(log.channels[channel]), log.rate, rest)
        for k in range(min(MAX_AXES, curve.deviation.shape[1])):
            colour, label = _colour(k, curve.deviation), axis_name(channel, k, curve.deviation.shape[1])
            axes.fill_between(curve.tau, curve.low[:, k], curve.high[:, k], color=colour, alpha=0.2, linewidth=0)
            axes.loglog(curve.tau, curve.deviation[:, k], color=colour, label=label)
        _label_allan(axes, channel, units)
        if curve.deviation.shape[1] > 1:
            axes.legend(fontsize=7)
    return figure


def draw_rest(channel: str, found: RestComparison, units: Mapping[str, str] | None = None) -> Figure:
    """Draw log and twin at rest: Allan deviation, spectrum, histogram, autocorrelation."""
    figure, (allan, spectrum, histogram, correlation) = _figure(2, 2, 3.0)
    unit, shown = _unit(channel, units), min(MAX_AXES, found.log_allan.shape[1])
    for k in range(shown):
        colour, name = _colour(k, found.log_allan), axis_name(channel, k, found.log_allan.shape[1])
        allan.fill_between(found.tau, found.log_low[:, k], found.log_high[:, k], color=colour, alpha=0.15, linewidth=0)
        allan.loglog(found.tau, found.log_allan[:, k], color=colour, label=f"log {name}")
        allan.loglog(found.tau, found.twin_allan[:, k], color=colour, linestyle="--", label=f"twin {name}")
        smooth = _bins(found.frequency, found.log_density[:, k]), _bins(found.frequency, found.twin_density[:, k])
        spectrum.loglog(*smooth[0], color=colour)
        spectrum.loglog(*smooth[1], color=colour, linestyle="--")
        correlation.plot(1e3 * found.lags, found.log_correlation[:, k], color=colour)
        correlation.plot(1e3 * found.lags, found.twin_correlation[:, k], color=colour, linestyle="--")
        _draw_histogram(histogram, found, k)
    _label_allan(allan, channel, units)
    allan.legend(fontsize=7, ncols=min(shown, 3))
    spectrum.set(xlabel="frequency in Hz", ylabel=f"{unit} per √Hz", title="Spectrum")
    histogram.ticklabel_format(style="sci", scilimits=(-2, 3))
    histogram.set(xlabel=f"reading minus mean in {unit}", ylabel="density", title="Histogram")
    both = np.concatenate([found.log_correlation, found.twin_correlation])
    limits = min(-0.3, 1.1 * float(both.min())), max(0.3, 1.1 * float(both.max()))
    correlation.set(xlabel="lag in ms", ylabel="autocorrelation", title="Autocorrelation", ylim=limits)
    figure.suptitle(f"{title_of(channel)} {found.what}: log (solid) and twin (dashed){_first(found.log_allan)}")
    return figure


def draw_motion(channel: str, found: MotionComparison, units: Mapping[str, str] | None = None) -> Figure:
    """Draw log and twin in motion: two seconds of readings, residuals over time, spectra."""
    figure, (zoom, residual, spectrum, scatter) = _figure(2, 2, 3.0)
    rate = 1 / float(np.median(np.diff(found.time)))
    window = _busiest(found.log, max(int(2 * rate), 50))
    gap, raw = found.log - found.twin, found.log - found.ideal
    unit, shown = _unit(channel, units), min(MAX_AXES, found.log.shape[1])
    every = slice(None, None, max(1, len(found.time) // _MAX_POINTS))
    for k in range(shown):
        colour, name = _colour(k, found.log), axis_name(channel, k, found.log.shape[1])
        log, twin = found.log[window, k], found.twin[window, k]
        zoom.plot(found.time[window], log, color=colour, linewidth=1.6, alpha=0.5, label=f"log {name}")
        zoom.plot(found.time[window], twin, color=colour, linestyle="--", linewidth=0.9)
        label = "" if k else "ideal sensor"
        residual.plot(found.time[every], raw[every, k], color="0.75", linewidth=0.5, label=label)
    for k in range(shown):
        colour, name = _colour(k, found.log), axis_name(channel, k, found.log.shape[1])
        residual.plot(found.time[every], gap[every, k], color=colour, linewidth=0.5, label=f"twin {name}")
        scatter.plot(found.twin[every, k], gap[every, k], ".", color=colour, markersize=1)
    for density, style, label in (
        (found.log_density, "-", "log"),
        (found.twin_density, "--", "twin"),
        (found.residual_density, ":", "log minus twin"),
    ):
        total = np.sqrt(np.mean(density**2, axis=1))
        spectrum.loglog(*_bins(found.frequency, total), linestyle=style, color="k", label=label)
    zoom.set(xlabel="time in s", ylabel=unit, title="Readings: log (solid), twin (dashed)")
    for axes in (zoom, residual):
        axes.locator_params(axis="x", nbins=5)
    if shown > 1:
        zoom.legend(fontsize=7, loc="upper right")
    residual.set(xlabel="time in s", ylabel=unit, title="Log minus prediction")
    residual.legend(fontsize=7, loc="upper right", ncols=2)
    spectrum.set(xlabel="frequency in Hz", ylabel=f"{unit} per √Hz", title="Spectrum, all axes")
    spectrum.legend(fontsize=7)
    scatter.set(xlabel=f"twin in {unit}", ylabel=f"log minus twin in {unit}", title="Residual over signal")
    figure.suptitle(f"{title_of(channel)} in motion{_first(found.log)}")
    return figure


def draw_estimates(twin: Twin, channels: dict[str, str]) -> Figure | None:
    """Draw the estimates of noise density and bias with their intervals; None if there are none.

    ``channels`` has the prefix of the estimates of each channel.
    """
    shown = [
        (channel, name)
        for channel, prefix in channels.items()
        for name in ("noise_density", "bias")
        if f"{prefix}{name}" in twin.estimates and twin.estimates[f"{prefix}{name}"].identifiable
    ]
    if not any(np.size(twin.estimates[f"{channels[channel]}{name}"].value) > 1 for channel, name in shown):
        return None
    figure, columns = _figure(1, len(shown), 2.4)
    for axes, (channel, name) in zip(columns, shown, strict=True):
        one = twin.estimates[f"{channels[channel]}{name}"]
        value = np.atleast_1d(np.asarray(one.value, float))
        low, high = (np.atleast_1d(np.asarray(side, float)) for side in one.interval)
        for k in range(len(value)):
            bars = np.array([[value[k] - low[k]], [high[k] - value[k]]])
            axes.errorbar([k], [value[k]], yerr=np.maximum(bars, 0), fmt="o", color=_colour(k, value[None]), capsize=4)
        axes.set_xticks(range(len(value)), [axis_name(channel, k, len(value)) for k in range(len(value))])
        axes.set_xlim(-0.5, len(value) - 0.5)
        axes.set_title(f"{title_of(channel)}\n{name.replace('_', ' ')} in {one.unit}", fontsize=8)
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3))
    return figure


def _figure(rows: int, columns: int, height: float) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure as MatplotlibFigure

    figure = MatplotlibFigure(figsize=(9.0, height * rows + 0.4), layout="constrained")
    found = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    for axes in found:
        axes.tick_params(labelsize=8)
        axes.grid(True, linewidth=0.3)
    return figure, list(found)


def _label_allan(axes: Axes, channel: str, units: Mapping[str, str] | None) -> None:
    axes.set(
        xlabel="averaging time in s",
        ylabel=_unit(channel, units),
        title=f"Allan deviation: {title_of(channel).lower()}",
    )


def _draw_histogram(axes: Axes, found: RestComparison, k: int) -> None:
    """Draw the histograms of one axis; bins are a multiple of the step of the readings, about a fifth of the spread."""
    spread, step = float(found.log_values[:, k].std()) or 1e-12, float(found.step[k])
    width = max(1, round(spread / 5 / step)) * step if step > 0 else spread / 5
    edges = np.arange(-5 * spread - width / 2, 5 * spread + width, width)
    for values, style in ((found.log_values, "-"), (found.twin_values, "--")):
        # readings are spread over their step: the mean, which is subtracted, is not a multiple of it
        even = np.random.default_rng(0).uniform(-0.5, 0.5, len(values)) * found.step[k]
        count, _ = np.histogram(values[:, k] + even, edges, density=True)
        axes.stairs(count, edges, color=_colour(k, found.log_values), linestyle=style)


def _bins(frequency: np.ndarray, density: np.ndarray, count: int = 80) -> tuple[np.ndarray, np.ndarray]:
    """Return a spectrum in logarithmic bins, without the mean and the end, where the window of Welch's method leaks."""
    frequency, density = frequency[:-4], density[:-4]
    edges = np.geomspace(frequency[1], frequency[-1], count)
    place = np.digitize(frequency[1:], edges)
    used = np.unique(place)
    centre = np.array([frequency[1:][place == one].mean() for one in used])
    return centre, np.array([np.sqrt(np.mean(density[1:][place == one] ** 2)) for one in used])


def _busiest(values: np.ndarray, size: int) -> slice:
    power = np.r_[0.0, np.cumsum(np.sum((values - values.mean(axis=0)) ** 2, axis=1))]
    size = min(size, len(values))
    start = int(np.argmax(power[size:] - power[: len(power) - size]))
    return slice(start, start + size)


def _unit(channel: str, units: Mapping[str, str] | None) -> str:
    return ((units or {}).get(channel) or si_unit(channel)).replace("^2", "²") or "reading"


def _colour(k: int, values: np.ndarray) -> str:
    return COLOURS[k] if values.shape[-1] == 3 else f"C{k % 10}"


def _first(values: np.ndarray) -> str:
    count = values.shape[-1]
    return f"; the first {MAX_AXES} of {count} axes" if count > MAX_AXES else ""
