"""Timing: when sensors sample, and which of their samples has arrived; see "Timing" in ``formula.py``.

Names: s is a sensor, b an env; k0, k1 are the sensor's random key.
"""

from __future__ import annotations

import numpy as np

from sensorium.jit import helper, inlined, kernel
from sensorium.pipeline import formula
from sensorium.pipeline.flags import (
    DELAYED,
    DROPOUT,
    HELD,
    LINEAR,
    RATE,
    S_FIRST,
    S_SLOTS,
    STUCK,
    T_DELAY,
    T_DROPOUT,
    T_JITTER,
    T_RATE,
    T_STUCK,
)
from sensorium.pipeline.kernels.random import draw_row, word_row, words

_F, _U = np.float32, np.uint32
_BIN24 = 2.0**-24
_EPS = formula.EPS
_GAUSS_MARKOV, _NONE = _U(formula.GAUSS_MARKOV), _U(0)
_NEVER = _F(np.inf)


@inlined
def _advance(env: np.ndarray, episode: np.ndarray, tick: np.ndarray, draw: np.ndarray) -> None:
    for b in range(tick.shape[0]):
        tick[b] = tick[b] + np.int32(1)
    draw_row(env, episode, tick, draw)


@helper
def sample_number(n: float, p: float) -> float:
    """Return the number, in the episode, of the newest sample at tick n of a sensor that takes p samples per tick."""
    return n if (p > 1.0 - _EPS) | (p == 0.0) else np.floor(n * p + _EPS)


@inlined
def _number_row(tick: np.ndarray, dt: float, rate: np.ndarray, number: np.ndarray, s: int) -> None:
    for b in range(tick.shape[0]):
        number[b] = np.int32(sample_number(np.float64(tick[b]), dt * rate[s, b]))


@inlined
def _instant_row(tick: np.ndarray, dt: float, rate: np.ndarray, due: np.ndarray, since: np.ndarray, s: int) -> None:
    """Fill ``due``, and ``since`` (B,) with the time since the last sampling instant, in ticks."""
    for b in range(tick.shape[0]):
        p, n = dt * rate[s, b], np.float64(tick[b])
        k = np.floor(n * p + _EPS)
        every = (p > 1.0 - _EPS) | (p == 0.0)
        due[s, b] = (k > np.floor((n - 1.0) * p + _EPS)) | every
        since[b] = 0.0 if every else max(n - k / p, 0.0)


@inlined
def _dropout_row(k0: np.uint32, k1: np.uint32, draw: np.ndarray, dropout: np.ndarray, due: np.ndarray, s: int) -> None:
    for b in range(due.shape[1]):
        _, w1 = words(k0, k1, draw, b, _NONE)
        lost = dropout[s, b] > np.float64(np.int32(w1 >> _U(8))) * _BIN24
        due[s, b] = due[s, b] & (not lost)


@inlined
def _stuck_row(
    k0: np.uint32,
    k1: np.uint32,
    draw: np.ndarray,
    chance: np.ndarray,
    stuck: np.ndarray,
    due: np.ndarray,
    s: int,
) -> None:
    for b in range(due.shape[1]):
        w0, _ = words(k0, k1, draw, b, _GAUSS_MARKOV)
        now = chance[s, b] > np.float64(np.int32(w0 >> _U(8))) * _BIN24
        stuck[s, b] = stuck[s, b] | now
        due[s, b] = due[s, b] & (not stuck[s, b])


@helper
def _snapped(ticks: float) -> float:
    """Return a time in ticks, rounded to a whole tick that is closer than EPS."""
    whole = np.rint(ticks)
    return whole if abs(ticks - whole) < _EPS else ticks


@inlined
def _latency_row(
    word: np.ndarray, delay: np.ndarray, jitter: np.ndarray, per_dt: float, latency: np.ndarray, s: int
) -> None:
    for b in range(latency.shape[0]):
        latency[b] = (delay[s, b] + np.float64(np.int32(word[b] >> _U(8))) * _BIN24 * jitter[s, b]) * per_dt


@inlined
def _send_row(
    due: np.ndarray, s: int, latency: np.ndarray, since: np.ndarray, arrives: np.ndarray, offset: np.ndarray, row: int
) -> None:
    """Store when the sample of this tick arrives, and how long before this tick it was captured."""
    for b in range(latency.shape[0]):
        arrival = _F(_snapped(latency[b] - since[b]))  # computed for all envs: LLVM vectorises that
        arrives[row, b] = arrival if due[s, b] else _NEVER
        offset[row, b] = _F(since[b])


@inlined
def _receive_row(
    first: int,
    slots: int,
    head: int,
    arrives: np.ndarray,
    offset: np.ndarray,
    lag: np.ndarray,
    part: np.ndarray,
    s: int,
) -> None:
    """Find the youngest sample that has arrived, among those that are younger than the one that was read before.

    All samples of all envs are compared, from the oldest to the youngest: LLVM vectorises that, other than a search in
    each env, and other than one loop that writes both rows.
    """
    for b in range(lag.shape[1]):
        lag[s, b] = lag[s, b] + np.int32(1)
    for younger in range(slots):
        age = np.int32(slots - 1 - younger)
        slot = head - age
        row = first + (slot + slots if slot < 0 else slot)
        for b in range(lag.shape[1]):
            own, before = offset[row, b], part[s, b]
            part[s, b] = own if (age < lag[s, b]) & (arrives[row, b] <= _F(age)) else before
        for b in range(lag.shape[1]):
            before = lag[s, b]
            lag[s, b] = min(before, age) if arrives[row, b] <= _F(age) else before


@inlined
def _hold_row(due: np.ndarray, s: int, offset: np.ndarray, row: int, before: int) -> None:
    """Where this tick has no sample, let the offset be the age of the reading that is held, for interpolation."""
    for b in range(due.shape[1]):
        offset[row, b] = offset[row, b] if due[s, b] else offset[before, b] + _F(1)


@inlined
def _linear_row(latency: np.ndarray, lag: np.ndarray, part: np.ndarray, s: int) -> None:
    for b in range(latency.shape[0]):
        before = np.float64(lag[s, b]) + np.float64(part[s, b])
        late = max(_snapped(min(latency[b], before + 1.0)), 0.0)
        whole = np.floor(late)
        lag[s, b] = np.int32(whole)
        part[s, b] = _F(late - whole)


@inlined
def _held_row(due: np.ndarray, since: np.ndarray, lag: np.ndarray, part: np.ndarray, s: int) -> None:
    """Update the age of the readings of a sensor without delay."""
    for b in range(since.shape[0]):
        lag[s, b] = np.int32(0) if due[s, b] else lag[s, b] + np.int32(1)
        part[s, b] = _F(since[b]) if due[s, b] else part[s, b]


@kernel
def time_step(
    flags: np.ndarray,
    table: np.ndarray,
    key: np.ndarray,
    parameters: np.ndarray,
    due: np.ndarray,
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
    scratch: np.ndarray,
    number: np.ndarray,
    word: np.ndarray,
    dt: float,
    count: int,
) -> None:
    """Advance the clock of every env by a tick, and update the timing of every sensor whose flags ask for it.

    Args:
        flags, table, ..., sample_draw: see :class:`~sensorium.pipeline.kernels.arrays.Timing`.
        scratch, number, word: scratch, (2, B) float64, (B,) int32 and (B,) uint32.
        dt: seconds of one tick.
        count: ticks since build.
    """
    _advance(env, episode, tick, draw)
    since, latency = scratch[0], scratch[1]
    for s in range(flags.shape[0]):
        bits, k0, k1 = flags[s], key[s, 0], key[s, 1]
        if not bits & (HELD | DELAYED):
            continue
        own = draw
        if bits & RATE:
            own = sample_draw[s]
            _number_row(tick, dt, parameters[T_RATE], number, s)
            draw_row(env, episode, number, own)
            _instant_row(tick, dt, parameters[T_RATE], due, since, s)
        else:
            due[s] = True
            since[:] = 0.0
        if bits & DROPOUT:
            _dropout_row(k0, k1, own, parameters[T_DROPOUT], due, s)
        if bits & DELAYED:
            slots, first = table[s, S_SLOTS], table[s, S_FIRST]
            head = count % slots
            word_row(k0, k1, own, word, _NONE)
            _latency_row(word, parameters[T_DELAY], parameters[T_JITTER], 1.0 / dt, latency, s)
            _send_row(due, s, latency, since, arrives, offset, first + head)
            if bits & LINEAR:
                _hold_row(due, s, offset, first + head, first + (head + slots - 1) % slots)
                _linear_row(latency, lag, part, s)
            else:
                _receive_row(first, slots, head, arrives, offset, lag, part, s)
        else:
            _held_row(due, since, lag, part, s)
        if bits & STUCK:
            _stuck_row(k0, k1, draw, parameters[T_STUCK], stuck, due, s)
