"""Axis matrix, bias and latency of readings against a reference, by least squares.

The readings v follow the expected signal e: v(t) = M e(t - τ) + b + noise. The fit runs the other way round,
e(t - τ) = A v(t) + c with A = M⁻¹ and c = -A b, because the error of a reference (motion capture, differentiated) is
mostly larger than that of the sensor, and an error of the regressor would shrink the matrix. The noise of the sensor
itself is known from its rest, and its share in vᵀv is subtracted. Against an exact reference the fit runs forward.

Motion capture smooths: by its exposure and filters, by interpolation to another rate, and by the spline that
differentiates it. Readings are smoothed in the same way before they are compared: with the response of the spline, and
with a Gaussian whose width is fitted. Then both sides pass the same low-pass filter below the cut-off of the spline,
where the reference is more signal than noise.

Standard errors are those of clusters: the residuals of blocks of the log are taken as independent, those inside of a
block are not. So neither the smoothing of the reference nor drift makes the intervals too narrow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import ndimage, stats
from scipy.fft import next_fast_len

from sensorium.fit.estimate import Z
from sensorium.fit.latency import coarse_lag

_CLUSTERS = 60
_BAND = 0.35
"""Frequency up to which signals are compared, relative to the cut-off of the reference's smoothing."""
_STEP = 1e-3
"""Time step of the derivative of the expected signal, s."""

Expectation = Callable[[np.ndarray], np.ndarray]
"""Times (n,) -> expected readings, (n, axes); NaN where the reference has a gap."""


@dataclass(frozen=True)
class Calibration:
    """Result of a fit against a reference. Errors are standard errors.

    Attributes:
        matrix: M, (axes, axes).
        matrix_std: of ``matrix``.
        bias: b, (axes,).
        bias_std: of ``bias``.
        delay: τ, s.
        delay_std: of ``delay``.
        extra: coefficients of further terms, e.g. a lever arm, (m,).
        extra_std: of ``extra``.
        residual: rms of the readings minus the model, (axes,).
        residual_std: of ``residual``.
        before: rms of the readings minus the reference as it is, (axes,).
        explained: share of the variance of the readings that the model explains, R².
        smoothing: standard deviation of the Gaussian by which the reference smooths the motion, s.
        band: frequency up to which readings and reference are compared, Hz.
        unsmoothed: rms over all axes of the readings as they are minus the model.
    """

    matrix: np.ndarray
    matrix_std: np.ndarray
    bias: np.ndarray
    bias_std: np.ndarray
    delay: float
    delay_std: float
    extra: np.ndarray
    extra_std: np.ndarray
    residual: np.ndarray
    residual_std: np.ndarray
    before: np.ndarray
    explained: float
    smoothing: float = 0.0
    band: float = np.inf
    unsmoothed: float = np.nan


def calibrate(
    time: np.ndarray,
    values: np.ndarray,
    expected: Expectation,
    *,
    noise: np.ndarray | None = None,
    extra: Expectation | None = None,
    matrix: str = "full",
    lag: bool = True,
    max_lag: float = 0.5,
    cutoff: float | None = None,
    exact: bool = False,
) -> Calibration | None:
    """Return matrix, bias and latency of readings against a reference, or None if they do not overlap.

    Args:
        time: time stamps, (n,) s.
        values: readings, (n, axes).
        expected: the signal that an ideal sensor would read.
        noise: standard deviation of the sensor's noise per sample, (axes,).
        extra: times -> (n, axes, m): terms that are added to the expected signal, with unknown coefficients.
        matrix: "full", "diagonal" (a scale per axis) or "identity" (bias and latency alone).
        lag: whether a latency is fitted.
        max_lag: largest latency that is searched for, s.
        cutoff: cut-off frequency of the reference's smoothing spline, Hz. Default: the reference is not smoothed.
        exact: whether the reference has no error of its own, as known distances and simulated signals.
    """
    rate = (len(time) - 1) / (time[-1] - time[0])
    plain = expected(time)
    if (np.isfinite(plain).all(axis=1) & np.isfinite(values).all(axis=1)).sum() < 30:
        return None
    delay = coarse_lag(values, plain, rate, max_lag) if lag else 0.0
    noise = np.zeros(values.shape[1]) if noise is None else np.nan_to_num(noise)
    # a smooth reference needs only a few samples per period of its cut-off frequency
    stride = 1 if cutoff is None else max(1, int(rate / (6 * cutoff)))
    band = None if cutoff is None else _BAND * cutoff

    def readings(width: float) -> tuple[np.ndarray, float]:
        if cutoff is None or band is None:
            return values, 1.0
        smooth, share = smoothed(values, rate, low_pass=(cutoff, band), width=width)
        return smooth[::stride], share

    def at(late: float, width: float, axes: np.ndarray) -> _Problem:
        smooth, share = readings(width)
        signals = _signals(expected, extra, time[::stride] - late)
        if band is not None:
            signals = _in_band(signals, rate / stride, band)
        if exact:  # v = M (e + terms x) + b - M de/dt δ: the same equations with the sides exchanged
            turned = -np.einsum("ij,njm->nim", axes, signals.terms)
            signals, smooth = _Signals(smooth, -signals.slope @ axes.T, turned), signals.target
        own = np.zeros(len(noise)) if exact else noise * np.sqrt(share)
        return _Problem(signals, smooth, own, matrix, lag, exact)

    def settle(late: float, width: float) -> tuple[float, _Problem, _Solution]:
        axes = np.eye(values.shape[1])
        for _ in range(8):
            problem = at(late, width, axes)
            solution = problem.solve()
            axes = problem.matrix_of(solution.parameters)
            step = float(np.clip(solution.parameters[-1], -2 / rate, 2 / rate)) if lag else 0.0
            if abs(step) < max(1e-7, 0.01 * solution.delay_std):
                break
            late += step
        return late, problem, solution

    width = 0.0
    delay, problem, solution = settle(delay, width)
    if cutoff is not None:
        width = _best_width(lambda one: problem.with_values(readings(one)[0]).solve().cost)
        delay, problem, solution = settle(delay, width)
    result = problem.result(solution, delay)
    signal = expected(time - delay)
    if extra is not None:
        signal = signal + extra(time - delay) @ result.extra
    rest = values - signal @ result.matrix.T - result.bias
    return replace(
        result,
        before=np.sqrt(np.nanmean((plain - values) ** 2, axis=0)),
        smoothing=width,
        band=np.inf if band is None else band,
        unsmoothed=float(np.sqrt(np.nanmean(rest**2))),
    )


def smoothed(
    values: np.ndarray, rate: float, low_pass: Sequence[float] = (), width: float = 0.0
) -> tuple[np.ndarray, float]:
    """Return signals smoothed without delay like a reference, and the share of white noise (variance) that is left.

    Args:
        values: signals at a constant rate, (n, k); NaN is bridged, and stays NaN.
        rate: samples per second, Hz.
        low_pass: cut-off frequencies of smoothing splines: each has the gain 1 / (1 + (f / cut-off)⁶), Hz.
        width: standard deviation of a Gaussian, s.
    """
    known = np.isfinite(values).all(axis=1)
    index = np.arange(len(values))
    filled = values if known.all() else np.stack([np.interp(index, index[known], one[known]) for one in values.T], 1)
    margin = min(int(2 * rate / min(low_pass, default=10.0)), len(values) - 1)
    padded = np.pad(filled, ((margin, margin), (0, 0)), mode="reflect")
    size = next_fast_len(len(padded), real=True)
    frequency = np.fft.rfftfreq(size, 1 / rate)
    gain = np.exp(-0.5 * (2 * np.pi * frequency * width) ** 2)
    for cutoff in low_pass:
        gain = gain / (1 + (frequency / cutoff) ** 6)
    spectrum = np.fft.rfft(padded, size, axis=0) * gain[:, None]
    smooth = np.fft.irfft(spectrum, size, axis=0)[margin : margin + len(values)]
    smooth[~known] = np.nan
    return smooth, float(np.mean(gain**2))


def _in_band(signals: _Signals, rate: float, band: float) -> _Signals:
    """Return the reference below a frequency; rows near gaps, where the filter has bridged, become NaN."""
    known = np.isfinite(np.concatenate([signals.target, signals.slope], axis=1)).all(axis=1)
    if not known.any():
        return signals
    flat = np.concatenate([signals.target, signals.slope, signals.terms.reshape(len(known), -1)], axis=1)
    flat = smoothed(np.where(known[:, None], flat, np.nan), rate, (band,))[0]
    flat[ndimage.binary_dilation(~known, iterations=max(1, int(0.5 * rate / band)))] = np.nan
    n = signals.target.shape[1]
    return _Signals(flat[:, :n], flat[:, n : 2 * n], flat[:, 2 * n :].reshape(signals.terms.shape))


def _best_width(cost: Callable[[float], float]) -> float:
    """Return the width with the lowest cost, by a parabola in width² around the best of a few."""
    widths = np.array([0.0, 3.0, 4.5, 6.0, 8.0]) * 1e-3
    costs = np.array([cost(one) for one in widths])
    best = int(np.clip(costs.argmin(), 1, len(widths) - 2))
    near = slice(best - 1, best + 2)
    a, b, _ = np.polyfit(widths[near] ** 2, costs[near], 2)
    if a <= 0:
        return float(widths[costs.argmin()])
    return float(np.sqrt(np.clip(-b / (2 * a), 0.0, widths[-1] ** 2)))


class _Signals(NamedTuple):
    """The reference at one latency."""

    target: np.ndarray
    """Expected readings, (n, axes)."""
    slope: np.ndarray
    """Their derivative, (n, axes)."""
    terms: np.ndarray
    """Terms with unknown coefficients, (n, axes, m)."""


def _signals(expected: Expectation, extra: Expectation | None, time: np.ndarray) -> _Signals:
    slope = (expected(time + _STEP) - expected(time - _STEP)) / (2 * _STEP)
    target = expected(time)
    return _Signals(target, slope, np.zeros((*target.shape, 0)) if extra is None else extra(time))


class _Solution(NamedTuple):
    parameters: np.ndarray
    """A by rows, c, coefficients of the extra terms, change of the latency."""
    covariance: np.ndarray
    cost: float
    """Sum of squared residuals."""

    @property
    def delay_std(self) -> float:
        return float(np.sqrt(max(self.covariance[-1, -1], 0.0)))


class _Problem:
    """Linear least squares for one latency: e = A v + c - extra terms + change of latency * slope."""

    def __init__(
        self, signals: _Signals, values: np.ndarray, noise: np.ndarray, matrix: str, lag: bool, exact: bool
    ) -> None:
        used = np.isfinite(np.concatenate([signals.target, signals.slope, values], axis=1)).all(axis=1)
        self._all, self._given, self._exact = signals, (noise, matrix, lag, exact), exact
        self.values = values[used]
        self.target, self.slope, self.terms = (one[used] for one in signals)
        self.rows, self.axes, self.noise, self.lag = len(self.values), values.shape[1], noise, lag
        identity, every = np.eye(self.axes, dtype=bool), np.ones((self.axes, self.axes), bool)
        self.mask = {"full": every, "diagonal": identity, "identity": ~every}[matrix]
        cluster = np.flatnonzero(used) * _CLUSTERS // len(used)
        self.starts = np.unique(cluster, return_index=True)[1]

    def with_values(self, values: np.ndarray) -> _Problem:
        """Return the same problem with other readings."""
        return _Problem(self._all, values, *self._given)

    def _columns(self, axis: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return design, indices of its columns among the parameters, and target of the equation of one axis."""
        n, m = self.axes, self.terms.shape[2]
        inside = np.flatnonzero(self.mask[axis])
        slope = [self.slope[:, axis : axis + 1]] if self.lag else []
        design = np.concatenate([self.values[:, inside], np.ones((self.rows, 1)), -self.terms[:, axis], *slope], axis=1)
        index = [*(axis * n + inside), n * n + axis, *range(n * n + n, n * n + n + m), *([-1] if self.lag else [])]
        size = n * n + n + m + 1
        target = self.target[:, axis] - (0.0 if self.mask[axis, axis] else self.values[:, axis])
        return design, np.array(index) % size, target

    def solve(self) -> _Solution:
        """Return the solution with the covariance of clusters. Parameters without effect are 0."""
        size = self.axes * (self.axes + 1) + self.terms.shape[2] + 1
        normal, moment, correction = np.zeros((size, size)), np.zeros(size), np.zeros(size)
        equations = [self._columns(axis) for axis in range(self.axes)]
        for axis, (design, index, target) in enumerate(equations):
            normal[np.ix_(index, index)] += design.T @ design
            moment[index] += design.T @ target
            own = axis * self.axes + np.flatnonzero(self.mask[axis])
            correction[own] = self.noise[self.mask[axis]] ** 2  # the sensor's own noise in vᵀv
        normal -= np.diag(self.rows * correction)
        diagonal = np.diag(normal)
        used = np.flatnonzero(diagonal > 1e-12 * diagonal.max())
        scale = 1 / np.sqrt(diagonal[used])
        inverse = np.zeros((size, size))
        scaled = np.linalg.pinv(normal[np.ix_(used, used)] * np.outer(scale, scale), rcond=1e-10)
        inverse[np.ix_(used, used)] = scaled * np.outer(scale, scale)
        parameters = inverse @ moment
        cost, scores = 0.0, np.zeros((len(self.starts), size))
        sizes = np.diff([*self.starts, self.rows])[:, None]
        for design, index, target in equations:
            rest = target - design @ parameters[index]
            cost += float(rest @ rest)
            scores[:, index] += np.add.reduceat(design * rest[:, None], self.starts, axis=0)
        scores += sizes * correction * parameters
        groups = max(len(self.starts), 24)
        freedom = groups - 12  # the equations share up to 16 parameters
        factor = groups / freedom * (stats.t.ppf(0.975, freedom) / Z) ** 2
        covariance = factor * inverse @ (scores.T @ scores) @ inverse
        # few clusters can be alike by chance: errors are at least those of independent residuals
        plain = cost / max(self.axes * self.rows - size, 1) * np.diag(inverse)
        wider = np.sqrt(np.maximum(plain / np.maximum(np.diag(covariance), 1e-300), 1.0))
        return _Solution(parameters, covariance * np.outer(wider, wider), cost)

    def result(self, solution: _Solution, delay: float) -> Calibration:
        """Return matrix and bias of the forward model, with errors by the delta method."""
        n, found = self.axes, solution.parameters
        value = self._forward(found)
        jacobian = np.empty((len(value), len(found)))
        for i in range(len(found)):
            moved = found.copy()
            step = 1e-6 * max(abs(found[i]), 1e-3)
            moved[i] += step
            jacobian[:, i] = (self._forward(moved) - value) / step
        std = np.sqrt(np.maximum(np.diag(jacobian @ solution.covariance @ jacobian.T), 0))
        matrix, bias = value[: n * n].reshape(n, n), value[n * n :]
        extra = found[n * n + n : -1]
        if self._exact:
            readings, signal = self.target, self.values - np.linalg.solve(matrix, (self.terms @ extra).T).T
        else:
            readings, signal = self.values, self.target + self.terms @ extra
        rest = readings - signal @ matrix.T - bias
        rms = np.sqrt((rest**2).mean(axis=0))
        sizes = np.diff([*self.starts, self.rows])[:, None]
        blocks = np.add.reduceat(rest**2, self.starts, axis=0) / sizes
        total = ((readings - readings.mean(axis=0)) ** 2).mean(axis=0).sum()
        errors = np.sqrt(np.maximum(np.diag(solution.covariance), 0))
        return Calibration(
            matrix=matrix,
            matrix_std=std[: n * n].reshape(n, n),
            bias=bias,
            bias_std=std[n * n :],
            delay=delay,
            delay_std=float(errors[-1]) if self.lag else np.inf,
            extra=extra,
            extra_std=errors[n * n + n : -1],
            residual=rms,
            residual_std=blocks.std(axis=0) / np.sqrt(len(blocks)) / (2 * np.maximum(rms, 1e-30)),
            before=rms,
            explained=float(1 - (rms**2).sum() / max(total, 1e-30)),
        )

    def matrix_of(self, parameters: np.ndarray) -> np.ndarray:
        """Return M."""
        n = self.axes
        found = np.where(self.mask, parameters[: n * n].reshape(n, n), 0.0)
        found = found + np.diag(np.where(np.diag(self.mask), 0.0, 1.0))
        return found if self._exact else np.linalg.pinv(found)

    def _forward(self, parameters: np.ndarray) -> np.ndarray:
        """Return M and b."""
        n, matrix = self.axes, self.matrix_of(parameters)
        offset = parameters[n * n : n * n + n]
        return np.concatenate([matrix.ravel(), offset if self._exact else -matrix @ offset])
