"""``Simulation``: the methods of a scene that step it, and read and write its state."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import mujoco
import numpy as np
import torch

from sensorium.errors import AlreadyBuiltError, CapacityError, NotBuiltError, OptionError
from sensorium.options import checked_integer
from sensorium.tree import Buffer
from sensorium.worlds.contacts import Contacts
from sensorium.worlds.episode_numbers import episode_numbers
from sensorium.worlds.failures import Failures, merge_errors
from sensorium.worlds.journal import Journal
from sensorium.worlds.scene_module import SceneModule
from sensorium.worlds.scene_options import MAX_STEPS, SceneOptions
from sensorium.worlds.step_reset import step_and_reset
from sensorium.worlds.world import ArrayLike, Envs, World, env_ids, env_index, env_mask, kept

if TYPE_CHECKING:
    from collections.abc import Callable

    from sensorium._viewing import SceneViewer


class Simulation(Contacts):
    """The methods of :class:`~sensorium.Scene` that need a running engine."""

    physics: Buffer

    def __init__(self, options: SceneOptions) -> None:
        super().__init__(options)
        self._journal = Journal(0)
        self._world: World | None = None
        self._seed = 0
        self._sense: Callable[[], None] | None = None
        self._failures = Failures()
        self._unsensed_episodes: torch.Tensor | None = None  # (B,) episodes of a scene without sensors
        self._viewer: SceneViewer | None = None
        self._closed = False

    # -- running ------------------------------------------------------------------------------------------------------

    def step(self, count: int = 1, reset: Envs | Callable[[], Envs] = None) -> None:
        """Advance every env by ``count`` steps of ``dt`` seconds and sample the sensors after each.

        Args:
            count: number of steps, at most 10**9.
            reset: envs that are reset after each step, as ids or a mask, or a function that returns them then, from
                what the step led to. Default: none. The sensors of a reset env then read its initial state, and
                ``sensor.read_final()`` returns the last reading of the episode that ended. On a GPU, a mask in a tensor
                on the device costs no wait. Ids and masks are checked before the first step. A function is called
                after the step, so the step was made if the function raises, or returns what cannot be used. A mask that
                is written in place is read anew after each of ``count`` steps.

        Example:
            >>> fell = lambda: torso.get_pose()[0][:, 2] < 0.3
            >>> scene.step(reset=fell)

        Raises:
            OptionError: ``count`` or ``reset`` cannot be used; nothing was changed, unless ``reset`` is a function.
            DivergenceError: the physics of some envs failed. It is raised after all steps and resets are done. The
                failed envs stand still and are listed in :attr:`failed` until they are reset; the others continue.
            CapacityError: contacts were lost on a GPU; raised after all steps too. Its ``failed`` names envs that
                diverged.
        """
        if (world := self._world) is None:
            self._unbuilt("step")
        if type(count) is not int or not 0 <= count <= MAX_STEPS:
            count = checked_integer("count", count, upper=MAX_STEPS)
        if reset is not None:
            step_and_reset(self, count, reset)
            return
        failed: dict[int, str] = {}
        crowded: CapacityError | None = None
        # This loop touches as little memory as possible. On a GPU it is all that the host does, on a core that may have
        # waited for the device until now, with cold caches.
        while count > 0:
            count -= 1
            try:
                if now := world.step():
                    failed |= now
            except CapacityError as error:  # the step itself was made
                crowded = merge_errors(crowded, error)
            if self._journal.fresh:
                self._journal.step()
            if self._sense is not None:
                self._sense()
            if self._viewer is not None:
                self._viewer.after_step()
        if failed or crowded:
            self._failures.report(failed, crowded)

    def hold(self, envs: Envs) -> None:
        """Stop the time of some envs until ``reset``, ``forward`` or ``set_state`` names them.

        Their sensors continue to sample. Only on the CPU.

        Raises:
            OptionError: the scene runs on a GPU, where all envs step together.
        """
        world = self._world or self._unbuilt("hold")
        if world.is_gpu:
            raise OptionError(f"hold needs the CPU engine: on {world.device} all envs step together")
        world.hold(envs)

    def check(self) -> None:
        """Wait for the device and raise the failures that were not reported yet. Does nothing on the CPU.

        On a GPU ``step()`` never waits, so it reports a failure (DivergenceError, CapacityError) a few steps late.
        """
        failed, crowded = dict[int, str](), None
        try:
            failed = (self._world or self._unbuilt("check")).check()
        except CapacityError as error:
            crowded = error
        self._failures.report(failed, crowded)

    def reset(self, envs: Envs = None) -> None:
        """Set envs (default: all) to the initial state, begin a new episode, and restart the sensors from it."""
        self._restart("reset", envs)

    def forward(self, envs: Envs = None) -> None:
        """Recompute what depends on the state, after it was written, and restart the sensors of envs from it.

        The episode continues: at the same simulated time, the sensors draw the same random numbers again.
        """
        self._restart("forward", envs)

    def _restart(self, call: str, envs: Envs) -> None:
        world = self._world or self._unbuilt(call)
        envs = kept(envs)
        if call == "reset" and (self._sensing is None or not world.is_gpu):  # the sensors of a GPU count their episodes
            self._begin_episodes(envs)
        self._note_restart(envs, None if call == "reset" else world.get_state)
        failed = getattr(world, call)(envs)
        modules = [module for module in self._modules.values() if type(module).on_reset is not SceneModule.on_reset]
        written = [module.on_reset(envs) is not False for module in modules] if call == "reset" else []
        if any(written):
            failed |= world.forward(envs)
        self._after_restart(envs, failed)

    def _begin_episodes(self, envs: Envs) -> None:
        if self._sensing is not None:
            self._sensing.begin_episodes(envs)
        else:
            self._unsensed_episodes = self.episodes + env_mask(envs, self.n_envs, self.world.device)

    def _note_restart(self, envs: Envs, state: Callable[[], torch.Tensor] | None) -> None:
        if self.world.is_gpu:  # reading envs and states would synchronise with the GPU
            return
        ids = env_ids(envs, self.n_envs)
        rows = None if state is None else state().numpy()
        if rows is not None and ids is not None:
            rows = rows[ids]
        episodes = None
        if self._sensing is not None:
            episodes = self._sensing.episodes.numpy()
            episodes = episodes if ids is None else episodes[ids]
        self._journal.restart("reset" if rows is None else "state", ids, rows, episodes)

    def _after_restart(self, envs: Envs, failed: dict[int, str]) -> None:
        if self._failures.messages:
            ids = env_ids(envs, self.n_envs)
            self._failures.forget(range(self.n_envs) if ids is None else set(ids.tolist()))
        if self._sensing is not None:
            self._sensing.reset(envs)
        if self._viewer is not None:
            self._viewer.after_restart()
        self._failures.report(failed)

    def get_state(self) -> torch.Tensor:
        """Return a copy of the full physics state, (B, n_state), in the precision of the engine."""
        return (self._world or self._unbuilt("get_state")).get_state()

    def set_state(self, state: torch.Tensor, envs: Envs = None) -> None:
        """Set the full physics state of envs, as :meth:`get_state` returned it, and restart their sensors from it.

        For the sensors this begins a new episode, as a reset does: the random numbers are new ones.
        """
        world = self._world or self._unbuilt("set_state")
        envs = kept(envs)
        world.check_state(state, envs)
        self._begin_episodes(envs)
        failed = world.set_state(state, envs)
        self._note_restart(envs, self.world.get_state)  # set_state() does not change the state that it was given
        self._after_restart(envs, failed)

    def retrace(self, before: np.ndarray | None, after: np.ndarray, step: int) -> None:
        """Reproduce a recorded step and sample the sensors, for a replay step by step.

        On a GPU sensing is part of the engine's step. There the state is set, and the sensors restart from it.

        Args:
            before: the states before the last substep, (B, n_state); None if they were not recorded.
            after: the states after the step, (B, n_state).
            step: the number of the step, which randomness depends on.
        """
        world = self._world or self._unbuilt("retrace")
        step = checked_integer("step", step)
        after = world.checked_states("after", after)
        before = None if before is None else world.checked_states("before", before)
        if not world.can_retrace:
            self.set_state(torch.as_tensor(after))
            return
        if self._sensing is not None:
            self._sensing.step_count = step - 1  # before the engine retraces the substeps, at which sensors sample too
        world.retrace(before, after)
        world.step_count = step
        if self._sensing is not None:
            self._sensing.step()
        if self._viewer is not None:
            self._viewer.after_step()

    def read_sensors(
        self, envs: Envs = None, history_length: int | None = None, ground_truth: bool = False
    ) -> dict[str, torch.Tensor]:
        """Return class name -> a new tensor (B, columns) of the readings of all sensors of that class, in order.

        Cameras are not included, since images have no columns; read each one.

        Args:
            envs: which envs; None for all.
            history_length: return the last N readings, (B, N, columns), newest first. All sensors must keep as many.
                Default, and 0: the current reading only, (B, columns).
            ground_truth: return true values instead of measured ones.

        Raises:
            OptionError: ``envs`` is out of range, or a sensor keeps fewer than ``history_length`` readings.
        """
        self._world or self._unbuilt("read_sensors")
        return {} if self._sensing is None else self._sensing.read(envs, history_length, ground_truth)

    # -- properties ---------------------------------------------------------------------------------------------------

    @property
    def world(self) -> World:
        """The running engine."""
        return self._world or self._unbuilt("world")

    @property
    def model(self) -> mujoco.MjModel:
        """The compiled MuJoCo model."""
        return self.world.model

    @property
    def n_envs(self) -> int:
        """B, the number of envs."""
        return self.world.n_envs

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""
        return self.world.device

    @property
    def dt(self) -> float:
        """Seconds of one step."""
        return self.options.dt

    @property
    def seed(self) -> int:
        """Seed of all randomness."""
        self._world or self._unbuilt("seed")
        return self._seed

    @property
    def step_count(self) -> int:
        """Number of steps of the sensors since ``build()``.

        It can be set on the CPU. Reset all envs afterwards, since delays and histories depend on it.
        """
        world = self._world or self._unbuilt("step_count")
        return world.step_count if self._sensing is None else self._sensing.step_count

    @step_count.setter
    def step_count(self, count: int) -> None:
        count = checked_integer("step_count", count)
        if self._sensing is None:
            self.world.step_count = count
        elif not self.world.is_gpu:  # the clock of a CUDA graph cannot be set
            self._sensing.step_count = count

    @property
    def episodes(self) -> torch.Tensor:
        """Number of each env's running episode, (B,) int64: 0 after ``build()``, and one more at each reset.

        ``set_state`` begins an episode too. The random numbers of the sensors depend on it; see :meth:`set_episodes`.
        Scenes without sensors on a GPU do not count episodes.
        """
        world = self._world or self._unbuilt("episodes")
        if self._sensing is not None:
            return self._sensing.episodes
        if self._unsensed_episodes is not None:
            return self._unsensed_episodes.clone()
        return torch.zeros(world.n_envs, dtype=torch.int64, device=world.device)

    def set_episodes(self, numbers: ArrayLike, envs: Envs = None, env_ids: ArrayLike | None = None) -> None:
        """Set which episode the next ``reset`` or ``set_state`` of envs begins. Until then the running one continues.

        A random number of a sensor depends only on the seed, the sensor, the env, the episode and the sample. So any
        episode of any env can be made again by itself, bit for bit, in any env of a scene of any size.

        Args:
            numbers: number of the episode, or one per env of ``envs``; in [0, 2³¹).
            envs: which envs; None for all.
            env_ids: the env whose random numbers are drawn from then on, or one per env of ``envs``; in [0, 2³¹).
                Default: unchanged, initially the env itself.

        Raises:
            OptionError: a number is out of range or not an integer, there are not one or as many as envs, or ``envs``
                is out of range; nothing was changed.

        Example:
            >>> scene.set_episodes(37, envs=[0], env_ids=5)  # episode 37 of env 5, in env 0
            >>> scene.reset(envs=[0])
        """
        world = self._world or self._unbuilt("set_episodes")
        index = env_index(envs, world.n_envs, world.device)
        count = world.n_envs if index is None else len(index)
        first = episode_numbers("numbers", numbers, count).to(world.device)
        second = None if env_ids is None else episode_numbers("env_ids", env_ids, count).to(world.device)
        if self._sensing is not None:
            self._sensing.set_episodes(first, index, second)

    @property
    def time(self) -> torch.Tensor:
        """Simulated seconds since the last reset of each env, (B,)."""
        return self.world.time.clone()

    @property
    def failed(self) -> dict[int, str]:
        """Env -> message of the envs whose physics failed and that wait for a reset."""
        return dict(self._failures.messages)

    # -- tree ---------------------------------------------------------------------------------------------------------

    def _update_state(self) -> None:
        state = (self._world or self._unbuilt("update_state")).get_state()
        self.physics.update(state)

    def _write_replay_data(self) -> None:
        if self.physics.is_set:
            self.set_state(self.physics.value)
            self.physics.update(self.physics.value.clone())

    def write_replay_data(self) -> int:
        """Write the buffers that were loaded or changed since ``update_state()`` back into the simulation.

        Buffers change by ``load_state_dict``, by ``set_value``, or in place (``box.position.value[0] = ...``). The full
        state (``physics``) is written first, then the buffers of entities and robots. A buffer that was set is written
        in all envs where it differs from the simulation, so call ``update_state()`` before you change single envs. The
        sensors of these envs restart.

        Raises:
            OptionError: a buffer has the wrong shape, or is not finite; nothing was changed.

        Example:
            >>> scene.update_state()
            >>> box.position.value[1] = torch.tensor([3.0, 0.0, 2.0])
            >>> scene.write_replay_data()
        """
        world = self._world or self._unbuilt("write_replay_data")
        if self.physics.is_set:
            world.check_state(self.physics.value)
        for entity in self._entities.values():
            entity.check_buffers()
        called = super().write_replay_data()
        written: set[int] = set()
        for entity in self._entities.values():
            written |= entity.take_written()
        if written:
            self.forward(envs=sorted(written))
        return called

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _before_build(self, call: str) -> None:
        if self._closed:
            raise AlreadyBuiltError(f"{call}(): this scene was closed; create a new Scene")
        if self._world is not None:
            problem = "build() can be called only once" if call == "build" else f"{call}() must come before build()"
            raise AlreadyBuiltError(f"{problem}: this scene is already running; create a new Scene")

    def _unbuilt(self, call: str) -> NoReturn:
        why = "this one was closed; create a new Scene" if self._closed else "call scene.build() first"
        raise NotBuiltError(f"{call} needs a running scene: {why}")
