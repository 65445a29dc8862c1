"""Random numbers: Threefry2x32-20 words, and standard normals from them; see ``formula.py``.

A number depends on its key and counter only, so every batch size and thread count gives the same bits.

The loops over a row compute four envs of four parts of it at a time. The rounds of one number depend on each other, and
a processor has room for the next iteration of a loop only if its body is small. Four independent numbers in one body
keep it busy: a row of 1,024 normals takes 14 instead of 23 µs on a Neoverse-N1.
"""

from __future__ import annotations

import numpy as np

from sensorium.jit import helper
from sensorium.pipeline import formula

_F, _U = np.float32, np.uint32
_LOG = tuple(_F(c) for c in formula.LOG)
_SINE = tuple(_F(c) for c in formula.SINE)
_SQRT_HALF, _LOG_2 = _F(formula.SQRT_HALF), _F(formula.LOG_2)
_HALF, _ONE, _MINUS_TWO = _F(0.5), _F(1), _F(-2)
_BIN23 = _F(2.0**-23)
_PARITY = _U(formula.PARITY)
_DRAW = _U(formula.DRAW)
_R6, _R13, _R15, _R16, _R17, _R24, _R26, _R29 = (_U(n) for n in (6, 13, 15, 16, 17, 24, 26, 29))
"""Rotations as words, so that :func:`_rotate` is compiled once and not once per number."""


@helper
def _rotate(x: np.uint32, n: np.uint32) -> np.uint32:
    return _U(_U(x << n) | _U(x >> _U(_U(32) - n)))


@helper
def threefry(k0: np.uint32, k1: np.uint32, c0: np.uint32, c1: np.uint32) -> tuple[np.uint32, np.uint32]:
    """Return two random words of the key (k0, k1) and the counter (c0, c1): Threefry2x32 with 20 rounds."""
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
def _log(u: np.float32) -> np.float32:
    """Natural logarithm of u in (0, 1)."""
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
def _sine(q: np.float32) -> np.float32:
    """sin(q * pi / 2) of q in [0, 1]."""
    t = q * q
    p = _SINE[4]
    p = p * t + _SINE[3]
    p = p * t + _SINE[2]
    p = p * t + _SINE[1]
    p = p * t + _SINE[0]
    return p * q


@helper
def normals(w0: np.uint32, w1: np.uint32) -> tuple[np.float32, np.float32]:
    """Return two independent standard normals of two random words."""
    u = (_F(np.int32(w0 >> _U(9))) + _HALF) * _BIN23
    q = (_F(np.int32(w1 >> _U(9))) + _HALF) * _BIN23
    r = _F(np.sqrt(_F(_MINUS_TWO * _log(u))))
    n0, n1 = r * _sine(q), r * _sine(_ONE - q)
    n0 = -n0 if (w1 & _U(1)) != _U(0) else n0
    n1 = -n1 if (w1 & _U(2)) != _U(0) else n1
    return n0, n1


@helper
def words(k0: np.uint32, k1: np.uint32, draw: np.ndarray, b: int, lane: np.uint32) -> tuple[np.uint32, np.uint32]:
    """Return two random words of one env; ``draw`` (2, B), of a tick or a sample, is updated by the timing kernels."""
    return threefry(k0, k1, _U(draw[0, b] ^ lane), draw[1, b])


@helper
def normal_row(k0: np.uint32, k1: np.uint32, draw: np.ndarray, n0: np.ndarray, n1: np.ndarray, lane: np.uint32) -> None:
    """Fill the rows ``n0`` and ``n1`` (B,) with normals of a draw."""
    quarter = n0.shape[0] // 4
    for b in range(quarter):
        c, d, e = b + quarter, b + 2 * quarter, b + 3 * quarter
        s0, s1 = words(k0, k1, draw, b, lane)
        t0, t1 = words(k0, k1, draw, c, lane)
        u0, u1 = words(k0, k1, draw, d, lane)
        v0, v1 = words(k0, k1, draw, e, lane)
        n0[b], n1[b] = normals(s0, s1)
        n0[c], n1[c] = normals(t0, t1)
        n0[d], n1[d] = normals(u0, u1)
        n0[e], n1[e] = normals(v0, v1)
    for b in range(4 * quarter, n0.shape[0]):
        s0, s1 = words(k0, k1, draw, b, lane)
        n0[b], n1[b] = normals(s0, s1)


@helper
def word_row(k0: np.uint32, k1: np.uint32, draw: np.ndarray, w0: np.ndarray, lane: np.uint32) -> None:
    """Fill the row ``w0`` (B,) with the first random words of a draw."""
    quarter = w0.shape[0] // 4
    for b in range(quarter):
        c, d, e = b + quarter, b + 2 * quarter, b + 3 * quarter
        s, _ = words(k0, k1, draw, b, lane)
        t, _ = words(k0, k1, draw, c, lane)
        u, _ = words(k0, k1, draw, d, lane)
        v, _ = words(k0, k1, draw, e, lane)
        w0[b], w0[c], w0[d], w0[e] = s, t, u, v
    for b in range(4 * quarter, w0.shape[0]):
        w0[b], _ = words(k0, k1, draw, b, lane)


@helper
def draw_env(env: np.uint32, episode: np.uint32, number: np.uint32) -> tuple[np.uint32, np.uint32]:
    """Return the draw of one env for one tick, or one sample, of an episode."""
    return threefry(env, episode, number, _DRAW)


@helper
def draw_row(env: np.ndarray, episode: np.ndarray, number: np.ndarray, draw: np.ndarray) -> None:
    """Fill ``draw`` (2, B) with the draws of all envs; ``number`` (B,) int32 is that of the tick or the sample."""
    quarter = number.shape[0] // 4
    for b in range(quarter):
        c, d, e = b + quarter, b + 2 * quarter, b + 3 * quarter
        s0, s1 = draw_env(_U(env[b]), _U(episode[b]), _U(number[b]))
        t0, t1 = draw_env(_U(env[c]), _U(episode[c]), _U(number[c]))
        u0, u1 = draw_env(_U(env[d]), _U(episode[d]), _U(number[d]))
        v0, v1 = draw_env(_U(env[e]), _U(episode[e]), _U(number[e]))
        draw[0, b], draw[0, c], draw[0, d], draw[0, e] = s0, t0, u0, v0
        draw[1, b], draw[1, c], draw[1, d], draw[1, e] = s1, t1, u1, v1
    for b in range(4 * quarter, number.shape[0]):
        draw[0, b], draw[1, b] = draw_env(_U(env[b]), _U(episode[b]), _U(number[b]))
