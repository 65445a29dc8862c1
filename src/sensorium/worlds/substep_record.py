"""``SubstepRecord``: all substeps of a step in one call, and the outputs of the batch as they were after each.

``mj_step`` computes positions and velocities at the state that it starts from. Those at the end of substep k are
therefore in the record of substep k + 1, with the same bits as a stage of their own would have. Accelerations and
forces of substep k are in its own record. Only the last substep needs the stages at the new state.
"""

from __future__ import annotations

import mujoco
import numpy as np
from mujoco.batch import Batch

from sensorium.worlds.current_stage import ACCELERATION_FIELDS, writeable

_STATE = int(mujoco.mjtState.mjSTATE_INTEGRATION)


class SubstepRecord:
    """The states and bound outputs after every substep of a step.

    Args:
        batch: the engine.
        substeps: physics steps in one step.
        bound: names of the bound fields.
        kept: pairs of which the first is an output of the acceleration stage, as a view of the batch's storage.
        exact: whether outputs show positions and velocities at the end of a substep, rather than at its start.
    """

    def __init__(
        self, batch: Batch, substeps: int, bound: set[str], kept: list[tuple[np.ndarray, np.ndarray]], exact: bool
    ) -> None:
        self._batch, self._substeps = batch, substeps
        self.fields = set(bound)
        self._out: dict[str | int, np.ndarray] = {_STATE: np.empty((batch.nsim, substeps, batch.nstate))}
        self._outputs: list[tuple[np.ndarray, np.ndarray, int]] = []  # storage of the batch, its record, lag
        for field in sorted(bound):
            storage = batch.bind(field)
            if storage.flags.writeable:  # a view of the state
                continue
            storage = writeable(storage)
            record = np.empty((batch.nsim, substeps, *storage.shape[1:]), storage.dtype)
            self._out[field] = record
            self._outputs.append((storage, record, int(exact and field not in ACCELERATION_FIELDS)))
        self._accelerations = [
            (part, self._out["sensordata"][..., _columns(part, batch.bind("sensordata"))])
            for part, _ in kept
            if np.shares_memory(part, batch.bind("sensordata"))
        ]
        self._rows: slice | np.ndarray = slice(None)
        self._source: slice | np.ndarray = slice(None)
        self._ids: np.ndarray | None = None

    def run(self, ids: np.ndarray | None) -> None:
        """Make all substeps of the envs ``ids``; None for all."""
        self._ids = ids
        count = self._batch.nsim if ids is None else len(ids)
        out = {field: array[:count] for field, array in self._out.items()}
        self._batch.rollout(self._substeps, record=list(out), ids=ids, out=out)

    def finish(self, ids: np.ndarray | None) -> None:
        """Select the envs ``ids``, those of the run that did not fail; None for all.

        The engine stops recording an env at a warning, such as too many contacts. Its substeps are completed, but
        sensors see the last recorded one again.
        """
        self._rows = slice(None) if ids is None else ids
        self._source = slice(None) if ids is None else np.searchsorted(self._ran, ids)
        times = self._out[_STATE][self._source, :, 0]
        stopped = times[:, 1:] == times[:, :-1]
        if not stopped.any():
            return
        missing = stopped.sum(axis=1)
        for count in np.unique(missing[missing > 0]):
            late = np.flatnonzero(missing == count).astype(np.int32)
            envs = late if ids is None else ids[late]
            records = late if ids is None else self._source[late]  # type: ignore[index]
            if count > 1:  # accelerations of the last substep belong to the state before it
                self._batch.step(envs, int(count) - 1)
                self._out[_STATE][records, -2] = self._batch.state[envs]
            self._batch.step(envs)
            self._out[_STATE][records, -1] = self._batch.state[envs]
            for storage, record, _ in self._outputs:
                record[records, -1] = storage[envs]

    @property
    def _ran(self) -> np.ndarray:
        return np.arange(self._batch.nsim) if self._ids is None else self._ids

    def show(self, substep: int) -> None:
        """Write the state and outputs after a substep to the batch. After the last, positions are those before it."""
        last = substep == self._substeps - 1
        rows, source = self._rows, self._source
        self._batch.state[rows] = self._out[_STATE][source, substep]
        for storage, record, lag in self._outputs:
            storage[rows] = record[source, substep if last else substep + lag]
        for storage, record in self._accelerations:
            storage[rows] = record[source, substep]


def _columns(part: np.ndarray, whole: np.ndarray) -> slice:
    """Return which columns of ``whole`` the view ``part`` is."""
    first = (part.ctypes.data - whole.ctypes.data) // whole.itemsize
    return slice(first, first + part.shape[1])
