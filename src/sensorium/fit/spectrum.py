"""White-noise density and bandwidth of readings at rest, by the Whittle likelihood of their spectrum.

The readings have a spectrum (Welch's method) whose bins are nearly independent, with a χ² distribution around the
spectrum of the model: density² |H(f)|² plus the floor of the quantisation, plus drift, r / (f² + c²). The maximum of
this likelihood is the maximum-likelihood estimate for long logs. Bins below a few cycles per window are not used, and
neither are bins of spectral lines: vibrations of the table, not of the sensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import optimize, stats

_SEGMENT = 4096
"""Most samples of one window."""
_FIRST_BIN = 12
"""Bins below this one are not used: drift and the linear detrending."""
_DRIFT = 0.006
"""Highest corner frequency of drift, relative to the sample rate."""
_SIGNIFICANT = 15.0
"""Twice the gain in log-likelihood from which on a low-pass filter is reported."""


@dataclass(frozen=True)
class WhiteNoise:
    """White noise of one axis.

    Attributes:
        density: one-sided, before the filter, unit/√Hz.
        log_std: standard error of log(density).
        bandwidth: -3 dB frequency, Hz; NaN if the noise is white up to half the sample rate.
        bandwidth_log_std: standard error of log(bandwidth).
        log_likelihood: at the maximum.
        lines: share of the bins that were excluded as spectral lines.
        misfit: rms difference of spectrum and model relative to the spectrum, if the spectrum is not that of the
            filter; 0 if it is.
    """

    density: float
    log_std: float
    bandwidth: float = np.nan
    bandwidth_log_std: float = np.nan
    log_likelihood: float = 0.0
    lines: float = 0.0
    misfit: float = 0.0


def low_pass_gain(frequency: np.ndarray, bandwidth: float, order: int, rate: float) -> np.ndarray:
    """Return |H(f)|² of the pipeline's low-pass filter (bilinear Butterworth) at ``rate`` ticks per second."""
    warped = np.tan(np.pi * np.minimum(frequency / rate, 0.4999999))
    return 1 / (1 + (warped / np.tan(np.pi * bandwidth / rate)) ** (2 * order))


def periodogram(parts: Sequence[np.ndarray], rate: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Return frequencies, the one-sided spectrum (Welch, Hann window, half overlap), and its worth in periodograms."""
    total = sum(len(part) for part in parts)
    longest = max(len(part) for part in parts)
    length = min(_SEGMENT, max(longest // 4, 32), longest)
    window = np.hanning(length + 1)[:-1]
    x = np.arange(length) - (length - 1) / 2
    power, pieces = np.zeros(length // 2 + 1), 0
    for part in parts:
        for first in range(0, len(part) - length + 1, max(length // 2, 1)):
            piece = part[first : first + length]
            flat = piece - piece.mean()
            flat = (flat - x * (flat @ x) / (x @ x)) * window
            power += np.abs(np.fft.rfft(flat)) ** 2
            pieces += 1
    # windows overlap by half and neighbouring bins are correlated: together they use four fifths of the readings
    worth = 0.8 * min(total / length, (pieces + 1) / 2) - 0.3
    return np.fft.rfftfreq(length, 1 / rate), 2 * power / (pieces * (window @ window) * rate), max(worth, 0.5)


def white_noise(parts: Sequence[np.ndarray], rate: float, step: float = 0.0, order: int = 2) -> WhiteNoise:
    """Return the white noise of one axis at rest, and the bandwidth of its filter if the spectrum shows one.

    Args:
        parts: readings of the rest periods, each (samples,).
        rate: samples per second, Hz.
        step: quantisation step of the readings; its noise, step² / 12 per sample, is not counted.
        order: order of the low-pass filter.
    """
    frequency, power, count = periodogram(parts, rate)
    first = min(_FIRST_BIN, len(power) // 4)
    fit = _Spectrum(frequency[first:-1], power[first:-1], count, step**2 / 12 * 2 / rate, order, rate)
    highest = stats.chi2.isf(1e-2 / len(power), 2 * count) / (2 * count)
    best = fit.best()
    for _ in range(2):  # each pass excludes the lines that stand out of the last fit
        kept = fit.power < highest * fit.model(best)
        if (kept == fit.kept).all():
            break
        fit.kept = kept
        best = fit.best()
    model = fit.model(best)
    clean = np.minimum(fit.power, highest * model)
    errors = fit.errors(best)
    found = WhiteNoise(
        best.density,
        float(errors[0]),
        best.bandwidth,
        float(errors[1]) if np.isfinite(best.bandwidth) else np.nan,
        fit.log_likelihood(model, clean),  # over all bins, to compare orders
        float(1 - fit.kept.mean()),
    )
    return found if np.isnan(best.bandwidth) else _by_moments(fit, clean, model, found)


class _Model(NamedTuple):
    """Parameters of a spectrum; NaN for parts that it does not have."""

    density: float
    bandwidth: float = np.nan
    red: float = np.nan
    corner: float = np.nan


class _Spectrum:
    """Spectrum of the readings, and its likelihood."""

    def __init__(
        self, frequency: np.ndarray, power: np.ndarray, count: float, floor: float, order: int, rate: float
    ) -> None:
        self.frequency, self.power, self.count, self.floor = frequency, power, count, floor
        self.order, self.rate, self.kept = order, rate, np.ones(len(power), bool)
        # a sampled Gauss-Markov process has this frequency in place of f: drift above half the rate is folded down
        self._warped = rate / np.pi * np.sin(np.pi * frequency / rate)

    def model(self, of: _Model) -> np.ndarray:
        """Return the spectrum of a model at all frequencies."""
        gain = np.ones(len(self.frequency))
        if np.isfinite(of.bandwidth):
            gain = low_pass_gain(self.frequency, of.bandwidth, self.order, self.rate) + 1e-9
        found = of.density**2 * gain + self.floor
        return found + of.red / (self._warped**2 + of.corner**2) if np.isfinite(of.red) else found

    def log_likelihood(self, model: np.ndarray, power: np.ndarray) -> float:
        """Return the Whittle likelihood of all bins."""
        return -self.count * float((np.log(model) + power / model).sum())

    def best(self) -> _Model:
        """Return the simplest model that no larger one beats: with a filter, with drift, or with both."""
        power = self.power[self.kept]
        flat = _Model(float(np.sqrt(max(power.mean() - self.floor, 1e-6 * power.mean(), 1e-300))))
        if _is_flat(power, self.count):
            return flat
        tail = float(np.sqrt(max(power[len(power) // 2 :].mean() - self.floor, 1e-6 * power.mean())))
        low, middle = self.frequency[0], self.frequency[np.searchsorted(np.cumsum(power) / power.sum(), 0.7)]
        excess = max(float(power[: max(len(power) // 100, 3)].mean()), 1e-300) * low**2
        starts = [
            [_Model(flat.density, middle), _Model(flat.density, 0.45 * self.rate)],
            [_Model(tail, np.nan, excess, low / 3), _Model(tail, np.nan, excess, _DRIFT * self.rate)],
            [_Model(flat.density, middle, excess, low / 3)],
        ]
        best, level = flat, self._cost(flat)
        for group in starts:
            for start in group:
                found = self._minimise(start)
                cost = self._cost(found)
                larger = np.isfinite(found).sum() - np.isfinite(best).sum()
                if 2 * (level - cost) > (_SIGNIFICANT if larger > 0 else 0.0) and not found.bandwidth > 0.4 * self.rate:
                    best, level = found, cost
        return best

    def _cost(self, of: _Model) -> float:
        return -self.log_likelihood(self.model(of)[self.kept], self.power[self.kept])

    def _minimise(self, start: _Model) -> _Model:
        """Return the maximum of the likelihood over the parameters that ``start`` has."""
        used = [i for i, one in enumerate(start) if np.isfinite(one)]
        # drift is slow: broad humps at higher frequencies are noise
        highest = {1: np.log(0.49 * self.rate), 3: np.log(max(_DRIFT * self.rate, self.frequency[0]))}

        def made(x: np.ndarray) -> _Model:
            values = [np.nan] * len(start)
            for i, one in zip(used, x, strict=True):
                values[i] = float(np.exp(np.clip(one, -200, highest.get(i, 200.0))))
            return _Model(*values)

        options = {"xatol": 1e-4, "fatol": 1e-2, "maxiter": 400}
        x = np.log([start[i] for i in used])
        return made(optimize.minimize(lambda x: self._cost(made(x)), x, method="Nelder-Mead", options=options).x)

    def errors(self, of: _Model) -> np.ndarray:
        """Return the standard errors of the logarithms of all parameters: the inverse of the Fisher information."""
        model, used = self.model(of), [i for i, one in enumerate(of) if np.isfinite(one)]
        slopes = []
        for i in used:
            moved = self.model(of._replace(**{of._fields[i]: of[i] * (1 + 1e-4)}))
            slopes.append(((moved - model) / 1e-4 / model)[self.kept])
        information = self.count * np.array([[a @ b for b in slopes] for a in slopes])
        result = np.full(len(of), np.nan)
        result[used] = np.sqrt(np.maximum(np.diag(np.linalg.pinv(information)), 0))
        return result


def _is_flat(power: np.ndarray, count: float) -> bool:
    """Return whether the mean powers of the lower and upper half, tenth and fiftieth differ by chance alone."""
    sizes = [max(len(power) // share, 2) for share in (2, 10, 50)]
    ratios = [np.log(power[:size].mean() / power[-size:].mean()) for size in sizes]
    return all(abs(one) < 3 * np.sqrt(2 / (count * size)) for one, size in zip(ratios, sizes, strict=True))


def _by_moments(fit: _Spectrum, power: np.ndarray, model: np.ndarray, found: WhiteNoise) -> WhiteNoise:
    """Return a filter that keeps density at low frequencies and total variance, for spectra that are not a filter's."""
    flat = np.cumsum(power) < 0.3 * power.sum()
    misfit = float((power[flat] / model[flat]).mean() - 1) if flat.sum() > 5 else 0.0
    if abs(misfit) < 5 / np.sqrt(fit.count * max(flat.sum(), 1)):
        return found
    density = float(np.sqrt(max(power[flat].mean() - fit.floor, 1e-300)))

    def excess(x: float) -> float:
        return float(fit.model(_Model(density, float(np.exp(x)))).sum() - power.sum())

    ends = np.log(fit.frequency[0]), np.log(0.49 * fit.rate)
    if excess(ends[0]) * excess(ends[1]) >= 0:
        return found
    bandwidth = float(np.exp(optimize.brentq(excess, *ends)))
    rest = power - fit.model(_Model(density, bandwidth))
    return replace(
        found,
        density=density,
        log_std=max(found.log_std, abs(np.log(density / found.density)) / 2),
        bandwidth=bandwidth,
        bandwidth_log_std=max(found.bandwidth_log_std, abs(np.log(bandwidth / found.bandwidth)) / 2),
        misfit=float(np.sqrt((rest**2).mean() / (power**2).mean())),
    )
