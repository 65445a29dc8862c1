"""Smoothing splines for long logs: a signal, its derivatives and their uncertainty, in time linear in the samples.

A spline of degree 5 on uniform knots is fitted with a penalty on the differences of order 3 of its coefficients. Away
from the ends that is a filter without phase, of the frequency response H(f) = 1 / (1 + (f / c)⁶) with the cut-off
frequency c. The cut-off is selected by generalised cross-validation. The posterior variance of derivative m is
S ∫ (2πf)^2m H(f) df, where S is the two-sided density of the noise, which is measured from the residuals.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import BSpline
from scipy.linalg import solveh_banded

from sensorium.errors import OptionError

DEGREE = 5
_HIGHEST_CUTOFF = 50.0
"""Hz; motion of robots and hands has nothing above it, and the number of knots grows with it."""
_MAX_WEIGHT = 1e8
"""Largest weight of the penalty, relative to a sample."""
_INTEGRALS = (np.pi / 3, np.pi / 6, np.pi / 3)
"""∫ u^2m / (1 + u⁶) du from 0 to ∞ for derivative m."""


class SmoothingSpline:
    """A smooth function of time through noisy samples of k signals.

    Args:
        time: strictly increasing, (n,) s.
        values: samples, (n, k), without NaN.
        cutoff: frequency at which the smoothing halves a signal, Hz. Default: selected by cross-validation.
        noise_step: time over which the noise of the samples is correlated, s. Default: the time step, i.e. white noise.

    Attributes:
        cutoff: the cut-off frequency, Hz.
        noise: standard deviation of the noise of the samples, (k,).

    Raises:
        OptionError: there are fewer than 8 samples, or the time stamps do not increase.

    Example:
        >>> spline = SmoothingSpline(time, position)
        >>> velocity, error = spline(t, derivative=1), spline.std(t, derivative=1)
    """

    def __init__(
        self, time: ArrayLike, values: ArrayLike, cutoff: float | None = None, noise_step: float | None = None
    ) -> None:
        self.time = np.asarray(time, np.float64)
        samples = np.asarray(values, np.float64)
        self._values = samples.reshape(len(samples), -1)
        if len(self.time) < 8 or bool((np.diff(self.time) <= 0).any()):
            raise OptionError("a smoothing spline needs at least 8 samples with increasing time stamps")
        self._step = float(np.median(np.diff(self.time)))
        self._noise_step = max(self._step, noise_step or 0.0)
        highest = min(_HIGHEST_CUTOFF, 0.4 / self._step)
        self._spacing = max(self._step, 0.25 / highest)
        start, stop = self.time[0], self.time[-1]
        count = max(2, int(np.ceil((stop - start) / self._spacing)) + 1)
        inner = start + self._spacing * np.arange(-DEGREE, count + DEGREE)
        self._knots = inner
        design = BSpline.design_matrix(self.time, inner, DEGREE, extrapolate=True).tocsr()
        normal = (design.T @ design).todia()
        size = len(inner) - DEGREE - 1
        self._normal = _upper_bands(normal, size)
        self._moment = design.T @ self._values
        self._design = design
        if cutoff is None:
            # a heavier penalty drowns the samples in rounding errors
            lowest = (_MAX_WEIGHT * self._spacing**5 * self._step) ** (-1 / 6) / (2 * np.pi)
            grid = np.geomspace(min(lowest, highest / 2), highest, 12)
            best = min(grid, key=self._cross_validation)
            cutoff = min(np.clip(best * np.geomspace(0.7, 1.4, 5), grid[0], highest), key=self._cross_validation)
        self.cutoff = float(cutoff)
        coefficients = self._solve(self.cutoff)
        self._spline = BSpline(self._knots, coefficients, DEGREE)
        self.residuals = self._values - design @ coefficients
        """Samples minus spline, (n, k)."""
        freedom = max(1e-3, 1 - self._used(self.cutoff))
        self.noise = np.sqrt(np.mean(self.residuals**2, axis=0) / freedom)

    def __call__(self, t: ArrayLike, derivative: int = 0) -> np.ndarray:
        """Return the value or a derivative at some times, (..., k). It is extrapolated outside the samples."""
        return np.asarray(self._spline(np.asarray(t, np.float64), nu=derivative))

    def std(self, derivative: int = 0) -> np.ndarray:
        """Return the standard deviation of the error of derivative 0, 1 or 2, (k,), away from the ends."""
        return self.noise * self.gain(derivative)

    def gain(self, derivative: int) -> float:
        """Return the standard deviation of the error of derivative 0, 1 or 2, relative to the noise of the samples."""
        power = 2 * derivative
        integral = 2 * (2 * np.pi) ** power * self.cutoff ** (power + 1) * _INTEGRALS[derivative]
        return float(np.sqrt(self._noise_step * integral))

    def _solve(self, cutoff: float) -> np.ndarray:
        weight = 1 / (self._spacing**5 * self._step * (2 * np.pi * cutoff) ** 6)
        bands = self._normal.copy()
        _add_penalty(bands, weight)
        return np.asarray(solveh_banded(bands, self._moment))

    def _used(self, cutoff: float) -> float:
        """Return the degrees of freedom of the fit per independent sample: ∫ H df times their time step."""
        return min(0.98, 2 * cutoff * _INTEGRALS[0] * self._noise_step)

    def _cross_validation(self, cutoff: float) -> float:
        """Return the generalised cross-validation score; each signal is weighted by the inverse of its residual."""
        residual = self._values - self._design @ self._solve(cutoff)
        squares = np.maximum(np.mean(residual**2, axis=0), 1e-30)
        return float(np.sum(np.log(squares)) - 2 * len(squares) * np.log(1 - self._used(cutoff)))


def _upper_bands(matrix: object, size: int) -> np.ndarray:
    """Return the upper bands of a sparse symmetric matrix, in the layout of ``solveh_banded``."""
    bands = np.zeros((DEGREE + 1, size))
    for offset, row in zip(matrix.offsets, matrix.data, strict=True):  # type: ignore[attr-defined]
        if 0 <= offset <= DEGREE:
            bands[DEGREE - offset, offset:] = row[offset:size]
    # in long gaps the penalty alone is singular for parabolas: pull to a straight line, too weakly to show elsewhere
    weak = 1e-7 * float(bands[DEGREE].max())
    bands[DEGREE, 1:] += weak
    bands[DEGREE, :-1] += weak
    bands[DEGREE - 1, 1:] -= weak
    return bands


def _add_penalty(bands: np.ndarray, weight: float) -> None:
    """Add weight DᵀD to the upper bands, D being the differences of order 3."""
    row = np.array([-1.0, 3, -3, 1])
    size = bands.shape[1]
    for i in range(4):
        for j in range(i, 4):
            bands[DEGREE - (j - i), j : size - 3 + j] += weight * row[i] * row[j]
