"""``fit.channel``: imperfections of any array of readings, with or without a reference of the same quantity."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

import numpy as np

from sensorium.errors import OptionError, shorten
from sensorium.fit import latency
from sensorium.fit.bandwidth import bandwidth
from sensorium.fit.calibration import Calibration, Expectation
from sensorium.fit.checks import check, check_ratio
from sensorium.fit.estimate import Estimate, Twin
from sensorium.fit.logs import LogSource, SensorLog, as_log
from sensorium.fit.problems import Problem
from sensorium.fit.provenance import provenance
from sensorium.fit.reading import LogReading
from sensorium.fit.response import KnownSignal, Response, fit_response, known_signal
from sensorium.fit.rest import rest_segments
from sensorium.fit.static import StaticFit, static_fit
from sensorium.fit.timing import chance_of_repeat, dropout, timing


def unlimited(values: np.ndarray, static: StaticFit) -> np.ndarray:
    """Return readings with NaN where they are at a limit or inside of a dead band, so that they are not compared."""
    found = {one.name.rpartition(".")[2]: one for one in static.estimates}
    hidden = np.zeros(values.shape, bool)
    if found["saturation"].identifiable:
        (_, high), (low, _) = (np.asarray(side) for side in found["saturation"].interval)
        hidden |= (values <= low) | (values >= high)
    if "deadband" in found and found["deadband"].identifiable:
        hidden |= values == 0
    return np.where(hidden, np.nan, values)


class ChannelFit:
    """Estimates of the channels of one log, for sensors whose reference is the measured quantity itself."""

    def __init__(self, log: SensorLog, max_lag: float = 0.5) -> None:
        self.log, self.max_lag = log, max_lag
        self.estimates: dict[str, Estimate] = {}
        self.settings: dict[str, object] = {}
        self.problems: list[Problem] = []
        self.add(*timing(log.time))
        rate = self.estimates["rate"]
        self.rate = float(rate.value) if rate.identifiable else log.rate

    def add(self, *estimates: Estimate) -> None:
        """Keep estimates under their names."""
        self.estimates |= {one.name: one for one in estimates}

    def fit(
        self, channel: str, prefix: str, unit: str, known: KnownSignal | None, matrix: str, constant: bool = False
    ) -> StaticFit:
        """Fit one channel.

        Noise and drift come from the residuals against an exact reference, else from rest periods.

        Args:
            channel: name of the channel in the log.
            prefix: prefix of the estimates, e.g. "force.".
            unit: unit of the readings.
            known: the reference.
            matrix: "full" for an axis matrix (``misalignment``), "diagonal" for ``scale_error``.
            constant: whether the true value is constant in the whole log.
        """
        values = self.log.need(channel)
        still = [slice(0, len(values))] if constant else rest_segments(self.log, channels=[channel])
        static = static_fit(prefix, values, self.rate, still, unit)
        if known is not None:
            self.problems += check_ratio(channel, values, known.expected(self.log.time))
            values = unlimited(values, static)
            noise = static.noise if static.rest.white else None
            found = fit_response(self.log, values, known, self.rate, matrix, noise, self.max_lag)
            if found.calibration is not None and known.exact:
                static = self._from_residuals(values, found.expected, found.calibration, prefix, unit, static)
            self.add(*static.estimates)
            self._band(found, prefix, unit, known.exact)
            self._against(found.calibration, prefix, unit, matrix, static, bool(np.isfinite(found.bandwidth)))
        else:
            self.add(*static.estimates)
            self._without_reference(prefix, unit, values.shape[1], matrix)
        if self.estimates[f"{prefix}bandwidth"].identifiable:
            self.settings["filter_order"] = static.order
        self.add(dropout("dropout", values, chance_of_repeat(values, static.parts)))
        return static

    def _from_residuals(
        self, values: np.ndarray, expected: Expectation, fit: Calibration, prefix: str, unit: str, static: StaticFit
    ) -> StaticFit:
        """Return noise and drift of the readings minus the model; step and limits are those of the readings."""
        signal = expected(self.log.time - fit.delay)
        rest = values - signal @ fit.matrix.T
        good = np.isfinite(rest).all(axis=1)
        edges = np.flatnonzero(np.diff(np.concatenate([[0], good.astype(int), [0]])))
        parts = [slice(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
        fresh = static_fit(prefix, rest, self.rate, parts, unit, steps=static.steps)
        return replace(fresh, estimates=static.readings + fresh.others)

    def _band(self, found: Response, prefix: str, unit: str, exact: bool) -> None:
        """Add the bandwidth. Noise that the filter of the response did not pass acts behind it: ``noise``."""
        by_noise, density = self.estimates[f"{prefix}bandwidth"], self.estimates[f"{prefix}noise_density"]
        self.add(bandwidth(f"{prefix}bandwidth", by_noise, found.bandwidth, found.log_std, exact, self.rate))
        if self.estimates[f"{prefix}bandwidth"].identifiable and not by_noise.identifiable and density.identifiable:
            factor = np.sqrt(self.rate / 2)
            low, high = (factor * one for one in density.interval)
            self.add(Estimate(f"{prefix}noise", factor * density.value, (low, high), unit, True, "per sample"))
            reason = "the noise is white although the response is not: it acts behind the filter, see noise"
            self.add(replace(density, identifiable=False, reason=reason))

    def _against(
        self, fit: Calibration | None, prefix: str, unit: str, matrix: str, static: StaticFit, filtered: bool
    ) -> None:
        axes = len(static.steps)
        if fit is None:
            self._without_reference(prefix, unit, axes, matrix)
            return
        late = latency.delay(f"{prefix}delay", fit.delay, fit.delay_std if fit.explained > 0.3 else np.inf, self.rate)
        band = self.estimates[f"{prefix}bandwidth"]
        if band.identifiable and late.identifiable and not filtered:
            share, share_std = latency.filter_delay(band, static.order)
            error = float(np.hypot(fit.delay_std, share_std))
            without = latency.delay(f"{prefix}delay", fit.delay - share, error, self.rate)
            late = latency.with_filter(without, fit.delay, share)
        self.add(late)
        self.add(self._bias(fit, prefix, unit, static))
        shown = fit.explained > 0.3 and bool((fit.matrix_std > 0).any())
        if matrix == "full" and axes == 3:
            name, value, std = f"{prefix}misalignment", fit.matrix, fit.matrix_std
        else:
            name, value, std = f"{prefix}scale_error", np.diag(fit.matrix) - 1, np.diag(fit.matrix_std)
        if shown:
            self.add(Estimate.normal(name, value, std, ""))
        else:
            reason = "the true value hardly changes; record several values"
            self.add(Estimate.missing(name, "", reason, np.shape(value)))

    def _bias(self, fit: Calibration, prefix: str, unit: str, static: StaticFit) -> Estimate:
        """Return the bias; with drift it is the level of the residuals by generalised least squares."""
        found, name, reason = static.level(), f"{prefix}bias", "against the reference"
        if found is None or static.rest.drift is None or static.rest.drift.kind == "none":
            return Estimate.normal(name, fit.bias, fit.bias_std, unit, reason)
        if static.rest.drift.kind == "walk":
            return Estimate.normal(name, *found, unit, f"{reason}, at the start of the log")
        return Estimate.normal(name, found[0], np.maximum(found[1], fit.bias_std), unit, reason)

    def _without_reference(self, prefix: str, unit: str, axes: int, matrix: str) -> None:
        reason = "needs a reference of the same quantity"
        self.add(Estimate.missing(f"{prefix}delay", "s", latency.NO_REFERENCE))
        self.add(Estimate.missing(f"{prefix}bias", unit, reason, (axes,)))
        if matrix == "full" and axes == 3:
            self.add(Estimate.missing(f"{prefix}misalignment", "", reason, (3, 3)))
        else:
            self.add(Estimate.missing(f"{prefix}scale_error", "", reason, (axes,)))

    def sensor_delay(self, prefixes: list[str]) -> None:
        """Add the latency of the sensor: that of the channel that shows it best."""
        known = [self.estimates[f"{one}delay"] for one in prefixes if self.estimates[f"{one}delay"].identifiable]
        if not known:
            self.add(Estimate.missing("delay", "s", self.estimates[f"{prefixes[0]}delay"].reason))
            return
        best = min(known, key=lambda one: float(one.std))
        if best.value < -float(best.std) * 2:
            reason = f"readings are {-1e3 * best.value:.3g} ms early: the clocks of log and reference differ"
            self.add(Estimate.missing("delay", "s", reason))
            return
        self.add(Estimate("delay", max(best.value, 0.0), best.interval, "s", True, best.reason))

    def twin(self, kind: str, reference: object, **settings: object) -> Twin:
        """Return the twin."""
        problems = list(dict.fromkeys([*self.log.problems, *check(self.log, None, kind), *self.problems]))
        origin = provenance(self.log, None, **settings)
        return Twin(kind, self.estimates, problems, origin, self.log, reference, dict(self.settings))


def channel(
    log: LogSource,
    reference: object = None,
    *,
    name: str | None = None,
    unit: str = "",
    matrix: str = "diagonal",
    smooth: bool = False,
    max_lag: float = 0.5,
    **reading: Unpack[LogReading],
) -> Twin:
    """Fit the imperfections of one channel of any sensor.

    Args:
        log: arrays or a file, as :func:`as_log` takes them.
        reference: true values: an array at the time stamps of the log, one value, or a log of its own.
        name: channel of the log. Default: the only one.
        unit: unit of the readings, for the table.
        matrix: "diagonal" fits a scale per axis, "full" an axis matrix of three axes.
        smooth: whether the reference is noisy, so that it passes a smoothing spline. Default: it is exact.
        max_lag: largest latency that is searched for, s.
        **reading: ``fields``, ``units``, ``rate`` and ``group`` of :func:`as_log`.

    Returns:
        The twin; ``twin.options()`` returns :class:`sn.AxisImperfections`.

    Raises:
        OptionError: the log or the reference cannot be used, or ``name`` is missing.

    Example:
        >>> twin = sn.fit.channel({"time": time, "level": readings}, reference=true_level, unit="m")
        >>> twin.options().noise_density
    """
    source = as_log(log, **reading)
    if name is None:
        if len(source.channels) != 1:
            raise OptionError(f"fit.channel: name one of the channels {shorten(source.channels)} (name=...)")
        name = next(iter(source.channels))
    values = source.need(name)
    known = None if reference is None else known_signal(reference, source, name, values.shape[1], smooth)
    fit = ChannelFit(source, max_lag)
    fit.fit(name, "", unit, known, matrix)
    fit.sensor_delay([""])
    return fit.twin("channel", reference, name=name, unit=unit, matrix=matrix, smooth=smooth, max_lag=max_lag)
