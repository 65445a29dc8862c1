"""The fused step on the CPU: Numba kernels over NumPy views of the manager's tensors.

They implement ``formula.py``. What makes them fast, in this order: columns x envs layout, so that every inner loop runs
over contiguous memory; several short loops over rows that stay in cache instead of one long one, since each is simple
enough for LLVM to vectorise; no work where a column's flags say that there is none; no allocation (scratch rows are
passed in). The kernels release the GIL, so large blocks are split over threads by columns.

Kernels take arrays one by one: with Numba 0.68, a call with a named tuple takes twice as long, and leaks some 50 bytes.

A scene compiles only the stages that it uses. Arrays of imperfections that no sensor of a block asks for are None, and
Numba removes the branches that would need them before it compiles the rest.
"""

from typing import NamedTuple

import numpy as np

from sensorium.jit import helper, inlined, kernel
from sensorium.pipeline import formula
from sensorium.pipeline.flags import (
    AXIS,
    BIAS,
    COUNT,
    DEADBAND,
    DELAYED,
    DROPOUT,
    E_A1,
    E_A2,
    E_B0,
    E_B1,
    E_B2,
    E_DECAY,
    E_DRIFT,
    E_INSTABILITY,
    E_OFFSET,
    E_OUTLIER_SIZE,
    E_OUTLIERS,
    E_SCALE,
    E_SPREAD,
    E_TEMPERATURE,
    E_TEMPERATURE_DRIFT,
    E_Z1,
    E_Z2,
    EXTRA_ROW,
    FILTER,
    FIRST,
    FLAGS,
    GATHER_COPY,
    GATHER_NONE,
    GATHER_ROTATE,
    HELD,
    INSTABILITY,
    LINEAR,
    MIX,
    MIX_FIRST,
    MIX_ROW,
    NOISE,
    OP,
    OUTLIERS,
    P_BIAS,
    P_DEADBAND,
    P_HIGH,
    P_LOW,
    P_NOISE,
    P_RANDOM_WALK,
    P_RESOLUTION,
    QUAT,
    R_HISTORY_FIRST,
    R_HISTORY_LENGTH,
    R_LINEAR,
    R_RING_FIRST,
    R_RING_SLOTS,
    R_SENSOR,
    R_SOURCE,
    R_STRIDE,
    RATE,
    RESOLUTION,
    SATURATION,
    SCALE,
    SENSOR,
    SPREAD,
    STUCK,
    T_DELAY,
    T_DROPOUT,
    T_JITTER,
    T_RATE,
    T_STUCK,
    TEMPERATURE,
    UNIFORM,
    WALK,
)

_F = np.float32
_U = np.uint32
_LOG = tuple(_F(c) for c in formula.LOG)
_SINE = tuple(_F(c) for c in formula.SINE)
_SQRT_HALF, _LOG_2 = _F(formula.SQRT_HALF), _F(formula.LOG_2)
_HALF, _ONE, _TWO, _MINUS_TWO, _ZERO = _F(0.5), _F(1), _F(2), _F(-2), _F(0)
_BIN23, _BIN24 = _F(2.0**-23), 2.0**-24
_EPS = formula.EPS
_PARITY = _U(formula.PARITY)
_GAUSS_MARKOV, _OUTLIER, _RESET = _U(formula.GAUSS_MARKOV), _U(formula.OUTLIER), _U(formula.RESET)
_REFERENCE = _F(formula.TEMPERATURE)
_NONE = _U(0)
_R6, _R13, _R15, _R16, _R17, _R24, _R26, _R29 = (_U(n) for n in (6, 13, 15, 16, 17, 24, 26, 29))
"""Rotations as words, for one compilation of :func:`_rotate` instead of one for each number."""


class Columns(NamedTuple):
    """One dtype's block of columns. Shapes: C columns, B envs, S gather sources, M mixed columns."""

    table: np.ndarray  # (C, 10) int32, see columns of tables in flags.py
    sources: np.ndarray  # (S,) addresses in the engine's sensor data
    key: np.ndarray  # (C, 2) uint32
    mix: np.ndarray | None  # (M, 3, B) weights
    truth: np.ndarray  # (C, B) ground truth
    reading: np.ndarray  # (C, B) measured
    walk: np.ndarray  # (C, B) random walk so far
    parameters: np.ndarray  # (7, C, B)
    extra: np.ndarray | None  # (E, 17, B) of columns with further imperfections


class Timing(NamedTuple):
    """When each of S sensors samples and how late it is read, per env."""

    flags: np.ndarray  # (S,)
    key: np.ndarray  # (S, 2) uint32
    parameters: np.ndarray  # (5, S, B) float64
    due: np.ndarray  # (S, B) bool, this step
    lag: np.ndarray  # (S, B) steps, this step
    part: np.ndarray  # (S, B) fraction towards the next older snapshot (linear)
    stuck: np.ndarray  # (S, B) bool, since reset


class Delivery(NamedTuple):
    """Where R return columns of one dtype go: rings of snapshots, the return cache, histories."""

    table: np.ndarray  # (R, 8) int32
    ring: np.ndarray  # (rows, B)
    cache: np.ndarray  # (R, B)
    history: np.ndarray  # (rows, B)
    truth_history: np.ndarray  # (rows, B)


# -- random numbers ----------------------------------------------------------------------------------------------------


@helper
def _rotate(x, n):
    return _U(_U(x << n) | _U(x >> _U(_U(32) - n)))


@helper
def threefry(k0, k1, c0, c1):
    """Threefry2x32 with 20 rounds."""
    k2 = _U(k0 ^ k1 ^ _PARITY)
    x0, x1 = _U(c0 + k0), _U(c1 + k1)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, _R13) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, _R15) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, _R26) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, _R6) ^ x0)
    x0, x1 = _U(x0 + k1), _U(x1 + k2 + _U(1))
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, _R17) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, _R29) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, _R16) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, _R24) ^ x0)
    x0, x1 = _U(x0 + k2), _U(x1 + k0 + _U(2))
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, _R13) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, _R15) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, _R26) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, _R6) ^ x0)
    x0, x1 = _U(x0 + k0), _U(x1 + k1 + _U(3))
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, _R17) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, _R29) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, _R16) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, _R24) ^ x0)
    x0, x1 = _U(x0 + k1), _U(x1 + k2 + _U(4))
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, _R13) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, _R15) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, _R26) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, _R6) ^ x0)
    return _U(x0 + k2), _U(x1 + k0 + _U(5))


@helper
def _log(u):
    bits = _F(u).view(np.int32)
    exponent = np.int32(bits >> np.int32(23)) - np.int32(126)
    m = np.int32(np.int32(bits & np.int32(0x7FFFFF)) | np.int32(0x3F000000)).view(np.float32)
    small = m < _SQRT_HALF
    m = m + m if small else m
    e = _F(np.int32(exponent - np.int32(1) if small else exponent))
    z = m - _ONE
    p = _LOG[8]
    p = p * z + _LOG[7]
    p = p * z + _LOG[6]
    p = p * z + _LOG[5]
    p = p * z + _LOG[4]
    p = p * z + _LOG[3]
    p = p * z + _LOG[2]
    p = p * z + _LOG[1]
    p = p * z + _LOG[0]
    return p * z + e * _LOG_2


@helper
def _sine(q):
    t = q * q
    p = _SINE[4]
    p = p * t + _SINE[3]
    p = p * t + _SINE[2]
    p = p * t + _SINE[1]
    p = p * t + _SINE[0]
    return p * q


@helper
def normals(w0, w1):
    """Two independent standard normals from two random words."""
    u = (_F(np.int32(w0 >> _U(9))) + _HALF) * _BIN23
    q = (_F(np.int32(w1 >> _U(9))) + _HALF) * _BIN23
    r = _F(np.sqrt(_F(_MINUS_TWO * _log(u))))
    n0, n1 = r * _sine(q), r * _sine(_ONE - q)
    n0 = -n0 if (w1 & _U(1)) != _U(0) else n0
    n1 = -n1 if (w1 & _U(2)) != _U(0) else n1
    return n0, n1


@helper
def _normal_row(k0, k1, step, n0, n1, base):
    for b in range(n0.shape[0]):
        w0, w1 = threefry(k0, k1, _U(_U(b) + base), step)
        n0[b], n1[b] = normals(w0, w1)


# -- timing ------------------------------------------------------------------------------------------------------------


@inlined
def _due_row(time, dt, rate, due, s):
    for b in range(time.shape[0]):
        per_step = dt * rate[s, b]
        k = np.rint(time[b] / dt)
        passed = np.floor(k * per_step + _EPS) > np.floor((k - 1.0) * per_step + _EPS)
        due[s, b] = passed | (per_step >= 1.0) | (per_step == 0.0)


@inlined
def _lose_row(k0, k1, step, dropout, due, s):
    for b in range(due.shape[1]):
        _, w1 = threefry(k0, k1, _U(b), step)
        lost = dropout[s, b] > np.float64(np.int32(w1 >> _U(8))) * _BIN24
        due[s, b] = due[s, b] & (not lost)


@inlined
def _stick_row(k0, k1, step, probability, stuck, due, s):
    for b in range(due.shape[1]):
        w0, _ = threefry(k0, k1, _U(_U(b) + _GAUSS_MARKOV), step)
        now = probability[s, b] > np.float64(np.int32(w0 >> _U(8))) * _BIN24
        stuck[s, b] = stuck[s, b] | now
        due[s, b] = due[s, b] & (not stuck[s, b])


@inlined
def _lag_row(k0, k1, step, delay, jitter, per_dt, lag, s):
    for b in range(lag.shape[1]):
        w0, _ = threefry(k0, k1, _U(b), step)
        late = (delay[s, b] + np.float64(np.int32(w0 >> _U(8))) * _BIN24 * jitter[s, b]) * per_dt
        lag[s, b] = np.int32(max(np.ceil(late - _EPS), 0.0))


@inlined
def _linear_lag_row(k0, k1, step, delay, jitter, per_dt, lag, part, s):
    for b in range(lag.shape[1]):
        w0, _ = threefry(k0, k1, _U(b), step)
        late = (delay[s, b] + np.float64(np.int32(w0 >> _U(8))) * _BIN24 * jitter[s, b]) * per_dt
        whole = np.floor(late + _EPS)
        lag[s, b] = np.int32(whole)
        part[s, b] = _F(max(late - whole, 0.0))


@kernel
def time_step(flags, key, parameters, due, lag, part, stuck, time, dt, count):
    """Due, lag and part of every sensor that has a rate, a delay or drop-outs."""
    step = _U(count)
    delay, jitter = parameters[T_DELAY], parameters[T_JITTER]
    for s in range(flags.shape[0]):
        bits, k0, k1 = flags[s], key[s, 0], key[s, 1]
        if bits & RATE:
            _due_row(time, dt, parameters[T_RATE], due, s)
        elif bits & HELD:
            due[s] = True
        if bits & DROPOUT:
            _lose_row(k0, k1, step, parameters[T_DROPOUT], due, s)
        if bits & STUCK:
            _stick_row(k0, k1, step, parameters[T_STUCK], stuck, due, s)
        if bits & DELAYED:
            if bits & LINEAR:
                _linear_lag_row(k0, k1, step, delay, jitter, 1.0 / dt, lag, part, s)
            else:
                _lag_row(k0, k1, step, delay, jitter, 1.0 / dt, lag, s)


# -- gathering ---------------------------------------------------------------------------------------------------------


@helper
def _rotated(w, x, y, z, fx, fy, fz, axis):
    """Component ``axis`` of a world-frame vector in the frame whose orientation is the quaternion."""
    if axis == 0:
        return (1 - 2 * (y * y + z * z)) * fx + 2 * (x * y + w * z) * fy + 2 * (x * z - w * y) * fz
    if axis == 1:
        return 2 * (x * y - w * z) * fx + (1 - 2 * (x * x + z * z)) * fy + 2 * (y * z + w * x) * fz
    return 2 * (x * z + w * y) * fx + 2 * (y * z - w * x) * fy + (1 - 2 * (x * x + y * y)) * fz


@helper
def _gather_one(table, sources, c, data, b):
    op, first, count = table[c, OP], table[c, FIRST], table[c, COUNT]
    if op == GATHER_COPY:
        return data[b, sources[first]]
    if op == GATHER_ROTATE:
        x = y = z = 0.0
        for i in range(first, first + count):
            a = sources[i]
            x += data[b, a]
            y += data[b, a + 1]
            z += data[b, a + 2]
        q = table[c, QUAT]
        return _rotated(data[b, q], data[b, q + 1], data[b, q + 2], data[b, q + 3], x, y, z, table[c, AXIS])
    value = data[b, sources[first]]
    for i in range(first + 1, first + count):
        value = value + data[b, sources[i]]
    return value


@inlined
def _rotate_row(data, a, q, axis, truth, c):
    for b in range(truth.shape[1]):
        w, x, y, z = data[b, q], data[b, q + 1], data[b, q + 2], data[b, q + 3]
        truth[c, b] = _rotated(w, x, y, z, data[b, a], data[b, a + 1], data[b, a + 2], axis)


@inlined
def _copy_column(data, a, truth, c):
    for b in range(truth.shape[1]):
        truth[c, b] = data[b, a]


@kernel
def gather(table, sources, truth, c0, c1, data):
    """Ground truth of columns [c0, c1) from the engine's sensor data (B, n)."""
    for c in range(c0, c1):
        op, a = table[c, OP], sources[table[c, FIRST]]
        if op == GATHER_COPY:
            _copy_column(data, a, truth, c)
        elif op == GATHER_ROTATE and table[c, COUNT] == 1:
            _rotate_row(data, a, table[c, QUAT], table[c, AXIS], truth, c)
        elif op != GATHER_NONE:
            for b in range(truth.shape[1]):
                truth[c, b] = _gather_one(table, sources, c, data, b)


# -- hardware stage ----------------------------------------------------------------------------------------------------


@helper
def _limited(x, deadband, low, high, resolution):
    """One value from the dead band on; the row loops below are this, spread out."""
    x = x * _ZERO if abs(x) < deadband else x
    x = np.rint(x / resolution) * resolution if resolution > _ZERO else x
    return min(max(x, low), high)


@helper
def _start_row(mix, table, c, before, offset, x):
    """The measured signal of a column, mixed of three where its axes are misaligned."""
    if mix is not None and table[c, FLAGS] & MIX:
        m, f = table[c, MIX_ROW], table[c, MIX_FIRST] - offset
        for b in range(x.shape[0]):
            x[b] = (
                mix[m, 0, b] * before[f, b] + mix[m, 1, b] * before[f + 1, b] + mix[m, 2, b] * before[f + 2, b] + _ZERO
            )
    else:
        for b in range(x.shape[0]):
            x[b] = before[c - offset, b] + _ZERO  # no zero is negative, whatever is added to it later


@inlined
def _add(x, value):
    for b in range(x.shape[0]):
        x[b] = x[b] + value


@inlined
def _add_row(x, values, r):
    for b in range(x.shape[0]):
        x[b] = x[b] + values[r, b]


@inlined
def _walk(walk, r, sigma, n1):
    for b in range(n1.shape[0]):
        walk[r, b] = walk[r, b] + sigma * n1[b]


@inlined
def _walk_row(walk, r, sigma, n1):
    for b in range(n1.shape[0]):
        walk[r, b] = walk[r, b] + sigma[r, b] * n1[b]


@inlined
def _add_noise(x, sigma, n0):
    for b in range(x.shape[0]):
        x[b] = x[b] + sigma * n0[b]


@inlined
def _add_noise_row(x, sigma, r, n0):
    for b in range(x.shape[0]):
        x[b] = x[b] + sigma[r, b] * n0[b]


@inlined
def _deadband_row(x, width, r):
    for b in range(x.shape[0]):
        x[b] = x[b] * _ZERO if abs(x[b]) < width[r, b] else x[b]


@inlined
def _clip_row(x, low, high, r):
    for b in range(x.shape[0]):
        x[b] = min(max(x[b], low[r, b]), high[r, b])


@inlined
def _quantise_row(x, resolution, r):
    for b in range(x.shape[0]):
        q = resolution[r, b]
        x[b] = np.rint(x[b] / q) * q if q > _ZERO else x[b]


@helper
def _rest_filter(x, b, extra, e):
    extra[e, E_Z1, b] = (_ONE - extra[e, E_B0, b]) * x
    extra[e, E_Z2, b] = (extra[e, E_B2, b] - extra[e, E_A2, b]) * x


@inlined
def _filter_row(x, extra, e):
    for b in range(x.shape[0]):
        if np.isnan(extra[e, E_Z1, b]):
            _rest_filter(x[b], b, extra, e)
        else:
            y = extra[e, E_B0, b] * x[b] + extra[e, E_Z1, b]
            extra[e, E_Z1, b] = (extra[e, E_B1, b] * x[b] - extra[e, E_A1, b] * y) + extra[e, E_Z2, b]
            extra[e, E_Z2, b] = extra[e, E_B2, b] * x[b] - extra[e, E_A2, b] * y
            x[b] = y


@inlined
def _scale_row(x, extra, e):
    for b in range(x.shape[0]):
        x[b] = x[b] + extra[e, E_SCALE, b] * x[b]


@inlined
def _drift_row(x, extra, e, m0):
    for b in range(x.shape[0]):
        drift, decay = extra[e, E_DRIFT, b], extra[e, E_DECAY, b]
        kick = extra[e, E_INSTABILITY, b] * _F(np.sqrt(_F(decay * (_TWO - decay))))
        extra[e, E_DRIFT, b] = (drift - decay * drift) + kick * m0[b]


@inlined
def _add_slow_row(x, extra, e):
    for b in range(x.shape[0]):
        heat = extra[e, E_TEMPERATURE_DRIFT, b] * (extra[e, E_TEMPERATURE, b] - _REFERENCE)
        x[b] = ((x[b] + extra[e, E_OFFSET, b]) + extra[e, E_DRIFT, b]) + heat


@helper
def _outlying(x, k0, k1, step, b, extra, e):
    o0, o1 = threefry(k0, k1, _U(_U(b) + _OUTLIER), step)
    if extra[e, E_OUTLIERS, b] > _F(np.int32(o0 >> _U(8))) * _F(_BIN24):
        size = extra[e, E_OUTLIER_SIZE, b]
        return x - size if (o1 & _U(1)) != _U(0) else x + size
    return x


@inlined
def _outlier_row(x, k0, k1, step, extra, e):
    for b in range(x.shape[0]):
        x[b] = _outlying(x[b], k0, k1, step, b, extra, e)


@inlined
def _store(x, reading, r):
    for b in range(x.shape[0]):
        reading[r, b] = x[b]


@inlined
def _store_due(x, reading, r, due, s):
    for b in range(x.shape[0]):
        reading[r, b] = x[b] if due[s, b] else reading[r, b]


@helper
def _respond_row(x, extra, e, flags):
    """Low-pass filter and scale error, where a column has them."""
    if extra is not None:
        if flags & FILTER:
            _filter_row(x, extra, e)
        if flags & SCALE:
            _scale_row(x, extra, e)


@helper
def _slow_row(x, extra, e, flags, k0, k1, step, n0, n1):
    """Turn-on bias, drift, temperature and outliers, where a column has them."""
    if extra is not None:
        if flags & INSTABILITY:
            _normal_row(k0, k1, step, n0, n1, _GAUSS_MARKOV)
            _drift_row(x, extra, e, n0)
        if flags & (SPREAD | INSTABILITY | TEMPERATURE):
            _add_slow_row(x, extra, e)
        if flags & OUTLIERS:
            _outlier_row(x, k0, k1, step, extra, e)


@kernel
def hardware_step(
    table,
    key,
    mix,
    walk,
    parameters,
    extra,
    timing_flags,
    due,
    x,
    normal,
    c0,
    c1,
    before,
    out,
    offset,
    hold,
    count,
):
    """Columns [c0, c1) of the measured signal ``before`` (row c - offset) through the hardware stage into ``out``.

    ``hold`` keeps what ``out`` has where no sample is due. x and normal are scratch rows.
    """
    step = _U(count)
    n0, n1 = normal[0], normal[1]
    for c in range(c0, c1):
        flags, e = table[c, FLAGS], table[c, EXTRA_ROW]
        k0, k1 = key[c, 0], key[c, 1]
        _start_row(mix, table, c, before, offset, x)
        _respond_row(x, extra, e, flags)
        if flags & (NOISE | WALK):
            _normal_row(k0, k1, step, n0, n1, _NONE)
        if flags & UNIFORM:
            if flags & BIAS:
                _add(x, parameters[P_BIAS, c, 0])
            if flags & WALK:
                _walk(walk, c, parameters[P_RANDOM_WALK, c, 0], n1)
                _add_row(x, walk, c)
            if flags & NOISE:
                _add_noise(x, parameters[P_NOISE, c, 0], n0)
        else:
            if flags & BIAS:
                _add_row(x, parameters[P_BIAS], c)
            if flags & WALK:
                _walk_row(walk, c, parameters[P_RANDOM_WALK], n1)
                _add_row(x, walk, c)
            if flags & NOISE:
                _add_noise_row(x, parameters[P_NOISE], c, n0)
        _slow_row(x, extra, e, flags, k0, k1, step, n0, n1)
        if flags & DEADBAND:
            _deadband_row(x, parameters[P_DEADBAND], c)
        if flags & RESOLUTION:
            _quantise_row(x, parameters[P_RESOLUTION], c)
        if flags & SATURATION:
            _clip_row(x, parameters[P_LOW], parameters[P_HIGH], c)
        s = table[c, SENSOR]
        if hold and timing_flags[s] & HELD:
            _store_due(x, out, c - offset, due, s)
        else:
            _store(x, out, c - offset)


# -- delivery ----------------------------------------------------------------------------------------------------------


@inlined
def _late_row(ring, first, slots, stride, head, lag, s, cache, r):
    for b in range(cache.shape[1]):
        slot = head - min(lag[s, b], slots - 1)
        slot = slot + slots if slot < 0 else slot
        cache[r, b] = ring[np.uint32(first + slot * stride), b]


@inlined
def _linear_row(ring, first, slots, stride, head, lag, part, s, cache, r):
    for b in range(cache.shape[1]):
        late = min(lag[s, b], slots - 1)
        slot = head - late
        newer = ring[first + (slot + slots if slot < 0 else slot) * stride, b]
        slot = head - min(late + 1, slots - 1)
        older = ring[first + (slot + slots if slot < 0 else slot) * stride, b]
        cache[r, b] = newer * (_ONE - part[s, b]) + older * part[s, b]


@inlined
def _place_row(source, q, target, r):
    for b in range(source.shape[1]):
        target[r, b] = source[q, b]


@kernel
def deliver(
    table,
    ring,
    cache,
    history,
    truth_history,
    r0,
    r1,
    measured,
    truth,
    timing_flags,
    lag,
    part,
    step,
    serve,
    remember,
):
    """Write snapshots to the rings, fill the cache from them, and append it to histories. Return columns [r0, r1)."""
    for r in range(r0, r1):
        q, s = table[r, R_SOURCE], table[r, R_SENSOR]
        if table[r, R_RING_FIRST] >= 0:
            slots, stride, first = (
                table[r, R_RING_SLOTS],
                table[r, R_STRIDE],
                table[r, R_RING_FIRST],
            )
            head = step % slots
            _place_row(measured, q, ring, first + head * stride)
            if not serve:
                pass
            elif not timing_flags[s] & DELAYED:
                _place_row(measured, q, cache, r)
            elif table[r, R_LINEAR]:
                _linear_row(ring, first, slots, stride, head, lag, part, s, cache, r)
            else:
                _late_row(ring, first, slots, stride, head, lag, s, cache, r)
        elif serve:
            _place_row(measured, q, cache, r)
        if remember and table[r, R_HISTORY_FIRST] >= 0:
            length, stride = table[r, R_HISTORY_LENGTH], table[r, R_STRIDE]
            row = table[r, R_HISTORY_FIRST] + (length - 1 - step % length) * stride
            _place_row(cache, r, history, row)
            _place_row(cache, r, history, row + length * stride)
            _place_row(truth, q, truth_history, row)
            _place_row(truth, q, truth_history, row + length * stride)


# -- copies and resets -------------------------------------------------------------------------------------------------


@kernel
def copy(source, target):
    """All of ``source`` to ``target``."""
    target[:] = source


@helper
def _restart_response(x, k0, k1, step, b, extra, e, scaled):
    """Start filter, offset and drift of one column and env; returns x as it leaves the filter, and scaled."""
    if extra is not None and e >= 0:
        w0, w1 = threefry(k0, k1, _U(_U(b) + _RESET), step)
        e0, e1 = normals(w0, w1)
        extra[e, E_OFFSET, b] = extra[e, E_SPREAD, b] * e0
        extra[e, E_DRIFT, b] = extra[e, E_INSTABILITY, b] * e1
        _rest_filter(x, b, extra, e)
        x = x + extra[e, E_SCALE, b] * x if scaled else x
    return x


@helper
def _first_slow(x, k0, k1, step, b, extra, e):
    """Turn-on bias, drift, temperature and outliers of the first sample of one column and env."""
    if extra is not None and e >= 0:
        heat = extra[e, E_TEMPERATURE_DRIFT, b] * (extra[e, E_TEMPERATURE, b] - _REFERENCE)
        x = ((x + extra[e, E_OFFSET, b]) + extra[e, E_DRIFT, b]) + heat
        x = _outlying(x, k0, k1, step, b, extra, e)
    return x


@helper
def _first_value(mix, table, c, before, offset, b):
    """The measured signal of one column and env, mixed of three where its axes are misaligned."""
    x = before[c - offset, b] + _ZERO
    if mix is not None and table[c, FLAGS] & MIX:
        m, f = table[c, MIX_ROW], table[c, MIX_FIRST] - offset
        x = mix[m, 0, b] * before[f, b] + mix[m, 1, b] * before[f + 1, b] + mix[m, 2, b] * before[f + 2, b] + _ZERO
    return x


@kernel
def reset_timing(stuck, envs):
    """Stuck sensors of some envs recover."""
    for s in range(stuck.shape[0]):
        for i in range(envs.shape[0]):
            stuck[s, envs[i]] = False


@kernel
def reset_columns(table, key, mix, walk, parameters, extra, c0, c1, before, out, offset, count, envs):
    """What :func:`hardware_step` does, at the reset of some envs: drift is cleared, and the first sample is taken."""
    step = _U(count)
    for c in range(c0, c1):
        k0, k1, e = key[c, 0], key[c, 1], table[c, EXTRA_ROW]
        for i in range(envs.shape[0]):
            b = np.int64(envs[i])
            x = _first_value(mix, table, c, before, offset, b)
            walk[c, b] = _ZERO
            x = _restart_response(x, k0, k1, step, b, extra, e, table[c, FLAGS] & SCALE)
            w0, w1 = threefry(k0, k1, _U(b), step)
            n0, _ = normals(w0, w1)
            x = ((x + parameters[P_BIAS, c, b]) + _ZERO) + parameters[P_NOISE, c, b] * n0
            x = _first_slow(x, k0, k1, step, b, extra, e)
            out[c - offset, b] = _limited(
                x,
                parameters[P_DEADBAND, c, b],
                parameters[P_LOW, c, b],
                parameters[P_HIGH, c, b],
                parameters[P_RESOLUTION, c, b],
            )


@kernel
def reset_truth(table, sources, truth, c0, c1, data, envs):
    """Ground truth of columns [c0, c1) from the engine's sensor data, for some envs."""
    for c in range(c0, c1):
        if table[c, OP] != GATHER_NONE:
            for i in range(envs.shape[0]):
                truth[c, envs[i]] = _gather_one(table, sources, c, data, np.int64(envs[i]))


@kernel
def reset_delivery(table, ring, cache, history, truth_history, r0, r1, measured, truth, envs):
    """Fill rings, cache and histories of some envs with the first snapshot."""
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
