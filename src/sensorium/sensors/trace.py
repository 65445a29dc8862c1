"""``Trace``: readings of sensors over time, and their plot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sensorium.errors import OptionError
from sensorium.sensors.plotting import FigureRow, Lines, check_env, draw_rows, field_tensors, over_time
from sensorium.sensors.value_log import ValueLog

if TYPE_CHECKING:
    import torch
    from matplotlib.figure import Figure

    from sensorium.sensors.base import Sensor


class Trace:
    """Recorder of the readings of sensors in one env over time.

    Call ``take()`` after every step and ``plot()`` at the end. On a GPU ``take()`` does not wait: the values stay on
    the device until :meth:`values` or :meth:`plot` reads them.

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
        for each in sensors:
            if not hasattr(type(each), "read_ground_truth"):
                raise OptionError(f"Trace: sensors must be sensors, as scene.add_sensor returns, got {each!r:.80}")
        if not sensors:
            raise OptionError("Trace needs at least one sensor")
        for sensor in sensors:
            check_env(sensor, env)
        self.sensors, self.env = sensors, env
        self._log = ValueLog()
        self._fields: list[tuple[int, bool, str]] = []

    def take(self) -> None:
        """Store the current readings and ground truths. Does not wait for a GPU."""
        values: list[torch.Tensor] = []
        fields = []
        for number, sensor in enumerate(self.sensors):
            for is_truth, reading in enumerate((sensor.read(), sensor.read_ground_truth())):
                for name, value in field_tensors(reading, self.env).items():
                    values.append(value)
                    fields.append((number, bool(is_truth), name))
        self._log.add([self.sensors[0].group.world.time[self.env], *values])
        self._fields = fields

    @property
    def times(self) -> list[float]:
        """Simulated seconds at each ``take()``."""
        return [float(time) for time in self._log.column(0)]

    def _arrays(self, sensor: Sensor) -> list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
        """Return field name -> values, measured and true, at each time."""
        number = [one is sensor for one in self.sensors].index(True)
        found: list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]] = [({}, {}) for _ in range(len(self._log))]
        for place, (owner, is_truth, name) in enumerate(self._fields, start=1):
            if owner == number:
                for both, value in zip(found, self._log.column(place), strict=True):
                    both[is_truth][name] = value
        return found

    def values(self, sensor: Sensor) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return field name -> (measured, ground truth) of a sensor, each (times, ...).

        Raises:
            OptionError: the sensor is not traced.
        """
        if not any(one is sensor for one in self.sensors):
            raise OptionError(f"{sensor!r} is not traced; traced: {', '.join(one.uuid for one in self.sensors)}")
        taken = self._arrays(sensor)
        names = taken[0][0] if taken else ()
        return {name: (np.stack([m[name] for m, _ in taken]), np.stack([t[name] for _, t in taken])) for name in names}

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw all fields over time: measured as solid lines, ground truth dashed, with names and units.

        Sensors that see space (cameras, lidars, tactile arrays) are drawn as pictures of their last reading, with the
        mean size of their error over time, if there is any.

        Args:
            path: file to save the figure to. Default: it is only returned.

        Raises:
            OptionError: ``take()`` was never called.
        """
        if not len(self._log):
            raise OptionError("nothing to plot: call take() after each step")
        rows = [row for sensor in self.sensors for row in self._rows(sensor)]
        return draw_rows(rows, path)

    def _rows(self, sensor: Sensor) -> list[FigureRow]:
        """Return the rows of a figure that show one sensor."""
        times = np.asarray(self.times)
        taken = self._arrays(sensor)
        length = sensor.options.history_length
        newest = [(_newest(measured), _newest(truth)) for measured, truth in taken] if length else taken
        panels = [*sensor._plotted_pictures(*newest[-1])]
        if not panels:
            both = {name: ([m[name] for m, _ in newest], [t[name] for _, t in newest]) for name in newest[0][0]}
            found = [over_time(sensor, name, times, np.stack(m), np.stack(t)) for name, (m, t) in both.items()]
            return [FigureRow(sensor.uuid if i == 0 else "", panel) for i, panel in enumerate(found)]
        sizes = [[_mean_size(one.error()) for one in sensor._plotted_pictures(*pair)] for pair in newest]
        rows = [FigureRow(sensor.uuid if i == 0 else "", panel) for i, panel in enumerate(panels)]
        titles = [panel.title for panel in panels]
        for number, panel in enumerate(panels):
            if number > titles.index(panel.title):  # another picture of the same values
                continue
            label = f"mean |error| of\n{panel.title}, {panel.error_unit}".removesuffix(", ")
            values = np.array([[row[number]] for row in sizes])
            if np.nan_to_num(values).any():
                rows.append(FigureRow("", Lines(label, times, values, None, [panel.title])))
        return rows


def _newest(windows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the newest reading of a history."""
    return {name: values[0] for name, values in windows.items()}


def _mean_size(error: np.ndarray) -> float:
    """Return the mean size of an error, NaN if there is none."""
    finite = np.abs(error[np.isfinite(error)])
    return float(finite.mean()) if finite.size else float("nan")
