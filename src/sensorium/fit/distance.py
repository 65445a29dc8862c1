"""Fit of range sensors and depth cameras against known distances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

import numpy as np
from scipy import optimize

from sensorium._arguments import checked
from sensorium.errors import OptionError
from sensorium.fit import latency
from sensorium.fit.calibration import Expectation, calibrate
from sensorium.fit.channel import ChannelFit
from sensorium.fit.checks import check_ratio
from sensorium.fit.estimate import Estimate, Twin
from sensorium.fit.logs import LogSource, as_log
from sensorium.fit.reading import LogReading
from sensorium.fit.resolution import step_of
from sensorium.fit.response import known_signal
from sensorium.fit.timing import probability

_KINDS = ("raycaster", "lidar", "depth_camera")
_FAR = 8.0
"""Distance from the known one from which on a reading is an outlier, in robust standard deviations."""


@checked
def distance(
    log: LogSource,
    reference: object,
    *,
    kind: str = "raycaster",
    max_lag: float = 0.5,
    **reading: Unpack[LogReading],
) -> Twin:
    """Fit a range sensor or a depth camera to readings of known distances.

    All rays share one set of parameters. Readings without a return (NaN, infinite, or not positive) count as
    ``ray_dropout``. Distances that change by several metres show how the noise grows (``noise_per_metre``).

    Args:
        log: arrays (``time``, ``distance``: (samples, rays) m) or a file.
        reference: known distances: (samples, rays), one per ray, or one for all, m; or a log with ``distance``.
        kind: "raycaster", "lidar" or "depth_camera".
        max_lag: largest latency that is searched for, s.
        **reading: ``fields``, ``units``, ``rate`` and ``group`` of :func:`as_log`.

    Raises:
        OptionError: the log has no distances, the reference does not fit them, or there is no such kind.

    Example:
        >>> twin = sn.fit.distance({"time": time, "distance": ranges}, reference=true_ranges, kind="lidar")
        >>> scene.add_sensor(twin.options(link="base"))
    """
    if kind not in _KINDS:
        raise OptionError(f"fit.distance: kind must be one of {', '.join(_KINDS)}, got {kind!r}")
    if reference is None:
        raise OptionError("fit.distance: reference is missing; pass the known distances in m, or one for all rays")
    source = as_log(log, **reading)
    values = source.need("distance")
    known = known_signal(reference, source, "distance", values.shape[1], False)
    returned = np.isfinite(values) & (values > 0)
    if not returned.any():
        raise OptionError(f"{source.source}: no reading of distance has a return; point the sensor at a surface")
    fit = ChannelFit(source, max_lag)
    fit.problems += check_ratio("distance", np.where(returned, values, np.nan), known.expected(source.time))
    late = _lag(fit, values, returned, known.expected, max_lag)
    truth = known.expected(source.time - (late.value if late.identifiable else 0.0))
    good = returned & np.isfinite(truth) & (truth > 0)
    lost = int((~returned & np.isfinite(truth)).sum())
    total = int(np.isfinite(truth).sum())
    if lost:
        fit.add(probability("ray_dropout", lost, total, "readings without a return"))
    else:
        fit.add(Estimate.at_most("ray_dropout", 3.0 / max(total, 1), "", "every reading has a return"))
    step = step_of(values[good])
    if step.size > 0:
        fit.add(Estimate("resolution", step.size, (step.size - step.error, step.size + step.error), "m"))
    else:
        fit.add(Estimate.at_most("resolution", step.bound, "m", "the readings are not multiples of a step"))
    fit.add(*_noise(values[good], truth[good], step.size, fit.rate), late)
    fit.sensor_delay([""])
    return fit.twin(kind, reference, max_lag=max_lag)


def _lag(fit: ChannelFit, values: np.ndarray, returned: np.ndarray, expected: Expectation, max_lag: float) -> Estimate:
    """Return the latency, from the mean over the rays."""
    truth = expected(fit.log.time)
    if float(np.nanmax(np.nanstd(truth, axis=0))) < 1e-9:
        return Estimate.missing("delay", "s", "the distances are constant; move the sensor or the target")
    rays = returned.all(axis=0)
    chosen = np.flatnonzero(rays)[:64] if rays.any() else np.arange(min(values.shape[1], 8))
    found = calibrate(
        fit.log.time,
        np.where(returned[:, chosen], values[:, chosen], np.nan).mean(axis=1, keepdims=True),
        lambda t: expected(t)[:, chosen].mean(axis=1, keepdims=True),
        matrix="diagonal",
        max_lag=max_lag,
        exact=True,
    )
    if found is None or found.explained < 0.3:
        return Estimate.missing("delay", "s", "the readings do not follow the distances")
    return latency.delay("delay", found.delay, found.delay_std, fit.rate)


def _noise(values: np.ndarray, truth: np.ndarray, step: float, rate: float) -> list[Estimate]:
    """Return scale, bias, noise and outliers, by maximum likelihood of readings with noise that grows with distance.

    The standard deviation is noise + noise_per_metre * distance, as the ray sensors draw it. The step adds step² / 12
    to the variance.
    """
    rest = values - truth
    spread = 1.4826 * np.median(np.abs(rest - np.median(rest)))
    line = np.polyfit(truth, rest, 1) if np.ptp(truth) > 0.05 * truth.mean() else np.array([0.0, np.median(rest)])
    far = np.abs(rest - np.polyval(line, truth)) > _FAR * max(spread, step, 1e-12)
    found = []
    if far.sum() >= 3:
        size = np.abs(rest - np.polyval(line, truth))[far]
        found.append(probability("outliers", int(far.sum()), len(far)))
        error = max(float(size.std(ddof=1)), float(spread)) / np.sqrt(len(size))
        found.append(Estimate.normal("outlier_size", float(size.mean()), error, "m"))
    else:
        found.append(Estimate.at_most("outliers", 3.0 / len(far), "", "no reading is far from its distance"))
    d, r = truth[~far], rest[~far]
    varies = bool(np.ptp(d) > 0.2 * d.mean())
    start = [np.median(r), np.log(max(r.std(), 1e-9))] + (
        [0.0, np.log(max(r.std() / d.mean(), 1e-9)) - 1] if varies else []
    )

    def cost(x: np.ndarray) -> float:
        scale, grows = (x[2], np.exp(x[3])) if varies else (0.0, 0.0)
        variance = (np.exp(x[1]) + grows * d) ** 2 + step**2 / 12
        return 0.5 * float((np.log(variance) + (r - x[0] - scale * d) ** 2 / variance).sum())

    best = optimize.minimize(cost, start, method="Nelder-Mead", options={"maxiter": 4000, "xatol": 1e-7, "fatol": 1e-4})
    best = optimize.minimize(
        cost, best.x, method="Nelder-Mead", options={"maxiter": 4000, "xatol": 1e-7, "fatol": 1e-4}
    )
    errors = _errors(cost, best.x, len(d))
    found.append(Estimate.normal("bias", best.x[0], errors[0], "m"))
    if not varies:
        reason = "all distances are equal; record several distances"
        found.append(Estimate.missing("scale_error", "", reason))
        found.append(Estimate.missing("noise_per_metre", "", reason))
        found.append(Estimate.positive("noise", np.exp(best.x[1]), errors[1], "m", "per sample"))
        return found
    found.append(Estimate.normal("scale_error", best.x[2], errors[2], ""))
    for name, unit, index in (("noise", "m", 1), ("noise_per_metre", "", 3)):
        size, error = float(np.exp(best.x[index])), float(errors[index])
        if error < 0.4:
            found.append(Estimate.positive(name, size, error, unit))
        else:
            reason = "hidden by the other part of the noise"
            found.append(Estimate.at_most(name, size * np.exp(min(1.65 * error, 3.0)), unit, reason))
    return found


def _errors(cost: Callable[[np.ndarray], float], x: np.ndarray, count: int) -> np.ndarray:
    """Return standard errors from the numerical Hessian of the negative log-likelihood."""
    size = len(x)
    step = np.where(np.arange(size) % 2 == 0, 1e-3 / np.sqrt(count), 1e-3)
    hessian = np.empty((size, size))
    for i in range(size):
        for j in range(size):
            total = 0.0
            for a in (-1, 1):
                for b in (-1, 1):
                    moved = np.array(x)
                    moved[i] += a * step[i]
                    moved[j] += b * step[j]
                    total += a * b * cost(moved)
            hessian[i, j] = total / (4 * step[i] * step[j])
    return np.sqrt(np.maximum(np.diag(np.linalg.pinv(hessian)), 0))
