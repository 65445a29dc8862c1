"""The rings of a memory: one block per field, one ring of slots per writer, and reads that no writer can tear.

```
rows:   | slot 0: env 0 ... env B-1 | slot 1 | ... | slot S-1 || slot 0 of the next writer | ...
        |<--------------- ring of writer 0 ------------------->||<------- writer 1 ------->
```

One ``add`` fills one slot, contiguous in every block, so that it costs one copy per field. A writer owns its ring and
needs no lock; see :mod:`sensorium.entities.kernels` for what readers do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sensorium._system import is_alive
from sensorium.entities import kernels
from sensorium.entities.kernels import BASE, COUNTERS, OWNER, WRITTEN
from sensorium.entities.layout import ExperienceLayout, Rows, Transitions, flat_rows
from sensorium.entities.shared import SharedSegment
from sensorium.errors import OptionError


class Picks:
    """Room for what a read of ``n`` rows notes: the rows, their slots, their sequence numbers, and which were torn."""

    def __init__(self, n: int, device: torch.device) -> None:
        self.rows = torch.zeros(n, dtype=torch.int64, device=device)
        self.slots = np.zeros(n, np.int64)
        self.seen = np.zeros(n, np.int64)
        self.torn = np.zeros(n, np.int64)


class Rings:
    """Blocks of ``writers`` rings of ``n_slots`` slots of ``n_envs`` rows, here, on a device, or in shared memory."""

    def __init__(
        self,
        layout: ExperienceLayout,
        n_slots: int,
        n_envs: int,
        writers: int,
        device: torch.device,
        segment: SharedSegment | None,
    ) -> None:
        self.layout, self.n_slots, self.n_envs, self.writers, self.device = layout, n_slots, n_envs, writers, device
        self.segment = segment
        self.sizes = layout.sizes(n_envs)
        # On a GPU one process writes and reads, in the order of its stream: nothing can be torn.
        self.guarded = device.type == "cpu"
        shapes = self.shapes(layout, n_slots, n_envs, writers)
        if segment is None:
            arrays = {name: np.zeros(*shapes[name]) for name in ("sequences", "counters")}
        else:
            arrays = segment.arrays
        self.sequences, self.counters = arrays["sequences"], arrays["counters"]
        self.blocks: list[Tensor] = []
        for each in layout.fields:
            if segment is not None:
                block = torch.from_numpy(arrays[each.name])
            else:  # zero_ takes the pages now; zeros would leave that to the first writes
                block = torch.empty(shapes[each.name][0], dtype=each.torch_dtype, device=device).zero_()
            self.blocks.append(block)
        self.flat = [flat_rows(block) for block in self.blocks]
        by_slot = [block.view(writers * n_slots, n_envs, *block.shape[1:]) for block in self.blocks]
        self.by_slot: list[Any] = [block.numpy() for block in by_slot] if self.guarded else by_slot

    @staticmethod
    def shapes(
        layout: ExperienceLayout, n_slots: int, n_envs: int, writers: int
    ) -> dict[str, tuple[tuple[int, ...], str]]:
        """The blocks by name: shape and type."""
        rows = writers * n_slots * n_envs
        return {
            "sequences": ((writers * n_slots,), "int64"),
            "counters": ((writers, COUNTERS), "int64"),
            **{each.name: ((rows, *each.shape), each.dtype) for each in layout.fields},
        }

    # -- writers ------------------------------------------------------------------------------------------------------

    def claim(self, writer: int) -> None:
        """This process will write ring ``writer``.

        Raises:
            OptionError: there is no such ring, or a living process writes it.
        """
        if not 0 <= writer < self.writers:
            raise OptionError(f"writer: {writer} is not one of the {self.writers} writers; count from 0")
        owner = int(self.counters[writer, OWNER])
        if owner and is_alive(owner):
            raise OptionError(
                f"writer: ring {writer} is written by process {owner}; each writer needs a ring of its own"
            )
        self.counters[writer, OWNER] = os.getpid()

    def release(self, writer: int) -> None:
        """Ring ``writer`` is free for another, if it was this process's: one that was forked from it has a copy."""
        if self.counters[writer, OWNER] == os.getpid():
            self.counters[writer, OWNER] = 0

    def write(self, writer: int, values: Sequence[Rows]) -> None:
        """The next slot of a ring takes the values of B envs, in the order of the layout's fields.

        A refused value changes nothing.
        """
        check = self.layout.arrays if self.guarded else self.layout.tensors
        values = check(values, self.sizes)
        counters = self.counters[writer]
        number = self.writes(writer)
        slot = writer * self.n_slots + number % self.n_slots
        kernels.open_slot(self.sequences, slot, number)
        if self.guarded:
            for block, array in zip(self.by_slot, values, strict=True):
                block[slot] = array
        else:
            for block, tensor in zip(self.by_slot, values, strict=True):
                block[slot].copy_(tensor)
        kernels.close_slot(self.sequences, slot, number, counters)

    def clear(self, writer: int) -> None:
        """Forget what a ring holds. Its writes keep counting, so that no sequence number comes twice."""
        counters = self.counters[writer]
        start = -(-int(counters[WRITTEN]) // self.n_slots) * self.n_slots
        counters[BASE] = start
        counters[WRITTEN] = start

    # -- readers ------------------------------------------------------------------------------------------------------

    def held(self) -> np.ndarray:
        """(writers,) rows that each ring holds: always its first ones."""
        slots = np.clip(self.counters[:, WRITTEN] - self.counters[:, BASE], 0, self.n_slots)
        return slots * self.n_envs

    def writes(self, writer: int) -> int:
        """The number of a ring's next write."""
        return int(self.counters[writer, WRITTEN])

    def read(self, picks: Picks, out: Sequence[Tensor]) -> int:
        """Rows ``picks.rows`` into ``out``, one tensor per field.

        Returns:
            How many of them were torn; their places are the first of ``picks.torn``.
        """
        if self.guarded:
            kernels.look(self.sequences, picks.rows.numpy(), self.n_envs, picks.slots, picks.seen)
        for block, tensor in zip(self.flat, out, strict=True):
            torch.index_select(block, 0, picks.rows, out=tensor)
        return kernels.look_again(self.sequences, picks.slots, picks.seen, picks.torn) if self.guarded else 0

    def read_since(self, writer: int, number: int, out: Transitions) -> tuple[int, slice, int]:
        """The writes of a ring from ``number`` on, oldest first, as many as are held in one piece and fit ``out``.

        Returns:
            The number from which to go on; the rows of ``out`` that hold transitions; and how many writes were
            overwritten before they could be read.
        """
        number = max(number, int(self.counters[writer, BASE]))
        written = self.writes(writer)
        first = max(number, written - self.n_slots)
        place = first % self.n_slots
        n = max(min(written - first, self.n_slots - place, len(out) // self.n_envs), 0)
        start = writer * self.n_slots + place
        sequences = self.sequences[start : start + n]
        before = kernels.first_whole(sequences, first)
        for block, tensor in zip(self.flat, out.tensors, strict=True):
            tensor[: n * self.n_envs].copy_(block[start * self.n_envs : (start + n) * self.n_envs])
        whole = max(before, kernels.first_whole(sequences, first))
        return first + n, slice(whole * self.n_envs, n * self.n_envs), first - number + whole

    # -- end ----------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the blocks."""
        self.blocks, self.flat, self.by_slot = [], [], []
        self.sequences = self.counters = np.zeros((0, COUNTERS), np.int64)
        if self.segment is not None:
            self.segment.close()
            self.segment = None
