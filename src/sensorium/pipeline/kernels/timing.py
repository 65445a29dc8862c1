"""Timing: when sensors sample, and the latency of their readings; see "Timing" in ``formula.py``.

Names: s is a sensor, b an env; k0, k1 are the sensor's random key.
"""

from __future__ import annotations

import numpy as np

from sensorium.jit import inlined, kernel
from sensorium.pipeline import formula
from sensorium.pipeline.flags import (
    DELAYED,
    DROPOUT,
    HELD,
    LINEAR,
    RATE,
    STUCK,
    T_DELAY,
    T_DROPOUT,
    T_JITTER,
    T_RATE,
    T_STUCK,
)
from sensorium.pipeline.kernels.random import threefry

_F, _U = np.float32, np.uint32
_BIN24 = 2.0**-24
_EPS = formula.EPS
_GAUSS_MARKOV = _U(formula.GAUSS_MARKOV)


@inlined
def _due_row(time: np.ndarray, dt: float, rate: np.ndarray, due: np.ndarray, s: int) -> None:
    for b in range(time.shape[0]):
        per_step = dt * rate[s, b]
        k = np.rint(time[b] / dt)
        passed = np.floor(k * per_step + _EPS) > np.floor((k - 1.0) * per_step + _EPS)
        due[s, b] = passed | (per_step >= 1.0) | (per_step == 0.0)


@inlined
def _dropout_row(k0: np.uint32, k1: np.uint32, step: np.uint32, dropout: np.ndarray, due: np.ndarray, s: int) -> None:
    for b in range(due.shape[1]):
        _, w1 = threefry(k0, k1, _U(b), step)
        lost = dropout[s, b] > np.float64(np.int32(w1 >> _U(8))) * _BIN24
        due[s, b] = due[s, b] & (not lost)


@inlined
def _stuck_row(
    k0: np.uint32,
    k1: np.uint32,
    step: np.uint32,
    probability: np.ndarray,
    stuck: np.ndarray,
    due: np.ndarray,
    s: int,
) -> None:
    for b in range(due.shape[1]):
        w0, _ = threefry(k0, k1, _U(_U(b) + _GAUSS_MARKOV), step)
        now = probability[s, b] > np.float64(np.int32(w0 >> _U(8))) * _BIN24
        stuck[s, b] = stuck[s, b] | now
        due[s, b] = due[s, b] & (not stuck[s, b])


@inlined
def _lag_row(
    k0: np.uint32,
    k1: np.uint32,
    step: np.uint32,
    delay: np.ndarray,
    jitter: np.ndarray,
    per_dt: float,
    lag: np.ndarray,
    s: int,
) -> None:
    for b in range(lag.shape[1]):
        w0, _ = threefry(k0, k1, _U(b), step)
        latency = (delay[s, b] + np.float64(np.int32(w0 >> _U(8))) * _BIN24 * jitter[s, b]) * per_dt
        lag[s, b] = np.int32(max(np.ceil(latency - _EPS), 0.0))


@inlined
def _linear_lag_row(
    k0: np.uint32,
    k1: np.uint32,
    step: np.uint32,
    delay: np.ndarray,
    jitter: np.ndarray,
    per_dt: float,
    lag: np.ndarray,
    part: np.ndarray,
    s: int,
) -> None:
    for b in range(lag.shape[1]):
        w0, _ = threefry(k0, k1, _U(b), step)
        latency = (delay[s, b] + np.float64(np.int32(w0 >> _U(8))) * _BIN24 * jitter[s, b]) * per_dt
        whole = np.floor(latency + _EPS)
        lag[s, b] = np.int32(whole)
        part[s, b] = _F(max(latency - whole, 0.0))


@kernel
def time_step(
    flags: np.ndarray,
    key: np.ndarray,
    parameters: np.ndarray,
    due: np.ndarray,
    lag: np.ndarray,
    part: np.ndarray,
    stuck: np.ndarray,
    time: np.ndarray,
    dt: float,
    count: int,
) -> None:
    """Update ``due``, ``lag``, ``part`` and ``stuck`` of every sensor whose flags ask for it.

    Args:
        flags, key, parameters, due, lag, part, stuck: see :class:`~sensorium.pipeline.kernels.arrays.Timing`.
        time: simulated seconds since each env's reset, (B,).
        dt: seconds of one step.
        count: steps since build.
    """
    step = _U(count)
    delay, jitter = parameters[T_DELAY], parameters[T_JITTER]
    for s in range(flags.shape[0]):
        bits, k0, k1 = flags[s], key[s, 0], key[s, 1]
        if bits & RATE:
            _due_row(time, dt, parameters[T_RATE], due, s)
        elif bits & HELD:
            due[s] = True
        if bits & DROPOUT:
            _dropout_row(k0, k1, step, parameters[T_DROPOUT], due, s)
        if bits & STUCK:
            _stuck_row(k0, k1, step, parameters[T_STUCK], stuck, due, s)
        if bits & DELAYED:
            if bits & LINEAR:
                _linear_lag_row(k0, k1, step, delay, jitter, 1.0 / dt, lag, part, s)
            else:
                _lag_row(k0, k1, step, delay, jitter, 1.0 / dt, lag, s)
