"""``VectorizedClusterBuffer``: transitions of many entities and processes, with a ring for each cluster of states."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from gymnasium import spaces

from sensorium._arguments import checked
from sensorium._system import check_memory
from sensorium.entities import cluster_files, kernels, memory_files
from sensorium.entities.batch_staging import BatchStaging
from sensorium.entities.cluster_features import SortWorkspace, clustered_columns, fill_features
from sensorium.entities.cluster_files import ClusterState
from sensorium.entities.cluster_options import ClusterOptions
from sensorium.entities.clusters import Clusters
from sensorium.entities.device import usable_device
from sensorium.entities.experience_layout import ExperienceLayout, Transitions, flat_rows
from sensorium.entities.memory import Memory
from sensorium.entities.nesting import NestedRows, Rows
from sensorium.errors import DatasetError, OptionError
from sensorium.options import checked_integer

_CHUNK = 4096
"""Transitions that are read from a memory at once."""
_SHARED_WRITES = 64
"""Default number of writes of each process that a shared memory holds until they are gathered."""


class VectorizedClusterBuffer:
    """A buffer that sorts transitions into clusters by their observation, and draws balanced batches.

    Until the warm-up, all transitions are in one ring. Then principal components and k-means centroids are fitted to
    the held observations, and each cluster gets its own ring. Held and new transitions go to the ring of the nearest
    centroid. A rare state is therefore only overwritten by similar states. The fit is made once. If there are fewer
    different observations than clusters, it is tried again when twice as many transitions were added. It is not
    repeated automatically: call :meth:`fit` when the policy visits other states, which sorts the held transitions
    again.

    The buffer belongs to one process, the learner's, and one thread. Other processes write to the shared memory of
    :meth:`share`, or to shared :class:`Memory` objects, from which :meth:`gather` copies; no transition is serialised.
    All random numbers come from the seed: the same transitions in the same order give the same batches.

    Example:
        >>> buffer = VectorizedClusterBuffer(space, action_space, ClusterOptions(capacity=1_000_000, clusters=16))
        >>> buffer.add(observation, action, reward, next_observation, terminated, truncated)
        >>> batch = buffer.sample(256)

    Args:
        observation_space: Dict of Boxes that may nest, the space of one env. Batches have dotted names, "imu.ang_vel".
        action_space: Box, the space of one env.
        options: how to sort and draw.
        device: device of the batches. The transitions stay on the host. Batches for a GPU go through page-locked memory
            and a separate stream, while the learner works on the batch before.
        seed: seed of fits and batches.

    Attributes:
        missed: transitions that writers overwrote before they were gathered.
        clusters: the fitted clusters, or None.

    Raises:
        OptionError: an option cannot be used.
        NameNotFoundError: ``options.keys`` names an unknown observation.
    """

    @checked
    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Box,
        options: ClusterOptions,
        device: str | torch.device = "cpu",
        seed: int = 0,
    ) -> None:
        self._create(ExperienceLayout.of(observation_space, action_space), options, device, seed)

    def _create(self, layout: ExperienceLayout, options: ClusterOptions, device: str | torch.device, seed: int) -> None:
        self.layout = layout
        self.options = options
        self.device = usable_device(device)
        check_memory("capacity", options.capacity, "the transitions", layout.row_bytes + 8, minimum=options.clusters)
        self._columns = clustered_columns(self.layout, options)
        self._width = self._columns[-1][1].stop if self._columns else 0
        self._fit_at = options.warmup
        self.balance = options.balance
        self.missed = 0
        self.clusters: Clusters | None = None
        self.generator = torch.Generator().manual_seed(checked_integer("seed", seed))
        self._stride = options.capacity // options.clusters * options.clusters
        self._blocks = [
            torch.empty((self._stride, *each.shape), dtype=each.torch_dtype).zero_() for each in self.layout.fields
        ]
        self._arrays = [block.numpy() for block in self._blocks]
        self._flat = [flat_rows(block) for block in self._blocks]
        self._serials = np.zeros(self._stride, np.int64)  # serial number of each row: sorting again needs the age
        self._next_serial = 0
        self._split(1)
        self._workspace = SortWorkspace(0, 0, 1)
        self._uniforms = torch.zeros((0, 2), dtype=torch.float64)
        self._rows = torch.zeros(0, dtype=torch.int64)
        self._staging = BatchStaging(self.layout, 0, torch.device("cpu"))
        self._chunk = self.layout.batch(0)
        self._cursors: weakref.WeakKeyDictionary[Memory, np.ndarray] = weakref.WeakKeyDictionary()
        self._shared: Memory | None = None

    # -- contents -----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(self._counts.sum())

    @property
    def capacity(self) -> int:
        """Maximum number of transitions."""
        return len(self._serials)

    @property
    def counts(self) -> np.ndarray:
        """(K,) number of transitions in each cluster; (1,) before the fit and in uniform mode."""
        return self._counts.copy()

    @property
    def balance(self) -> float:
        """How batches are drawn: 0 is uniform over transitions, 1 uniform over clusters. It can be set at any time."""
        return self._balance

    @balance.setter
    def balance(self, value: float) -> None:
        if not isinstance(value, int | float | np.number) or isinstance(value, bool) or not 0.0 <= value <= 1.0:
            raise OptionError(f"balance must be a number between 0 (uniform) and 1 (equal clusters), got {value!r:.80}")
        self._balance = float(value)

    # -- filling ------------------------------------------------------------------------------------------------------

    def add(
        self,
        observation: NestedRows,
        action: Rows,
        reward: Rows,
        next_observation: NestedRows,
        terminated: Rows,
        truncated: Rows,
    ) -> None:
        """Store any number of transitions; arguments as of :meth:`Memory.add`. It may trigger the first fit.

        Raises:
            OptionError: a shape, dtype or key does not fit. Nothing is stored.
        """
        values = self.layout.collect(observation, action, reward, next_observation, terminated, truncated)
        try:
            n = len(reward)
        except (TypeError, RuntimeError):  # one number, or a nested tensor
            raise OptionError(f"reward must have shape (n,), got {reward!r:.80}") from None
        self._store(self.layout.arrays(values, self.layout.shapes(n)), n)

    @checked
    def share(self, writers: int, n_envs: int, capacity: int | None = None) -> Memory:
        """Make a shared memory for other processes to write. :meth:`sample` and :meth:`save` gather from it first.

        Args:
            writers: number of processes that write.
            n_envs: transitions that a writer adds at once, B.
            capacity: transitions that the shared memory holds until they are gathered, over all writers. Default: 64
                writes of each writer.

        Returns:
            A memory that this process only reads. Other processes call ``Memory.attach(memory.name, writer=...)``.

        Raises:
            OptionError: there is one already, an option cannot be used, or there is too little shared memory.
        """
        if self._shared is not None:
            raise OptionError("the buffer has a shared memory already; call share() once, for all writers")
        writers, n_envs = checked_integer("writers", writers, lower=1), checked_integer("n_envs", n_envs, lower=1)
        capacity = _SHARED_WRITES * writers * n_envs if capacity is None else capacity
        shared = Memory.__new__(Memory)
        shared._create(self.layout, capacity, n_envs, True, "cpu", writers, None, seed=0)
        self._shared = shared
        return shared

    def gather(self, memory: Memory) -> int:
        """Copy what a memory's writers added since the last call, in the order of each writer.

        Transitions that were overwritten before are counted in :attr:`missed`. Call it at least once per lap of the
        memory's rings.

        Returns:
            The number of new transitions.

        Raises:
            OptionError: the memory has other fields, or is on a GPU.
        """
        if not isinstance(memory, Memory):
            raise OptionError(f"memory must be a Memory, got {memory!r:.80}")
        if memory.layout != self.layout:
            raise OptionError(f"the memory's fields {memory.layout} are not the buffer's fields {self.layout}")
        if memory.device.type != "cpu":
            raise OptionError(f"gather needs a memory on the host, got one on {str(memory.device)!r}")
        if len(self._chunk) < max(_CHUNK, memory.n_envs):
            self._chunk = self.layout.batch(max(_CHUNK, memory.n_envs))
        cursors = self._cursors.setdefault(memory, np.zeros(memory.writers, np.int64))
        n_new = 0
        for writer in range(memory.writers):
            end = memory.writes(writer)  # what the writer adds meanwhile is for the next call
            while cursors[writer] < end:
                cursors[writer], rows, n_lost = memory.read_since(writer, int(cursors[writer]), self._chunk)
                self.missed += n_lost * memory.n_envs
                n_new += rows.stop - rows.start
                self._store([tensor[rows].numpy() for tensor in self._chunk.tensors], rows.stop - rows.start)
        return n_new

    def _store(self, arrays: Sequence[np.ndarray], n: int) -> None:
        if n == 0:
            return
        if len(self._workspace.rows) < n:
            self._workspace = SortWorkspace(n, self._width, self.options.clusters)
        space = self._workspace
        labels, rows, serials = space.labels[:n], space.rows[:n], space.serials[:n]
        if self.clusters is None:
            labels.zero_()
        else:
            features = space.features[:n]
            fill_features(features, arrays, self._columns)
            self.clusters.label(features, space.scores[:n], labels)
        n_skipped = kernels.route(labels.numpy(), self._heads, self._counts, self._stride, self._surplus, rows)
        np.add(space.places[:n], self._next_serial, out=serials)
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
        except OptionError:  # too few different observations: try again with twice as many transitions
            self._fit_at = 2 * self._next_serial

    # -- clusters -----------------------------------------------------------------------------------------------------

    def fit(self) -> None:
        """Fit components and centroids to the held observations, and sort the transitions into the new clusters.

        If a cluster has more transitions than its ring holds, the newest are kept. The sort needs memory for a copy of
        one field.

        Raises:
            OptionError: the buffer is in uniform mode, or there are fewer different observations than clusters. Nothing
                is changed.
        """
        if self.options.clusters == 1:
            raise OptionError("the buffer has clusters=1, the uniform mode, in which nothing is fitted")
        held = self._held_rows()
        features = torch.empty((len(held), self._width))
        fill_features(features, self._arrays, self._columns, held)
        fitted = Clusters.fit(features, self.options.clusters, self.options.components, self.generator)
        labels = torch.empty(len(held), dtype=torch.int64)
        fitted.label(features, torch.empty((len(held), self.options.clusters)), labels)
        self.clusters = fitted
        self._split(self.options.clusters)
        rows = np.empty(len(held), np.int64)
        kernels.route(labels.numpy(), self._heads, self._counts, self._stride, self._surplus, rows)
        kept = rows >= 0
        for block in (*self._arrays, self._serials):
            block[rows[kept]] = block[held[kept]]  # NumPy copies the right side before it writes the left

    def _held_rows(self) -> np.ndarray:
        """Return the rows that hold transitions, oldest first."""
        rows = self._rows_by_ring()
        return rows[np.argsort(self._serials[rows], kind="stable")]

    def _split(self, rings: int) -> None:
        """Divide the blocks into empty rings."""
        self._stride = self.capacity // rings
        self._heads = np.zeros(rings, np.int64)
        self._counts = np.zeros(rings, np.int64)
        self._surplus = np.zeros(rings, np.int64)
        self._cumulative = np.zeros(rings)

    # -- drawing ------------------------------------------------------------------------------------------------------

    def sample(self, batch_size: int) -> Transitions:
        """Draw transitions with replacement according to :attr:`balance`.

        A cluster that holds n of all N transitions, one of K clusters that are not empty, has the probability
        ``(1 - balance) * n / N + balance / K``. Within a cluster all transitions have the same probability.

        Args:
            batch_size: number of transitions.

        Returns:
            A batch on the buffer's device. The next call overwrites it.

        Raises:
            OptionError: the buffer is empty.
        """
        batch_size = checked_integer("batch_size", batch_size, lower=1)
        if self._shared is not None:
            self.gather(self._shared)
        if len(self) == 0:
            raise OptionError("cannot sample: the buffer holds no transitions; add some first")
        if self._staging.n != batch_size:
            check_memory("batch_size", batch_size, "the transitions of a batch", self.layout.row_bytes)
            self._staging = BatchStaging(self.layout, batch_size, self.device)
            self._uniforms = torch.zeros((batch_size, 2), dtype=torch.float64)
            self._rows = torch.zeros(batch_size, dtype=torch.int64)
        self._uniforms.uniform_(generator=self.generator)
        kernels.draw_rows(
            self._uniforms.numpy(), self._counts, self._stride, self._balance, self._cumulative, self._rows.numpy()
        )
        batch = self._staging.host()
        for block, tensor in zip(self._flat, batch.tensors, strict=True):
            torch.index_select(block, 0, self._rows, out=tensor)
        return self._staging.to_device()

    # -- files --------------------------------------------------------------------------------------------------------

    @checked
    def save(self, folder: str | Path) -> None:
        """Write all transitions to a folder: one ``.npy`` file per field, the clusters, and JSON.

        An older save there is replaced.

        Raises:
            DatasetError: the folder holds other files. Nothing is changed.
        """
        if self._shared is not None:
            self.gather(self._shared)
        rows = self._rows_by_ring()
        state = ClusterState(
            layout=self.layout,
            options=self.options,
            arrays=(block[rows] for block in self._arrays),  # a copy of one field at a time
            serials=self._serials[rows],
            counts=self._counts,
            heads=self._heads,
            counters={"next_serial": self._next_serial, "fit_at": self._fit_at, "missed": self.missed},
            balance=self._balance,
            generator=self.generator.get_state().numpy(),
            clusters=self.clusters,
        )
        memory_files.replace(Path(folder), cluster_files.HEADER, state.write)

    @classmethod
    @checked
    def load(cls, folder: str | Path, device: str | torch.device = "cpu") -> VectorizedClusterBuffer:
        """Return a buffer with the contents, the clusters and the random state that :meth:`save` wrote.

        Args:
            folder: the folder.
            device: as in the constructor.

        Raises:
            DatasetError: the folder does not hold a saved buffer, or it is damaged.
        """
        state = ClusterState.read(Path(folder))
        buffer = cls.__new__(cls)
        buffer._create(state.layout, state.options, device, seed=0)
        if state.clusters is not None and len(state.clusters.mean) != buffer._width:
            raise DatasetError(
                f"{folder} holds a damaged cluster buffer: its clusters are fitted to {len(state.clusters.mean)} "
                f"numbers, and its observations have {buffer._width}; save it again"
            )
        buffer._restore(state)
        return buffer

    def _restore(self, state: ClusterState) -> None:
        """Copy saved contents to this empty buffer."""
        self.clusters, self.balance = state.clusters, state.balance
        self._split(len(state.counts))
        self._counts[:], self._heads[:] = state.counts, state.heads
        rows = self._rows_by_ring()
        for block, array in zip((*self._arrays, self._serials), (*state.arrays, state.serials), strict=True):
            block[rows] = array
        self._next_serial, self._fit_at, self.missed = (
            state.counters[name] for name in ("next_serial", "fit_at", "missed")
        )
        self.generator.set_state(torch.from_numpy(state.generator))

    def _rows_by_ring(self) -> np.ndarray:
        """Return the rows that hold transitions, ring after ring."""
        return np.concatenate([ring * self._stride + np.arange(n) for ring, n in enumerate(self._counts)])

    def close(self) -> None:
        """Remove the shared memory of :meth:`share`, if there is one."""
        if self._shared is not None:
            self._shared.close()
            self._shared = None

    def __repr__(self) -> str:
        kind = "uniform" if self.options.clusters == 1 else f"{self.options.clusters} clusters"
        return f"<VectorizedClusterBuffer of {self.capacity:,} transitions, {kind}, for {self.device}>"
