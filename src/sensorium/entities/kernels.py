"""Numba kernels of the memory: sequence numbers around writes and reads, and selection and routing of rows.

The sequence numbers make a seqlock of every slot (the rows that one ``add`` writes). Write number n of a ring sets the
slot's sequence number to 2n + 1, writes the rows, and sets it to 2n + 2. A reader stores the sequence numbers, reads,
and compares them again. A row is torn if its number was odd (being written), was zero (never written) or has changed.
Memory fences keep the processor from moving loads and stores across the sequence numbers. Without them this would only
hold on x86.
"""

from typing import Any

import numpy as np
from numba.core import types
from numba.extending import intrinsic

from sensorium.jit import kernel

WRITTEN, BASE, OWNER, COUNTERS = 0, 1, 2, 8
"""Columns of a ring's counters: total number of writes, number of the first write that is held, process id of the
writer; and the number of columns, which fills a cache line so that writers do not slow each other down."""


@intrinsic  # type: ignore[untyped-decorator]
def _fence(typing_context: object) -> Any:
    """Complete all loads and stores before it ahead of any after it."""
    # Numba has no fence of its own; ``builder`` is llvmlite's IRBuilder. Checked with numba 0.68.1, llvmlite 0.50.0.

    def generate(context: Any, builder: Any, signature: object, arguments: object) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


@kernel
def open_slot(sequences: np.ndarray, slot: int, number: int) -> None:
    """Mark the start of write ``number`` of a ring in a slot."""
    sequences[slot] = 2 * number + 1
    _fence()


@kernel
def close_slot(sequences: np.ndarray, slot: int, number: int, counters: np.ndarray) -> None:
    """Mark the end of write ``number`` in a slot, and count it in the ring's counters."""
    _fence()
    sequences[slot] = 2 * number + 2
    _fence()
    counters[WRITTEN] = number + 1


@kernel
def begin_read(sequences: np.ndarray, rows: np.ndarray, n_envs: int, slots: np.ndarray, before: np.ndarray) -> None:
    """Store the slots of ``rows`` and the sequence numbers of these slots, before the rows are read."""
    for i in range(rows.size):
        slots[i] = rows[i] // n_envs
        before[i] = sequences[slots[i]]
    _fence()


@kernel
def end_read(sequences: np.ndarray, slots: np.ndarray, before: np.ndarray, torn: np.ndarray) -> int:
    """Write the positions of torn rows to ``torn`` after the rows are read; returns how many there are."""
    _fence()
    n = 0
    for i in range(slots.size):
        if before[i] % 2 == 1 or before[i] == 0 or sequences[slots[i]] != before[i]:
            torn[n] = i
            n += 1
    return n


@kernel
def first_whole(sequences: np.ndarray, number: int) -> int:
    """Return the first slot from which on all slots hold the writes ``number``, ``number`` + 1, ...

    A writer overwrites the first slots first. Call it before and after the slots are read: the slots from the second
    result on were whole all the time.
    """
    _fence()
    first = 0
    for i in range(sequences.size):
        if sequences[i] != 2 * (number + i) + 2:
            first = i + 1
    _fence()
    return first


@kernel
def to_block_rows(rows: np.ndarray, held: np.ndarray, stride: int) -> None:
    """Convert indices into all held rows, ring after ring, to rows of the blocks, in place.

    Args:
        rows: (n,) indices from 0 to sum(held) - 1.
        held: (rings,) number of rows that each ring holds.
        stride: rows of one ring in the blocks.
    """
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
    """Assign a row of the blocks to each label, in the ring of that label; returns how many labels get none.

    If one call has more than ``stride`` labels of a ring, only the last ``stride`` get a row. The others get row -1.

    Args:
        labels: (n,) ring of each transition.
        heads: (rings,) next position of each ring, updated.
        counts: (rings,) rows that each ring holds, updated.
        stride: rows of one ring.
        surplus: (rings,) workspace.
        rows: (n,) filled with the rows.
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
def draw_rows(
    uniforms: np.ndarray, counts: np.ndarray, stride: int, balance: float, cumulative: np.ndarray, rows: np.ndarray
) -> None:
    """Draw rows with pairs of uniform random numbers: the first selects the ring, the second the row in it.

    A ring that holds n of all N rows, one of K rings that are not empty, has the probability
    (1 - balance) n / N + balance / K.

    Args:
        uniforms: (n, 2) in [0, 1).
        counts: (rings,) rows that each ring holds.
        stride: rows of one ring.
        balance: 0 for uniform over rows, 1 for uniform over rings.
        cumulative: (rings,) workspace.
        rows: (n,) filled with the rows.
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
