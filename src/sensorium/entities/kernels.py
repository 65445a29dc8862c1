"""Numba kernels of the memory: sequence numbers around writes and reads, drawing and routing of rows.

The sequence numbers make a seqlock of every slot (the rows that one ``add`` writes). Write number n of a ring sets the
slot's number to 2n + 1, writes, and sets it to 2n + 2. A reader notes the numbers, reads, and looks again: rows whose
number was odd (being written), zero (never written) or has changed are torn. Fences keep the processor from moving
loads and stores across the numbers; without them this would hold on x86 alone.
"""

from typing import Any

import numpy as np
from numba.core import types
from numba.extending import intrinsic

from sensorium.jit import kernel

WRITTEN, BASE, OWNER, COUNTERS = 0, 1, 2, 8
"""Columns of a ring's counters: writes ever made, the number from which those held count, the writer's process; and
how many columns there are: a cache line, so that writers do not slow each other."""


@intrinsic  # type: ignore[untyped-decorator]
def _fence(typing_context: Any) -> Any:
    """All loads and stores before it are done before any after it."""
    # Numba has no fence of its own; ``builder`` is llvmlite's IRBuilder. Checked with numba 0.68.1, llvmlite 0.50.0.

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


@kernel
def open_slot(sequences: np.ndarray, slot: int, number: int) -> None:
    """Write ``number`` of a ring begins in this slot."""
    sequences[slot] = 2 * number + 1
    _fence()


@kernel
def close_slot(sequences: np.ndarray, slot: int, number: int, counters: np.ndarray) -> None:
    """Write ``number`` of the ring with these counters is done."""
    _fence()
    sequences[slot] = 2 * number + 2
    _fence()
    counters[WRITTEN] = number + 1


@kernel
def look(sequences: np.ndarray, rows: np.ndarray, n_envs: int, slots: np.ndarray, seen: np.ndarray) -> None:
    """Before reading ``rows``: in which slots they lie, and those slots' numbers."""
    for i in range(rows.size):
        slots[i] = rows[i] // n_envs
        seen[i] = sequences[slots[i]]
    _fence()


@kernel
def look_again(sequences: np.ndarray, slots: np.ndarray, seen: np.ndarray, torn: np.ndarray) -> int:
    """After reading: the places of the torn rows into ``torn``; returns how many."""
    _fence()
    n = 0
    for i in range(slots.size):
        if seen[i] % 2 == 1 or seen[i] == 0 or sequences[slots[i]] != seen[i]:
            torn[n] = i
            n += 1
    return n


@kernel
def first_whole(sequences: np.ndarray, number: int) -> int:
    """From which slot on they hold the writes ``number``, ``number`` + 1, ...: a writer overwrites the first first.

    To be called before reading the slots, and after: what it gives then was whole throughout.
    """
    _fence()
    first = 0
    for i in range(sequences.size):
        if sequences[i] != 2 * (number + i) + 2:
            first = i + 1
    _fence()
    return first


@kernel
def place(rows: np.ndarray, held: np.ndarray, stride: int) -> None:
    """Turn draws from all that is held, ring after ring, into rows of the blocks, in place."""
    for i in range(rows.size):
        row, ring = rows[i], 0
        while row >= held[ring]:
            row -= held[ring]
            ring += 1
        rows[i] = ring * stride + row


@kernel
def route(
    labels: np.ndarray, heads: np.ndarray, counts: np.ndarray, stride: int, surplus: np.ndarray, rows: np.ndarray
) -> int:
    """The row of the blocks for each label, in its ring after those that came before; returns how many find none.

    Of labels beyond a ring's length in one call only the last ``stride`` are placed; the others get row -1.
    ``surplus`` is room for one number per ring.
    """
    surplus[:] = -stride
    for i in range(labels.size):
        surplus[labels[i]] += 1
    skipped = 0
    for i in range(labels.size):
        ring = labels[i]
        if surplus[ring] > 0:
            surplus[ring] -= 1
            rows[i] = -1
            skipped += 1
            continue
        rows[i] = ring * stride + heads[ring]
        heads[ring] = (heads[ring] + 1) % stride
        counts[ring] = min(counts[ring] + 1, stride)
    return skipped


@kernel
def draw(
    uniforms: np.ndarray, counts: np.ndarray, stride: int, balance: float, cumulative: np.ndarray, rows: np.ndarray
) -> None:
    """Rows for pairs of uniform numbers: the first chooses the ring, the second the row in it.

    A ring with n of the N rows held, one of K that are not empty, has the chance (1 - balance) n / N + balance / K.
    ``cumulative`` is room for one number per ring.
    """
    held, filled = 0, 0
    for ring in range(counts.size):
        held += counts[ring]
        filled += counts[ring] > 0
    total, last = 0.0, 0
    for ring in range(counts.size):
        if counts[ring] > 0:
            total += (1.0 - balance) * counts[ring] / held + balance / filled
            last = ring
        cumulative[ring] = total
    for i in range(rows.size):
        ring = min(np.searchsorted(cumulative, uniforms[i, 0] * total, side="right"), last)
        rows[i] = ring * stride + min(int(uniforms[i, 1] * counts[ring]), counts[ring] - 1)
