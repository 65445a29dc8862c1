"""The hardware stage: the measured signal of a step through the imperfections of its column; see ``formula.py``.

Names: c is a column, b an env, e a row of further imperfections (-1: none), x the scratch row (B,) that holds the
signal, k0 and k1 the column's random key, n0 and n1 rows of normals. Bias, walk and noise have two loops each: one for
parameters that are the same in every env, and one with the suffix ``_row`` for parameters per env.
"""

from __future__ import annotations

import numpy as np

from sensorium.jit import helper, inlined, kernel
from sensorium.pipeline import formula
from sensorium.pipeline.flags import (
    BIAS,
    DEADBAND,
    DRIFT,
    E_A1,
    E_A2,
    E_B0,
    E_B1,
    E_B2,
    E_DECAY,
    E_DRIFT,
    E_DRIFT_SIZE,
    E_INPUT_NOISE,
    E_L11,
    E_L21,
    E_L22,
    E_OFFSET,
    E_OUTLIER_SIZE,
    E_OUTLIERS,
    E_SCALE,
    E_TEMPERATURE,
    E_TEMPERATURE_DRIFT,
    E_Z1,
    E_Z2,
    EXTRA_ROW,
    FILTER,
    FLAGS,
    HELD,
    INPUT_NOISE,
    MIX,
    MIX_FIRST,
    MIX_ROW,
    NOISE,
    OUTLIERS,
    P_BIAS,
    P_DEADBAND,
    P_HIGH,
    P_LOW,
    P_NOISE,
    P_RANDOM_WALK,
    P_RESOLUTION,
    RATE,
    RESOLUTION,
    SATURATION,
    SCALE,
    SENSOR,
    SPREAD,
    TEMPERATURE,
    UNIFORM,
    WALK,
)
from sensorium.pipeline.kernels.random import normal_row, normals, words

_F, _U = np.float32, np.uint32
_ZERO, _ONE, _TWO = _F(0), _F(1), _F(2)
_BIN24 = _F(2.0**-24)
_REFERENCE = _F(formula.TEMPERATURE)
_GAUSS_MARKOV, _OUTLIER, _FILTER = _U(formula.GAUSS_MARKOV), _U(formula.OUTLIER), _U(formula.FILTER)
_NONE = _U(0)


@helper
def _start_row(
    mix: np.ndarray | None, table: np.ndarray, c: int, before: np.ndarray, offset: int, x: np.ndarray
) -> None:
    """Copy the measured signal of a column to x; mix it from three columns where axes are misaligned."""
    if mix is not None and table[c, FLAGS] & MIX:
        m, f = table[c, MIX_ROW], table[c, MIX_FIRST] - offset
        for b in range(x.shape[0]):
            x[b] = (
                mix[m, 0, b] * before[f, b] + mix[m, 1, b] * before[f + 1, b] + mix[m, 2, b] * before[f + 2, b] + _ZERO
            )
    else:
        for b in range(x.shape[0]):
            x[b] = before[c - offset, b] + _ZERO  # turns -0 into 0


@inlined
def _add(x: np.ndarray, value: float) -> None:
    for b in range(x.shape[0]):
        x[b] = x[b] + value


@inlined
def _add_row(x: np.ndarray, values: np.ndarray, r: int) -> None:
    for b in range(x.shape[0]):
        x[b] = x[b] + values[r, b]


@inlined
def _walk(walk: np.ndarray, r: int, sigma: float, n1: np.ndarray) -> None:
    for b in range(n1.shape[0]):
        walk[r, b] = walk[r, b] + sigma * n1[b]


@inlined
def _walk_row(walk: np.ndarray, r: int, sigma: np.ndarray, n1: np.ndarray) -> None:
    for b in range(n1.shape[0]):
        walk[r, b] = walk[r, b] + sigma[r, b] * n1[b]


@inlined
def _add_noise(x: np.ndarray, sigma: float, n0: np.ndarray) -> None:
    for b in range(x.shape[0]):
        x[b] = x[b] + sigma * n0[b]


@inlined
def _add_noise_row(x: np.ndarray, sigma: np.ndarray, r: int, n0: np.ndarray) -> None:
    for b in range(x.shape[0]):
        x[b] = x[b] + sigma[r, b] * n0[b]


@inlined
def _deadband_row(x: np.ndarray, width: np.ndarray, r: int) -> None:
    for b in range(x.shape[0]):
        x[b] = _ZERO if abs(x[b]) < width[r, b] else x[b]


@inlined
def _clip_row(x: np.ndarray, low: np.ndarray, high: np.ndarray, r: int) -> None:
    for b in range(x.shape[0]):
        x[b] = min(max(x[b], low[r, b]), high[r, b])


@inlined
def _quantise_row(x: np.ndarray, resolution: np.ndarray, r: int) -> None:
    for b in range(x.shape[0]):
        q = resolution[r, b]
        x[b] = np.rint(x[b] / q) * q + _ZERO if q > _ZERO else x[b]  # + 0 turns -0 into 0


@helper
def rest_filter(x: float, b: int, extra: np.ndarray, e: int) -> None:
    """Set the filter of one column and env to rest at the constant signal x."""
    extra[e, E_Z1, b] = (_ONE - extra[e, E_B0, b]) * x
    extra[e, E_Z2, b] = (extra[e, E_B2, b] - extra[e, E_A2, b]) * x


@helper
def start_filter(
    x: float, n0: np.float32, k0: np.uint32, k1: np.uint32, draw: np.ndarray, b: int, extra: np.ndarray, e: int
) -> float:
    """Start the filter of one column and env at the constant signal x with input noise; return its output."""
    w0, w1 = words(k0, k1, draw, b, _FILTER)
    f0, f1 = normals(w0, w1)
    size, a1, a2 = extra[e, E_INPUT_NOISE, b], extra[e, E_A1, b], extra[e, E_A2, b]
    b0, b1, b2 = extra[e, E_B0, b], extra[e, E_B1, b], extra[e, E_B2, b]
    s1, s2 = extra[e, E_L11, b] * f0, extra[e, E_L21, b] * f0 + extra[e, E_L22, b] * f1
    g = b0 * n0 + s1
    extra[e, E_Z1, b] = (_ONE - b0) * x + size * ((b1 * n0 - a1 * g) + s2)
    extra[e, E_Z2, b] = (b2 - a2) * x + size * (b2 * n0 - a2 * g)
    return x + size * g


@inlined
def _filter_noise_row(
    x: np.ndarray, n0: np.ndarray, k0: np.uint32, k1: np.uint32, draw: np.ndarray, extra: np.ndarray, e: int
) -> None:
    for b in range(x.shape[0]):
        if np.isnan(extra[e, E_Z1, b]):
            x[b] = start_filter(x[b], n0[b], k0, k1, draw, b, extra, e)
        else:
            v = x[b] + extra[e, E_INPUT_NOISE, b] * n0[b]
            y = extra[e, E_B0, b] * v + extra[e, E_Z1, b]
            extra[e, E_Z1, b] = (extra[e, E_B1, b] * v - extra[e, E_A1, b] * y) + extra[e, E_Z2, b]
            extra[e, E_Z2, b] = extra[e, E_B2, b] * v - extra[e, E_A2, b] * y
            x[b] = y


@inlined
def _filter_row(x: np.ndarray, extra: np.ndarray, e: int) -> None:
    for b in range(x.shape[0]):
        if np.isnan(extra[e, E_Z1, b]):
            rest_filter(x[b], b, extra, e)
        else:
            y = extra[e, E_B0, b] * x[b] + extra[e, E_Z1, b]
            extra[e, E_Z1, b] = (extra[e, E_B1, b] * x[b] - extra[e, E_A1, b] * y) + extra[e, E_Z2, b]
            extra[e, E_Z2, b] = extra[e, E_B2, b] * x[b] - extra[e, E_A2, b] * y
            x[b] = y


@inlined
def _scale_row(x: np.ndarray, extra: np.ndarray, e: int) -> None:
    for b in range(x.shape[0]):
        x[b] = x[b] + extra[e, E_SCALE, b] * x[b]


@inlined
def _drift_row(x: np.ndarray, extra: np.ndarray, e: int, m0: np.ndarray) -> None:
    for b in range(x.shape[0]):
        drift, decay = extra[e, E_DRIFT, b], extra[e, E_DECAY, b]
        kick = extra[e, E_DRIFT_SIZE, b] * _F(np.sqrt(_F(decay * (_TWO - decay))))
        extra[e, E_DRIFT, b] = (drift - decay * drift) + kick * m0[b]


@inlined
def _add_slow_row(x: np.ndarray, extra: np.ndarray, e: int) -> None:
    for b in range(x.shape[0]):
        heat = extra[e, E_TEMPERATURE_DRIFT, b] * (extra[e, E_TEMPERATURE, b] - _REFERENCE)
        x[b] = ((x[b] + extra[e, E_OFFSET, b]) + extra[e, E_DRIFT, b]) + heat


@helper
def add_outlier(x: float, k0: np.uint32, k1: np.uint32, draw: np.ndarray, b: int, extra: np.ndarray, e: int) -> float:
    """Return the signal x of one column and env, with an outlier if one is drawn."""
    o0, o1 = words(k0, k1, draw, b, _OUTLIER)
    if extra[e, E_OUTLIERS, b] > _F(np.int32(o0 >> _U(8))) * _BIN24:
        size = extra[e, E_OUTLIER_SIZE, b]
        return x - size if (o1 & _U(1)) != _U(0) else x + size
    return x


@inlined
def _outlier_row(x: np.ndarray, k0: np.uint32, k1: np.uint32, draw: np.ndarray, extra: np.ndarray, e: int) -> None:
    for b in range(x.shape[0]):
        x[b] = add_outlier(x[b], k0, k1, draw, b, extra, e)


@inlined
def _store(x: np.ndarray, reading: np.ndarray, r: int) -> None:
    for b in range(x.shape[0]):
        reading[r, b] = x[b]


@inlined
def _store_due(x: np.ndarray, reading: np.ndarray, r: int, due: np.ndarray, s: int) -> None:
    for b in range(x.shape[0]):
        reading[r, b] = x[b] if due[s, b] else reading[r, b]


@helper
def _respond_row(
    x: np.ndarray,
    extra: np.ndarray | None,
    e: int,
    flags: int,
    k0: np.uint32,
    k1: np.uint32,
    draw: np.ndarray,
    n0: np.ndarray,
) -> None:
    """Apply input noise, low-pass filter and scale error, where a column has them."""
    if extra is not None:
        if flags & INPUT_NOISE:
            _filter_noise_row(x, n0, k0, k1, draw, extra, e)
        elif flags & FILTER:
            _filter_row(x, extra, e)
        if flags & SCALE:
            _scale_row(x, extra, e)


@helper
def _slow_row(
    x: np.ndarray,
    extra: np.ndarray | None,
    e: int,
    flags: int,
    k0: np.uint32,
    k1: np.uint32,
    draw: np.ndarray,
    sample_draw: np.ndarray,
    n0: np.ndarray,
    n1: np.ndarray,
) -> None:
    """Add turn-on bias, drift, temperature and outliers, where a column has them."""
    if extra is not None:
        if flags & DRIFT:
            normal_row(k0, k1, draw, n0, n1, _GAUSS_MARKOV)
            _drift_row(x, extra, e, n0)
        if flags & (SPREAD | DRIFT | TEMPERATURE):
            _add_slow_row(x, extra, e)
        if flags & OUTLIERS:
            _outlier_row(x, k0, k1, sample_draw, extra, e)


@kernel
def hardware_step(
    table: np.ndarray,
    key: np.ndarray,
    mix: np.ndarray | None,
    walk: np.ndarray,
    parameters: np.ndarray,
    extra: np.ndarray | None,
    timing_flags: np.ndarray,
    due: np.ndarray,
    x: np.ndarray,
    normal: np.ndarray,
    c0: int,
    c1: int,
    before: np.ndarray,
    out: np.ndarray,
    offset: int,
    hold: bool,
    draw: np.ndarray,
    sample_draw: np.ndarray,
) -> None:
    """Run columns [c0, c1) through the hardware stage.

    Args:
        table, key, mix, walk, parameters, extra: see :class:`~sensorium.pipeline.kernels.arrays.Columns`.
        timing_flags, due, draw, sample_draw: see :class:`~sensorium.pipeline.kernels.arrays.Timing`.
        x, normal: scratch, (B,) and (2, B).
        before: measured signal; column c is row c - offset.
        out: where the readings go, with the same rows; not the memory of ``before``.
        hold: whether ``out`` keeps its value where no sample is due.
    """
    n0, n1 = normal[0], normal[1]
    for c in range(c0, c1):
        flags, e = table[c, FLAGS], table[c, EXTRA_ROW]
        k0, k1, s = key[c, 0], key[c, 1], table[c, SENSOR]
        rated = (timing_flags[s] & RATE) != 0
        own = sample_draw[s] if rated else draw
        _start_row(mix, table, c, before, offset, x)
        if flags & (WALK | INPUT_NOISE) or (flags & NOISE and not rated):
            normal_row(k0, k1, draw, n0, n1, _NONE)
        _respond_row(x, extra, e, flags, k0, k1, draw, n0)
        if flags & UNIFORM:
            if flags & BIAS:
                _add(x, parameters[P_BIAS, c, 0])
            if flags & WALK:
                _walk(walk, c, parameters[P_RANDOM_WALK, c, 0], n1)
                _add_row(x, walk, c)
        else:
            if flags & BIAS:
                _add_row(x, parameters[P_BIAS], c)
            if flags & WALK:
                _walk_row(walk, c, parameters[P_RANDOM_WALK], n1)
                _add_row(x, walk, c)
        if flags & NOISE:
            if rated:
                normal_row(k0, k1, own, n0, n1, _NONE)
            if flags & UNIFORM:
                _add_noise(x, parameters[P_NOISE, c, 0], n0)
            else:
                _add_noise_row(x, parameters[P_NOISE], c, n0)
        _slow_row(x, extra, e, flags, k0, k1, draw, own, n0, n1)
        if flags & DEADBAND:
            _deadband_row(x, parameters[P_DEADBAND], c)
        if flags & RESOLUTION:
            _quantise_row(x, parameters[P_RESOLUTION], c)
        if flags & SATURATION:
            _clip_row(x, parameters[P_LOW], parameters[P_HIGH], c)
        if hold and timing_flags[s] & HELD:
            _store_due(x, out, c - offset, due, s)
        else:
            _store(x, out, c - offset)


@kernel
def copy(source: np.ndarray, target: np.ndarray) -> None:
    """Copy ``source`` to ``target``: classes with hooks run the hardware stage from one tensor to another."""
    target[:] = source
