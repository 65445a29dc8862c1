"""Several logs of one sensor, one per power-up: common estimates, and the spread of the biases between runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import stats

from sensorium.errors import OptionError
from sensorium.fit.estimate import Estimate, Twin


def combine(twins: Sequence[Twin]) -> Twin:
    """Return one twin from the fits of several logs.

    An estimate is the mean of those that are identified, weighted by their intervals. If they scatter more than their
    intervals explain, the interval is widened by the scatter. The spread of the biases is their standard deviation
    between runs, from which the errors of the single runs are subtracted.

    Raises:
        OptionError: there is no log.
    """
    if not twins:
        raise OptionError("fit: got an empty list of logs; pass at least one")
    if len(twins) == 1:
        return twins[0]
    found: dict[str, Estimate] = {}
    for name in dict.fromkeys(name for twin in twins for name in twin.estimates):
        every = [twin.estimates[name] for twin in twins if name in twin.estimates]
        known = [one for one in every if one.identifiable and np.shape(one.value) == np.shape(every[0].value)]
        found[name] = _mean(known) if known else every[0]
        if name.rpartition(".")[2] == "bias" and len(known) > 1:
            spread = _spread(known)
            found[spread.name] = spread
    first = twins[0]
    origin = dict(first.provenance) | {"runs": [twin.provenance for twin in twins]}
    problems = list(dict.fromkeys(one for twin in twins for one in twin.problems))
    return replace(first, estimates=found, problems=problems, provenance=origin)


def _mean(known: Sequence[Estimate]) -> Estimate:
    """Return the weighted mean of estimates of one parameter."""
    first = known[0]
    if len(known) == 1 or first.name.rpartition(".")[2] == "saturation":
        return first
    value = np.array([np.asarray(one.value, float) for one in known])
    std = np.array([np.broadcast_to(one.std, value.shape[1:]) for one in known])
    std = np.maximum(std, 1e-9 * np.abs(value).max() + 1e-300)
    weight = std**-2.0
    mean = (weight * value).sum(axis=0) / weight.sum(axis=0)
    scatter = (weight * (value - mean) ** 2).sum(axis=0) / (len(known) - 1)
    error = np.sqrt(np.maximum(scatter, 1.0) / weight.sum(axis=0))
    if first.name.rpartition(".")[2] == "bias":  # biases differ between runs: the plain mean
        mean = value.mean(axis=0)
        error = np.sqrt((value.var(axis=0, ddof=1) + 1e-300) / len(known)) * stats.t.ppf(0.975, len(known) - 1) / 1.96
    reason = f"mean of {len(known)} runs; {first.reason}".rstrip("; ")
    return Estimate.normal(first.name, mean, error, first.unit, reason)


def _spread(known: Sequence[Estimate]) -> Estimate:
    """Return the standard deviation of a bias between runs, with the interval of χ²."""
    value = np.array([np.asarray(one.value, float) for one in known])
    own = np.mean([np.broadcast_to(one.std, value.shape[1:]) ** 2 for one in known], axis=0)
    freedom = len(known) - 1
    total = value.var(axis=0, ddof=1)
    spread = np.sqrt(np.maximum(total - own, 0.0))
    low = np.sqrt(np.maximum(total * freedom / stats.chi2.ppf(0.975, freedom) - own, 0.0))
    high = np.sqrt(np.maximum(total * freedom / stats.chi2.ppf(0.025, freedom) - own, 0.0))
    name = f"{known[0].name}_spread"
    return Estimate(name, spread, (low, high), known[0].unit, True, f"between {len(known)} runs")
