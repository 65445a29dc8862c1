"""``EngineSwitches``: what single calls of a batch leave out, by model fields that have values per env."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import mujoco
import numpy as np
from mujoco.batch import Batch

SWITCHED = frozenset({"opt.disableflags", "sensor_needstage"})
"""Model fields that are expanded for the switches alone."""
_NOTHING = nullcontext()
_NEVER, _ACCELERATION = int(mujoco.mjtStage.mjSTAGE_NONE), int(mujoco.mjtStage.mjSTAGE_ACC)


class EngineSwitches:
    """Switches of the parts of the engine, in all envs of a batch.

    Args:
        batch: the engine.
        model: its model.
        splits: whether a step makes several calls that leave different parts out.
    """

    def __init__(self, batch: Batch, model: mujoco.MjModel, splits: bool) -> None:
        self._batch = batch
        self._flags = batch.expand("opt.disableflags") if splits else None
        self._stages: np.ndarray | None = None
        self._native = np.tile(model.sensor_needstage.astype(np.int32), (batch.nsim, 1))
        self._usual = self._in_substep = self._native
        if splits and (model.sensor_needstage != _ACCELERATION).any() and not model.nhistory:
            self._stages = batch.expand("sensor_needstage")
            self.skip_sensors(np.zeros(0, np.int32))

    def skip_sensors(self, sensors: np.ndarray) -> None:
        """Let the engine compute all sensors but ``sensors``, an array of ids."""
        if self._stages is None:
            if not len(sensors):
                return
            self._stages = self._batch.expand("sensor_needstage")
        self._usual = self._native.copy()
        self._usual[:, sensors] = _NEVER
        self._in_substep = np.where(self._usual == _ACCELERATION, self._usual, _NEVER)
        self._stages[:] = self._usual

    def disabled(self, bits: int) -> AbstractContextManager[None]:
        """Disable parts of the engine, as bits of ``opt.disableflags``."""
        return _NOTHING if self._flags is None or not bits else self._with_flags(self._flags, bits)

    @contextmanager
    def _with_flags(self, flags: np.ndarray, bits: int) -> Iterator[None]:
        before = flags.copy()
        flags |= bits
        try:
            yield
        finally:
            flags[:] = before

    def accelerations_only(self, only: bool) -> AbstractContextManager[None]:
        """Compute no sensors of positions and velocities, if ``only``: a later call computes them at the new state."""
        return _NOTHING if self._stages is None or not only else self._with_stages(self._stages, self._in_substep)

    def all_sensors(self) -> AbstractContextManager[None]:
        """Compute the skipped sensors too."""
        return _NOTHING if self._stages is None else self._with_stages(self._stages, self._native)

    @contextmanager
    def _with_stages(self, stages: np.ndarray, values: np.ndarray) -> Iterator[None]:
        stages[:] = values
        try:
            yield
        finally:
            stages[:] = self._usual
