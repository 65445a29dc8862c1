"""``TensorTask``: a task whose episodes run as torch code on the device of the physics, in B envs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from sensorium._arguments import checked, checked_flag, is_masked
from sensorium._tensors import check_plain
from sensorium.errors import DivergenceError, EpisodeOverError, OptionError
from sensorium.robots import Robot
from sensorium.tasks import task_cameras
from sensorium.tasks.checks import checked_seed
from sensorium.tasks.hook_results import checked_robot, checked_scene_options
from sensorium.tasks.protocols import EntityLike
from sensorium.tasks.tensor.episode_draws import EpisodeDraws, checked_numbers
from sensorium.tasks.tensor.episode_log import EpisodeLog
from sensorium.tasks.tensor.hook_results import HookResults
from sensorium.tasks.tensor.hooks import ConfigT
from sensorium.tasks.tensor.memory import build_scene
from sensorium.tasks.tensor.model_randomization import inertia_options
from sensorium.tasks.tensor.observations import Tensors
from sensorium.tasks.tensor.randomizers import Randomizers
from sensorium.tasks.tensor.robot_forms import make_robot
from sensorium.tasks.tensor.sensor_timing import reserve_timing, with_camera_timing
from sensorium.tasks.tensor.views import TensorViews
from sensorium.worlds import Loop, Scene, run_on_device


class TensorTask(TensorViews[ConfigT]):
    """A robot with a goal, in B envs, on the CPU or on a GPU. :func:`sensorium.tasks.make` makes them.

    To write a task, derive from this class and define the hooks of :class:`~sensorium.tasks.tensor.hooks.TensorHooks`.
    They are the same code on both devices. An env whose episode ends begins a new one in the same step.

    Everything random in an episode depends only on the seed, the env and the number of its episode: not on the device,
    nor on the number of envs.

    Attributes:
        single_action_space: space of one env's action.
        single_observation_space: space of one env's observation.
        reward: (B,) float32, of the last step.
        terminated: (B,) bool, whether the last step ended the episode by a failure.
        truncated: (B,) bool, whether the last step ended the episode by its length, or the physics diverged.
        diverged: (B,) bool, whether the physics diverged in the last step. The reward of the step is 0.
        log: means over the episodes that ended.
        keep_final: whether each step keeps the last observation of episodes: for :meth:`final_actor`, and as
            ``info["final_obs"]`` of :meth:`step`. Default: whether an entity acts.
        seed: seed of the episodes; see :meth:`reseed`.
        cameras: the cameras of the options, by name.

    Example:
        >>> task = sn.tasks.make("walk", robot="quadruped", n_envs=16)
        >>> observation, info = task.reset()
        >>> observation, reward, terminated, truncated, info = task.step(torch.zeros(16, 12))
    """

    keep_final: bool
    single_action_space: spaces.Box

    @checked
    def __init__(self, config: ConfigT, robot: Robot | None = None, entity: EntityLike | None = None) -> None:
        if not isinstance(config, self.config_type):
            wanted, given = self.config_type.__name__, type(config).__name__
            raise OptionError(f"config: {type(self).__name__} has the options {wanted} (its config_type), got {given}")
        self.config, self.n_envs = with_camera_timing(config), config.n_envs
        self._make_scene()
        self._join(make_robot(config, robot, entity), task_cameras.ROBOT, entity)
        self.cameras = task_cameras.add_cameras(self, segmentation=False)
        build_scene(self.scene, config)
        connect = self._bind()
        self.scene.world.on_reset = self._start
        self._loop, self._loop_with_final = (
            Loop(self.scene, self.act, end, self._fresh, self._update_observations)
            for end in (self._judge, self._judge_and_keep)
        )
        connect()

    def _make_scene(self) -> None:
        """Make the scene with everything except the robot."""
        config = self.config
        options = inertia_options(config.randomize) | checked_scene_options(self, "scene_options", self.scene_options())
        self.scene = Scene(dt=config.dt, substeps=config.substeps, **options)
        # without shadows: their map is centred on the origin, and robots walk away from it
        self.scene.add_light("directional", direction=(-0.3, 0.2, -1.0), shadow=False)
        self.add_scene(self.scene)

    def _join(self, robot: Robot, name: str, entity: EntityLike | None) -> None:
        """Add the robot to the scene under a name, and the sensors that the task itself needs."""
        self._entity = entity
        self.critic_sensors = [] if entity is None else entity.sensors[1]
        body = reserve_timing(checked_robot(self, "place_robot", self.place_robot(robot)), self.config)
        self.robot = self.scene.add_robot(body, name=name)
        before = set(self.scene.sensors)
        self.add_sensors(self.scene)
        self.own_sensors = [uuid for uuid in self.scene.sensors if uuid not in before]

    def _bind(self) -> Callable[[], None]:
        """Set up everything that needs the built scene; returns a function that connects the entity to it."""
        self.device = self.scene.world.device
        self._allocate()
        self.on_build()
        self._randomizers = Randomizers(self)
        limits = self._results.check_limits(self.action_limits())
        self.single_action_space = spaces.Box(*limits.numpy().T, dtype=np.float32)
        self.action, self.last_action = torch.zeros(2, self.n_envs, len(limits), device=self.device)
        run_on_device(self._prepare, self.scene)
        entity = self._entity
        self.keep_final = entity is not None
        if entity is None:
            return lambda: None
        own_spaces = self.single_observation_space, self.single_action_space
        return entity.prepare_tensors(self.robot, self.n_envs, *own_spaces, self.device, self.observation)

    def _prepare(self) -> None:
        """Call the hooks that are captured later, which must have run once."""
        self._start(torch.zeros_like(self.terminated))
        self._begin_observing(None if self._entity is None else self._entity.sensors)

    def _allocate(self) -> None:
        flags = torch.zeros(6, self.n_envs, dtype=torch.bool, device=self.device)
        self.terminated, self.truncated, self.failed, self.diverged, self._ended, self._over = flags
        self._fresh = torch.zeros_like(self.terminated)
        self.step_count, self.episode = torch.zeros(2, self.n_envs, dtype=torch.int64, device=self.device)
        self.episode.fill_(-1)
        self._begins_anew = torch.ones((), dtype=torch.bool, device=self.device)
        self.difficulty = torch.full((self.n_envs,), 0.0 if self.config.curriculum else 1.0, device=self.device)
        self.reward = torch.zeros(self.n_envs, device=self.device)
        self._host_reward = None if self.scene.world.is_gpu else self.reward.numpy()  # shares its memory
        self._results = HookResults(self, self.n_envs, self.device)
        self.seed = self.config.seed
        self.draws = EpisodeDraws(self.seed, self.episode)
        self._metrics: dict[str, torch.Tensor] = {}
        self.log = EpisodeLog(self.n_envs, self.device)

    @property
    def autoreset(self) -> bool:
        """Whether an env whose episode ends begins a new one in the same step. Reading it waits for the device."""
        return bool(self._begins_anew)

    @autoreset.setter
    def autoreset(self, value: bool) -> None:
        self._begins_anew.fill_(checked_flag("autoreset", value))

    # -- episodes -----------------------------------------------------------------------------------------------------

    def reset(self, numbers: Sequence[int] | None = None) -> tuple[Tensors, dict[str, Any]]:
        """Begin an episode in every env.

        Args:
            numbers: episode numbers, one for each env. The random values of an episode then depend only on the seed and
                the number, in every env. Default: the next episode of each env.

        Returns:
            The observation, by uuid, and info: ``{"episode": (B,)}``.
        """
        self._check_alone()
        envs, first = torch.arange(self.n_envs, device=self.device), self.episode + 1
        if numbers is not None:
            first = torch.tensor(checked_numbers(numbers, self.n_envs), device=self.device)
            envs.zero_()
        self.scene.set_episodes(first, env_ids=envs)  # sensors draw the numbers of the same episodes
        self._restart(first, envs)
        self.scene.reset()
        run_on_device(self._update_observations, self.scene)
        return self.observation(), {"episode": self.episode.clone()}

    def _restart(self, first: torch.Tensor, envs: torch.Tensor) -> None:
        """Prepare the next reset of all envs, whose episodes have the numbers ``first`` (B,), drawn for ``envs``."""
        self.log.clear()
        self._fresh.fill_(True)
        self.episode.copy_(first - 1)
        self.draws.set_envs(envs)

    def reseed(self, seed: int) -> None:
        """Set the seed of all later episodes, and count episodes from 0 again. Call :meth:`reset` after it.

        The episodes are then those of a task made with this seed, and those of a ``curriculum`` begin easy again. The
        noise of sensors restarts too, but keeps the seed with which the task was made, and so does rough ground.

        Raises:
            OptionError: the seed is not an integer >= 0.
        """
        self.seed = checked_seed(seed)
        self.draws.set_seed(self.seed)
        self.episode.fill_(-1)
        self.difficulty.fill_(0.0 if self.config.curriculum else 1.0)
        self.robot.set_noise_step(0)

    def step(
        self, action: torch.Tensor | np.ndarray
    ) -> tuple[Tensors, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Apply an action for ``dt`` seconds in all envs, and begin new episodes where one ended.

        Args:
            action: (B, n). The robot is commanded by values within ``single_action_space``; rewards of the action and
                ``last_action`` have the values as given.

        Returns:
            observation by uuid, of the new episode where one began; reward (B,), terminated (B,), truncated (B,); and
            info, with :attr:`keep_final` ``{"final_obs": ...}``: the observation at the end of the step, before new
            episodes began. All are tensors on :attr:`device` that later steps do not change.

        Raises:
            EpisodeOverError: ``reset()`` was not called.
            OptionError: the action has the wrong shape, or, on the CPU, is not finite.
            SensoriumError: on the CPU, a reward is NaN or infinite; names the term, the env and the step. On a GPU,
                which is not waited for, ``log.take()`` raises it.
        """
        self.step_in_place(action)
        return self._last_step()

    def _last_step(self) -> tuple[Tensors, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Return copies of what :meth:`step` returns."""
        if self._host_reward is not None:
            self.log.check_reward(self._host_reward)
        values, reward, terminated, truncated = self._outputs.copy()
        info = {"final_obs": self._by_name(self._final_values.clone())} if self.keep_final else {}
        return self._by_name(values), reward, terminated, truncated, info

    def step_in_place(self, action: torch.Tensor | np.ndarray) -> torch.Tensor:
        """Make a step as :meth:`step`, and return the observations (B, columns), which the next step overwrites.

        :attr:`reward`, :attr:`terminated` and :attr:`truncated` are overwritten too. A reward that is NaN or
        infinite is reported when the log is read: :meth:`EpisodeLog.take`.
        """
        self._check_alone()
        self._take(action)
        with suppress(DivergenceError):  # the log counts the envs, whose episodes end
            (self._loop_with_final if self.keep_final else self._loop)()
        return self._observations.values

    def begin_ended(self) -> Tensors:
        """Begin new episodes in the envs whose episode has ended, for a task without :attr:`autoreset`.

        Returns:
            The observation, by uuid.
        """
        self._check_alone()
        self._fresh.copy_(self._over)
        self.scene.reset(self._fresh)
        run_on_device(self._observe_begun, self.scene)
        return self.observation()

    def _take(self, action: torch.Tensor | np.ndarray, label: str = "action") -> None:
        """Check an action and write it into :attr:`action`. Kinds of tensors are checked only if that fails."""
        try:
            values = action if type(action) is torch.Tensor else torch.as_tensor(None if is_masked(action) else action)
        except (TypeError, ValueError, RuntimeError) as error:
            raise OptionError(f"{label} must be numbers, got {action!r:.80}") from error
        try:
            if values.shape != self.action.shape:
                raise OptionError(f"{label} must have shape {tuple(self.action.shape)}, got {tuple(values.shape)}")
            if values.is_complex():
                raise OptionError(f"{label} must be real numbers, got {values.dtype}")
            if not self.scene.world.is_gpu:
                if not bool(torch.isfinite(values).all()):
                    seen = self._observations.not_finite()
                    cause = f": the last observation was not finite either, {seen}" if seen else ""
                    raise OptionError(f"{label} must be finite, got NaN or infinity{cause}")
                if int(self.episode[0]) < 0:
                    raise EpisodeOverError("call reset() before the first step()")
            self.action.copy_(values.detach() if values.requires_grad else values)
        except (RuntimeError, ValueError):
            check_plain(label, values)
            raise

    def _start(self, mask: torch.Tensor) -> None:
        """Begin the episodes of envs; the world calls it in its reset."""
        self.episode.add_(mask)
        self.step_count.masked_fill_(mask, 0)
        self._over.masked_fill_(mask, False)
        self.last_action.masked_fill_(mask[:, None], 0.0)
        self._randomizers.begin_episodes(mask)
        self.begin_episodes(mask)

    def _judge(self) -> None:
        """Compute rewards and ends of the step."""
        terms, failures = self._evaluate()
        self._ended.copy_((self.terminated | self.truncated) & ~self._over)
        self._finish(terms, failures)

    def _judge_and_keep(self) -> None:
        self._judge()
        self._update_final()

    def _evaluate(self) -> tuple[Mapping[str, torch.Tensor], Mapping[str, torch.Tensor]]:
        """Compute reward, ``terminated`` and ``truncated``; returns the terms of the reward and the failures."""
        self.step_count.add_(1)
        diverged = self.diverged
        diverged.copy_(self.scene.world.diverged != 0)
        failures = self._results.check("failures", self.failures())
        self.failed.zero_()
        for value in failures.values():
            self.failed.logical_or_(value)
        terms = self._results.check("rewards", self.rewards())
        total = torch.stack(list(terms.values()), dim=1).sum(dim=1)  # over dim 0 the order would depend on B
        self.reward.copy_(torch.where(diverged, 0.0, total))
        torch.logical_and(self.failed, ~diverged, out=self.terminated)
        self.truncated.copy_(~self.terminated & (diverged | (self.step_count >= self.config.max_steps)))
        return terms, failures

    def _finish(self, terms: Mapping[str, torch.Tensor], failures: Mapping[str, torch.Tensor]) -> None:
        """Log the step, whose ends are known, and evaluate the episodes that end.

        Without :attr:`autoreset`, what follows the end of an episode is not logged: it is over until a reset.
        """
        diverged = self.diverged
        torch.logical_and(self._ended | self._over, self._begins_anew, out=self._fresh)
        metrics = self._results.check("metrics", self.metrics())
        if not self._metrics:
            with torch.inference_mode(False):
                self._metrics = {name: torch.zeros_like(self.reward) for name in metrics}
        for name, value in metrics.items():
            self._metrics[name].copy_(torch.where(diverged, 0.0, value))
        self.log.add(terms, metrics, failures, self.reward, self.step_count, self._ended, diverged, self._over)
        self.end_episodes(self._ended)
        self._over.logical_or_(self._ended & ~self._begins_anew)
        self.last_action.copy_(self.action)

    # -- scene --------------------------------------------------------------------------------------------------------

    def render(self, env: int = 0) -> np.ndarray:
        """Return an image of one env with its robot in view, (480, 640, 3) uint8."""
        return task_cameras.render_env(self.scene, [self.robot], env)

    def close(self) -> None:
        """Free the scene."""
        self._check_alone()
        self.scene.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.n_envs} envs on {self.device}, robot {self.config.robot!r}>"
