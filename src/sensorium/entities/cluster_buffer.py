"""``VectorizedClusterBuffer``: transitions of many entities and processes, each kind of state with room of its own."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from gymnasium import spaces
from pydantic import Field
from torch import Tensor

from sensorium.entities import kernels
from sensorium.entities.clusters import Clusters
from sensorium.entities.layout import ExperienceLayout, Rows, Transitions, flat_rows
from sensorium.entities.memory import Memory, usable_device
from sensorium.entities.staging import Staging
from sensorium.errors import NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.options import Options

_CHUNK = 4096
"""Transitions that are taken from a memory at once."""


class ClusterOptions(Options):
    """How a :class:`VectorizedClusterBuffer` sorts and draws."""

    capacity: int = Field(ge=1)
    """Transitions to hold; each cluster has room for ``capacity // clusters``."""
    clusters: int = Field(default=16, ge=1)
    """Kinds of states that are told apart. 1 is uniform: one ring, and nothing is fitted."""
    components: int = Field(default=8, ge=1)
    """Principal components of the observations in which centroids lie; at most the observations' numbers count."""
    warmup: int = Field(default=10_000, ge=1)
    """Transitions to gather before clusters are fitted; at most ``capacity``."""
    balance: float = Field(default=0.5, ge=0.0, le=1.0)
    """How batches are drawn: 0, every transition as likely; 1, every cluster as likely; between, a mixture of both."""
    keys: tuple[str, ...] | None = None
    """Observations that are clustered; by default all float32 ones. Images named here count by their pixels."""


class VectorizedClusterBuffer:
    """Gathers transitions, sorts them into clusters by their observation, and draws balanced batches.

    Up to the warm-up all transitions lie in one ring. Then principal components and k-means centroids are fitted to the
    observations held, and each cluster gets a ring of its own, into which what is held, and all that comes, is routed
    by the nearest centroid. A state that is seldom seen is therefore only ever evicted by states like it. The fit is
    made once (if there are fewer different observations than clusters by then, when twice as much is held); there is no
    other on its own. Where the states that a policy visits have moved on, :meth:`fit` makes a new one from what is
    held, and sorts that again.

    It belongs to one process, the learner's, and one thread. Others write to shared :class:`Memory`\\ s, which
    :meth:`gather` empties; no transition is serialised on its way. All draws come from the seed: the same transitions
    in the same order give the same batches.

    Example:
        >>> buffer = VectorizedClusterBuffer(space, action_space, ClusterOptions(capacity=1_000_000, clusters=16))
        >>> buffer.gather(memory)           # what the memory's writers added since the last time
        >>> batch = buffer.sample(256)

    Args:
        observation_space: of one env, a Dict of Boxes.
        action_space: of one env, a Box.
        options: how to sort and draw.
        device: where batches go. The transitions stay on the host; to a GPU batches travel through page-locked memory
            and a stream of their own, while the learner works on the batch before.
        seed: of fits and draws.

    Attributes:
        balance: as in the options; may be set at any time.
        missed: transitions that writers overwrote before they were gathered.
        clusters: what was fitted, or None.
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Box,
        options: ClusterOptions,
        device: str | torch.device = "cpu",
        seed: int = 0,
    ) -> None:
        self.layout = ExperienceLayout.of(observation_space, action_space)
        self.options = options
        self.device = usable_device(device)
        if options.capacity < options.clusters:
            raise OptionError(
                f"capacity: at least one transition a cluster, {options.clusters}, got {options.capacity}"
            )
        if options.clusters > 1 and not options.clusters <= options.warmup <= options.capacity:
            raise OptionError(
                f"warmup: from clusters ({options.clusters}) to capacity ({options.capacity}), got {options.warmup}"
            )
        self._columns = _columns(self.layout, options)
        self._width = self._columns[-1][1].stop if self._columns else 0
        self._fit_at = options.warmup
        self.balance = options.balance
        self.missed = 0
        self.clusters: Clusters | None = None
        self.generator = torch.Generator().manual_seed(seed)
        self._stride = options.capacity // options.clusters * options.clusters
        self._blocks = [
            torch.empty((self._stride, *each.shape), dtype=each.torch_dtype).zero_() for each in self.layout.fields
        ]
        self._arrays = [block.numpy() for block in self._blocks]
        self._flat = [flat_rows(block) for block in self._blocks]
        self._serials = np.zeros(self._stride, np.int64)  # when each row came: re-sorting goes by age
        self._next_serial = 0
        self._split(1)
        self._room = _Room(0, 0, 1)
        self._draws = torch.zeros((0, 2), dtype=torch.float64)
        self._rows = torch.zeros(0, dtype=torch.int64)
        self._staging = Staging(self.layout, 0, torch.device("cpu"))
        self._chunk = self.layout.batch(0)
        self._cursors: weakref.WeakKeyDictionary[Memory, np.ndarray] = weakref.WeakKeyDictionary()

    # -- what it holds ------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(self._counts.sum())

    @property
    def capacity(self) -> int:
        """Transitions that it can hold."""
        return len(self._serials)

    @property
    def counts(self) -> np.ndarray:
        """(K,) transitions that each cluster holds; (1,) before the fit and in uniform mode."""
        return self._counts.copy()

    @property
    def balance(self) -> float:
        """0 draws every transition as likely, 1 every cluster that holds any."""
        return self._balance

    @balance.setter
    def balance(self, value: float) -> None:
        if not 0.0 <= value <= 1.0:
            raise OptionError(f"balance: from 0 (uniform) to 1 (equal clusters), got {value}")
        self._balance = float(value)

    # -- filling ------------------------------------------------------------------------------------------------------

    def add(
        self,
        observation: Mapping[str, Rows],
        action: Rows,
        reward: Rows,
        next_observation: Mapping[str, Rows],
        terminated: Rows,
        truncated: Rows,
    ) -> None:
        """Store transitions, any number of rows: arguments as of :meth:`Memory.add`. The first fit may follow.

        Raises:
            OptionError: a shape, type or key does not fit; nothing is stored.
        """
        values = self.layout.collect(observation, action, reward, next_observation, terminated, truncated)
        n = len(reward)
        self._store(self.layout.arrays(values, self.layout.sizes(n)), n)

    def gather(self, memory: Memory) -> int:
        """Take what a memory's writers added since the last call, in the order of each writer.

        What was overwritten meanwhile is gone, and counted in :attr:`missed`: call it once a lap of the rings or more.

        Returns:
            How many transitions came.

        Raises:
            OptionError: the memory's fields are others, or it is on a GPU.
        """
        if memory.layout != self.layout:
            raise OptionError(f"gather: the memory's fields are {memory.layout}, the buffer's are {self.layout}")
        if memory.device.type != "cpu":
            raise OptionError(f"gather: the memory is on {str(memory.device)!r}; gather from one on the host")
        if len(self._chunk) < max(_CHUNK, memory.n_envs):
            self._chunk = self.layout.batch(max(_CHUNK, memory.n_envs))
        cursors = self._cursors.setdefault(memory, np.zeros(memory.writers, np.int64))
        came = 0
        for writer in range(memory.writers):
            end = memory.writes(writer)  # a writer may go on meanwhile; what it adds then is for the next call
            while cursors[writer] < end:
                cursors[writer], rows, n_lost = memory.read_since(writer, int(cursors[writer]), self._chunk)
                self.missed += n_lost * memory.n_envs
                came += rows.stop - rows.start
                self._store([tensor[rows].numpy() for tensor in self._chunk.tensors], rows.stop - rows.start)
        return came

    def _store(self, arrays: Sequence[np.ndarray], n: int) -> None:
        if n == 0:
            return
        if len(self._room.rows) < n:
            self._room = _Room(n, self._width, self.options.clusters)
        room = self._room
        labels, rows, serials = room.labels[:n], room.rows[:n], room.serials[:n]
        if self.clusters is None:
            labels.zero_()
        else:
            features = room.features[:n]
            _fill(features, arrays, self._columns)
            self.clusters.label(features, room.scores[:n], labels)
        n_skipped = kernels.route(labels.numpy(), self._heads, self._counts, self._stride, self._surplus, rows)
        np.add(room.places[:n], self._next_serial, out=serials)
        self._next_serial += n
        if n_skipped:
            kept = rows >= 0
            rows, serials, arrays = rows[kept], serials[kept], [array[kept] for array in arrays]
        for block, array in zip(self._arrays, arrays, strict=True):
            block[rows] = array.reshape(len(array), *block.shape[1:])
        self._serials[rows] = serials
        if self.clusters is None and self.options.clusters > 1 and self._next_serial >= self._fit_at:
            self._first_fit()

    def _first_fit(self) -> None:
        try:
            self.fit()
        except OptionError:  # too little has been seen to tell so many clusters apart: later, with twice as much
            self._fit_at = 2 * self._next_serial

    # -- clusters -----------------------------------------------------------------------------------------------------

    def fit(self) -> None:
        """Fit components and centroids to the observations held, and sort these into the new clusters.

        The newest of each cluster are kept, if there are more than its ring holds. Takes room for a copy of one field.

        Raises:
            OptionError: in uniform mode, or if there are fewer different observations than clusters; nothing changes.
        """
        if self.options.clusters == 1:
            raise OptionError("clusters: with 1, the uniform mode, there is nothing to fit")
        held = self._held_rows()
        features = torch.empty((len(held), self._width))
        _fill(features, self._arrays, self._columns, held)
        fitted = Clusters.fit(features, self.options.clusters, self.options.components, self.generator)
        labels = torch.empty(len(held), dtype=torch.int64)
        fitted.label(features, torch.empty((len(held), self.options.clusters)), labels)
        self.clusters = fitted
        self._split(self.options.clusters)
        rows = np.empty(len(held), np.int64)
        kernels.route(labels.numpy(), self._heads, self._counts, self._stride, self._surplus, rows)
        kept = rows >= 0
        for block in (*self._arrays, self._serials):
            block[rows[kept]] = block[held[kept]]  # the right side is a copy before the left is written

    def _held_rows(self) -> np.ndarray:
        """The rows that hold transitions, oldest first."""
        rows = np.concatenate([ring * self._stride + np.arange(n) for ring, n in enumerate(self._counts)])
        return rows[np.argsort(self._serials[rows], kind="stable")]

    def _split(self, rings: int) -> None:
        self._stride = self.capacity // rings
        self._heads = np.zeros(rings, np.int64)
        self._counts = np.zeros(rings, np.int64)
        self._surplus = np.zeros(rings, np.int64)
        self._cumulative = np.zeros(rings)

    # -- drawing ------------------------------------------------------------------------------------------------------

    def sample(self, batch_size: int) -> Transitions:
        """Draw transitions with replacement, as :attr:`balance` says, on the buffer's device.

        A cluster with n of the N transitions held, one of K that hold any, has the chance
        ``(1 - balance) * n / N + balance / K``; within it every transition is as likely.

        Returns:
            A batch that the next call fills anew.

        Raises:
            OptionError: there is nothing to draw.
        """
        if batch_size < 1:
            raise OptionError(f"batch_size: at least 1, got {batch_size}")
        if len(self) == 0:
            raise OptionError("sample: the buffer holds no transitions yet; add some first")
        if self._staging.n != batch_size:
            self._staging = Staging(self.layout, batch_size, self.device)
            self._draws = torch.zeros((batch_size, 2), dtype=torch.float64)
            self._rows = torch.zeros(batch_size, dtype=torch.int64)
        self._draws.uniform_(generator=self.generator)
        kernels.draw(
            self._draws.numpy(), self._counts, self._stride, self._balance, self._cumulative, self._rows.numpy()
        )
        batch = self._staging.host()
        for block, tensor in zip(self._flat, batch.tensors, strict=True):
            torch.index_select(block, 0, self._rows, out=tensor)
        return self._staging.hand_over()

    def __repr__(self) -> str:
        kind = "uniform" if self.options.clusters == 1 else f"{self.options.clusters} clusters"
        return f"<VectorizedClusterBuffer of {self.capacity:,} transitions, {kind}, for {self.device}>"


class _Room:
    """Where up to ``n`` transitions are worked on while they are sorted."""

    def __init__(self, n: int, width: int, clusters: int) -> None:
        self.features = torch.zeros((n, width))
        self.scores = torch.zeros((n, clusters))
        self.labels = torch.zeros(n, dtype=torch.int64)
        self.rows = np.zeros(n, np.int64)
        self.places = np.arange(n)
        self.serials = np.zeros(n, np.int64)


def _fill(
    features: Tensor,
    arrays: Sequence[np.ndarray],
    columns: Sequence[tuple[int, slice]],
    rows: np.ndarray | slice = slice(None),
) -> None:
    """Put the clustered observations of some rows side by side."""
    numbers = features.numpy()
    for place, part in columns:
        numbers[:, part] = arrays[place][rows].reshape(len(numbers), -1)


def _columns(layout: ExperienceLayout, options: ClusterOptions) -> list[tuple[int, slice]]:
    """The clustered observations: place among the fields, and columns among the features."""
    if options.clusters == 1:
        return []
    keys = options.keys
    if keys is None:
        keys = tuple(each.name for each in layout.observation if each.dtype == "float32")
    if not keys:
        raise OptionError("keys: no observation is float32; name those to cluster, or use clusters=1")
    columns, start = [], 0
    for key in keys:
        if key not in layout.keys:
            hint = did_you_mean(key, layout.keys) or f"; there are {shorten(layout.keys)}"
            raise NameNotFoundError(f"keys: there is no observation {key!r}{hint}")
        place = layout.keys.index(key)
        size = int(np.prod(layout.observation[place].shape, dtype=np.int64))
        columns.append((place, slice(start, start + size)))
        start += size
    return columns
