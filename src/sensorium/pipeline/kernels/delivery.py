"""Delivery: snapshots into rings, delayed snapshots into the return cache, readings into histories.

Names: r is a return column, q the row of its snapshot, s its sensor, b an env.
"""

from __future__ import annotations

import numpy as np

from sensorium.jit import inlined, kernel
from sensorium.pipeline.flags import (
    DELAYED,
    R_HISTORY_FIRST,
    R_HISTORY_LENGTH,
    R_LINEAR,
    R_RING_FIRST,
    R_RING_SLOTS,
    R_SENSOR,
    R_SOURCE,
    R_STRIDE,
)

_ONE = np.float32(1)


@inlined
def _delayed_row(
    ring: np.ndarray,
    first: int,
    slots: int,
    stride: int,
    head: int,
    lag: np.ndarray,
    s: int,
    cache: np.ndarray,
    r: int,
) -> None:
    for b in range(cache.shape[1]):
        slot = head - min(lag[s, b], slots - 1)
        slot = slot + slots if slot < 0 else slot
        cache[r, b] = ring[np.uint32(first + slot * stride), b]


@inlined
def _linear_row(
    ring: np.ndarray,
    first: int,
    slots: int,
    stride: int,
    head: int,
    lag: np.ndarray,
    part: np.ndarray,
    s: int,
    cache: np.ndarray,
    r: int,
) -> None:
    for b in range(cache.shape[1]):
        age = min(lag[s, b], slots - 1)
        slot = head - age
        newer = ring[first + (slot + slots if slot < 0 else slot) * stride, b]
        slot = head - min(age + 1, slots - 1)
        older = ring[first + (slot + slots if slot < 0 else slot) * stride, b]
        cache[r, b] = newer * (_ONE - part[s, b]) + older * part[s, b]


@inlined
def _copy_row(source: np.ndarray, q: int, target: np.ndarray, r: int) -> None:
    for b in range(source.shape[1]):
        target[r, b] = source[q, b]


@kernel
def deliver(
    table: np.ndarray,
    ring: np.ndarray,
    cache: np.ndarray,
    history: np.ndarray,
    truth_history: np.ndarray,
    r0: int,
    r1: int,
    measured: np.ndarray,
    truth: np.ndarray,
    timing_flags: np.ndarray,
    lag: np.ndarray,
    part: np.ndarray,
    step: int,
    serve: bool,
    remember: bool,
) -> None:
    """Deliver return columns [r0, r1): write snapshots to the rings, update the cache, append it to the histories.

    Args:
        table, ring, cache, history, truth_history: see :class:`~sensorium.pipeline.kernels.arrays.Delivery`.
        measured, truth: snapshots of this step.
        timing_flags, lag, part: see :class:`~sensorium.pipeline.kernels.arrays.Timing`.
        step: steps since build.
        serve: whether to update the cache.
        remember: whether to append the cache and the ground truth to the histories.
    """
    for r in range(r0, r1):
        q, s = table[r, R_SOURCE], table[r, R_SENSOR]
        if table[r, R_RING_FIRST] >= 0:
            slots, stride, first = (
                table[r, R_RING_SLOTS],
                table[r, R_STRIDE],
                table[r, R_RING_FIRST],
            )
            head = step % slots
            _copy_row(measured, q, ring, first + head * stride)
            if not serve:
                pass
            elif not timing_flags[s] & DELAYED:
                _copy_row(measured, q, cache, r)
            elif table[r, R_LINEAR]:
                _linear_row(ring, first, slots, stride, head, lag, part, s, cache, r)
            else:
                _delayed_row(ring, first, slots, stride, head, lag, s, cache, r)
        elif serve:
            _copy_row(measured, q, cache, r)
        if remember and table[r, R_HISTORY_FIRST] >= 0:
            length, stride = table[r, R_HISTORY_LENGTH], table[r, R_STRIDE]
            row = table[r, R_HISTORY_FIRST] + (length - 1 - step % length) * stride
            _copy_row(cache, r, history, row)
            _copy_row(cache, r, history, row + length * stride)
            _copy_row(truth, q, truth_history, row)
            _copy_row(truth, q, truth_history, row + length * stride)
