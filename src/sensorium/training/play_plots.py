"""``ReadingPlots``: plots of what a policy measures and of the truth, over the last seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from sensorium.robots import Robot
from sensorium.sensors.plotting import column_names, field_label

HEIGHT, WIDTH = 480, 640
"""Size of the plots in pixels."""
MAX_PLOTS = 4
"""Maximum number of readings that are plotted."""
_SHOWN = 3
"""Components of a reading that are plotted."""
_SECONDS = 3.0
"""Time that the plots show."""


class ReadingLabel(NamedTuple):
    """What a plot says of its reading."""

    title: str
    """Name of the reading, with its unit."""
    names: Sequence[str]
    """Names of its components."""


def sensor_label(robot: Robot, uuid: str, part: str, shape: tuple[int, ...]) -> ReadingLabel:
    """Return the label of a reading of a sensor of a robot's rig.

    Args:
        robot: the robot, in a built scene.
        uuid: name of the sensor.
        part: field of the reading, "" if it is one tensor.
        shape: its shape in one env.
    """
    sensor, field = robot.rig[uuid], part or "value"
    names = [name.removeprefix(f"{robot.name}/") for name in column_names(sensor, field, shape)]
    unit = sensor.units.get(field)
    title = f"{uuid} {field_label(sensor, part)}" if part else f"{uuid}, {unit}" if unit else uuid
    return ReadingLabel(title, names)


class ReadingPlots:
    """Plots of the last seconds of the readings of one env, one below the other.

    Args:
        labels: a label for each reading, at most :data:`MAX_PLOTS`.
        dt: time between readings, s.
    """

    def __init__(self, labels: Sequence[ReadingLabel], dt: float) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self._dt, self._rows = dt, deque[list[np.ndarray]](maxlen=max(2, round(_SECONDS / dt)))
        figure = Figure((WIDTH / 100, HEIGHT / 100), dpi=100, layout="constrained")
        self._canvas = FigureCanvasAgg(figure)
        self._axes = figure.subplots(max(1, len(labels)), 1, sharex=True, squeeze=False)[:, 0]
        self._lines = []
        for (title, all_names), axes in zip(labels, self._axes, strict=False):
            names = all_names[:_SHOWN]
            axes.set_title(title, fontsize=9, loc="left", y=1.0)  # otherwise ticks could move it out of the image
            axes.set_xlim(-_SECONDS, 0)
            axes.set_ylim(-1.2402e-5, -1.2398e-5)  # the layout has room for labels of ticks such as "-1.24e-05"
            axes.yaxis.set_major_formatter("{x:.4g}")  # without a common offset or exponent
            axes.tick_params(labelsize=7)
            colours = [f"C{number}" for number in range(len(names))]
            self._lines.append(
                [(axes.plot([], [], c, lw=1)[0], axes.plot([], [], c, ls="--", lw=1)[0]) for c in colours]
            )
            for place, (name, colour) in enumerate(zip(reversed(names), reversed(colours), strict=True)):
                axes.text(1 - 0.2 * place, 1.03, name, color=colour, fontsize=7, ha="right", transform=axes.transAxes)
        self._axes[-1].set_xlabel("time from now, s (lines: measured, dashed: true)", fontsize=8)
        self._canvas.draw()
        figure.set_layout_engine("none")  # which is found once; it takes longer than all the rest

    def add(self, readings: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """Add the readings of a step: measured and true, (B, ...), for each label. Env 0 is plotted."""
        self._rows.append([torch.stack(pair)[:, 0].flatten(1)[:, :_SHOWN].float().numpy() for pair in readings])

    def draw(self) -> np.ndarray:
        """Return the plots as an image, (480, 640, 3) uint8."""
        times = self._dt * (np.arange(len(self._rows)) - len(self._rows) + 1)
        for number, (axes, lines) in enumerate(zip(self._axes, self._lines, strict=False)):
            values = np.stack([row[number] for row in self._rows])
            for column, pair in enumerate(lines[: values.shape[2]]):
                for kind, line in enumerate(pair):
                    line.set_data(times, values[:, kind, column])
            low, high = float(values.min()), float(values.max())
            margin = 0.05 * (high - low) or 0.05 * abs(high) or 1e-3
            axes.set_ylim(low - margin, high + margin)
        self._canvas.draw()
        return np.asarray(self._canvas.buffer_rgba())[:, :, :3].copy()
