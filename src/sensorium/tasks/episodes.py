"""``EpisodeLoop``: ``reset`` and ``step`` of a task, on top of its hooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from gymnasium import spaces

from sensorium.errors import DivergenceError, EpisodeOverError
from sensorium.options import checked_integer
from sensorium.suites import ActionRecord, SensorSuite
from sensorium.tasks import hook_results, task_cameras
from sensorium.tasks.checks import ActionLike, checked_action, checked_seed, sorted_numbers
from sensorium.tasks.history import History
from sensorium.tasks.hooks import ConfigT, TaskHooks
from sensorium.tasks.protocols import PolicyLike
from sensorium.worlds import Envs, Scene, env_ids


class EpisodeLoop(TaskHooks[ConfigT]):
    """The running of episodes in B envs: counters, random generators, ``reset`` and ``step``.

    :class:`~sensorium.tasks.Task` adds the scene, the robot and the suite.
    """

    suite: SensorSuite | None
    """The observation sensors; None without sensors."""
    policy: PolicyLike | None
    """The registered policy."""
    actions: ActionRecord
    """The last action of each env."""

    def _init_episodes(self) -> None:
        """Allocate the episode state and make the action spaces."""
        self.seed = self.config.seed
        self.policy = None
        self.terminated, self.truncated, self.succeeded = np.zeros((3, self.n_envs), bool)
        self.step_count = np.zeros(self.n_envs, np.int64)
        self.episode = np.full(self.n_envs, -1, np.int64)
        low, high = self.robot.action_limits.numpy().T.astype(np.float32)
        self.single_action_space = spaces.Box(low, high, dtype=np.float32)
        shape = (self.n_envs, 1)
        self.action_space = spaces.Box(np.tile(low, shape), np.tile(high, shape), dtype=np.float32)
        self.history = History(self.config.keep_images)
        self._observation: dict[str, Any] = {}
        self.reward_terms: dict[str, np.ndarray] = {}

    # -- reset --------------------------------------------------------------------------------------------------------

    def reset(self, envs: Envs = None, numbers: Sequence[int] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin an episode in some envs.

        The random values of an episode depend only on the seed, the env and the number of episodes that the env has
        had. With ``numbers`` they depend only on the seed and the number, in every env.

        Args:
            envs: the envs; None for all.
            numbers: episode numbers, one for each of those envs.

        Returns:
            The observation of all envs, and info: ``{"episode": (B,)}``.
        """
        ids = env_ids(envs, self.n_envs)
        if ids is None:
            ids = np.arange(self.n_envs, dtype=np.int32)
        if numbers is not None:
            numbers = sorted_numbers(numbers, envs, len(ids))
        self._reset(ids, numbers)
        self._observation = self._observe()
        if len(ids) == self.n_envs:
            self.history.clear()
        if self.config.keep_history and self.suite is not None:
            self.history.begin(self._observation, self.suite)
        return self._observation, {"episode": self.episode.copy()}

    def reseed(self, seed: int) -> None:
        """Set the seed of all later episodes, and count episodes from 0 again. Call ``reset()`` after it.

        The episodes are then those of a task made with this seed. The noise of sensors restarts too, but keeps the seed
        with which the task was made.

        Raises:
            OptionError: the seed is not an integer >= 0.
        """
        self.seed = checked_seed(seed)
        self.episode[:] = -1
        self.set_sensor_step(0)

    def set_sensor_step(self, step: int) -> None:
        """Set the step count on which the noise of actions depends. The noise of sensors depends on the episode."""
        self.robot.set_noise_step(checked_integer("step", step))

    def _reset(self, ids: np.ndarray, numbers: Sequence[int] | None = None) -> None:
        rngs = self._rngs(ids, numbers)
        # sensors draw the numbers of this episode, whichever env makes an episode that was asked for by its number
        self.scene.set_episodes(self.episode[ids], ids, ids if numbers is None else np.zeros_like(ids))
        self.scene.reset(ids)
        self._place_episode(ids, rngs)
        self.scene.forward(ids)
        self._restart(ids, rngs)

    def _rngs(self, ids: np.ndarray, numbers: Sequence[int] | None = None) -> list[np.random.Generator]:
        """Advance the episode number of these envs, and return the random generator of each new episode."""
        if numbers is None:
            self.episode[ids] += 1
            keys: list[tuple[int, ...]] = [(int(env), int(self.episode[env])) for env in ids]
        else:
            self.episode[ids] = numbers
            keys = [(int(number),) for number in numbers]
        return [np.random.default_rng([self.seed, *key]) for key in keys]

    def _place_episode(self, ids: np.ndarray, rngs: Sequence[np.random.Generator]) -> None:
        """Place the robot and the task's objects for new episodes. Called after ``scene.reset(ids)``."""
        self.robot.set_home(ids)
        self.begin_episodes(ids, rngs)
        max_offset = self.config.randomize.robot
        if max_offset:
            self.robot.disturb(ids, max_offset, rngs)

    def _restart(self, ids: np.ndarray, rngs: Sequence[np.random.Generator]) -> None:
        """Reset the episode state, cameras, suite and policy. Called after ``scene.forward(ids)``."""
        for flags in (self.terminated, self.truncated, self.succeeded):
            flags[ids] = False
        self.step_count[ids] = 0
        self.actions.reset(ids)
        task_cameras.randomize_cameras(self, ids, rngs)
        if self.suite is not None:
            self.suite.reset(ids)
        if self.policy is not None:
            self.policy.reset(ids)

    # -- step ---------------------------------------------------------------------------------------------------------

    def step(self, action: ActionLike) -> tuple[dict[str, Any], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Apply an action for ``dt`` seconds in all envs that are not done.

        Args:
            action: (B, n) in the units of the robot's controllers, or a dict of move group -> (B, k). Rows of envs that
                are done are ignored.

        Returns:
            observation, reward (B,) float32, terminated (B,) bool, truncated (B,) bool, and info. ``info["success"]``
            is (B,) bool. ``info["failed"]``, only present if the physics of an env diverged, maps those envs to
            messages; they are truncated with reward 0. With ``autoreset``, if an env ended, ``info["final_obs"]`` is
            the last observation of all envs and ``info["_final_obs"]`` (B,) is the mask of the envs that ended.

        Raises:
            EpisodeOverError: every env is done, or an env was never reset.
            OptionError: the action has the wrong shape or type, or is not finite. The state is unchanged.
        """
        done = self.is_done()
        if (self.episode < 0).any():
            raise EpisodeOverError("call reset() before the first step()")
        if done.all():
            raise EpisodeOverError(
                "every env is done: call reset(), or reset(envs) for some of them, or make the task with autoreset=True"
            )
        command = self._checked(action)
        failed = self._advance(command, ~done)
        ended = self.is_done() & ~done
        reward = np.where(done, 0.0, self._sum_rewards()).astype(np.float32)
        reward[list(failed)] = 0.0  # a failed env is put to a state that the action did not lead to
        hook_results.check_finite(self, reward, self.reward_terms)
        self._observation = self._observe()
        terminated, truncated = self.terminated.copy(), self.truncated.copy()
        info: dict[str, Any] = {"success": self.succeeded.copy()}
        if failed:
            info["failed"] = failed
        if self.config.keep_history:
            self.history.add(self._observation, command, reward, terminated, truncated, self.succeeded, self.suite)
        if ended.any():
            ids = np.flatnonzero(ended).astype(np.int32)
            if self.config.autoreset:
                info |= {"final_obs": self._observation, "_final_obs": ended}
                self._reset(ids)
                self._observation = self._observe()
            else:
                self._hold(ids)
        return self._observation, reward, terminated, truncated, info

    def _advance(self, command: np.ndarray, acting: np.ndarray) -> dict[int, str]:
        """Command the robot in the envs of a mask, step, and judge; returns env -> message of envs that diverged."""
        self._command(command, acting)
        failed = step_scene(self.scene)
        self._judge_step(acting, failed)
        return failed

    def _command(self, command: np.ndarray, acting: np.ndarray) -> None:
        """Command the robot in the envs of a mask, and record the action."""
        ids = np.flatnonzero(acting).astype(np.int32)
        before = self.actions.group_state()
        self.robot.act(command[ids], None if len(ids) == self.n_envs else ids)
        self.actions.record(command, before, acting)

    def _judge_step(self, acting: np.ndarray, failed: Mapping[int, str]) -> None:
        """Update the episode state after a step of the envs of a mask."""
        self.step_count[acting] += 1
        self.succeeded[acting] = hook_results.goal_mask(self)[acting]
        diverged = np.isin(np.arange(self.n_envs), list(failed))
        self.succeeded &= ~diverged
        if self.ends_on_success:
            self.terminated |= self.succeeded
        self.terminated[acting] |= hook_results.failure_mask(self)[acting]
        self.truncated |= ~self.terminated & (diverged | (self.step_count >= self.config.max_steps))
        self.actions.terminal[acting & self.is_done()] = True

    def _sum_rewards(self) -> np.ndarray:
        """Compute the terms of the reward, and return their sum (B,)."""
        self.reward_terms = hook_results.reward_terms(self)
        return reduce(np.add, self.reward_terms.values())

    def _hold(self, ids: np.ndarray) -> None:
        """Stop the physics of envs that are done."""
        self.scene.hold(ids)

    def _checked(self, action: ActionLike) -> np.ndarray:
        return checked_action(action, self.robot.action_slices, self.robot.n_actions, ~self.is_done())

    def _observe(self) -> dict[str, Any]:
        return {} if self.suite is None else self.suite.read()

    # -- results ------------------------------------------------------------------------------------------------------

    def is_done(self) -> np.ndarray:
        """Return which envs are terminated or truncated, (B,) bool."""
        return self.terminated | self.truncated

    def judge_success(self) -> np.ndarray:
        """Return which envs have reached the goal, (B,) bool."""
        return self.succeeded.copy()

    def get_history(self) -> dict[str, Any]:
        """Return all steps since the last ``reset()`` of all envs; see :meth:`sensorium.tasks.History.get`."""
        return self.history.get()


def step_scene(scene: Scene) -> dict[int, str]:
    """Step a scene; returns env -> message of the envs whose physics diverged."""
    try:
        scene.step()
    except DivergenceError as error:
        return error.messages
    return {}
