"""Scans of a log beside simulated ones: ranges jump at edges, so shares and medians are compared."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sensorium.fit.comparison import MotionComparison, Verdict, compare_motion

_SHOWN = 4
"""Number of rays in plots."""
_LAGS = 0.1
"""Largest lag that is searched, s."""
_OFF = 0.02
"""Share of the range from which a ray is off."""


def compare_scans(
    name: str, log: tuple[np.ndarray, np.ndarray], twin: tuple[np.ndarray, np.ndarray], ideal: Scans, ratio: float
) -> tuple[MotionComparison, list[Verdict]] | str:
    """Return a comparison of scans with verdicts about prediction, lag and noise, or why they cannot be compared.

    Args:
        name: name of the signal.
        log: capture times (n,) s and ranges (n, rays) m of the log; rays without return are not finite.
        twin: those of the simulated sensor.
        ideal: ranges without noise at any time.
        ratio: ratio of noise that counts as equal.
    """
    (time, far), (twin_time, twin_far) = log, twin
    true = ideal(time)
    with np.errstate(invalid="ignore"):
        gap, own_gap = far - true, twin_far - ideal(twin_time)
    seen = np.isfinite(gap)
    if seen.sum() < 1000:
        return f"not judged: {int(seen.sum())} rays have a return in the log and in the simulation, and 1000 are needed"
    scale = float(np.median(far[seen] / true[seen])) - 1
    scaled = far / (1 + scale)  # lag and noise are those without it
    noise, own_noise = _spread((scaled - true)[seen]), _spread(own_gap[np.isfinite(own_gap)])
    limit = np.maximum(5 * max(noise, own_noise), _OFF * true[seen])
    share = float((np.abs(gap[seen]) > limit).mean())
    lost = float((np.isfinite(far) != np.isfinite(true)).mean())
    uncertain = 0.003 + 3 * noise / float(np.median(true[seen])) / np.sqrt(len(time))
    text = f"{share:.1%} of the rays are off by more than their noise, {lost:.1%} have a return in one of both only; "
    text += f"the log reads {100 * scale:+.2f} %"
    good = share < 0.1 and lost < 0.05 and abs(scale) <= uncertain
    verdicts = [Verdict(name, "prediction", good, text)]
    grid = np.arange(-_LAGS, _LAGS + 1e-9, ideal.step)
    costs = np.array([_median_gap(scaled, ideal(time - lag)) for lag in grid])
    now = _median_gap(scaled, true)
    if np.quantile(costs, 0.75) > 1.2 * costs.min():  # the motion shows it
        lag = float(grid[costs.argmin()])
        holds = abs(lag) <= 1.01 * ideal.step or now <= 1.03 * costs.min()
        side = "behind" if lag > 0 else "ahead of"
        lag_text = f"the log is {abs(1e3 * lag):.1f} ms {side} the twin (in steps of {1e3 * ideal.step:.1f} ms)"
        verdicts.append(Verdict(name, "lag", holds, lag_text))
    agrees = 1 / ratio < own_noise / max(noise, 1e-12) < ratio or max(noise, own_noise) < 1e-6
    verdicts.append(Verdict(name, "noise", agrees, f"{noise:.3g} m in the log, {own_noise:.3g} m simulated"))
    shown = np.linspace(0, far.shape[1] - 1, min(_SHOWN, far.shape[1])).astype(int)
    rows = [np.interp(time, twin_time, np.nan_to_num(twin_far[:, i], posinf=0.0)) for i in shown]
    parts = [np.nan_to_num(each[:, shown], posinf=0.0) for each in (far, true)]
    motion = compare_motion(time, parts[0], np.stack(rows, axis=1), parts[1], float(np.hypot(noise, own_noise)))
    return motion, verdicts


class Scans:
    """Ranges at any time between scans that were simulated often, with linear interpolation.

    Args:
        time: times, (n,) s, evenly spaced.
        values: ranges, (n, rays) m; NaN without a return.
    """

    def __init__(self, time: np.ndarray, values: np.ndarray) -> None:
        self._time, self._values = time, values
        self.step = float(np.median(np.diff(time)))
        """Time between the scans, s."""

    def __call__(self, times: np.ndarray) -> np.ndarray:
        """Return ranges at times (m,) s, (m, rays) m."""
        at = np.clip((times - self._time[0]) / self.step, 0, len(self._time) - 1.001)
        first = at.astype(int)
        part = (at - first)[:, None]
        return (1 - part) * self._values[first] + part * self._values[first + 1]


def _spread(values: np.ndarray) -> float:
    """Return the standard deviation of most values: edges and moved objects do not count."""
    return 1.4826 * float(np.median(np.abs(values - np.median(values)))) if len(values) else 0.0


def _median_gap(far: np.ndarray, true: np.ndarray) -> float:
    with np.errstate(invalid="ignore"):
        gap = np.abs(far - true)
    gap = gap[np.isfinite(gap)]
    return float(np.median(gap)) if len(gap) else np.inf


def no_returns(max_range: float, no_hit: float | None) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that replaces readings of rays without a return by NaN."""
    mark = max_range if no_hit is None else no_hit

    def replace(values: np.ndarray) -> np.ndarray:
        return np.where(np.isfinite(values) & (values != mark) & (values >= 0), values, np.nan)

    return replace
