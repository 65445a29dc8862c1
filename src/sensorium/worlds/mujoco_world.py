"""The CPU engine: ``mujoco.batch.Batch`` runs B simulations on MuJoCo's own thread pool.

After ``mj_step`` the derived fields describe the state before the last substep. With ``exact_sensing`` each step ends
with the position and velocity stages at the new state (``mjSTAGE_VEL``). Poses, velocities, distances and the sensors
computed from them are then those of time t. Accelerations and forces stay those of the substep that ended at t.

These decisions follow from measurements (docs/measured_choices.md). There is one MjData per thread rather than per env,
which is as fast and takes less memory. The engine's sensors are disabled in all calls whose values cannot be read; this
saves two thirds of their cost. Sensors of links with a free joint are computed without the engine (``free_links.py``).
The stages at the new state are a call of their own, without collision detection (``current_stage.py``), which saves two
thirds of their cost, and are skipped if no bound field and no sensor shows them. Sensors that are captured at substeps
sense a record of them (``substep_record.py``), which costs the engine's sensors in each substep, and no stages.
"""

from __future__ import annotations

from collections.abc import Callable

import mujoco
import numpy as np
import torch
from mujoco.batch import MODEL_FIELDS, Batch, SimulationError

from sensorium._system import cpu_count
from sensorium.errors import OptionError
from sensorium.worlds import current_stage
from sensorium.worlds.changes import Changes
from sensorium.worlds.engine_switches import SWITCHED, EngineSwitches
from sensorium.worlds.environments import EnvironmentMap
from sensorium.worlds.forks import check_not_forked, fork_depth
from sensorium.worlds.free_links import FIXED_FIELDS, RNE_FIELDS, FreeLinkSensors, free_link_sensors
from sensorium.worlds.initial_pose import initial_key
from sensorium.worlds.lights import Light
from sensorium.worlds.model_fields import check_field, check_simple_bodies
from sensorium.worlds.substep_record import SubstepRecord
from sensorium.worlds.world import ArrayLike, Envs, env_ids, env_index, env_mask, real_states

_NO_SENSORS = int(mujoco.mjtDisableBit.mjDSBL_SENSOR)
_STAGE_NONE = int(mujoco.mjtStage.mjSTAGE_NONE)
_STAGE_ACC = int(mujoco.mjtStage.mjSTAGE_ACC)
_STAGE_VEL = int(mujoco.mjtStage.mjSTAGE_VEL)
_FIRST_BAD = int(mujoco.mjtWarning.mjWARN_BADQPOS)
_LAST_BAD = int(mujoco.mjtWarning.mjWARN_BADCTRL)
_MIN_ENVS_TO_SPLIT = 8
"""Number of envs from which several calls per step, each with what it needs, are faster than one."""
_MIN_ENVS_TO_RECORD = 2
"""Number of envs from which recording all substeps in one call is faster than a call for each, with the same bits."""


class MujocoWorld:
    """B envs on the CPU; implements :class:`sensorium.worlds.World`.

    Args:
        model: the compiled model.
        n_envs: B, the number of envs.
        substeps: physics steps in one step.
        threads: threads of the physics pool; 0 uses every core that this process may use.
        exact_sensing: update positions and velocities to time t after each step.
    """

    is_gpu = False
    can_retrace = True

    def __init__(
        self, model: mujoco.MjModel, n_envs: int, *, substeps: int = 1, threads: int = 0, exact_sensing: bool = True
    ) -> None:
        self.model, self.n_envs, self.substeps, self.device = model, n_envs, substeps, torch.device("cpu")
        self.changes, self.step_count = Changes(n_envs), 0
        self.lights: tuple[Light, ...] = ()
        self.environments: tuple[EnvironmentMap, ...] = ()
        self.expanded: dict[str, torch.Tensor] = {}
        self._stage = _STAGE_VEL if exact_sensing else _STAGE_NONE
        self._initial_key = initial_key(model)
        self.threads = threads or cpu_count()
        self.batch = Batch(model, n_envs, self.threads)
        self._fork_depth = fork_depth() if min(n_envs, self.threads) > 1 else None  # one thread is the caller's own
        self._stepping: np.ndarray | None = None  # ids of the envs that step; None while all do
        self._failed = np.zeros(n_envs, bool)  # envs that do not step for another reason are held
        self._unreported: dict[int, str] = {}  # failures found outside step(), which the next step() returns
        self._bad = self.batch.warning[:, _FIRST_BAD : _LAST_BAD + 1, 1]
        splits = n_envs >= _MIN_ENVS_TO_SPLIT
        self._switches = EngineSwitches(self.batch, model, splits)
        self._leads = splits and model.nsensor > 0
        self._skips_constraints = splits and exact_sensing and not current_stage.needs_constraints(model)
        self._shows_current = False  # whether anything can be read that depends on the stages at the new state
        self.before: np.ndarray | None = None
        self._record: SubstepRecord | None = None
        # without exact sensing, derived fields are one substep old
        self._note_step = self.changes.mark if exact_sensing else self.changes.write
        self.on_substep: Callable[[], None] | None = None
        """Called after every substep but the last, if sensors are captured at substeps."""
        self.on_reset: Callable[[torch.Tensor], None] | None = None
        self._n_physics = mujoco.mj_stateSize(model, int(mujoco.mjtState.mjSTATE_PHYSICS))
        self._inputs = current_stage.input_columns(model)
        self._bound = {"sensordata"}
        data = current_stage.writeable(self.batch.bind("sensordata"))  # before the first call, which fills it
        self._kept = [(data[:, part], data[:, part].copy()) for part in current_stage.acceleration_columns(model)]
        self.reset()
        self._select_sensors()

    def _select_sensors(self) -> None:
        """Select the engine's sensors that are computed without the engine, from the next step on."""
        sensors = free_link_sensors(self.model, self._stage == _STAGE_VEL, self.expanded.keys())
        self.free_links = FreeLinkSensors(self.batch, self.model, sensors)
        for field in self.expanded:
            self.free_links.expand(field, self.batch.expand(field))
        self._switches.skip_sensors(self.free_links.skipped(self._bound))
        rest = np.delete(self.model.sensor_needstage, sensors)
        self._shows_current |= self._stage == _STAGE_VEL and bool((rest != _STAGE_ACC).any())

    @property
    def time(self) -> torch.Tensor:
        return torch.from_numpy(self.batch.bind("time"))

    @property
    def diverged(self) -> torch.Tensor:
        return torch.from_numpy(self._failed)

    def bind(self, field: str) -> torch.Tensor:
        try:
            array = self.batch.bind(field)
        except ValueError as error:
            raise OptionError(f"bind: MjData has no field {field!r} that can be bound: {error}") from error
        is_output = not array.flags.writeable
        if is_output:  # torch has no read-only tensors; the engine overwrites outputs in every call
            array = current_stage.writeable(array)
        if field not in self._bound:
            self._bound.add(field)
            self._skips_constraints &= field not in current_stage.COUNTS
            if field in RNE_FIELDS:  # the engine computes them for accelerometers
                self._switches.skip_sensors(self.free_links.skipped(self._bound))
            if is_output:
                self._shows_current |= self._stage == _STAGE_VEL and field not in current_stage.ACCELERATION_FIELDS
                # a field bound between calls is zero until the next call; these stages do not change the physics state
                self._unreported |= self._make_current(self._not_failed)
                if field in current_stage.ACCELERATION_FIELDS:
                    array[...] = array if self.n_envs == 1 else 0  # a thread has that of the env that it ran last
                    self._kept.append((array, array.copy()))
        return torch.from_numpy(array)

    def expand(self, field: str) -> torch.Tensor:
        check_field(field)
        try:
            self.expanded[field] = torch.from_numpy(self.batch.expand(field))
        except ValueError as error:
            raise OptionError(f"expand: MjModel has no field {field!r} that can differ per env: {error}") from error
        if field in FIXED_FIELDS:
            self._select_sensors()
        self.free_links.expand(field, self.batch.expand(field))
        return self.expanded[field]

    def update_constants(self, envs: Envs = None) -> None:
        check_simple_bodies(self)
        self.batch.set_const(env_ids(envs, self.n_envs))
        for field in sorted(set(MODEL_FIELDS) - self.expanded.keys() - SWITCHED):  # in the same order each time
            if self.batch.expanded(field) is not None:
                self.expand(field)

    def step(self) -> dict[int, str]:
        failed, self._unreported = self._unreported, {}
        if self.on_substep is not None:
            failed |= self._sense_substeps(self.on_substep)
        else:
            count = self.substeps
            if count > 1 and (self._leads or self.before is not None or self.free_links.needs_before):
                failed |= self._lead()
                count = 1
            if self.before is not None:
                self.before[:] = self.batch.state
            failed |= self._advance(self._stepping, count)
        if np.count_nonzero(self.batch.warning) and self._bad.any():  # counting all of them is faster
            failed |= self._retire(np.flatnonzero(self._bad.any(axis=1)))
        self.step_count += 1
        self._note_step()
        return failed

    def _sense_substeps(self, on_substep: Callable[[], None]) -> dict[int, str]:
        """Make all substeps, and show each but the last to ``on_substep``."""
        return (self._record_substeps if self.n_envs >= _MIN_ENVS_TO_RECORD else self._step_substeps)(on_substep)

    def _step_substeps(self, on_substep: Callable[[], None]) -> dict[int, str]:
        """Make each substep by a call of its own."""
        ids, failed = self._stepping, dict[int, str]()
        for substep in range(self.substeps):
            if substep == self.substeps - 1 and self.before is not None:
                self.before[:] = self.batch.state
            found = self._advance(ids, 1)
            ids, failed = self._without(ids, found), failed | found
            if substep < self.substeps - 1:
                self.changes.mark()
                on_substep()
        return failed

    def _record_substeps(self, on_substep: Callable[[], None]) -> dict[int, str]:
        """Make all substeps in one call that records them; then show them."""
        fields = self._bound | self.free_links.outputs
        if self._record is None or self._record.fields != fields:
            self._record = SubstepRecord(self.batch, self.substeps, fields, self._kept, self._stage == _STAGE_VEL)
        record = self._record
        self.free_links.remember()
        failed = self._guard(lambda: record.run(self._stepping))
        ids = self._without(self._stepping, failed)
        failed |= self._guard(lambda: record.finish(ids))
        for substep in range(self.substeps - 1):
            self._show(record, substep, ids)
            self.changes.mark()
            on_substep()
        if self.before is not None:
            self.before[:] = self.batch.state
        self._show(record, self.substeps - 1, ids)
        if self._shows_current:
            failed |= self._make_current(ids)
        return failed

    def _show(self, record: SubstepRecord, substep: int, ids: np.ndarray | None) -> None:
        """Show a substep to the sensors. The state is that after the substep before it."""
        if substep > 0:
            self.free_links.remember()
        record.show(substep)
        self.free_links.fill(ids)

    def _lead(self) -> dict[int, str]:
        """Make all substeps but the last, with the engine's sensors off if that is faster."""
        with self._switches.disabled(_NO_SENSORS if self._leads else 0):
            return self._guard(lambda: self.batch.step(self._stepping, self.substeps - 1))

    def _advance(self, ids: np.ndarray | None, count: int) -> dict[int, str]:
        """Make ``count`` substeps of the envs ``ids``, then update positions and velocities if sensing is exact."""
        is_split = self._skips_constraints and self._shows_current
        stage = self._stage if self._shows_current and not is_split else _STAGE_NONE
        self.free_links.remember()
        with self._switches.accelerations_only(is_split):
            failed = self._guard(lambda: self.batch.step(ids, count, stage))
        ids = self._without(ids, failed)
        self.free_links.fill(ids)
        return failed | self._make_current(ids) if is_split else failed

    def _without(self, ids: np.ndarray | None, failed: dict[int, str]) -> np.ndarray | None:
        """Return the envs ``ids`` that are not in ``failed``."""
        if not failed:
            return ids
        return np.setdiff1d(np.arange(self.n_envs) if ids is None else ids, list(failed)).astype(np.int32)

    def _make_current(self, ids: np.ndarray | None) -> dict[int, str]:
        """Compute the position and velocity stages at the current state.

        Outputs of the acceleration stage keep their values. The engine would fill them from the MjData of the thread,
        which holds those of another env.
        """
        for output, kept in self._kept:
            kept[:] = output
        with self._switches.disabled(current_stage.CONSTRAINTS if self._skips_constraints else 0):
            failed = self._guard(lambda: self.batch.forward(ids, stage=_STAGE_VEL))
        for output, kept in self._kept:
            output[:] = kept
        self.free_links.fill_motions(ids)
        return failed

    def retrace(self, before: np.ndarray | None, after: np.ndarray) -> None:
        """Reproduce a recorded step that led to the states ``after``, (B, n_state).

        With ``before``, the states before the last substep, that substep is made again: a state does not contain its
        accelerations, forces and contacts. Envs that the substep did not move had failed or were held. They keep what
        they have, and are held again. Failures are not returned: they were reported when the step was recorded.
        """
        self._revive(None)
        if before is None:
            self.batch.state[:] = after
            self._compute(self.batch.forward)
            if self.on_substep is not None:
                self.changes.mark()
                for _ in range(self.substeps - 1):  # the clocks of these sensors count substeps
                    self.on_substep()
        else:
            moved = before[:, 0] != after[:, 0]
            same = self.batch.state[:, : self._n_physics] == before[:, : self._n_physics]
            jumped = np.flatnonzero(~moved & ~same.all(axis=1)).astype(np.int32)
            if self.on_substep is not None:
                # the inputs of this step, which ``before`` contains, act on the state that the step before led to
                self.batch.state[:, self._inputs] = before[:, self._inputs]
                self.hold(~moved)
                self._sense_substeps(self.on_substep)
                self._revive(None)
            self.batch.state[:] = before
            self._advance(np.flatnonzero(moved).astype(np.int32), 1)
            if len(jumped):
                self._compute(lambda: self.batch.forward(jumped))
            self._retire(np.flatnonzero(self._bad.any(axis=1)))
            self.batch.state[:] = after
            if not moved.all():
                self.hold(~moved)
        self._note_step()

    def keep_before(self, keep: bool) -> None:
        self.before = self.batch.state.copy() if keep else None

    def _retire(self, ids: np.ndarray) -> dict[int, str]:
        """Stop stepping envs that failed until they are reset; return env -> message of those not known yet."""
        stepping = np.arange(self.n_envs, dtype=np.int32) if self._stepping is None else self._stepping
        self._failed[ids] = True
        new = np.intersect1d(ids, stepping)
        messages = {int(env): self.batch.error(int(env)) or self._warning(int(env)) for env in new}
        if messages:
            self._stepping = np.setdiff1d(stepping, new).astype(np.int32)
        return messages

    def hold(self, envs: Envs) -> None:
        ids = env_ids(envs, self.n_envs)
        stepping = np.arange(self.n_envs, dtype=np.int32) if self._stepping is None else self._stepping
        self._stepping = np.setdiff1d(stepping, stepping if ids is None else ids).astype(np.int32)

    @property
    def _not_failed(self) -> np.ndarray | None:
        """Ids of the envs that have not failed, held ones included; None for all."""
        return np.flatnonzero(~self._failed).astype(np.int32) if self._failed.any() else None

    def _guard(self, call: Callable[[], None]) -> dict[int, str]:
        """Run a call of the batch; retire the envs in which MuJoCo raised and return env -> message."""
        check_not_forked(self._fork_depth, "the scene")
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
        return self._compute(lambda: self.batch.forward(ids))

    def _compute(self, call: Callable[[], None]) -> dict[int, str]:
        """Make a call that computes all stages at the current state."""
        with self._switches.all_sensors():
            return self._guard(call)

    def settle(self) -> None:
        if self.changes.unsettled:
            ids = self.changes.take_unsettled()
            if self._not_failed is not None:
                ids = np.intersect1d(ids, self._not_failed).astype(np.int32)
            self._unreported |= self._make_current(ids)

    def reset(self, envs: Envs = None) -> dict[int, str]:
        ids = env_ids(envs, self.n_envs)
        self._revive(ids)
        self.changes.mark(ids)
        if self.on_reset is None:
            return self._compute(lambda: self.batch.reset(ids, self._initial_key))
        self._guard(lambda: self.batch.reset(ids, self._initial_key, _STAGE_NONE))  # computes nothing that could fail
        self.on_reset(env_mask(envs, self.n_envs, self.device))
        return self._compute(lambda: self.batch.forward(ids))

    def _revive(self, ids: np.ndarray | None) -> None:
        """Let failed and held envs (None: all) step again."""
        revived = range(self.n_envs) if ids is None else ids.tolist()
        self._unreported = {env: text for env, text in self._unreported.items() if env not in revived}
        rows = slice(None) if ids is None else ids
        self.batch.warning[rows] = 0
        self._failed[rows] = False
        if self._stepping is not None:
            stepping = np.arange(self.n_envs) if ids is None else np.union1d(self._stepping, ids)
            self._stepping = None if len(stepping) == self.n_envs else stepping.astype(np.int32)

    def get_state(self) -> torch.Tensor:
        return torch.from_numpy(self.batch.state.copy())

    def checked_states(self, name: str, states: np.ndarray) -> np.ndarray:
        return real_states(name, states, self.batch.state.shape)

    def check_state(self, state: torch.Tensor, envs: Envs = None) -> None:
        self._state_rows(state, envs)

    def set_state(self, state: torch.Tensor, envs: Envs = None) -> dict[int, str]:
        rows, values = self._state_rows(state, envs)
        self.batch.state[rows] = values
        return self.forward(envs)

    def _state_rows(self, state: torch.Tensor, envs: Envs) -> tuple[slice | np.ndarray, np.ndarray]:
        """Return the checked rows of the state, and their new values."""
        index = env_index(envs, self.n_envs, self.device)
        rows = slice(None) if index is None else index.numpy()
        values = real_states("state", state, self.batch.state[rows].shape)
        if not np.isfinite(values).all():
            raise OptionError("state must be finite, got NaN or infinity")
        return rows, values

    def rays(self, origins: ArrayLike, directions: ArrayLike, **options: object) -> tuple[torch.Tensor, ...]:
        return tuple(torch.from_numpy(array) for array in self.batch.ray(origins, directions, **options))

    def check(self) -> dict[int, str]:
        return {}  # step() reports everything

    def close(self) -> None:
        # tensors that ``bind`` returned keep it alive; close() is called again after an interrupted one
        self.__dict__.pop("batch", None)
