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
_NO_SENSORS = int(mujoco.mjtDisableBit.mjDSBL_SENSOR)
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
        self._is_off = False  # whether the engine computes no sensors at all
        self._stages: np.ndarray | None = None
        self._has_two_stages = splits and not model.nhistory and bool((model.sensor_needstage != _ACCELERATION).any())
        self._native = np.tile(model.sensor_needstage.astype(np.int32), (batch.nsim, 1))
        self._usual = self._in_substep = self._native

    def skip_sensors(self, sensors: np.ndarray) -> None:
        """Let the engine compute all sensors but ``sensors``, an array of ids. Call it once before the first step."""
        was_off, self._is_off = self._is_off, self._flags is not None and 0 < len(sensors) == self._native.shape[1]
        if self._flags is not None and self._is_off != was_off:
            self._flags ^= _NO_SENSORS
        if self._is_off:  # this is faster than skipping each of them
            sensors = sensors[:0]
        if self._stages is None and (len(sensors) or (self._has_two_stages and not self._is_off)):
            self._stages = self._batch.expand("sensor_needstage")
        if self._stages is not None:
            self._usual = self._native.copy()
            self._usual[:, sensors] = _NEVER
            self._in_substep = np.where(self._usual == _ACCELERATION, self._usual, _NEVER)
            self._stages[:] = self._usual

    def disabled(self, bits: int) -> AbstractContextManager[None]:
        """Disable parts of the engine, as bits of ``opt.disableflags``."""
        return _NOTHING if self._flags is None or not bits else self._with_flags(self._flags, self._flags | bits)

    @contextmanager
    def _with_flags(self, flags: np.ndarray, values: np.ndarray) -> Iterator[None]:
        before = flags.copy()
        flags[:] = values
        try:
            yield
        finally:
            flags[:] = before

    def accelerations_only(self, only: bool) -> AbstractContextManager[None]:
        """Compute no sensors of positions and velocities, if ``only``: a later call computes them at the new state."""
        return _NOTHING if self._stages is None or not only else self._with_stages(self._stages, self._in_substep)

    def all_sensors(self) -> AbstractContextManager[None]:
        """Compute the skipped sensors too."""
        if self._is_off and self._flags is not None:
            return self._with_flags(self._flags, self._flags ^ _NO_SENSORS)
        return _NOTHING if self._stages is None else self._with_stages(self._stages, self._native)

    @contextmanager
    def _with_stages(self, stages: np.ndarray, values: np.ndarray) -> Iterator[None]:
        stages[:] = values
        try:
            yield
        finally:
            stages[:] = self._usual
