"""``Memory``: a replay memory of transitions in preallocated blocks, in one process or shared between processes."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import NoReturn

import torch
from gymnasium import spaces

from sensorium._arguments import checked, checked_flag
from sensorium._system import check_memory
from sensorium.entities import kernels, memory_files
from sensorium.entities.device import usable_device
from sensorium.entities.experience_layout import ExperienceLayout, Transitions
from sensorium.entities.nesting import NestedRows, Rows
from sensorium.entities.rings import Rings, RowSelection
from sensorium.entities.shared_segment import SharedSegment
from sensorium.errors import OptionError
from sensorium.options import checked_integer

_MAX_REDRAWS = 1000
"""How often torn rows are drawn again before sampling raises an error."""


class Memory:
    """A replay memory that B envs write at once and that a learner samples.

    Every field of a transition has its own contiguous block, float32, or uint8 for images and flags. When a writer's
    ring is full, new transitions overwrite the oldest. :meth:`add` and :meth:`sample` allocate nothing in steady state.

    Example:
        >>> memory = Memory(suite_space, action_space, capacity=100_000, n_envs=16)
        >>> memory.add(obs, action, reward, next_obs, terminated, truncated)    # 16 transitions
        >>> batch = memory.sample(256)
        >>> batch.next_observation["imu"].shape
        torch.Size([256, 6])

    **Shared memory.** With ``shared=True`` other processes call ``Memory.attach(memory.name, writer=1)``. Each writer
    has its own ring of ``capacity / writers`` transitions, so no writer waits for another and there are no locks. Any
    number of processes can read. Readers only get whole transitions: rows that change while they are read are drawn
    again. A ring must be written by one thread, and a ``Memory`` object must be sampled by one thread; threads that
    sample concurrently attach once each. The process that created the shared memory removes it when it closes it or
    exits.

    Args:
        observation_space: Dict of Boxes that may nest, the space of one env. Batches have dotted names,
            "imu.ang_vel". Integers other than uint8 are stored as float32, which is exact up to 2**24.
        action_space: Box, the space of one env.
        capacity: transitions to hold, over all writers. It is rounded up so that every ring holds whole writes of B.
        n_envs: B, the number of transitions that a writer adds at once.
        shared: whether to use shared host memory that other processes can attach to.
        device: device of the blocks and of the batches: "cpu", or a GPU for use by one process.
        writers: number of processes that write.
        writer: ring that this process writes, counted from 0; None if it only reads.
        seed: seed of :meth:`sample`.

    Attributes:
        name: name for :meth:`attach`; None if the memory is not shared.
        layout: the fields of a transition.
        generator: random generator of :meth:`sample`.

    Raises:
        OptionError: an option cannot be used, or there is too little shared memory.
        DeviceError: the device does not exist.
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Box,
        capacity: int,
        n_envs: int,
        shared: bool = False,
        device: str | torch.device = "cpu",
        *,
        writers: int = 1,
        writer: int | None = 0,
        seed: int = 0,
    ) -> None:
        self._create(
            ExperienceLayout.of(observation_space, action_space),
            capacity,
            n_envs,
            shared,
            device,
            writers,
            writer,
            seed,
        )

    def _create(
        self,
        layout: ExperienceLayout,
        capacity: int,
        n_envs: int,
        shared: bool,
        device: str | torch.device,
        writers: int,
        writer: int | None,
        seed: int,
    ) -> None:
        n_envs = checked_integer("n_envs", n_envs, lower=1)
        writers, shared = checked_integer("writers", writers, lower=1), checked_flag("shared", shared)
        capacity = checked_integer("capacity", capacity, lower=1)
        seed = checked_integer("seed", seed)
        if capacity < writers * n_envs:
            raise OptionError(f"capacity must be >= writers * n_envs = {writers * n_envs}, got {capacity}")
        if writer is not None and not 0 <= checked_integer("writer", writer) < writers:
            raise OptionError(f"writer must be in [0, {writers}) or None, got {writer}")
        checked_device = usable_device(device)
        if checked_device.type != "cpu" and (shared or writers > 1):
            raise OptionError(
                f"shared memory and several writers need host memory: use device='cpu', got {str(checked_device)!r}"
            )
        n_slots = -(-capacity // (writers * n_envs))
        if checked_device.type == "cpu" and not shared:  # a slot has a sequence number of 8 bytes
            least = writers * n_envs
            check_memory("capacity", capacity, "the transitions", layout.row_bytes + 8 / n_envs, minimum=least)
        segment = None
        if shared:
            header = {"layout": layout.to_json(), "n_slots": n_slots, "n_envs": n_envs, "writers": writers}
            segment = SharedSegment.create(Rings.block_shapes(layout, n_slots, n_envs, writers), header)
        self._open(Rings(layout, n_slots, n_envs, writers, checked_device, segment), writer, seed)

    @classmethod
    @checked
    def attach(cls, name: str, writer: int | None = None, seed: int = 0) -> Memory:
        """Attach to the shared memory of another process.

        Args:
            name: ``memory.name`` in the process that created it.
            writer: ring to write, or None to only read.
            seed: seed of :meth:`sample`.

        Raises:
            NameNotFoundError: there is no shared memory of that name.
            OptionError: another process writes that ring.
        """
        segment = SharedSegment.attach(name)
        header = segment.header
        layout = ExperienceLayout.from_json(header["layout"])
        rings = Rings(layout, header["n_slots"], header["n_envs"], header["writers"], torch.device("cpu"), segment)
        memory = cls.__new__(cls)
        try:
            memory._open(rings, writer, seed)
        except OptionError:
            rings.close()
            raise
        return memory

    def _open(self, rings: Rings, writer: int | None, seed: int) -> None:
        if writer is not None:
            rings.claim(writer)
        self.layout = rings.layout
        self.n_envs = rings.n_envs
        self.writers = rings.writers
        self.writer = writer
        self.device = rings.device
        self.name = rings.segment.name if rings.segment is not None else None
        self.generator = torch.Generator(device=rings.device).manual_seed(seed)
        self._process = os.getpid()
        self._rings = rings
        self._selection = RowSelection(0, rings.device)
        self._batch = self.layout.batch(0, rings.device)
        self._finalizer = weakref.finalize(self, _close, rings, writer)

    # -- writing ------------------------------------------------------------------------------------------------------

    def add(
        self,
        observation: NestedRows,
        action: Rows,
        reward: Rows,
        next_observation: NestedRows,
        terminated: Rows,
        truncated: Rows,
    ) -> None:
        """Store one transition of each of the B envs. If the ring is full, they overwrite the oldest.

        Args:
            observation: key -> (B, ...), arrays or tensors, as all arguments. It may be nested as the space, or flat
                with dotted names.
            action: (B, ...).
            reward: (B,).
            next_observation: key -> (B, ...). For an env whose episode ended, the last observation of that episode
                (``final_obs``), not the first of the next.
            terminated: (B,) bool, or 0 and 1.
            truncated: (B,) bool, or 0 and 1.

        Raises:
            OptionError: a shape, dtype or key does not fit, an action or a reward is not finite in float32, or this
                process only reads. Nothing is stored. Observations may be infinite, as the depth of the sky, or NaN.
                Values of a memory on a GPU are not validated, since that would synchronise.
        """
        writer = self._check_writer()
        values = self.layout.collect(observation, action, reward, next_observation, terminated, truncated)
        self._rings.write(writer, values)

    def clear(self) -> None:
        """Delete all transitions of the ring that this process writes.

        Raises:
            OptionError: this process only reads.
        """
        self._rings.clear(self._check_writer())

    # -- reading ------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(self._rings.held().sum())

    @property
    def capacity(self) -> int:
        """Maximum number of transitions."""
        return self.writers * self._rings.n_slots * self.n_envs

    @property
    def is_full(self) -> bool:
        """Whether every ring is full."""
        return len(self) == self.capacity

    @property
    def n_bytes(self) -> int:
        """Size of the blocks of transitions in bytes."""
        return self.capacity * self.layout.row_bytes

    def batch(self, batch_size: int) -> Transitions:
        """Return an empty batch to pass to :meth:`sample` as ``out``."""
        batch_size = checked_integer("batch_size", batch_size, lower=1)
        if self.device.type == "cpu":
            check_memory("batch_size", batch_size, "the transitions of a batch", self.layout.row_bytes)
        return self.layout.batch(batch_size, self.device)

    def sample(
        self, batch_size: int, generator: torch.Generator | None = None, out: Transitions | None = None
    ) -> Transitions:
        """Draw transitions uniformly with replacement.

        Args:
            batch_size: number of transitions, n.
            generator: random generator. Default: that of the memory, seeded when it was made.
            out: batch of that size to fill, from :meth:`batch`. Default: a batch that the memory owns, which the next
                call of the same size overwrites.

        Raises:
            OptionError: the memory is empty, ``out`` has another size, or the writers overwrite transitions faster than
                they can be read.
        """
        self._check_open()
        batch_size = checked_integer("batch_size", batch_size, lower=1)
        if out is not None and not isinstance(out, Transitions):
            raise OptionError(f"out must be a batch that memory.batch({batch_size}) returns, got {out!r:.80}")
        if generator is not None and not isinstance(generator, torch.Generator):
            raise OptionError(f"generator must be a torch.Generator or None, got {generator!r:.80}")
        if out is None:
            if len(self._batch) != batch_size:
                self._batch = self.batch(batch_size)
            out = self._batch
        elif len(out) != batch_size:
            raise OptionError(f"out must be a batch of {batch_size} transitions, got {len(out)}")
        if len(self._selection.rows) != batch_size:
            self._selection = RowSelection(batch_size, self.device)
        generator = self.generator if generator is None else generator
        self._draw(self._selection, generator)
        n_torn = self._rings.read(self._selection, out.tensors)
        if n_torn:
            self._redraw(torch.from_numpy(self._selection.torn[:n_torn].copy()), generator, out)
        return out

    def _draw(self, selection: RowSelection, generator: torch.Generator) -> None:
        held = self._rings.held()
        total = int(held.sum())
        if total == 0:
            raise OptionError("cannot sample: the memory holds no transitions; add some first")
        selection.rows.random_(0, total, generator=generator)
        if self.writers > 1:
            kernels.to_block_rows(selection.rows.numpy(), held, self._rings.n_slots * self.n_envs)

    def _redraw(self, places: torch.Tensor, generator: torch.Generator, out: Transitions) -> None:
        """Draw other transitions for the torn rows of a batch, until none is torn."""
        for _ in range(_MAX_REDRAWS):
            n = len(places)
            selection, part = RowSelection(n, self.device), self.layout.batch(n)
            self._draw(selection, generator)
            n_torn = self._rings.read(selection, part.tensors)
            for tensor, rows in zip(out.tensors, part.tensors, strict=True):
                tensor.index_copy_(0, places, rows)
            if n_torn == 0:
                return
            places = places[torch.from_numpy(selection.torn[:n_torn])]
        raise OptionError(
            f"the writers overwrite transitions faster than they are read: raise capacity, which is {self.capacity} "
            f"for {self.writers} writer(s)"
        )

    def writes(self, writer: int) -> int:
        """Return the number of a writer's next write. Each write is of B transitions; :meth:`clear` skips numbers."""
        return self._rings.writes(checked_integer("writer", writer, 0, self.writers - 1))

    def read_since(self, writer: int, number: int, out: Transitions) -> tuple[int, slice, int]:
        """Read what a writer added from its write ``number`` on, in order. Each write is of B transitions.

        Args:
            writer: the writer.
            number: number of the first write to read; 0 is the first write ever.
            out: batch of at least B transitions. It is filled with as many writes as are contiguous and fit.

        Returns:
            The number of the next write to read; the rows of ``out`` that hold transitions; and how many writes were
            overwritten before they could be read.
        """
        self._check_open()
        writer, number = checked_integer("writer", writer, 0, self.writers - 1), checked_integer("number", number)
        if not isinstance(out, Transitions):
            raise OptionError(f"out must be a batch that memory.batch(...) returns, got {out!r:.80}")
        return self._rings.read_since(writer, number, out)

    # -- files --------------------------------------------------------------------------------------------------------

    @checked
    def save(self, folder: str | Path) -> None:
        """Write all transitions to a folder: one ``.npy`` file per field, and JSON. An older save there is replaced.

        Raises:
            DatasetError: the folder holds other files, or a writer wrote during the save. Nothing is changed.
        """
        self._check_open()
        memory_files.save(self._rings, self.generator, Path(folder))

    @classmethod
    @checked
    def load(
        cls, folder: str | Path, shared: bool = False, device: str | torch.device = "cpu", writer: int | None = 0
    ) -> Memory:
        """Return a memory with the contents and the random state that :meth:`save` wrote.

        Args:
            folder: the folder.
            shared, device, writer: as in the constructor.

        Raises:
            DatasetError: the folder does not hold a saved memory, or it is damaged.
        """
        saved = memory_files.SavedMemory(Path(folder))
        memory = cls.__new__(cls)
        capacity = saved.n_slots * saved.n_envs * saved.writers
        memory._create(saved.layout, capacity, saved.n_envs, shared, device, saved.writers, writer, seed=0)
        saved.restore(memory._rings, memory.generator)
        return memory

    # -- end ----------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Free the blocks. The process that created shared memory removes it. Garbage collection closes too."""
        self._finalizer()

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if not self._finalizer.alive:
            raise OptionError("the memory is closed")

    def _check_writer(self) -> int:
        self._check_open()
        if self.writer is None:
            raise OptionError("the memory is open for reading only; attach with writer=0, 1, ... to write")
        if self._process != os.getpid():
            raise OptionError(
                f"writer: ring {self.writer} belongs to process {self._process}, from which this one was forked; "
                "call Memory.attach(memory.name, writer=...) here"
            )
        return self.writer

    def __reduce__(self) -> NoReturn:
        raise OptionError("a memory cannot be pickled: pass memory.name, and call Memory.attach in the other process")

    def __repr__(self) -> str:
        where = f"shared as {self.name!r}" if self.name else str(self.device)
        return f"<Memory of {self.capacity:,} transitions of {self.layout.row_bytes} bytes, {where}>"


def _close(rings: Rings, writer: int | None) -> None:
    if writer is not None:
        rings.release(writer)
    rings.close()
