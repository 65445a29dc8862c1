"""``Memory``: the transitions of an entity, in preallocated typed blocks, here or shared between processes."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from numbers import Integral
from pathlib import Path
from typing import NoReturn

import torch
from gymnasium import spaces

from sensorium.entities import kernels, memory_files
from sensorium.entities.layout import ExperienceLayout, Rows, Transitions
from sensorium.entities.ring import Picks, Rings
from sensorium.entities.shared import SharedSegment
from sensorium.errors import DeviceError, OptionError

_TRIES = 1000
"""How often torn rows are drawn anew before sampling gives up."""


class Memory:
    """A replay memory that B envs write at once, in place, and that a learner samples.

    Every field of a transition has a contiguous block of its own, float32, or uint8 for images and flags. When a
    writer's ring is full, its oldest transitions make room. Nothing is allocated by :meth:`add` and :meth:`sample`
    in steady state.

    Example:
        >>> memory = Memory(suite_space, action_space, capacity=100_000, n_envs=16)
        >>> memory.add(obs, action, reward, next_obs, terminated, truncated)    # 16 transitions
        >>> batch = memory.sample(256)
        >>> batch.next_observation["imu"].shape
        torch.Size([256, 6])

    **Shared memory.** With ``shared=True`` other processes call ``Memory.attach(memory.name, writer=1)``. Each writer
    has a ring of its own, ``capacity / writers`` long, so no writer waits for another and there are no locks. Any
    number of processes read; what they get is whole, whatever the writers do: rows that change while they are read are
    drawn anew. One thread writes a ring, and one thread samples a ``Memory``; threads that sample beside each other
    attach once each. The maker removes the shared memory when it closes or ends.

    Args:
        observation_space: of one env, a Dict of Boxes. Integers other than uint8 are stored as float32, which is exact
            up to 2**24.
        action_space: of one env, a Box.
        capacity: transitions to hold, over all writers; rounded up so that every ring holds whole writes of B.
        n_envs: B, how many transitions each writer adds at once.
        shared: in shared memory of the host, for other processes to attach to.
        device: where the blocks lie and what :meth:`sample` gives; "cpu", or a GPU for one process alone.
        writers: how many processes will write.
        writer: which ring this process writes, from 0; None if it only reads.
        seed: of the draws.

    Raises:
        OptionError: an option cannot be used, or there is too little shared memory.
        DeviceError: there is no such device.
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
        self._open(
            ExperienceLayout.of(observation_space, action_space),
            capacity,
            n_envs,
            shared,
            device,
            writers,
            writer,
            seed,
        )

    def _open(
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
        if n_envs < 1:
            raise OptionError(f"n_envs: at least 1, got {n_envs}")
        if writers < 1:
            raise OptionError(f"writers: at least 1, got {writers}")
        if capacity < writers * n_envs:
            raise OptionError(f"capacity: at least n_envs for each writer, {writers * n_envs}, got {capacity}")
        if writer is not None and not 0 <= writer < writers:
            raise OptionError(f"writer: {writer} is not one of the {writers} writers; count from 0")
        place = usable_device(device)
        if place.type != "cpu" and (shared or writers > 1):
            raise OptionError(f"shared: processes share memory of the host; use device='cpu', not {str(place)!r}")
        n_slots = -(-capacity // (writers * n_envs))
        segment = None
        if shared:
            about = {"layout": layout.to_json(), "n_slots": n_slots, "n_envs": n_envs, "writers": writers}
            segment = SharedSegment.create(Rings.shapes(layout, n_slots, n_envs, writers), about)
        self._start(Rings(layout, n_slots, n_envs, writers, place, segment), writer, seed)

    @classmethod
    def attach(cls, name: str, writer: int | None = None, seed: int = 0) -> Memory:
        """The shared memory of that name, from another process.

        Args:
            name: the maker's ``memory.name``.
            writer: which ring to write, or None to read only.
            seed: of the draws.

        Raises:
            NameNotFoundError: there is none of that name.
            OptionError: the ring is another's.
        """
        segment = SharedSegment.attach(name)
        about = segment.about
        layout = ExperienceLayout.from_json(about["layout"])
        rings = Rings(layout, about["n_slots"], about["n_envs"], about["writers"], torch.device("cpu"), segment)
        memory = cls.__new__(cls)
        try:
            memory._start(rings, writer, seed)
        except OptionError:
            rings.close()
            raise
        return memory

    def _start(self, rings: Rings, writer: int | None, seed: int) -> None:
        if writer is not None:
            rings.claim(writer)
        self.layout = rings.layout
        self.n_envs = rings.n_envs
        self.writers = rings.writers
        self.writer = writer
        self.device = rings.device
        self.name = rings.segment.name if rings.segment is not None else None
        """By which other processes attach; None if it is not shared."""
        self.generator = torch.Generator(device=rings.device).manual_seed(seed)
        self._process = os.getpid()
        self._rings = rings
        self._picks = Picks(0, rings.device)
        self._batch = self.layout.batch(0, rings.device)
        self._close = weakref.finalize(self, _close, rings, writer)

    # -- writing ------------------------------------------------------------------------------------------------------

    def add(
        self,
        observation: Mapping[str, Rows],
        action: Rows,
        reward: Rows,
        next_observation: Mapping[str, Rows],
        terminated: Rows,
        truncated: Rows,
    ) -> None:
        """Store one transition of each of the B envs, over the oldest if the ring is full.

        Args:
            observation: key -> (B, ...), tensors or arrays, as are all.
            action: (B, ...).
            reward: (B,).
            next_observation: key -> (B, ...); of envs whose episode ended, the last observation of that episode
                (``final_obs``), not the first of the next.
            terminated: (B,) bool or 0 and 1.
            truncated: (B,) likewise.

        Raises:
            OptionError: a shape, type or key does not fit, or this process only reads; nothing is stored.
        """
        writer = self._check_writer()
        values = self.layout.collect(observation, action, reward, next_observation, terminated, truncated)
        self._rings.write(writer, values)

    def clear(self) -> None:
        """Forget all transitions of the ring that this process writes; other writers clear their own.

        Raises:
            OptionError: this process only reads.
        """
        self._rings.clear(self._check_writer())

    # -- reading ------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(self._rings.held().sum())

    @property
    def capacity(self) -> int:
        """Transitions that it can hold."""
        return self.writers * self._rings.n_slots * self.n_envs

    @property
    def is_full(self) -> bool:
        """Whether every ring is full."""
        return len(self) == self.capacity

    @property
    def n_bytes(self) -> int:
        """Bytes of the blocks of transitions."""
        return self.capacity * self.layout.row_bytes

    def batch(self, batch_size: int) -> Transitions:
        """Room for a batch, to hand to :meth:`sample` as ``out``."""
        return self.layout.batch(batch_size, self.device)

    def sample(
        self, batch_size: int, generator: torch.Generator | None = None, out: Transitions | None = None
    ) -> Transitions:
        """Draw transitions, each held one as likely, with replacement.

        Args:
            batch_size: n, how many.
            generator: of the draws; by default the memory's own, seeded when it was made.
            out: a batch of that size to fill, from :meth:`batch`. By default one that the memory keeps, which the next
                call of the same size fills anew.

        Raises:
            OptionError: there is nothing to draw, ``out`` does not fit, or the writers overwrite transitions faster
                than they can be read.
        """
        self._check_open()
        if not isinstance(batch_size, Integral) or batch_size < 1:
            raise OptionError(f"batch_size must be an integer of at least 1, got {batch_size!r}")
        if out is None:
            if len(self._batch) != batch_size:
                self._batch = self.batch(batch_size)
            out = self._batch
        elif len(out) != batch_size:
            raise OptionError(f"out: expected room for {batch_size} transitions, got {len(out)}")
        if len(self._picks.rows) != batch_size:
            self._picks = Picks(batch_size, self.device)
        generator = self.generator if generator is None else generator
        self._draw(self._picks, generator)
        n_torn = self._rings.read(self._picks, out.tensors)
        if n_torn:
            self._draw_anew(torch.from_numpy(self._picks.torn[:n_torn].copy()), generator, out)
        return out

    def _draw(self, picks: Picks, generator: torch.Generator) -> None:
        held = self._rings.held()
        total = int(held.sum())
        if total == 0:
            raise OptionError("sample: the memory holds no transitions yet; add some first")
        picks.rows.random_(0, total, generator=generator)
        if self.writers > 1:
            kernels.place(picks.rows.numpy(), held, self._rings.n_slots * self.n_envs)

    def _draw_anew(self, places: torch.Tensor, generator: torch.Generator, out: Transitions) -> None:
        """Other transitions for the places of a batch that were torn, until none is."""
        for _ in range(_TRIES):
            n = len(places)
            picks, part = Picks(n, self.device), self.layout.batch(n)
            self._draw(picks, generator)
            n_torn = self._rings.read(picks, part.tensors)
            for tensor, rows in zip(out.tensors, part.tensors, strict=True):
                tensor.index_copy_(0, places, rows)
            if n_torn == 0:
                return
            places = places[torch.from_numpy(picks.torn[:n_torn])]
        raise OptionError(
            f"capacity: transitions are overwritten faster than they are read ({self.capacity} over {self.writers} "
            "writer(s)); raise capacity"
        )

    def writes(self, writer: int) -> int:
        """How many writes of B transitions a writer has made; the number of its next one. :meth:`clear` skips some."""
        return self._rings.writes(writer)

    def read_since(self, writer: int, number: int, out: Transitions) -> tuple[int, slice, int]:
        """What a writer added from its write ``number`` on, in order; each write is of B transitions.

        Args:
            writer: whose.
            number: of the first write wanted; 0 is the first one ever.
            out: filled with as many as are held in one piece and fit; B at least.

        Returns:
            The number from which to go on next time; the rows of ``out`` that hold transitions; and how many writes
            were overwritten before they could be read.
        """
        self._check_open()
        return self._rings.read_since(writer, number, out)

    # -- files --------------------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write all that is held to a folder: one ``.npy`` file per field, and JSON. An older save there is replaced.

        Raises:
            DatasetError: the folder holds something else, or a writer wrote meanwhile; nothing is changed.
        """
        self._check_open()
        memory_files.save(self._rings, self.generator, Path(folder))

    @classmethod
    def load(
        cls, folder: str | Path, shared: bool = False, device: str | torch.device = "cpu", writer: int | None = 0
    ) -> Memory:
        """A memory with what :meth:`save` wrote, which goes on as that one would have, draws included.

        Raises:
            DatasetError: the folder holds no memory, or a damaged one.
        """
        saved = memory_files.Saved(Path(folder))
        memory = cls.__new__(cls)
        capacity = saved.n_slots * saved.n_envs * saved.writers
        memory._open(saved.layout, capacity, saved.n_envs, shared, device, saved.writers, writer, seed=0)
        saved.restore(memory._rings, memory.generator)
        return memory

    # -- end ----------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the blocks; the maker of shared memory removes it. A memory that is garbage closes itself."""
        self._close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if not self._close.alive:
            raise OptionError("the memory is closed")

    def _check_writer(self) -> int:
        self._check_open()
        if self.writer is None:
            raise OptionError("writer: this memory was opened to read; attach with writer=0, 1, ... to write")
        if self._process != os.getpid():
            raise OptionError(
                f"writer: ring {self.writer} belongs to process {self._process}, from which this one was forked; "
                "call Memory.attach(memory.name, writer=...) here"
            )
        return self.writer

    def __reduce__(self) -> NoReturn:
        raise OptionError(
            "a memory is not copied to other processes: hand over memory.name, and call Memory.attach there"
        )

    def __repr__(self) -> str:
        where = f"shared as {self.name!r}" if self.name else str(self.device)
        return f"<Memory of {self.capacity:,} transitions of {self.layout.row_bytes} bytes, {where}>"


def usable_device(device: str | torch.device) -> torch.device:
    """The device, if it is there.

    Raises:
        DeviceError: it is not.
    """
    try:
        place = torch.device(device)
    except RuntimeError as error:
        raise OptionError(f"device: {device!r} is none: {error}") from None
    if place.type not in ("cpu", "cuda"):
        raise OptionError(f"device: 'cpu' or 'cuda', got {str(place)!r}")
    if place.type == "cuda" and not torch.cuda.is_available():
        raise DeviceError(f"device: {str(place)!r} was asked for, and torch finds no CUDA device; use device='cpu'")
    return place


def _close(rings: Rings, writer: int | None) -> None:
    if writer is not None:
        rings.release(writer)
    rings.close()
