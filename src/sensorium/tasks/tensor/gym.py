"""Tensor tasks as Gymnasium environments: a single ``Env``, or a ``VectorEnv`` of B envs on arrays or on tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from sensorium._arguments import as_array, checked
from sensorium.errors import EpisodeOverError, OptionError
from sensorium.suites import Arrays, pick_env
from sensorium.tasks.checks import check_names
from sensorium.tasks.observation_view import (
    RENDER_MODES,
    Space,
    batched_space,
    check_no_options,
    checked_render_mode,
)

if TYPE_CHECKING:
    from sensorium.tasks.tensor.observations import Tensors
    from sensorium.tasks.tensor.task import TensorTask

Values: TypeAlias = "torch.Tensor | Mapping[str, Values]"
"""A tensor (B, ...), or a mapping of them that may nest."""


class TensorGymView(gymnasium.Env[Any, np.ndarray]):
    """A tensor task of one env as a ``gymnasium.Env`` on arrays.

    Its user resets it, so it sets ``task.autoreset`` to False. Arguments are those of :class:`TensorVectorView`.

    Attributes:
        task: the task.

    Raises:
        OptionError: the task has several envs, or an argument cannot be used.
        NameNotFoundError: a key is no observation of the task.

    Example:
        >>> env = sn.tasks.make("walk").as_gymnasium(vector=False)
        >>> observation, info = env.reset(seed=3)
        >>> observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
    """

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": 50}

    @checked
    def __init__(
        self,
        task: TensorTask[Any],
        keys: Sequence[str] | None = None,
        flatten: bool = False,
        render_mode: str | None = None,
    ) -> None:
        if task.n_envs != 1:
            raise OptionError(f"vector=False needs a task of one env, got n_envs={task.n_envs}; use vector=True")
        self.task = task
        self.render_mode = checked_render_mode(render_mode)
        self.metadata = {**self.metadata, "render_fps": round(1 / task.config.dt)}
        self._selection = Selection(task, keys, flatten)
        self.observation_space = self._selection.space
        self.action_space = task.single_action_space
        self._is_over = True
        task.autoreset, task.keep_final = False, True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode. With a seed, it is the first episode of that seed; see :meth:`TensorTask.reseed`."""
        check_no_options(options)
        if seed is not None:
            self.task.reseed(seed)
        super().reset(seed=seed)
        observation, info = self.task.reset()
        self._is_over = False
        return self._first_env(self._selection.read(observation)), {"episode_number": int(info["episode"])}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Apply an action (n,) for one step. ``info["success"]`` is present if the task has the metric "reached".

        Raises:
            EpisodeOverError: the episode has ended, or ``reset()`` was not called.
            OptionError: the action has the wrong shape or is not finite.
            SensoriumError: the reward is NaN or infinite; names the term and the step.
        """
        if self._is_over:
            raise EpisodeOverError("no episode is running: call reset() before step()")
        _, reward, terminated, truncated, info = self.task.step(as_array(action)[None])
        self.task.log.check_reward(reward.numpy(force=True))
        self._is_over = bool(terminated) or bool(truncated)
        observation = self._selection.read_final(info["final_obs"])
        success = {name: bool(value) for name, value in _success(self.task).items()}
        return self._first_env(observation), float(reward), bool(terminated), bool(truncated), success

    def _first_env(self, value: Values) -> Any:
        return pick_env(as_arrays(value), 0)

    def render(self) -> np.ndarray | None:  # type: ignore[override]
        """Return an image, (480, 640, 3) uint8, or None without a ``render_mode``."""
        return None if self.render_mode is None else self.task.render()

    def close(self) -> None:
        """Free the scene."""
        self.task.close()


class TensorVectorView(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """A tensor task as a ``gymnasium.vector.VectorEnv`` of B envs, whose ended envs are reset in the same step.

    ``output="torch"`` returns tensors on the task's device, and never waits for it. Every step then returns the same
    entries of info: ``final_obs`` are the last observations of all envs, tensors like the observation, of which only
    those in the mask ``_final_obs`` (B,) ended an episode; ``final_info``, ``episode_number`` and their masks likewise.
    ``output="numpy"`` returns arrays that later steps do not change. Info then has these entries only in steps in which
    an env ended, and ``final_obs`` is an object array (B,) with None for the other envs, as in Gymnasium's own.

    A reward that is NaN or infinite raises SensoriumError in that step, which names the term, the env and the step.
    With ``output="torch"`` on a GPU it is reported when the log is read, by ``task.log.take()``.

    The view sets ``task.autoreset`` and ``task.keep_final``, so a task has one view at a time.

    Args:
        task: the task.
        keys: uuids to observe, in order: those of ``task.single_observation_space``, and "image_NAME", (3, H, W) uint8,
            for ``observe_cameras``. Default: what the policy observes.
        flatten: whether the observation is one float32 array (k,) instead of a dict: the keys in order, readings of
            several parts in the order of their columns. Without ``keys`` it is the actor's observation without images,
            with its ``history``; a dict has the newest observation only.
        render_mode: "rgb_array" for ``render()`` to return a tuple of B images, (480, 640, 3) uint8.
        output: "torch" or "numpy". Actions (B, n) may be either.

    Attributes:
        task: the task.

    Raises:
        OptionError: an argument cannot be used.
        NameNotFoundError: a key is no observation of the task.

    Example:
        >>> envs = sn.tasks.make("walk", n_envs=4096, device="cuda").as_gymnasium(output="torch", flatten=True)
        >>> observation, info = envs.reset(seed=3)  # (4096, 45) on the GPU
        >>> observation, reward, terminated, truncated, info = envs.step(torch.zeros(4096, 12, device="cuda"))
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": list(RENDER_MODES), "render_fps": 50}

    @checked
    def __init__(
        self,
        task: TensorTask[Any],
        keys: Sequence[str] | None = None,
        flatten: bool = False,
        render_mode: str | None = None,
        output: Literal["numpy", "torch"] = "numpy",
    ) -> None:
        self.task = task
        self.num_envs = task.n_envs
        self.render_mode = checked_render_mode(render_mode)
        self._use_torch = output == "torch"
        self.metadata = {**self.metadata, "render_fps": round(1 / task.config.dt), "torch": self._use_torch}
        self._selection = Selection(task, keys, flatten)
        self.single_observation_space = self._selection.space
        self.observation_space = batched_space(self._selection.space, task.n_envs)
        self.single_action_space = task.single_action_space
        self.action_space = batched_space(task.single_action_space, task.n_envs)
        # the last images of an episode must be rendered before the envs are reset
        task.autoreset, task.keep_final = not self._selection.has_images, True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in all envs. With a seed, these are the first episodes of that seed, as for a single env."""
        check_no_options(options)
        if seed is not None:
            self.task.reseed(seed)
        super().reset(seed=seed)
        observation, info = self.task.reset()
        return self._output(self._selection.read(observation)), self._full_info("episode_number", info["episode"])

    def step(self, actions: torch.Tensor | np.ndarray) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Apply actions (B, n) for one step, and reset the envs that are done.

        ``info["success"]`` (B,) is present if the task has the metric "reached".
        """
        task = self.task
        observation, reward, terminated, truncated, last = task.step(actions)
        ended, success = terminated | truncated, _success(task)
        info = self._full_info("success", success["success"]) if success else {}
        if self._use_torch or bool(ended.any()):
            final = self._output(self._selection.read_final(last["final_obs"]))
            if self._selection.has_images:
                observation = task.begin_ended()
            number = torch.where(ended, task.episode, 0)
            final_info = {name: value & ended for name, value in success.items()}
            final_info |= {f"_{name}": ended for name in success}
            info |= {
                "final_obs": final if self._use_torch else _rows(final, ended.numpy(force=True)),
                "final_info": self._output(final_info),
                "episode_number": self._output(number),
            }
            info |= {f"_{name}": self._output(ended.clone()) for name in ("final_obs", "final_info", "episode_number")}
        seen, *rest = map(self._output, (self._selection.read(observation), reward, terminated, truncated))
        if not self._use_torch:
            task.log.check_reward(rest[0])
        return seen, rest[0], rest[1], rest[2], info

    def _full_info(self, name: str, values: torch.Tensor) -> dict[str, Any]:
        """Return an info entry that every env has."""
        return {name: self._output(values), f"_{name}": self._output(torch.ones_like(values, dtype=torch.bool))}

    def _output(self, value: Values) -> Any:
        return value if self._use_torch else as_arrays(value)

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Return an image of each env, (480, 640, 3) uint8, or None without a ``render_mode``."""
        return None if self.render_mode is None else tuple(self.task.render(env) for env in range(self.num_envs))

    def close_extras(self, **kwargs: object) -> None:
        """Free the scene."""
        self.task.close()


class Selection:
    """What a view observes of a task; arguments are those of :class:`TensorVectorView`.

    Attributes:
        space: space of one env's observation.
        has_images: whether images are observed.
    """

    has_images: bool

    def __init__(self, task: TensorTask[Any], keys: Sequence[str] | None, flatten: bool) -> None:
        self._task, self._flatten = task, flatten
        self._is_actor = flatten and keys is None
        sizes = {f"image_{camera.name}": camera.resolution for camera in task.config.cameras}
        images: dict[str, Space] = {
            f"image_{name}": spaces.Box(0, 255, (3, *sizes[f"image_{name}"][::-1]), np.uint8)
            for name in task.config.observe_cameras
        }
        known = {**task.single_observation_space.spaces, **images}
        if keys is None:
            keys = [*dict.fromkeys(part.uuid for part in task.actor_parts), *([] if flatten else images)]
        check_names("observation", keys, known)
        if not keys or len(set(keys)) < len(keys):
            raise OptionError(f"keys must name at least one observation, each only once; got {tuple(keys)}")
        self._keys = tuple(keys)
        self.has_images = any(key in images for key in keys)
        self.space: Space = spaces.Dict([(key, known[key]) for key in keys])  # type: ignore[arg-type]
        if flatten:
            width = spaces.flatdim(self.space) * (task.config.history if self._is_actor else 1)
            self.space = spaces.Box(-np.inf, np.inf, (width,), np.float32)

    def read(self, observation: Tensors) -> Values:
        """Return what is observed now, given all observations by uuid."""
        return self._task.groups()["actor"] if self._is_actor else self._select(observation)

    def read_final(self, observation: Tensors) -> Values:
        """Return what is observed at the end of a step, before envs are reset."""
        return self._task.final_actor() if self._is_actor else self._select(observation)

    def _select(self, observation: Tensors) -> Values:
        if self.has_images:
            observation = {**observation, **self._task.images()}
        chosen = {key: observation[key] for key in self._keys}
        return torch.cat(_columns(chosen), dim=1) if self._flatten else chosen


def _columns(value: Values) -> list[torch.Tensor]:
    """Return the tensors of nested dicts as (B, k) float32, in order."""
    if isinstance(value, torch.Tensor):
        return [value.reshape(len(value), -1).float()]
    return [columns for each in value.values() for columns in _columns(each)]


def _success(task: TensorTask[Any]) -> dict[str, torch.Tensor]:
    """Return where the goal is reached, ``{"success": (B,) bool}``; nothing if the task does not tell."""
    metrics = task.last_metrics()
    return {"success": metrics["reached"] > 0} if "reached" in metrics else {}


def as_arrays(value: Values) -> Arrays:
    """Return tensors in nested dicts as arrays; on the CPU over the same memory."""
    if isinstance(value, torch.Tensor):
        return value.numpy(force=True)
    return {name: as_arrays(each) for name, each in value.items()}


def _rows(value: Arrays, mask: np.ndarray) -> np.ndarray:
    """Return the observations of the envs in a mask (B,) as an object array (B,), with None for the others."""
    found = np.full(len(mask), None, object)
    for env in np.flatnonzero(mask):
        found[env] = pick_env(value, int(env))
    return found
