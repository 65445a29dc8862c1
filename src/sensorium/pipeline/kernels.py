"""The fused step on the CPU: Numba kernels over NumPy views of the manager's tensors.

They implement ``formula.py``. What made them fast, in this order: columns x envs layout, so that every inner loop runs
over contiguous memory; several short loops over rows that stay in cache instead of one long one, since each is simple
enough for LLVM to vectorise; no work where a column's flags say that there is none; no allocation (scratch rows are
passed in). The kernels release the GIL, so large blocks are split over threads by columns. They stand in one file since
Numba's cache on disk notices changes of the file that a kernel stands in, and of no other (see ``CONSTANTS``).
"""

import zlib
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np

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


def constants_checksum() -> int:
    """CRC-32 of the files whose constants are compiled into these kernels."""
    folder = Path(__file__).parent
    return zlib.crc32(b"".join((folder / name).read_bytes() for name in ("formula.py", "flags.py")))


CONSTANTS = 0x982B2B4C
"""The checksum that kernels in the cache were compiled with. Numba does not notice changes of those files, but it does
of this one; while the two differ, nothing is cached."""

_jit = numba.njit(nogil=True, cache=constants_checksum() == CONSTANTS, error_model="numpy", boundscheck=False)

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


class Columns(NamedTuple):
    """One dtype's block of columns. Shapes: C columns, B envs, S gather sources, M mixed columns."""

    table: np.ndarray  # (C, 10) int32, see columns of tables in flags.py
    sources: np.ndarray  # (S,) addresses in the engine's sensor data
    key: np.ndarray  # (C, 2) uint32
    mix: np.ndarray  # (M, 3, B) weights
    truth: np.ndarray  # (C, B) ground truth
    reading: np.ndarray  # (C, B) measured
    walk: np.ndarray  # (C, B) random walk so far
    parameters: np.ndarray  # (7, C, B)
    extra: np.ndarray  # (E, 17, B) of columns with further imperfections


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


@_jit
def _rotate(x, n):
    return _U(_U(x << _U(n)) | _U(x >> _U(32 - n)))


@_jit
def threefry(k0, k1, c0, c1):
    """Threefry2x32 with 20 rounds."""
    k2 = _U(k0 ^ k1 ^ _PARITY)
    x0, x1 = _U(c0 + k0), _U(c1 + k1)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, 13) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, 15) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, 26) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, 6) ^ x0)
    x0, x1 = _U(x0 + k1), _U(x1 + k2 + _U(1))
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, 17) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, 29) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, 16) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, 24) ^ x0)
    x0, x1 = _U(x0 + k2), _U(x1 + k0 + _U(2))
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, 13) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, 15) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, 26) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, 6) ^ x0)
    x0, x1 = _U(x0 + k0), _U(x1 + k1 + _U(3))
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, 17) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, 29) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, 16) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, 24) ^ x0)
    x0, x1 = _U(x0 + k1), _U(x1 + k2 + _U(4))
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, 13) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, 15) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, 26) ^ x0)
    x0 = _U(x0 + x1)
    x1 = _U(_rotate(x1, 6) ^ x0)
    return _U(x0 + k2), _U(x1 + k0 + _U(5))


@_jit
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


@_jit
def _sine(q):
    t = q * q
    p = _SINE[4]
    p = p * t + _SINE[3]
    p = p * t + _SINE[2]
    p = p * t + _SINE[1]
    p = p * t + _SINE[0]
    return p * q


@_jit
def normals(w0, w1):
    """Two independent standard normals from two random words."""
    u = (_F(np.int32(w0 >> _U(9))) + _HALF) * _BIN23
    q = (_F(np.int32(w1 >> _U(9))) + _HALF) * _BIN23
    r = _F(np.sqrt(_F(_MINUS_TWO * _log(u))))
    n0, n1 = r * _sine(q), r * _sine(_ONE - q)
    n0 = -n0 if (w1 & _U(1)) != _U(0) else n0
    n1 = -n1 if (w1 & _U(2)) != _U(0) else n1
    return n0, n1


@_jit
def _normal_row(k0, k1, step, n0, n1, base=_NONE):
    for b in range(n0.shape[0]):
        w0, w1 = threefry(k0, k1, _U(_U(b) + base), step)
        n0[b], n1[b] = normals(w0, w1)


# -- timing ------------------------------------------------------------------------------------------------------------


@_jit
def _due_row(time, dt, rate, due, s):
    for b in range(time.shape[0]):
        per_step = dt * rate[s, b]
        k = np.rint(time[b] / dt)
        passed = np.floor(k * per_step + _EPS) > np.floor((k - 1.0) * per_step + _EPS)
        due[s, b] = passed | (per_step >= 1.0) | (per_step == 0.0)


@_jit
def _lose_row(k0, k1, step, dropout, due, s):
    for b in range(due.shape[1]):
        _, w1 = threefry(k0, k1, _U(b), step)
        lost = dropout[s, b] > np.float64(np.int32(w1 >> _U(8))) * _BIN24
        due[s, b] = due[s, b] & (not lost)


@_jit
def _stick_row(k0, k1, step, probability, stuck, due, s):
    for b in range(due.shape[1]):
        w0, _ = threefry(k0, k1, _U(_U(b) + _GAUSS_MARKOV), step)
        now = probability[s, b] > np.float64(np.int32(w0 >> _U(8))) * _BIN24
        stuck[s, b] = stuck[s, b] | now
        due[s, b] = due[s, b] & (not stuck[s, b])


@_jit
def _lag_row(k0, k1, step, delay, jitter, per_dt, lag, s):
    for b in range(lag.shape[1]):
        w0, _ = threefry(k0, k1, _U(b), step)
        late = (delay[s, b] + np.float64(np.int32(w0 >> _U(8))) * _BIN24 * jitter[s, b]) * per_dt
        lag[s, b] = np.int32(max(np.ceil(late - _EPS), 0.0))


@_jit
def _linear_lag_row(k0, k1, step, delay, jitter, per_dt, lag, part, s):
    for b in range(lag.shape[1]):
        w0, _ = threefry(k0, k1, _U(b), step)
        late = (delay[s, b] + np.float64(np.int32(w0 >> _U(8))) * _BIN24 * jitter[s, b]) * per_dt
        whole = np.floor(late + _EPS)
        lag[s, b] = np.int32(whole)
        part[s, b] = _F(max(late - whole, 0.0))


@_jit
def time_sensors(timing, time, dt, step):
    """Due, lag and part of every sensor that has a rate, a delay or drop-outs."""
    for s in range(timing.flags.shape[0]):
        flags, k0, k1 = timing.flags[s], timing.key[s, 0], timing.key[s, 1]
        delay, jitter = timing.parameters[T_DELAY], timing.parameters[T_JITTER]
        if flags & RATE:
            _due_row(time, dt, timing.parameters[T_RATE], timing.due, s)
        elif flags & HELD:
            timing.due[s] = True
        if flags & DROPOUT:
            _lose_row(k0, k1, step, timing.parameters[T_DROPOUT], timing.due, s)
        if flags & STUCK:
            _stick_row(k0, k1, step, timing.parameters[T_STUCK], timing.stuck, timing.due, s)
        if flags & DELAYED:
            if flags & LINEAR:
                _linear_lag_row(k0, k1, step, delay, jitter, 1.0 / dt, timing.lag, timing.part, s)
            else:
                _lag_row(k0, k1, step, delay, jitter, 1.0 / dt, timing.lag, s)


# -- gathering ---------------------------------------------------------------------------------------------------------


@_jit
def _rotated(w, x, y, z, fx, fy, fz, axis):
    """Component ``axis`` of a world-frame vector in the frame whose orientation is the quaternion."""
    if axis == 0:
        return (1 - 2 * (y * y + z * z)) * fx + 2 * (x * y + w * z) * fy + 2 * (x * z - w * y) * fz
    if axis == 1:
        return 2 * (x * y - w * z) * fx + (1 - 2 * (x * x + z * z)) * fy + 2 * (y * z + w * x) * fz
    return 2 * (x * z + w * y) * fx + 2 * (y * z - w * x) * fy + (1 - 2 * (x * x + y * y)) * fz


@_jit
def _gather_one(columns, c, data, b):
    op, first, count = columns.table[c, OP], columns.table[c, FIRST], columns.table[c, COUNT]
    if op == GATHER_COPY:
        return data[b, columns.sources[first]]
    if op == GATHER_ROTATE:
        x = y = z = 0.0
        for i in range(first, first + count):
            a = columns.sources[i]
            x += data[b, a]
            y += data[b, a + 1]
            z += data[b, a + 2]
        q = columns.table[c, QUAT]
        return _rotated(data[b, q], data[b, q + 1], data[b, q + 2], data[b, q + 3], x, y, z, columns.table[c, AXIS])
    value = data[b, columns.sources[first]]
    for i in range(first + 1, first + count):
        value = value + data[b, columns.sources[i]]
    return value


@_jit
def _rotate_row(data, a, q, axis, truth, c):
    for b in range(truth.shape[1]):
        w, x, y, z = data[b, q], data[b, q + 1], data[b, q + 2], data[b, q + 3]
        truth[c, b] = _rotated(w, x, y, z, data[b, a], data[b, a + 1], data[b, a + 2], axis)


@_jit
def _copy_column(data, a, truth, c):
    for b in range(truth.shape[1]):
        truth[c, b] = data[b, a]


@_jit
def gather(columns, c0, c1, data):
    """Ground truth of columns [c0, c1) from the engine's sensor data (B, n)."""
    for c in range(c0, c1):
        op, a = columns.table[c, OP], columns.sources[columns.table[c, FIRST]]
        if op == GATHER_COPY:
            _copy_column(data, a, columns.truth, c)
        elif op == GATHER_ROTATE and columns.table[c, COUNT] == 1:
            _rotate_row(data, a, columns.table[c, QUAT], columns.table[c, AXIS], columns.truth, c)
        elif op != GATHER_NONE:
            for b in range(columns.truth.shape[1]):
                columns.truth[c, b] = _gather_one(columns, c, data, b)


# -- hardware stage ----------------------------------------------------------------------------------------------------


@_jit
def _limited(x, deadband, low, high, resolution):
    """One value from the dead band on; the row loops below are this, spread out."""
    x = x * _ZERO if abs(x) < deadband else x
    x = np.rint(x / resolution) * resolution if resolution > _ZERO else x
    return min(max(x, low), high)


@_jit
def _mixed_row(columns, c, before, offset, x):
    m, f = columns.table[c, MIX_ROW], columns.table[c, MIX_FIRST] - offset
    for b in range(x.shape[0]):
        x[b] = (
            columns.mix[m, 0, b] * before[f, b]
            + columns.mix[m, 1, b] * before[f + 1, b]
            + columns.mix[m, 2, b] * before[f + 2, b]
            + _ZERO
        )


@_jit
def _copy_row(source, r, x):
    for b in range(x.shape[0]):
        x[b] = source[r, b] + _ZERO  # no zero is negative, whatever is added to it later


@_jit
def _add(x, value):
    for b in range(x.shape[0]):
        x[b] = x[b] + value


@_jit
def _add_row(x, values, r):
    for b in range(x.shape[0]):
        x[b] = x[b] + values[r, b]


@_jit
def _walk(walk, r, sigma, n1):
    for b in range(n1.shape[0]):
        walk[r, b] = walk[r, b] + sigma * n1[b]


@_jit
def _walk_row(walk, r, sigma, n1):
    for b in range(n1.shape[0]):
        walk[r, b] = walk[r, b] + sigma[r, b] * n1[b]


@_jit
def _add_noise(x, sigma, n0):
    for b in range(x.shape[0]):
        x[b] = x[b] + sigma * n0[b]


@_jit
def _add_noise_row(x, sigma, r, n0):
    for b in range(x.shape[0]):
        x[b] = x[b] + sigma[r, b] * n0[b]


@_jit
def _deadband_row(x, width, r):
    for b in range(x.shape[0]):
        x[b] = x[b] * _ZERO if abs(x[b]) < width[r, b] else x[b]


@_jit
def _clip_row(x, low, high, r):
    for b in range(x.shape[0]):
        x[b] = min(max(x[b], low[r, b]), high[r, b])


@_jit
def _quantise_row(x, resolution, r):
    for b in range(x.shape[0]):
        q = resolution[r, b]
        x[b] = np.rint(x[b] / q) * q if q > _ZERO else x[b]


@_jit
def _rest_filter(x, b, extra, e):
    extra[e, E_Z1, b] = (_ONE - extra[e, E_B0, b]) * x
    extra[e, E_Z2, b] = (extra[e, E_B2, b] - extra[e, E_A2, b]) * x


@_jit
def _filter_row(x, extra, e):
    for b in range(x.shape[0]):
        if np.isnan(extra[e, E_Z1, b]):
            _rest_filter(x[b], b, extra, e)
        else:
            y = extra[e, E_B0, b] * x[b] + extra[e, E_Z1, b]
            extra[e, E_Z1, b] = (extra[e, E_B1, b] * x[b] - extra[e, E_A1, b] * y) + extra[e, E_Z2, b]
            extra[e, E_Z2, b] = extra[e, E_B2, b] * x[b] - extra[e, E_A2, b] * y
            x[b] = y


@_jit
def _scale_row(x, extra, e):
    for b in range(x.shape[0]):
        x[b] = x[b] + extra[e, E_SCALE, b] * x[b]


@_jit
def _drift_row(x, extra, e, m0):
    for b in range(x.shape[0]):
        drift, decay = extra[e, E_DRIFT, b], extra[e, E_DECAY, b]
        kick = extra[e, E_INSTABILITY, b] * _F(np.sqrt(_F(decay * (_TWO - decay))))
        extra[e, E_DRIFT, b] = (drift - decay * drift) + kick * m0[b]


@_jit
def _add_slow_row(x, extra, e):
    for b in range(x.shape[0]):
        heat = extra[e, E_TEMPERATURE_DRIFT, b] * (extra[e, E_TEMPERATURE, b] - _REFERENCE)
        x[b] = ((x[b] + extra[e, E_OFFSET, b]) + extra[e, E_DRIFT, b]) + heat


@_jit
def _outlying(x, k0, k1, step, b, extra, e):
    o0, o1 = threefry(k0, k1, _U(_U(b) + _OUTLIER), step)
    if extra[e, E_OUTLIERS, b] > _F(np.int32(o0 >> _U(8))) * _F(_BIN24):
        size = extra[e, E_OUTLIER_SIZE, b]
        return x - size if (o1 & _U(1)) != _U(0) else x + size
    return x


@_jit
def _outlier_row(x, k0, k1, step, extra, e):
    for b in range(x.shape[0]):
        x[b] = _outlying(x[b], k0, k1, step, b, extra, e)


@_jit
def _store(x, reading, r):
    for b in range(x.shape[0]):
        reading[r, b] = x[b]


@_jit
def _store_due(x, reading, r, due, s):
    for b in range(x.shape[0]):
        reading[r, b] = x[b] if due[s, b] else reading[r, b]


@_jit
def hardware(columns, c0, c1, before, out, offset, hold, timing, step, x, normal):
    """Columns [c0, c1) of the measured signal ``before`` (row c - offset) through the hardware stage into ``out``.

    ``hold`` keeps what ``out`` has where no sample is due. x and normal are scratch rows.
    """
    n0, n1 = normal[0], normal[1]
    for c in range(c0, c1):
        flags = columns.table[c, FLAGS]
        if flags & MIX:
            _mixed_row(columns, c, before, offset, x)
        else:
            _copy_row(before, c - offset, x)
        e = columns.table[c, EXTRA_ROW]
        if flags & FILTER:
            _filter_row(x, columns.extra, e)
        if flags & SCALE:
            _scale_row(x, columns.extra, e)
        if flags & (NOISE | WALK):
            _normal_row(columns.key[c, 0], columns.key[c, 1], step, n0, n1)
        if flags & UNIFORM:
            if flags & BIAS:
                _add(x, columns.parameters[P_BIAS, c, 0])
            if flags & WALK:
                _walk(columns.walk, c, columns.parameters[P_RANDOM_WALK, c, 0], n1)
                _add_row(x, columns.walk, c)
            if flags & NOISE:
                _add_noise(x, columns.parameters[P_NOISE, c, 0], n0)
        else:
            if flags & BIAS:
                _add_row(x, columns.parameters[P_BIAS], c)
            if flags & WALK:
                _walk_row(columns.walk, c, columns.parameters[P_RANDOM_WALK], n1)
                _add_row(x, columns.walk, c)
            if flags & NOISE:
                _add_noise_row(x, columns.parameters[P_NOISE], c, n0)
        if flags & INSTABILITY:
            _normal_row(columns.key[c, 0], columns.key[c, 1], step, n0, n1, _GAUSS_MARKOV)
            _drift_row(x, columns.extra, e, n0)
        if flags & (SPREAD | INSTABILITY | TEMPERATURE):
            _add_slow_row(x, columns.extra, e)
        if flags & OUTLIERS:
            _outlier_row(x, columns.key[c, 0], columns.key[c, 1], step, columns.extra, e)
        if flags & DEADBAND:
            _deadband_row(x, columns.parameters[P_DEADBAND], c)
        if flags & RESOLUTION:
            _quantise_row(x, columns.parameters[P_RESOLUTION], c)
        if flags & SATURATION:
            _clip_row(x, columns.parameters[P_LOW], columns.parameters[P_HIGH], c)
        s = columns.table[c, SENSOR]
        if hold and timing.flags[s] & HELD:
            _store_due(x, out, c - offset, timing.due, s)
        else:
            _store(x, out, c - offset)


# -- delivery ----------------------------------------------------------------------------------------------------------


@_jit
def _late_row(ring, first, slots, stride, head, lag, s, cache, r):
    for b in range(cache.shape[1]):
        slot = head - min(lag[s, b], slots - 1)
        slot = slot + slots if slot < 0 else slot
        cache[r, b] = ring[np.uint32(first + slot * stride), b]


@_jit
def _linear_row(ring, first, slots, stride, head, lag, part, s, cache, r):
    for b in range(cache.shape[1]):
        late = min(lag[s, b], slots - 1)
        slot = head - late
        newer = ring[first + (slot + slots if slot < 0 else slot) * stride, b]
        slot = head - min(late + 1, slots - 1)
        older = ring[first + (slot + slots if slot < 0 else slot) * stride, b]
        cache[r, b] = newer * (_ONE - part[s, b]) + older * part[s, b]


@_jit
def _place_row(source, q, target, r):
    for b in range(source.shape[1]):
        target[r, b] = source[q, b]


@_jit
def deliver(delivery, r0, r1, measured, truth, timing, step, serve, remember):
    """Freeze snapshots into the rings; serve the cache from them; remember it in histories. Return columns [r0, r1)."""
    for r in range(r0, r1):
        q, s = delivery.table[r, R_SOURCE], delivery.table[r, R_SENSOR]
        if delivery.table[r, R_RING_FIRST] >= 0:
            slots, stride, first = (
                delivery.table[r, R_RING_SLOTS],
                delivery.table[r, R_STRIDE],
                delivery.table[r, R_RING_FIRST],
            )
            head = step % slots
            _place_row(measured, q, delivery.ring, first + head * stride)
            if not serve:
                pass
            elif not timing.flags[s] & DELAYED:
                _place_row(measured, q, delivery.cache, r)
            elif delivery.table[r, R_LINEAR]:
                _linear_row(delivery.ring, first, slots, stride, head, timing.lag, timing.part, s, delivery.cache, r)
            else:
                _late_row(delivery.ring, first, slots, stride, head, timing.lag, s, delivery.cache, r)
        elif serve:
            _place_row(measured, q, delivery.cache, r)
        if remember and delivery.table[r, R_HISTORY_FIRST] >= 0:
            length, stride = delivery.table[r, R_HISTORY_LENGTH], delivery.table[r, R_STRIDE]
            row = delivery.table[r, R_HISTORY_FIRST] + (length - 1 - step % length) * stride
            _place_row(delivery.cache, r, delivery.history, row)
            _place_row(delivery.cache, r, delivery.history, row + length * stride)
            _place_row(truth, q, delivery.truth_history, row)
            _place_row(truth, q, delivery.truth_history, row + length * stride)


# -- whole steps -------------------------------------------------------------------------------------------------------


@_jit
def copy(source, target):
    """All of ``source`` to ``target``."""
    target[:] = source


@_jit
def time_step(timing, time, dt, step):
    """``time_sensors``, with the step as other kernels take it."""
    time_sensors(timing, time, dt, _U(step))


@_jit
def fused_step(
    # one by one, since unpacking named tuples at the call costs as much again; in the order of Columns, ...
    table,
    sources,
    key,
    mix,
    truth,
    reading,
    walk,
    parameters,
    extra,
    timing_flags,
    timing_key,
    timing_parameters,
    due,
    lag,
    part,
    stuck,
    delivery_table,
    ring,
    cache,
    history,
    truth_history,
    data,
    time,
    x,
    normal,
    dt,
    timed,
    c0,
    c1,
    r0,
    r1,
    step,
):
    """Columns [c0, c1) from engine data to readings, and their return columns [r0, r1) to the cache."""
    columns = Columns(table, sources, key, mix, truth, reading, walk, parameters, extra)
    timing = Timing(timing_flags, timing_key, timing_parameters, due, lag, part, stuck)
    delivery = Delivery(delivery_table, ring, cache, history, truth_history)
    if timed:
        time_sensors(timing, time, dt, _U(step))
    gather(columns, c0, c1, data)
    hardware(columns, c0, c1, truth, reading, 0, True, timing, _U(step), x, normal)
    deliver(delivery, r0, r1, reading, truth, timing, step, True, True)


@_jit
def hardware_step(
    # one by one, as in fused_step
    table,
    sources,
    key,
    mix,
    truth,
    reading,
    walk,
    parameters,
    extra,
    timing_flags,
    timing_key,
    timing_parameters,
    due,
    lag,
    part,
    stuck,
    x,
    normal,
    c0,
    c1,
    before,
    out,
    offset,
    hold,
    step,
):
    """Columns [c0, c1) of the measured signal ``before`` (row c - offset) through the hardware stage into ``out``."""
    columns = Columns(table, sources, key, mix, truth, reading, walk, parameters, extra)
    timing = Timing(timing_flags, timing_key, timing_parameters, due, lag, part, stuck)
    hardware(columns, c0, c1, before, out, offset, hold, timing, _U(step), x, normal)


@_jit
def _restart_extra(x, k0, k1, step, b, extra, e, scaled):
    """Put filter, offset and drift of one column and env to where they start; x as it leaves the filter, and scaled."""
    if e < 0:
        return x
    w0, w1 = threefry(k0, k1, _U(_U(b) + _RESET), step)
    e0, e1 = normals(w0, w1)
    extra[e, E_OFFSET, b] = extra[e, E_SPREAD, b] * e0
    extra[e, E_DRIFT, b] = extra[e, E_INSTABILITY, b] * e1
    _rest_filter(x, b, extra, e)
    return x + extra[e, E_SCALE, b] * x if scaled else x


@_jit
def reset_timing(timing, envs):
    """What is stuck comes loose, in some envs."""
    for s in range(timing.stuck.shape[0]):
        for i in range(envs.shape[0]):
            timing.stuck[s, envs[i]] = False


@_jit
def reset_columns(columns, c0, c1, before, out, offset, step, envs):
    """What :func:`hardware` does, at the reset of some envs: drift is cleared, and the first sample is taken."""
    for c in range(c0, c1):
        f = columns.table[c, MIX_FIRST] - offset
        for i in range(envs.shape[0]):
            b = envs[i]
            x = before[c - offset, b] + _ZERO
            if columns.table[c, FLAGS] & MIX:
                m = columns.table[c, MIX_ROW]
                x = (
                    columns.mix[m, 0, b] * before[f, b]
                    + columns.mix[m, 1, b] * before[f + 1, b]
                    + columns.mix[m, 2, b] * before[f + 2, b]
                    + _ZERO
                )
            columns.walk[c, b] = _ZERO
            k0, k1, e = columns.key[c, 0], columns.key[c, 1], columns.table[c, EXTRA_ROW]
            x = _restart_extra(x, k0, k1, _U(step), b, columns.extra, e, columns.table[c, FLAGS] & SCALE)
            w0, w1 = threefry(k0, k1, _U(b), _U(step))
            n0, _ = normals(w0, w1)
            x = ((x + columns.parameters[P_BIAS, c, b]) + _ZERO) + columns.parameters[P_NOISE, c, b] * n0
            if e >= 0:
                heat = columns.extra[e, E_TEMPERATURE_DRIFT, b] * (columns.extra[e, E_TEMPERATURE, b] - _REFERENCE)
                x = ((x + columns.extra[e, E_OFFSET, b]) + columns.extra[e, E_DRIFT, b]) + heat
                x = _outlying(x, k0, k1, _U(step), b, columns.extra, e)
            out[c - offset, b] = _limited(
                x,
                columns.parameters[P_DEADBAND, c, b],
                columns.parameters[P_LOW, c, b],
                columns.parameters[P_HIGH, c, b],
                columns.parameters[P_RESOLUTION, c, b],
            )


@_jit
def reset_truth(columns, c0, c1, data, envs):
    """Ground truth of columns [c0, c1) from the engine's sensor data, for some envs."""
    for c in range(c0, c1):
        if columns.table[c, OP] != GATHER_NONE:
            for i in range(envs.shape[0]):
                columns.truth[c, envs[i]] = _gather_one(columns, c, data, envs[i])


@_jit
def reset_delivery(delivery, r0, r1, measured, truth, envs):
    """Fill rings, cache and histories of some envs with the first snapshot."""
    for r in range(r0, r1):
        q, stride = delivery.table[r, R_SOURCE], delivery.table[r, R_STRIDE]
        for i in range(envs.shape[0]):
            b = envs[i]
            value = measured[q, b]
            delivery.cache[r, b] = value
            if delivery.table[r, R_RING_FIRST] >= 0:
                for k in range(delivery.table[r, R_RING_SLOTS]):
                    delivery.ring[delivery.table[r, R_RING_FIRST] + k * stride, b] = value
            if delivery.table[r, R_HISTORY_FIRST] >= 0:
                for k in range(2 * delivery.table[r, R_HISTORY_LENGTH]):
                    delivery.history[delivery.table[r, R_HISTORY_FIRST] + k * stride, b] = value
                    delivery.truth_history[delivery.table[r, R_HISTORY_FIRST] + k * stride, b] = truth[q, b]
