"""``Rings``: the storage of a memory. One block per field, one ring of slots per writer, and reads that are never torn.

```
rows:   | slot 0: env 0 ... env B-1 | slot 1 | ... | slot S-1 || slot 0 of the next writer | ...
        |<--------------- ring of writer 0 ------------------->||<------- writer 1 ------->
```

One ``add`` fills one slot. A slot is contiguous in every block, so that an ``add`` costs one copy per field. A writer
owns its ring and needs no lock. :mod:`sensorium.entities.kernels` explains what readers do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sensorium._system import is_alive
from sensorium.entities import kernels
from sensorium.entities.experience_layout import ExperienceLayout, Transitions, flat_rows
from sensorium.entities.kernels import BASE, COUNTERS, OWNER, WRITTEN
from sensorium.entities.nesting import Rows
from sensorium.entities.shared_segment import SharedSegment
from sensorium.errors import OptionError


class RowSelection:
    """Workspace of a read of n rows: the rows, their slots, the slots' sequence numbers, and the torn rows."""

    def __init__(self, n: int, device: torch.device) -> None:
        self.rows = torch.zeros(n, dtype=torch.int64, device=device)
        self.slots = np.zeros(n, np.int64)
        self.sequences = np.zeros(n, np.int64)
        self.torn = np.zeros(n, np.int64)


class Rings:
    """Blocks of ``writers`` rings of ``n_slots`` slots of ``n_envs`` rows.

    Args:
        layout: layout of the transitions.
        n_slots: slots per ring.
        n_envs: rows per slot.
        writers: number of rings.
        device: device of the blocks.
        segment: shared memory for the blocks; None for memory of this process.
    """

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
        self._row_shapes = layout.shapes(n_envs)
        shapes = self.block_shapes(layout, n_slots, n_envs, writers)
        if segment is None:
            arrays = {name: np.zeros(*shapes[name]) for name in ("sequences", "counters")}
        else:
            arrays = segment.arrays
        self.sequences, self.counters = arrays["sequences"], arrays["counters"]
        self.blocks: list[Tensor] = []
        for each in layout.fields:
            if segment is not None:
                block = torch.from_numpy(arrays[each.name])
            else:  # zero_ allocates the pages now; torch.zeros would leave that to the first writes
                block = torch.empty(shapes[each.name][0], dtype=each.torch_dtype, device=device).zero_()
            self.blocks.append(block)
        self.flat = [flat_rows(block) for block in self.blocks]
        by_slot = [block.view(writers * n_slots, n_envs, *block.shape[1:]) for block in self.blocks]
        # On a GPU one process writes and reads, in the order of its stream: no row can be torn.
        self._on_host = device.type == "cpu"
        self._host_slots = [block.numpy() for block in by_slot] if self._on_host else []
        self._device_slots = [] if self._on_host else by_slot

    @staticmethod
    def block_shapes(
        layout: ExperienceLayout, n_slots: int, n_envs: int, writers: int
    ) -> dict[str, tuple[tuple[int, ...], str]]:
        """Return the shape and dtype of each block, by name."""
        rows = writers * n_slots * n_envs
        return {
            "sequences": ((writers * n_slots,), "int64"),
            "counters": ((writers, COUNTERS), "int64"),
            **{each.name: ((rows, *each.shape), each.dtype) for each in layout.fields},
        }

    # -- writers ------------------------------------------------------------------------------------------------------

    def claim(self, writer: int) -> None:
        """Make this process the writer of a ring.

        Raises:
            OptionError: there is no such ring, or a living process writes it.
        """
        if not 0 <= writer < self.writers:
            raise OptionError(f"writer must be in [0, {self.writers}), got {writer}")
        owner = int(self.counters[writer, OWNER])
        if owner and is_alive(owner):
            raise OptionError(f"writer: process {owner} already writes ring {writer}; use another ring for each writer")
        self.counters[writer, OWNER] = os.getpid()

    def release(self, writer: int) -> None:
        """Release a ring for another writer, if this process claimed it. A forked process did not claim it."""
        if self.counters[writer, OWNER] == os.getpid():
            self.counters[writer, OWNER] = 0

    def write(self, writer: int, values: Sequence[Rows]) -> None:
        """Write the values of B envs to the next slot of a ring.

        Args:
            writer: the ring.
            values: one value per field, in the order of the layout.

        Raises:
            OptionError: a value has the wrong shape or dtype. Nothing is written.
        """
        if self._on_host:
            arrays = self.layout.arrays(values, self._row_shapes)
        else:
            tensors = self.layout.tensors(values, self._row_shapes)
        counters = self.counters[writer]
        number = self.writes(writer)
        slot = writer * self.n_slots + number % self.n_slots
        kernels.open_slot(self.sequences, slot, number)
        if self._on_host:
            for host_block, array in zip(self._host_slots, arrays, strict=True):
                host_block[slot] = array
        else:
            for block, tensor in zip(self._device_slots, tensors, strict=True):
                block[slot].copy_(tensor)
        kernels.close_slot(self.sequences, slot, number, counters)

    def clear(self, writer: int) -> None:
        """Delete the transitions of a ring. The write number goes on, so that no sequence number occurs twice."""
        counters = self.counters[writer]
        start = -(-int(counters[WRITTEN]) // self.n_slots) * self.n_slots
        counters[BASE] = start
        counters[WRITTEN] = start

    # -- readers ------------------------------------------------------------------------------------------------------

    def held(self) -> np.ndarray:
        """Return the number of rows that each ring holds, (writers,). They are the first rows of the ring."""
        # not np.clip, which leaves objects that refer to each other until the next garbage collection (NumPy 2.4)
        slots = np.minimum(np.maximum(self.counters[:, WRITTEN] - self.counters[:, BASE], 0), self.n_slots)
        return slots * self.n_envs

    def writes(self, writer: int) -> int:
        """Return the number of a ring's next write."""
        return int(self.counters[writer, WRITTEN])

    def read(self, selection: RowSelection, out: Sequence[Tensor]) -> int:
        """Read the rows ``selection.rows`` into ``out``, one tensor per field.

        Returns:
            The number of torn rows; their positions are the first entries of ``selection.torn``.
        """
        if self._on_host:
            rows = selection.rows.numpy()
            kernels.begin_read(self.sequences, rows, self.n_envs, selection.slots, selection.sequences)
        for block, tensor in zip(self.flat, out, strict=True):
            torch.index_select(block, 0, selection.rows, out=tensor)
        if not self._on_host:
            return 0
        n_torn: int = kernels.end_read(self.sequences, selection.slots, selection.sequences, selection.torn)
        return n_torn

    def read_since(self, writer: int, number: int, out: Transitions) -> tuple[int, slice, int]:
        """Read the writes of a ring from ``number`` on, oldest first, as many as are contiguous and fit ``out``.

        Returns:
            The number of the next write to read; the rows of ``out`` that hold transitions; and how many writes were
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
        """Free the blocks."""
        self.blocks, self.flat, self._host_slots, self._device_slots = [], [], [], []
        self.sequences = self.counters = np.zeros((0, COUNTERS), np.int64)
        if self.segment is not None:
            self.segment.close()
            self.segment = None
