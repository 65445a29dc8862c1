"""Resets: the first sample of some envs, in every stage. Names are those of the stages' own modules."""

from __future__ import annotations

import numpy as np

from sensorium.jit import helper, kernel
from sensorium.pipeline import formula
from sensorium.pipeline.flags import (
    E_DRIFT,
    E_DRIFT_SIZE,
    E_OFFSET,
    E_SCALE,
    E_SPREAD,
    E_TEMPERATURE,
    E_TEMPERATURE_DRIFT,
    EXTRA_ROW,
    FLAGS,
    GATHER_NONE,
    INPUT_NOISE,
    MIX,
    MIX_FIRST,
    MIX_ROW,
    OP,
    P_BIAS,
    P_DEADBAND,
    P_HIGH,
    P_LOW,
    P_NOISE,
    P_RESOLUTION,
    R_HISTORY_FIRST,
    R_HISTORY_LENGTH,
    R_RING_FIRST,
    R_RING_SLOTS,
    R_SOURCE,
    R_STRIDE,
    RATE,
    S_FIRST,
    S_SLOTS,
    SCALE,
    SENSOR,
    T_RATE,
)
from sensorium.pipeline.kernels.gather import gather_one
from sensorium.pipeline.kernels.hardware import add_outlier, rest_filter, start_filter
from sensorium.pipeline.kernels.random import draw_env, normals, words
from sensorium.pipeline.kernels.timing import sample_number

_F, _U = np.float32, np.uint32
_ZERO = _F(0)
_REFERENCE = _F(formula.TEMPERATURE)
_RESET, _NONE = _U(formula.RESET), _U(0)
_NEVER = _F(np.inf)


@helper
def _limited(
    x: np.floating, deadband: np.floating, low: np.floating, high: np.floating, resolution: np.floating
) -> np.floating:
    """Return one value after dead band, resolution and saturation, as the row loops of the hardware stage do."""
    x = x - x if abs(x) < deadband else x  # 0, in the dtype of x
    x = np.rint(x / resolution) * resolution + _ZERO if resolution > _ZERO else x
    return min(max(x, low), high)


@helper
def _restart_response(
    x: float,
    k0: np.uint32,
    k1: np.uint32,
    draw: np.ndarray,
    b: int,
    extra: np.ndarray | None,
    e: int,
    flags: int,
) -> float:
    """Start filter, turn-on bias and drift of one column and env; return x after the filter and the scale error."""
    if extra is not None and e >= 0:
        w0, w1 = words(k0, k1, draw, b, _RESET)
        e0, e1 = normals(w0, w1)
        extra[e, E_OFFSET, b] = extra[e, E_SPREAD, b] * e0
        extra[e, E_DRIFT, b] = extra[e, E_DRIFT_SIZE, b] * e1
        if flags & INPUT_NOISE:
            w0, w1 = words(k0, k1, draw, b, _NONE)
            n0, _ = normals(w0, w1)
            x = start_filter(x, n0, k0, k1, draw, b, extra, e)
        else:
            rest_filter(x, b, extra, e)
        x = x + extra[e, E_SCALE, b] * x if flags & SCALE else x
    return x


@helper
def _add_slow(
    x: float, k0: np.uint32, k1: np.uint32, draw: np.ndarray, b: int, extra: np.ndarray | None, e: int
) -> float:
    """Add turn-on bias, drift, temperature and outliers to the first sample of one column and env."""
    if extra is not None and e >= 0:
        heat = extra[e, E_TEMPERATURE_DRIFT, b] * (extra[e, E_TEMPERATURE, b] - _REFERENCE)
        x = ((x + extra[e, E_OFFSET, b]) + extra[e, E_DRIFT, b]) + heat
        x = add_outlier(x, k0, k1, draw, b, extra, e)
    return x


@helper
def _first_value(mix: np.ndarray | None, table: np.ndarray, c: int, before: np.ndarray, offset: int, b: int) -> float:
    """Return the measured signal of one column and env; mix it from three columns where axes are misaligned."""
    x = before[c - offset, b] + _ZERO
    if mix is not None and table[c, FLAGS] & MIX:
        m, f = table[c, MIX_ROW], table[c, MIX_FIRST] - offset
        x = mix[m, 0, b] * before[f, b] + mix[m, 1, b] * before[f + 1, b] + mix[m, 2, b] * before[f + 2, b] + _ZERO
    return x


@kernel
def reset_timing(
    flags: np.ndarray,
    table: np.ndarray,
    parameters: np.ndarray,
    lag: np.ndarray,
    part: np.ndarray,
    stuck: np.ndarray,
    arrives: np.ndarray,
    offset: np.ndarray,
    env: np.ndarray,
    episode: np.ndarray,
    tick: np.ndarray,
    draw: np.ndarray,
    sample_draw: np.ndarray,
    time: np.ndarray,
    dt: float,
    count: int,
    envs: np.ndarray,
) -> None:
    """Start the clock of the envs ``envs`` at their simulated time, with one sample that has arrived.

    The arguments are those of :func:`~sensorium.pipeline.kernels.timing.time_step`.
    """
    for i in range(envs.shape[0]):
        b = np.int64(envs[i])
        tick[b] = np.int32(np.rint(time[b] / dt))
        draw[0, b], draw[1, b] = draw_env(_U(env[b]), _U(episode[b]), _U(tick[b]))
        for s in range(stuck.shape[0]):
            if flags[s] & RATE:
                number = _U(np.int32(sample_number(np.float64(tick[b]), dt * parameters[T_RATE, s, b])))
                sample_draw[s, 0, b], sample_draw[s, 1, b] = draw_env(_U(env[b]), _U(episode[b]), number)
            stuck[s, b] = False
            lag[s, b] = 0
            part[s, b] = _ZERO
            first, slots = table[s, S_FIRST], table[s, S_SLOTS]
            for k in range(slots):
                arrives[first + k, b] = _NEVER
                offset[first + k, b] = _ZERO
            if slots > 0:
                arrives[first + count % slots, b] = _ZERO


@kernel
def reset_columns(
    table: np.ndarray,
    key: np.ndarray,
    mix: np.ndarray | None,
    walk: np.ndarray,
    parameters: np.ndarray,
    extra: np.ndarray | None,
    timing_flags: np.ndarray,
    c0: int,
    c1: int,
    before: np.ndarray,
    out: np.ndarray,
    offset: int,
    draw: np.ndarray,
    sample_draw: np.ndarray,
    envs: np.ndarray,
) -> None:
    """Run columns [c0, c1) of the envs ``envs`` through the hardware stage, after clearing their drift.

    The arguments are those of :func:`~sensorium.pipeline.kernels.hardware.hardware_step`.
    """
    for c in range(c0, c1):
        k0, k1, e, s = key[c, 0], key[c, 1], table[c, EXTRA_ROW], table[c, SENSOR]
        own = sample_draw[s] if timing_flags[s] & RATE else draw
        for i in range(envs.shape[0]):
            b = np.int64(envs[i])
            x = _first_value(mix, table, c, before, offset, b)
            walk[c, b] = _ZERO
            x = _restart_response(x, k0, k1, draw, b, extra, e, table[c, FLAGS])
            w0, w1 = words(k0, k1, own, b, _NONE)
            n0, _ = normals(w0, w1)
            x = ((x + parameters[P_BIAS, c, b]) + _ZERO) + parameters[P_NOISE, c, b] * n0
            x = _add_slow(x, k0, k1, own, b, extra, e)
            out[c - offset, b] = _limited(
                x,
                parameters[P_DEADBAND, c, b],
                parameters[P_LOW, c, b],
                parameters[P_HIGH, c, b],
                parameters[P_RESOLUTION, c, b],
            )


@kernel
def reset_truth(
    table: np.ndarray,
    sources: np.ndarray,
    truth: np.ndarray,
    c0: int,
    c1: int,
    data: np.ndarray,
    envs: np.ndarray,
) -> None:
    """Write the ground truth of columns [c0, c1) from the engine's sensor data (B, n), in the envs ``envs``."""
    for c in range(c0, c1):
        if table[c, OP] != GATHER_NONE:
            for i in range(envs.shape[0]):
                truth[c, envs[i]] = gather_one(table, sources, c, data, np.int64(envs[i]))


@kernel
def reset_delivery(
    table: np.ndarray,
    ring: np.ndarray,
    cache: np.ndarray,
    history: np.ndarray,
    truth_history: np.ndarray,
    r0: int,
    r1: int,
    measured: np.ndarray,
    truth: np.ndarray,
    envs: np.ndarray,
) -> None:
    """Fill rings, cache and histories of return columns [r0, r1) with the first snapshot, in the envs ``envs``."""
    for r in range(r0, r1):
        q, stride = table[r, R_SOURCE], table[r, R_STRIDE]
        for i in range(envs.shape[0]):
            b = np.int64(envs[i])
            value = measured[q, b]
            cache[r, b] = value
            if table[r, R_RING_FIRST] >= 0:
                for k in range(table[r, R_RING_SLOTS]):
                    ring[table[r, R_RING_FIRST] + k * stride, b] = value
            if table[r, R_HISTORY_FIRST] >= 0:
                for k in range(2 * table[r, R_HISTORY_LENGTH]):
                    history[table[r, R_HISTORY_FIRST] + k * stride, b] = value
                    truth_history[table[r, R_HISTORY_FIRST] + k * stride, b] = truth[q, b]
