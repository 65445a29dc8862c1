"""``sensorium fit``: fit a simulated sensor to a real log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

import sensorium as sn
from sensorium.cli.arguments import default
from sensorium.cli.progress import status_progress
from sensorium.errors import OptionError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from rich.table import Table

    from sensorium.fit import Twin, TwinValidation

_POSE = "pose"
_READING = "recognised by name"
_MAX_AXES = 4
"""Axes that are printed one by one."""


@dataclass
class FitSensor:
    """Fit a simulated sensor to a real log.

    Estimates noise, bias, drift, axes, latency, resolution and timing of a real sensor, each with a 95 % interval, and
    writes them as a preset: options of a simulated sensor, for `sn.presets.load` and `--rig`.

    A report compares the simulated sensor with the log, on a part that the fit did not use.

    Logs are HDF5 (.h5, .hdf5), .npz or .csv files, and .mcap files with the extra `ros`. Fields are recognised by
    their names: gyro, imu_gyr, angular_velocity, wx wy wz, ...

    Examples:
        sensorium fit log.h5 --sensor imu --reference pose --out my_imu.yaml --report my_imu.html
        sensorium fit imu.csv --units gyro=deg/s acc=g --reference mocap.csv --report my_imu.pdf
        sensorium fit run1.h5 run2.h5 run3.h5 --out my_imu.yaml
        sensorium fit go2.npz --sensor joint_encoder --out encoder.yaml
        sensorium fit a.h5 --reference pose --test b.h5 --report a_on_b.html
    """

    logs: Annotated[list[Path], tyro.conf.Positional, tyro.conf.arg(help_behavior_hint="(required)", metavar="LOG ...")]
    """Log files. Several logs of one IMU, one per power-up, give the spread of its biases."""
    sensor: Literal["imu", "joint_encoder", "force_torque", "distance", "gps", "barometer", "channel"] = "imu"
    """Kind of sensor."""
    reference: Annotated[tuple[str, ...], default("none: rest only")] = ()
    """What the sensor should have read: `pose` for poses in the log itself (quat, pos), or a file for each log."""
    reference_units: Annotated[tuple[str, ...], default("SI units")] = ()
    """Units of reference files as channel=unit, e.g. pos=mm time=ms."""
    out: Annotated[Path | None, default("no preset")] = None
    """Preset file to write: .yaml."""
    report: Annotated[Path | None, default("no report")] = None
    """Report to write: .html or .pdf. Its figures are also written as PNG files."""
    test: Annotated[Path | None, default("the second half of the log")] = None
    """Another log of the same sensor to compare the twin with; with --reference pose, one that has poses too."""
    validate: bool = True
    """Simulate the twin and compare it with the log, for the report."""
    units: Annotated[tuple[str, ...], default("SI units")] = ()
    """Units of channels as channel=unit, e.g. gyro=deg/s acc=g mag=uT time=ms."""
    fields: Annotated[tuple[str, ...], default(_READING)] = ()
    """Fields of channels as channel=field, e.g. gyro=imu0_w time=stamp."""
    rate: Annotated[float | None, default("from the time stamps")] = None
    """Sample rate in Hz, for logs without time stamps."""
    group: Annotated[str | None, default("all")] = None
    """HDF5 group or MCAP topic of the sensor."""
    channel: Annotated[str | None, default("the only one")] = None
    """Name of the channel, for --sensor channel."""
    quat_order: Literal["wxyz", "xyzw"] = "wxyz"
    """Order of the quaternions of the reference."""

    def run(self) -> int:
        """Fit, print the estimates, and write the files."""
        from rich.console import Console

        self._check()
        reading = self._reading()
        console = Console(soft_wrap=False, markup=False, emoji=False)  # names of users are no markup
        twin = self._fit(reading)
        console.print(_table(twin))
        for reason, names in _unknown(twin).items():
            console.print(f"not identified: {', '.join(names)}: {reason}", highlight=False)
        for problem in twin.problems:
            console.print(f"! {problem} {problem.consequence}".rstrip(), highlight=False)
        if self.out is not None:
            twin.save(self.out)
        compared = self._validate(twin, reading)
        if compared is not None:
            console.print(str(compared), highlight=False)
        written = [] if self.report is None else sn.fit.report(twin, self.report, compared)
        if self.out is not None:
            console.print(f"{self.out}: preset", highlight=False, soft_wrap=True)
        if written:
            console.print(f"{self.report}: report, {len(written) - 1} figures", highlight=False, soft_wrap=True)
        return 0

    def _check(self) -> None:
        if self.out is not None and self.out.suffix not in (".yaml", ".yml"):
            raise OptionError(f"--out must end in .yaml, got {str(self.out)!r}")
        if self.report is not None and self.report.suffix not in (".html", ".pdf"):
            raise OptionError(f"--report must end in .html or .pdf, got {str(self.report)!r}")
        if not self.logs:
            raise OptionError("name the log to fit: sensorium fit log.h5")
        if len(self.logs) > 1 and self.sensor != "imu":
            raise OptionError(f"--sensor {self.sensor} takes one log, got {len(self.logs)}")
        if self.channel is not None and self.sensor != "channel":
            raise OptionError("--channel is for --sensor channel")
        given = self._references()
        if given not in ([], [_POSE]) and len(given) != len(self.logs):
            raise OptionError(f"--reference takes `pose` or one file per log, got {len(given)} for {len(self.logs)}")
        if self.reference_units and given in ([], [_POSE]):
            raise OptionError("--reference-units is for files of --reference; use --units for poses in the log itself")

    def _references(self) -> list[str]:
        return list(self.reference)

    def _reading(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "units": _pairs("--units", self.units),
            "fields": _pairs("--fields", self.fields),
            "rate": self.rate,
            "group": self.group,
        }
        return {name: value for name, value in found.items() if value}

    def _fit(self, reading: dict[str, Any]) -> Twin:
        logs = [sn.fit.as_log(path, **reading) for path in self.logs]
        given = self._references()
        units = _pairs("--reference-units", self.reference_units)
        references: list[Any] = logs if given == [_POSE] else [_known(text, units) for text in given]
        if self.sensor == "imu":
            references = references or [None] * len(logs)
            many = len(logs) > 1
            log, reference = (logs, references) if many else (logs[0], references[0])
            return sn.fit.imu(log, reference, quat_order=self.quat_order)
        options: dict[str, Any] = {"name": self.channel} if self.channel is not None else {}
        if self.sensor == "distance" and not references:
            raise OptionError("--sensor distance needs --reference: the known distance in m, or a log of them")
        return getattr(sn.fit, self.sensor)(logs[0], references[0] if references else None, **options)

    def _validate(self, twin: Twin, reading: dict[str, Any]) -> TwinValidation | None:
        if not self.validate or (self.report is None and self.test is None):
            return None
        if len(self.logs) > 1 and self.test is None:
            return None  # all logs were used in the fit
        with status_progress("comparing the twin with the log", 100) as show:

            def percent(text: str, done: int, total: int) -> None:
                show(100 * done // max(total, 1), text)

            if self.test is None:
                return sn.fit.validate(twin, progress=percent)
            reference: object = self.test if self._references() == [_POSE] else None
            if reference is None and self.reference and isinstance(_known(self.reference[0]), float):
                reference = _known(self.reference[0])  # a constant holds for the other log too
            return sn.fit.validate(twin, self.test, reference, progress=percent, **reading)


def _table(twin: Twin) -> Table:
    """Return what the log identifies, one line per axis."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=f"{twin.kind}: what the log identifies", title_justify="left")
    longest = max((len(name) for name in twin.estimates), default=0)
    table.add_column("parameter", no_wrap=True, min_width=longest)
    table.add_column("estimate", overflow="fold")
    table.add_column("95 % interval", overflow="fold")
    table.add_column("unit", no_wrap=True, min_width=max((len(one.unit) for one in twin.estimates.values()), default=0))
    for one in twin.estimates.values():
        if one.identifiable:
            value, low, high = (_lines(side) for side in (one.value, *one.interval))
            interval = list(map("{} … {}".format, low, high))
            if len(value) > _MAX_AXES:
                value, interval = [_range(one.value)], [f"{len(value)} axes, in the report"]
            elif "  " in value[0]:
                interval = ["in the report", *[""] * (len(value) - 1)]  # that of a matrix is as wide as a terminal
            # one row per axis: an estimate stays beside its interval in a narrow terminal
            rows = list(zip(value, interval, strict=True))
            rows = rows[:1] if len(set(rows)) == 1 else rows  # all axes alike
            for k, row in enumerate(rows):
                table.add_row("" if k else one.name, *row, "" if k else one.unit)
    return table


def _lines(value: ArrayLike) -> list[str]:
    """Return one line of text per axis; a row of a matrix is one line."""
    import numpy as np

    return ["  ".join(f"{one:.4g}" for one in np.atleast_1d(row)) for row in np.atleast_1d(np.asarray(value, float))]


def _range(value: ArrayLike) -> str:
    """Return the smallest and the largest of several values."""
    import numpy as np

    low, high = float(np.nanmin(np.asarray(value))), float(np.nanmax(np.asarray(value)))
    return f"{low:.4g} to {high:.4g}" if high > low else f"{low:.4g}"


def _unknown(twin: Twin) -> dict[str, list[str]]:
    """Return reason -> parameters that the log does not identify."""
    found: dict[str, list[str]] = {}
    for one in twin.estimates.values():
        if not one.identifiable:
            found.setdefault(one.reason, []).append(one.name)
    return found


def _pairs(option: str, given: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise OptionError(f"{option} takes channel=value, e.g. gyro=deg/s, got {text!r}")
        found[name] = value
    return found


def _known(text: str, units: dict[str, str] | None = None) -> object:
    """Return a reference from the command line: a number, the path of a file, or a log in other units than SI."""
    try:
        return float(text)
    except ValueError:
        pass
    if not Path(text).is_file():
        raise OptionError(f"--reference must be `pose` or a file, and there is no file {text!r}")
    return sn.fit.as_log(text, units=units) if units else text
