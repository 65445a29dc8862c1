"""``Estimate``: one fitted parameter with its interval. ``Twin``: all parameters of one sensor, ready for a scene."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from sensorium import _notebook
from sensorium._arguments import checked, checked_numbers
from sensorium.errors import OptionError, did_you_mean
from sensorium.options import checked_integer
from sensorium.pipeline.imperfections import TWINS
from sensorium.sensors.channels import channels, short_forms

if TYPE_CHECKING:
    from sensorium.fit.logs import SensorLog
    from sensorium.fit.problems import Problem

Value = float | np.ndarray
"""A number, one per axis, or a matrix."""
Z = 1.959963984540054
"""Half-width of a 95 % interval of a normal distribution, in standard deviations."""
_HEAD = ("parameter", "estimate", "95 % interval", "unit", "identifiable", "why")
KINDS = {
    "imu": ("sensorium.sensors.robot.imu", "IMU"),
    "joint_encoder": ("sensorium.sensors.robot.joint_encoder", "JointEncoder"),
    "force_torque": ("sensorium.sensors.robot.force_torque", "ForceTorque"),
    "gps": ("sensorium.sensors.robot.gps", "GPS"),
    "barometer": ("sensorium.sensors.robot.barometer", "Barometer"),
    "magnetometer": ("sensorium.sensors.robot.magnetometer", "Magnetometer"),
    "raycaster": ("sensorium.sensors.rays.raycaster", "Raycaster"),
    "lidar": ("sensorium.sensors.rays.raycaster", "Lidar"),
    "depth_camera": ("sensorium.sensors.rays.depth_camera", "DepthCamera"),
    "channel": ("sensorium.pipeline.imperfections", "AxisImperfections"),
}
"""Kind of a twin -> module and name of the options that :meth:`Twin.options` returns."""
_ONE_NUMBER = ("rate", "delay", "jitter", "dropout", "drift_time", "outliers", "bandwidth", "temperature")
"""Options that take one number, not one per axis."""
_FIXED = ("rate", "saturation", "resolution", "filter_order", "max_delay")
"""Options that :meth:`Twin.sample` does not vary: properties of the electronics, equal in all specimens."""
_MAX_ENVS = 2**24
"""Max number of envs of :meth:`Twin.sample`."""
_LATENCY = ("delay", "jitter")
_TIMING = ("rate", "jitter", "dropout")
"""Options that do not depend on the unit of the readings."""
_PREFIXES = {"joint_pos": "", "joint_vel": "vel", "pressure": "", "distance": "", "pos": ""}
"""Channel of a log -> channel of the options, where their names differ; "" is the sensor itself."""
_SIGNED = ("bias", "scale_error", "misalignment", "temperature_drift")
"""Options that may be negative. Spreads of the others are drawn from a log-normal distribution."""


@dataclass(frozen=True)
class Estimate:
    """One fitted parameter.

    ``value`` is a float, one number per axis (n,), or a matrix (3, 3). ``interval`` is (low, high) of the same shape,
    at 95 %. If the log does not identify the parameter, ``value`` is NaN, or an upper bound, and ``reason`` says why,
    and what to record instead.

    Example:
        >>> density = twin.estimates["gyro.noise_density"]
        >>> density.value, density.interval, density.identifiable
    """

    name: str
    """``channel.parameter``, or ``parameter`` for the sensor as a whole. Names of options are spelled as they are."""
    value: Value
    interval: tuple[Value, Value]
    unit: str
    identifiable: bool = True
    reason: str = ""

    @classmethod
    @checked
    def normal(cls, name: str, value: ArrayLike, std: ArrayLike, unit: str, reason: str = "") -> Estimate:
        """Return an estimate with a symmetric interval of 1.96 standard deviations."""
        value, std = checked_numbers("value", value), checked_numbers("std", std)
        return cls(name, _plain(value), (_plain(value - Z * std), _plain(value + Z * std)), unit, True, reason)

    @classmethod
    @checked
    def positive(cls, name: str, value: ArrayLike, relative_std: ArrayLike, unit: str, reason: str = "") -> Estimate:
        """Return an estimate of a positive parameter, with the interval of a log-normal distribution."""
        value, factor = checked_numbers("value", value), np.exp(Z * checked_numbers("relative_std", relative_std))
        return cls(name, _plain(value), (_plain(value / factor), _plain(value * factor)), unit, True, reason)

    @classmethod
    @checked
    def missing(cls, name: str, unit: str, reason: str, shape: tuple[int, ...] = ()) -> Estimate:
        """Return an estimate that the log does not identify: NaN in an unlimited interval."""
        if not isinstance(shape, tuple):
            raise OptionError(f"shape must be a tuple of sizes, got {shape!r:.80}")
        value, low, high = (_plain(np.full(shape, one)) for one in (np.nan, -np.inf, np.inf))
        return cls(name, value, (low, high), unit, False, reason)

    @classmethod
    @checked
    def at_most(cls, name: str, bound: ArrayLike, unit: str, reason: str) -> Estimate:
        """Return an upper bound (95 %) of a parameter that the log does not identify."""
        bound = checked_numbers("bound", bound)
        return cls(name, _plain(bound), (_plain(np.zeros_like(bound)), _plain(bound)), unit, False, reason)

    @property
    def std(self) -> np.ndarray:
        """Half-width of the interval over 1.96: the standard error, in the shape of the value."""
        low, high = np.asarray(self.interval[0], float), np.asarray(self.interval[1], float)
        return (high - low) / (2 * Z)


def _plain(value: np.ndarray) -> Value:
    """Return a float for an array without axes, else the array."""
    return float(value) if value.ndim == 0 else value


@dataclass
class Twin:
    """A sensor fitted to a log: estimates with intervals, and the options of a sensor that reads like it.

    Example:
        >>> twin = sn.fit.imu(log, reference=pose)
        >>> print(twin)
        >>> imu = scene.add_sensor(twin.options(link="torso"))
        >>> imu.set(**twin.sample(envs=4096))
    """

    kind: str
    """Kind of sensor, a key of ``KINDS``: "imu", "joint_encoder", ..."""
    estimates: dict[str, Estimate]
    problems: list[Problem] = field(default_factory=list)
    """What is wrong with the log, and what to record instead."""
    provenance: dict[str, Any] = field(default_factory=dict)
    """Where the figures come from: hash and length of the log, version, date, settings."""
    log: SensorLog | None = None
    reference: object = None
    settings: dict[str, Any] = field(default_factory=dict)
    """Options that are chosen, not estimated, e.g. ``filter_order``."""

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(file=io.StringIO(), width=160, highlight=False)
        console.print(self.table())
        for problem in self.problems:
            console.print(str(problem), markup=False)
        return console.file.getvalue()  # type: ignore[attr-defined]

    def __rich__(self) -> Any:
        return self.table()

    def _repr_html_(self) -> str:
        html = _notebook.heading(f"{self.kind}: fitted parameters") + _notebook.table(_HEAD, self._rows())
        rows = [(str(problem),) for problem in self.problems]
        return html + (_notebook.table(("problems of the log",), rows) if rows else "")

    def _rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the rows of the table: one per parameter, with one line per axis."""
        for one in self.estimates.values():
            bound = "≤ " if not one.identifiable and bool(np.isfinite(one.value).all()) else ""
            lines = list(zip(*(_lines(side) for side in (one.value, *one.interval)), strict=True))
            lines = lines[:1] if len(set(lines)) == 1 else lines  # all axes alike
            value = "\n".join(bound + line[0] for line in lines)
            interval = "\n".join(f"{line[1]} … {line[2]}" for line in lines)
            yield one.name, value, interval, one.unit, "yes" if one.identifiable else "no", one.reason

    def table(self) -> Any:
        """Return the estimates as a :class:`rich.table.Table`, one line per axis."""
        from rich.table import Table
        from rich.text import Text

        table = Table(title=f"{self.kind}: fitted parameters", title_justify="left")
        for name in _HEAD:
            table.add_column(name, no_wrap=name in ("parameter", "unit"), ratio=3 if name == "why" else None)
        for row in self._rows():
            table.add_row(*map(Text, row))  # names of users are no markup
        return table

    def options(self, **placement: Any) -> Any:
        """Return the options of a sensor with these imperfections, e.g. :class:`sn.IMU`.

        Memory is allocated for every delay that :meth:`sample` can draw (``max_delay``).

        Args:
            **placement: where the sensor is (``link``, ``pos``, ...), and options that replace fitted ones.

        Raises:
            OptionError: an option is missing or not allowed.

        Example:
            >>> scene.add_sensor(twin.options(link="torso", pos=(0, 0, 0.1)))
        """
        fitted = self.imperfections()
        for name in placement:
            last = self._field(name)
            fitted.pop(name, None)
            fitted.pop(name.removesuffix(last) + TWINS.get(last, last), None)
        if "max_delay" in fitted:  # a latency that was given may be longer than the fitted one
            late = [placement.get(name, fitted.get(name, 0.0)) for name in _LATENCY]
            late = [one for one in late if isinstance(one, Real)]  # the options refuse others
            fitted["max_delay"] = max(fitted["max_delay"], float(sum(late)))
        return self.options_type()(**fitted, **placement)

    def imperfections(self) -> dict[str, Any]:
        """Return option -> value of everything that the log identifies, in the short form (``gyro_bias``).

        Values are numbers and tuples, as YAML holds them. A latency that is not known but must not be shorter than the
        jitter is set to the jitter.
        """
        found: dict[str, Any] = {}
        for name, one in self._fitted().items():
            found[name] = _option_value(self._field(name), one.value)
        for name in list(found):
            last = self._field(name)
            if last in ("noise", "bias_instability") and name.removesuffix(last) + TWINS[last] in found:
                del found[name]  # the density and the Gauss-Markov drift say more
        fields = self.options_type().model_fields  # a single channel has no filter_order: the sensor has it
        found |= {name: value for name, value in self.settings.items() if name in fields}
        if found.get("jitter", 0) > found.get("delay", 0):
            found["delay"] = found["jitter"]
        if "delay" in found and "max_delay" in fields:
            spread = 5 * sum(float(np.mean(one.std)) for name, one in self._fitted().items() if name in _LATENCY)
            found["max_delay"] = found["delay"] + found.get("jitter", 0.0) + spread
        return found

    def sample(self, envs: int, seed: int = 0) -> dict[str, torch.Tensor]:
        """Return parameters drawn from the fitted spread, one row per env, for ``sensor.set(**parameters)``.

        Biases have the spread between runs where several logs were given, else that of their interval. Parameters
        that cannot be negative are drawn from log-normal distributions. Rate, resolution and saturation are the same
        in all envs and are not returned.

        Args:
            envs: number of envs.
            seed: seed of the random generator.

        Returns:
            Option -> (envs, axes) or (envs, 1), and (envs, 3, 3) for axis matrices; float64.

        Raises:
            OptionError: ``envs`` is not an integer >= 1, or ``seed`` not one >= 0.

        Example:
            >>> imu.set(**twin.sample(envs=scene.n_envs, seed=1))
        """
        envs = checked_integer("Twin.sample: envs", envs, 1, _MAX_ENVS)
        rng, kept, result = np.random.default_rng(checked_integer("Twin.sample: seed", seed)), self.imperfections(), {}
        for name, one in self._fitted().items():
            last = self._field(name)
            if name not in kept or last in _FIXED:
                continue
            value, std = np.asarray(kept[name], float), np.broadcast_to(one.std, np.shape(one.value))
            std = np.asarray(std.mean() if value.ndim == 0 else std)
            normal = rng.standard_normal((envs, *value.shape))
            if last in _SIGNED:
                drawn = value + std * normal
            else:
                safe = np.where(value > 0, value, 1.0)
                drawn = value * np.exp(np.minimum(std / safe, 1.0) * normal)
            result[name] = drawn.reshape(envs, -1) if value.ndim < 2 else drawn
        self._keep_possible(result, kept)
        return {name: torch.as_tensor(value) for name, value in result.items()}

    @checked
    def save(self, path: str | Path) -> Path:
        """Write a preset with its provenance, which ``sn.presets.load(path)`` reads.

        Raises:
            OptionError: ``path`` does not end in .yaml.
            DatasetError: the file cannot be written.

        Example:
            >>> twin.save("my_imu.yaml")
        """
        from sensorium.fit import preset_file

        return preset_file.save(self, Path(path))

    def _keep_possible(self, drawn: dict[str, np.ndarray], kept: Mapping[str, Any]) -> None:
        """Limit parameters to what the sensor accepts: probabilities, jitter below delay, both below max_delay."""
        for name in drawn:
            if self._field(name) in ("outliers", "dropout"):
                drawn[name] = np.minimum(drawn[name], 1.0)
        if "delay" in drawn:
            drawn["delay"] = np.minimum(drawn["delay"], kept["max_delay"] - kept.get("jitter", 0.0))
        if "jitter" in drawn:
            delay = drawn.get("delay", np.full((1, 1), kept["delay"]))
            drawn["jitter"] = np.minimum(np.minimum(drawn["jitter"], delay), kept["max_delay"] - delay)

    def options_type(self) -> Any:
        """Return the class of the options, e.g. :class:`sn.IMU`."""
        if self.kind not in KINDS:
            raise OptionError(f"Twin.kind: there is no kind {self.kind!r}{did_you_mean(self.kind, KINDS)}")
        module, name = KINDS[self.kind]
        return getattr(import_module(module), name)

    def _field(self, option: str) -> str:
        """Return the field of an option in short form: "noise" for "gyro_noise"."""
        form = short_forms(self.options_type()).get(option)
        return form.field if form else option

    def _fitted(self) -> dict[str, Estimate]:
        """Return option in short form -> estimate, for what is identifiable and an option of the sensor."""
        kind = self.options_type()
        fields, parts = kind.model_fields, channels(kind)
        unavailable = getattr(kind, "unavailable", {})
        blocked = {_PREFIXES.get(one.blocks, one.blocks) for one in self.problems if one.blocks}
        if "time" in blocked:
            return {}
        if self.kind == "channel" and blocked:
            blocked.add("")
        found = {}
        for name, one in self.estimates.items():
            channel, _, last = name.rpartition(".")
            known = last in fields if not channel else channel in parts and last in parts[channel].model_fields
            usable = channel not in blocked or name in _TIMING
            if one.identifiable and known and name not in unavailable and usable:
                found[f"{channel}_{last}" if channel else last] = one
        return found


def _option_value(last: str, value: Value) -> Any:
    """Return a value as options take it: a number, or nested tuples; an open side of a range is None."""
    array = np.asarray(value, float)
    if last == "saturation":
        return tuple(float(side) if np.isfinite(side) else None for side in array)
    if last in _ONE_NUMBER:
        return float(array.mean())
    if array.ndim == 2:
        return tuple(tuple(float(one) for one in row) for row in array)
    return float(array) if array.ndim == 0 else tuple(float(one) for one in array)


def _lines(value: Value) -> list[str]:
    """Return one line of text per axis; a row of a matrix is one line."""
    array = np.asarray(value, float)
    return [" ".join(f"{one:.5g}" for one in np.atleast_1d(row)) for row in np.atleast_1d(array)]
