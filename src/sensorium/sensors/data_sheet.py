"""Figures of data sheets: the pipeline's parameters that follow from noise density, bandwidth and bias instability.

Noise density acts before the low-pass filter. With a bandwidth that ticks can represent, it becomes noise at the input
of the filter, in every tick. Without one, it becomes noise per sample. A bias instability becomes a Gauss-Markov drift
(``allan.py``), which depends on the noise. So a change of one option can change several parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch

from sensorium.errors import OptionError
from sensorium.pipeline.filters import is_filtered, noise_bandwidth, noise_gain
from sensorium.pipeline.parameters import broadcast, check
from sensorium.sensors.allan import drift_of_floor, is_hidden
from sensorium.worlds import upload

FIELDS = ("noise", "noise_density", "bandwidth", "drift", "drift_time", "bias_instability")
"""Fields of :class:`~sensorium.pipeline.Imperfections` that are converted together, for each channel."""
_CONVERTED = {"noise_density": "noise", "bias_instability": "drift"}
"""Figure of a data sheet -> the field that sets the same parameter directly."""

Values = Mapping[str, torch.Tensor]
"""Field -> value, (1, axes) or (B, axes). Figures are NaN in envs where the other field of the pair was set last."""


class Channel(NamedTuple):
    """Options of one channel that are converted."""

    names: Mapping[str, str]
    """Field -> name of the option, e.g. "noise" -> "acc_noise"; fields that the sensor does not have are missing."""
    n_columns: int


@dataclass(frozen=True)
class DataSheet:
    """What the options of one sensor say about its noise and drift, the same in all envs or per env."""

    owner: str
    """Name of the options class, for error messages."""
    n_envs: int
    default_rate: float
    """Sample rate of a sensor without the option ``rate``, Hz."""
    tick_rate: float
    """Ticks per second: the rate at which filters run, and the highest sample rate, Hz."""
    filter_order: int
    channels: tuple[Channel, ...]
    rates: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    """Sample rates, Hz, (1, 1) or (B, 1)."""
    known: tuple[Values, ...] = ()
    """Values of each channel; fields that were never set are missing."""

    def changed(self, parameters: Mapping[str, Any], index: torch.Tensor | None) -> tuple[dict[str, Any], DataSheet]:
        """Return the parameters of the pipeline that ``set(**parameters)`` in the envs ``index`` implies.

        Args:
            parameters: option -> value.
            index: which envs, (n,); None for all.

        Returns:
            Option -> value as the pipeline takes it, and the new state. ``noise_density`` is then the noise before the
            filter in every tick, and ``drift`` the standard deviation of the drift.

        Raises:
            OptionError: a value is not allowed, or noise hides a bias instability.
        """
        rates = self.rates if len(self.rates) else torch.full((1, 1), self.default_rate).double()
        if "rate" in parameters:
            given = self.default_rate if parameters["rate"] is None else parameters["rate"]
            values = broadcast(f"{self.owner}.rate", given, 1, self._count(index)).T
            rates = self._put(rates, values.clamp(1e-9, self.tick_rate), index)
        result, states = dict(parameters), []
        for channel, old in zip(self.channels, self.known or [{}] * len(self.channels), strict=True):
            given = {name: parameters[option] for name, option in channel.names.items() if option in parameters}
            new = self._updated(channel, old, given, index)
            states.append(new)
            for figure in _CONVERTED.keys() & given.keys():
                del result[channel.names[figure]]
            found = self._converted(channel, old, new, given.keys() | (parameters.keys() & {"rate"}), rates, index)
            result |= {channel.names[name]: value for name, value in found.items()}
        return result, replace(self, rates=rates, known=tuple(states))

    def spreads(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return the standard deviations of the noise of one sample, and of the drift, per channel: (axes,) each.

        Noise before the filter counts with what the filter passes. All envs must have the same values.
        """
        found = []
        for channel, known in zip(self.channels, self.known, strict=True):
            values = _complete(known, self.rates)
            noise, before_filter, white = self._noise(values)
            passed = noise_gain(values["bandwidth"], self.filter_order, 1 / self.tick_rate)
            total = (noise**2 + before_filter**2 * passed).sqrt()
            drift = self._drift(channel, values, white)
            found.append((total.expand(1, channel.n_columns)[0], drift.expand(1, channel.n_columns)[0]))
        return found

    def _updated(
        self, channel: Channel, old: Values, given: Mapping[str, Any], index: torch.Tensor | None
    ) -> dict[str, torch.Tensor]:
        """Return the values of a channel after ``given`` were set."""
        new = dict(old)
        for name in (one for one in FIELDS if one in given):  # figures after what they replace
            option = f"{self.owner}.{channel.names[name]}"
            value = 0.0 if given[name] is None else given[name]
            values = check(option, broadcast(option, value, channel.n_columns, self._count(index)), lower=0.0).T
            if given[name] is None and name in _CONVERTED:
                new[_CONVERTED[name]] = self._put(new.get(_CONVERTED[name]), values, index)
                self._unset(new, name, index)
                continue
            new[name] = self._put(new.get(name), values, index)
            for figure, direct in _CONVERTED.items():
                if name == direct:
                    self._unset(new, figure, index)
        return new

    def _unset(self, values: dict[str, torch.Tensor], figure: str, index: torch.Tensor | None) -> None:
        if index is None:
            values.pop(figure, None)
        elif figure in values:
            values[figure] = self._put(values[figure], torch.full((1, 1), torch.nan).double(), index)

    def _converted(
        self,
        channel: Channel,
        old: Values,
        new: Values,
        given: set[str],
        rates: torch.Tensor,
        index: torch.Tensor | None,
    ) -> dict[str, torch.Tensor]:
        """Return field -> value of the parameters to write in the envs ``index``, (axes,) or (n, axes)."""
        filtered = "bandwidth" in channel.names and ("bandwidth" in old or "bandwidth" in new)
        has_density = "noise_density" in old or "noise_density" in new
        of_noise = given & {"noise", "noise_density", *(("rate", "bandwidth") if has_density else ())}
        of_drift = given & {"drift", "bias_instability"}
        if "bias_instability" in new:
            of_drift |= given & {"noise", "noise_density", "bandwidth", "rate", "drift_time"}
        if not of_noise and not of_drift:
            return {}
        values = _together({name: _pick(one, index) for name, one in _complete(new, rates).items()})
        noise, before_filter, white = self._noise(values)
        found: dict[str, torch.Tensor] = {}
        if of_noise:
            found["noise"] = noise
            if filtered and has_density:
                found["noise_density"] = before_filter
        if of_drift:
            found["drift"] = self._drift(channel, values, white)
        return {name: _row(value.expand(-1, channel.n_columns)) for name, value in found.items()}

    def _noise(self, values: Values) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the noise per sample, the noise before the filter per tick, and the Allan deviation at 1 s of both."""
        density, bandwidth, rate = values["noise_density"], values["bandwidth"], values["rate"]
        dt, order = 1 / self.tick_rate, self.filter_order
        by_density, filtered = ~density.isnan(), is_filtered(bandwidth, dt)
        density = density.nan_to_num()
        # a bandwidth that is too high for ticks lets noise from above half the sample rate through as well
        unfiltered = torch.where(bandwidth > 0, noise_bandwidth(bandwidth, order), rate / 2).sqrt() * density
        noise = torch.where(by_density, torch.where(filtered, 0.0, unfiltered), values["noise"])
        before_filter = torch.where(by_density & filtered, density * (self.tick_rate / 2) ** 0.5, 0.0)
        # samples at less than twice the bandwidth fold noise down to low frequencies
        folded = before_filter**2 * noise_gain(bandwidth, order, dt) / rate
        white = torch.where(filtered & by_density, torch.maximum(density**2 / 2, folded), noise**2 / rate)
        return noise, before_filter, white.sqrt()

    def _drift(self, channel: Channel, values: Values, white: torch.Tensor) -> torch.Tensor:
        """Return the standard deviation of the drift."""
        if "bias_instability" not in values:
            return values["drift"]
        floor, time, white = torch.broadcast_tensors(values["bias_instability"], values["drift_time"], white)
        if floor.device.type == "cpu":
            hidden = is_hidden(floor, white, time)
            if bool(hidden.any()):
                at = hidden.flatten().nonzero()[0, 0]
                b, n, t = (float(one.flatten()[at]) for one in (floor, white, time))
                figure, longer = (channel.names[name] for name in ("bias_instability", "drift_time"))
                raise OptionError(
                    f"{self.owner}.{figure}={b:g} is hidden by white noise, which falls to it only after averaging for "
                    f"{(n / b) ** 2:.3g} s, while {longer} is {t:g} s; raise {longer} to at least "
                    f"{4 * (n / b) ** 2:.2g} s, or lower the noise"
                )
        return torch.where(floor.isnan(), values["drift"], drift_of_floor(floor, white, time).nan_to_num())

    def _count(self, index: torch.Tensor | None) -> int:
        return self.n_envs if index is None else len(index)

    def _put(self, old: torch.Tensor | None, new: torch.Tensor, index: torch.Tensor | None) -> torch.Tensor:
        if index is None:
            return new
        old = torch.full((1, 1), torch.nan).double() if old is None else old
        full = upload(old, index.device).expand(self.n_envs, max(old.shape[1], new.shape[1])).clone()
        full[index] = upload(new, index.device).expand(-1, full.shape[1])
        return full


def _complete(known: Values, rates: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the values of a channel with those of fields that were never set, and the sample rates."""
    missing = {"noise": 0.0, "noise_density": torch.nan, "bandwidth": 0.0, "drift": 0.0, "drift_time": 100.0}
    return {name: torch.full((1, 1), value).double() for name, value in missing.items()} | dict(known) | {"rate": rates}


def _pick(values: torch.Tensor, index: torch.Tensor | None) -> torch.Tensor:
    return values if index is None or len(values) == 1 else values[upload(index, values.device)]


def _together(values: Values) -> dict[str, torch.Tensor]:
    """Upload all tensors to the GPU if one is there: copying it to the host would synchronise."""
    device = next((one.device for one in values.values() if one.device.type != "cpu"), torch.device("cpu"))
    return {name: upload(one, device) for name, one in values.items()}


def _row(values: torch.Tensor) -> torch.Tensor:
    """Return one value per axis if all envs have the same."""
    return values[0] if len(values) == 1 else values
