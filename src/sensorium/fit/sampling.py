"""How a reference was sampled: values that were held or interpolated to a higher rate."""

from __future__ import annotations

import numpy as np

from sensorium.fit.problems import Problem

_MIN_SHARE = 0.05
"""Smallest share of samples on a straight line with their neighbours that counts as interpolation."""

_MAX_HOLD = 0.2
"""Longest time that a source of a higher rate holds a sample, s. Longer repetitions are rest."""


def interpolation_step(time: np.ndarray, values: np.ndarray) -> float | None:
    """Return the time between the samples that values were interpolated from linearly, s; None if they were not.

    A sample that lies exactly between its neighbours has no knot beside it. If knots are h apart and samples d, a share
    of 1 - 2 d / h of the samples does. Up to h = 2 d there are none, and interpolation cannot be noticed.

    Args:
        time: time stamps, (n,) s.
        values: (n, k); the shares of unit quaternions on a great circle are found too.
    """
    step = float(np.median(np.diff(time)))
    even = np.abs(np.diff(time) - step) < 0.01 * step
    even = even[1:] & even[:-1] & (values[2:] != values[:-2]).any(axis=1)  # what does not move is on a line, too
    bend = values[2:] - 2 * values[1:-1] + values[:-2]
    middle = values[1:-1]
    lengths = np.linalg.norm(values, axis=1)
    if values.shape[1] == 4 and float(np.abs(lengths - 1).max()) < 1e-6:
        bend = bend - np.sum(bend * middle, axis=1, keepdims=True) * middle  # the great circle itself is bent
    size = np.linalg.norm(bend, axis=1)[even]
    typical = float(np.median(size)) if len(size) > 100 else 0.0
    if typical <= 1e-14 * float(lengths.max()):  # constant: nothing to be seen
        return None
    share = float(np.mean(size < 1e-4 * typical))
    return 2 * step / (1 - share) if _MIN_SHARE < share < 0.5 else None


def dropped_repeats(time: np.ndarray, values: np.ndarray, problems: list[Problem]) -> tuple[np.ndarray, np.ndarray]:
    """Return the samples without repeated ones, if at least a fifth repeat the one before; note it in ``problems``."""
    repeats = np.r_[False, (np.diff(values, axis=0) == 0).all(axis=1)]
    edges = np.flatnonzero(np.diff(np.r_[False, repeats, False].astype(int)))
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        if time[stop - 1] - time[start] > _MAX_HOLD:
            repeats[start:stop] = False  # it did not move
    share = float(repeats.mean())
    moving = values[~repeats]
    if share < 0.2 or len(moving) < 16:
        return time, values
    rate = (1 - share) / float(np.median(np.diff(time)))
    text = f"{100 * share:.0f} % of the samples repeat the one before: the source runs at about {rate:.3g} Hz"
    fix = "log it with the times at which it measured; the delay to the first repetition is part of the latency"
    problems.append(Problem("reference.held", text, fix))
    return time[~repeats], moving
