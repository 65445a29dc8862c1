"""The CPU engine: ``mujoco.batch.Batch``, B simulations on MuJoCo's own thread pool.

After ``mj_step`` the engine's derived fields describe the state before the last substep. With ``exact_sensing`` each
step ends with the position and velocity stages at the new state (``mjSTAGE_VEL``), so that poses, velocities, distances
and the sensors made of them are those of time t; accelerations and forces stay those of the substep that ended at t.

Two choices here were made by measuring (docs/benchmarks.md): one MjData per thread rather than per env, which is as
fast and smaller; and engine sensors switched off in all substeps but the last, whose samples nobody would see, which
takes two thirds off their cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
import torch
from mujoco.batch import MODEL_FIELDS, Batch, SimulationError

from sensorium._system import cpu_count
from sensorium.errors import OptionError
from sensorium.worlds.changes import Changes
from sensorium.worlds.lights import Light
from sensorium.worlds.world import Envs, env_ids, env_index

_NO_SENSORS = int(mujoco.mjtDisableBit.mjDSBL_SENSOR)
_STAGE_NONE = int(mujoco.mjtStage.mjSTAGE_NONE)
_STAGE_VEL = int(mujoco.mjtStage.mjSTAGE_VEL)
_FIRST_BAD = int(mujoco.mjtWarning.mjWARN_BADQPOS)
_LAST_BAD = int(mujoco.mjtWarning.mjWARN_BADCTRL)
_SPLIT_FROM = 8
"""Envs from which two calls a step (sensors off, then on) are cheaper than one."""


class MujocoWorld:
    """B envs on the CPU. See :class:`sensorium.worlds.World` for the contract."""

    is_gpu = False
    can_retrace = True

    def __init__(
        self, model: mujoco.MjModel, n_envs: int, *, substeps: int = 1, threads: int = 0, exact_sensing: bool = True
    ) -> None:
        self.model = model
        self.n_envs = n_envs
        self.device = torch.device("cpu")
        self.substeps = substeps
        self.changes = Changes(n_envs)
        self.step_count = 0
        self.lights: tuple[Light, ...] = ()
        self.expanded: dict[str, torch.Tensor] = {}
        self._stage = _STAGE_VEL if exact_sensing else _STAGE_NONE
        self.threads = threads or cpu_count()
        self.batch = Batch(model, n_envs, self.threads)
        self._healthy: np.ndarray | None = None  # ids that still step, or None while all do
        self._failed = np.zeros(n_envs, bool)  # the others are held
        self._late: dict[int, str] = {}  # failures found outside step(), which the next one reports
        self._bad = self.batch.warning[:, _FIRST_BAD : _LAST_BAD + 1, 1]
        self._flags: np.ndarray | None = None
        if model.nsensor and substeps > 1 and n_envs >= _SPLIT_FROM:
            self._flags = self.batch.expand("opt.disableflags")
            self._sensors_on = int(model.opt.disableflags)
        self.before: np.ndarray | None = None
        self._n_physics = mujoco.mj_stateSize(model, int(mujoco.mjtState.mjSTATE_PHYSICS))
        self._bound = {"sensordata"}
        self.batch.bind("sensordata")  # before the first call, so that it is filled by it
        self.reset()

    @property
    def time(self) -> torch.Tensor:
        return torch.from_numpy(self.batch.bind("time"))

    def bind(self, field: str) -> torch.Tensor:
        try:
            array = self.batch.bind(field)
        except ValueError as error:
            raise OptionError(f"the engine has no field {field!r} that can be read: {error}") from error
        if field not in self._bound:
            self._bound.add(field)
            if not array.flags.writeable:
                # a field bound between calls is zero until the next one; these stages leave the physics untouched
                self._late |= self._guard(lambda: self.batch.forward(self._sound, stage=_STAGE_VEL))
        if not array.flags.writeable:  # torch has no read-only tensors; the engine overwrites outputs at every call
            array = array.view()
            array.flags.writeable = True
        return torch.from_numpy(array)

    def expand(self, field: str) -> torch.Tensor:
        try:
            self.expanded[field] = torch.from_numpy(self.batch.expand(field))
        except ValueError as error:
            raise OptionError(f"the engine has no model field {field!r} that can differ per env: {error}") from error
        return self.expanded[field]

    def update_constants(self, envs: Envs = None) -> None:
        self.batch.set_const(env_ids(envs, self.n_envs))
        for field in set(MODEL_FIELDS) - self.expanded.keys() - {"opt.disableflags"}:  # the last is for _lead()
            if self.batch.expanded(field) is not None:
                self.expand(field)

    def step(self) -> dict[int, str]:
        failed, self._late = self._late, {}
        try:
            if self._flags is None and self.before is None:
                self.batch.step(self._healthy, self.substeps, self._stage)
            else:
                if self.substeps > 1:
                    failed |= self._lead()
                if self.before is not None:
                    self.before[:] = self.batch.state
                self.batch.step(self._healthy, 1, self._stage)
        except SimulationError as error:
            failed |= self._retire(error.ids)
        if self._bad.any():
            failed |= self._retire(np.flatnonzero(self._bad.any(axis=1)))
        self.step_count += 1
        if self._stage == _STAGE_VEL:
            self.changes.mark()
        else:
            self.changes.write()  # what is derived from the state is one substep old
        return failed

    def _lead(self) -> dict[int, str]:
        """All substeps but the last, with the engine's sensors off where that pays."""
        if self._flags is not None:
            self._flags[:] = self._sensors_on | _NO_SENSORS
        try:
            return self._guard(lambda: self.batch.step(self._healthy, self.substeps - 1))
        finally:
            if self._flags is not None:
                self._flags[:] = self._sensors_on

    def retrace(self, before: np.ndarray | None, after: np.ndarray) -> None:
        """Be as after a step that went from ``before``, the states before its last substep, to ``after``.

        That substep is made again: accelerations, forces and contacts are those of a substep, and no state holds them.
        Envs that it did not move had failed, or were held: they keep what they have, and are held again. Without
        ``before``, everything is what ``after`` alone gives.
        """
        self._revive(None)
        if before is None:
            self.batch.state[:] = after
            self._guard(lambda: self.batch.forward())
        else:
            moved = before[:, 0] != after[:, 0]
            here = self.batch.state[:, : self._n_physics] == before[:, : self._n_physics]
            jumped = np.flatnonzero(~moved & ~here.all(axis=1)).astype(np.int32)
            self.batch.state[:] = before
            self._guard(lambda: self.batch.step(np.flatnonzero(moved).astype(np.int32), 1, self._stage))
            if len(jumped):
                self._guard(lambda: self.batch.forward(jumped))
            self._retire(np.flatnonzero(self._bad.any(axis=1)))
            self.batch.state[:] = after
            if not moved.all():
                self.hold(~moved)
        if self._stage == _STAGE_VEL:
            self.changes.mark()
        else:
            self.changes.write()

    def keep_before(self, keep: bool) -> None:
        """Keep the states before the last substep of each step in :attr:`before`, which a retrace begins with."""
        self.before = self.batch.state.copy() if keep else None

    def _retire(self, ids: np.ndarray) -> dict[int, str]:
        """Take envs out of stepping until they are reset; env -> message of those that were still healthy."""
        healthy = np.arange(self.n_envs, dtype=np.int32) if self._healthy is None else self._healthy
        self._failed[ids] = True
        new = np.intersect1d(ids, healthy)
        messages = {int(env): self.batch.error(int(env)) or self._warning(int(env)) for env in new}
        if messages:
            self._healthy = np.setdiff1d(healthy, new).astype(np.int32)
        return messages

    def hold(self, envs: Envs) -> None:
        """Take envs out of stepping until they are reset."""
        ids = env_ids(envs, self.n_envs)
        healthy = np.arange(self.n_envs, dtype=np.int32) if self._healthy is None else self._healthy
        self._healthy = np.setdiff1d(healthy, healthy if ids is None else ids).astype(np.int32)

    @property
    def _sound(self) -> np.ndarray | None:
        """Ids of the envs whose state can be computed with, stepped or held; None for all."""
        return np.flatnonzero(~self._failed).astype(np.int32) if self._failed.any() else None

    def _guard(self, call: Callable[[], None]) -> dict[int, str]:
        """Run a call of the batch; env -> message of those in which MuJoCo raised, which are retired."""
        try:
            call()
        except SimulationError as error:
            return self._retire(error.ids)
        return {}

    def _warning(self, env: int) -> str:
        kind = _FIRST_BAD + int(np.argmax(self._bad[env]))
        return mujoco.mju_warningText(kind, int(self.batch.warning[env, kind, 0]))

    def forward(self, envs: Envs = None) -> dict[int, str]:
        ids = env_ids(envs, self.n_envs)
        self._revive(ids)
        self.changes.mark(ids)
        return self._guard(lambda: self.batch.forward(ids))

    def settle(self) -> None:
        if self.changes.unsettled:
            ids = self.changes.take_unsettled()
            if self._sound is not None:
                ids = np.intersect1d(ids, self._sound).astype(np.int32)
            self._late |= self._guard(lambda: self.batch.forward(ids, stage=_STAGE_VEL))

    def reset(self, envs: Envs = None) -> dict[int, str]:
        ids = env_ids(envs, self.n_envs)
        self._revive(ids)
        self.changes.mark(ids)
        return self._guard(lambda: self.batch.reset(ids))

    def _revive(self, ids: np.ndarray | None) -> None:
        alive = range(self.n_envs) if ids is None else ids.tolist()
        self._late = {env: text for env, text in self._late.items() if env not in alive}
        rows = slice(None) if ids is None else ids
        self.batch.warning[rows] = 0
        self._failed[rows] = False
        if self._healthy is not None:
            healthy = np.arange(self.n_envs) if ids is None else np.union1d(self._healthy, ids)
            self._healthy = None if len(healthy) == self.n_envs else healthy.astype(np.int32)

    def get_state(self) -> torch.Tensor:
        return torch.from_numpy(self.batch.state.copy())

    def set_state(self, state: torch.Tensor, envs: Envs = None) -> dict[int, str]:
        index = env_index(envs, self.n_envs, self.device)
        rows = slice(None) if index is None else index.numpy()
        values = np.asarray(state.numpy(force=True) if isinstance(state, torch.Tensor) else state, dtype=np.float64)
        expected = self.batch.state[rows].shape
        if values.shape != expected:
            raise OptionError(f"state must have shape {expected} for these envs, got {values.shape}")
        if not np.isfinite(values).all():
            raise OptionError("state must be finite, got NaN or infinity")
        self.batch.state[rows] = values
        return self.forward(envs)

    def rays(self, origins: Any, directions: Any, **options: Any) -> tuple[torch.Tensor, ...]:
        return tuple(torch.from_numpy(array) for array in self.batch.ray(origins, directions, **options))

    def check(self) -> dict[int, str]:
        return {}  # step() has reported everything

    def close(self) -> None:
        """Free the batch. The tensors that ``bind`` gave keep its memory alive until they are gone."""
        del self.batch
