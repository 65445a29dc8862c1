"""Tasks as Gymnasium environments: a single ``Env``, or a ``VectorEnv`` of B envs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode

from sensorium import gymnasium_ids
from sensorium._arguments import as_array, checked
from sensorium.errors import OptionError
from sensorium.suites import pick_env
from sensorium.tasks.catalogue import TASKS, TENSOR_TASKS, is_tensor_task, make
from sensorium.tasks.checks import ActionLike
from sensorium.tasks.observation_view import (
    RENDER_MODES,
    ObservationView,
    batched_space,
    check_no_options,
    checked_render_mode,
)
from sensorium.tasks.task import Task
from sensorium.tasks.tensor.gym import TensorGymView, TensorVectorView


@checked
def as_gym(
    task: Task[Any], keys: Sequence[str] | None = None, flatten: bool = False, render_mode: str | None = None
) -> GymView:
    """Return a task of one env as a ``gymnasium.Env``.

    ``reset(seed=...)`` begins the first episode of a task made with that seed. The noise of sensors restarts too, but
    keeps the seed with which the task was made. For training, make the task with ``keep_history=False``, since a
    history grows until ``task.reset()`` of all envs. A task of an entity keeps no history by default.

    Args:
        task: made with ``n_envs=1`` and ``autoreset=False``.
        keys: uuids to observe, in order. Default: all that read as arrays, except "privileged/..." of entities, which
            policies must not observe. Dict sensors read text, which Gymnasium cannot batch, so they are only observed
            if they are named here.
        flatten: whether the observation is one float32 array instead of a dict. Arrays are concatenated in the order of
            the keys, nested ones in the order of their names. Without ``keys``, images are skipped.
        render_mode: "rgb_array" for ``render()`` to return images, (480, 640, 3) uint8.

    Raises:
        OptionError: the task has several envs, ``autoreset`` or no sensors, or an argument cannot be used.

    Example:
        >>> env = sn.tasks.as_gym(sn.tasks.make("pick"), keys=("qpos", "object_poses"), flatten=True)
        >>> observation, info = env.reset(seed=3)
    """
    return GymView(task, keys, flatten, render_mode)


@checked
def as_vector(
    task: Task[Any],
    keys: Sequence[str] | None = None,
    flatten: bool = False,
    render_mode: str | None = None,
    output: Literal["numpy", "torch"] = "numpy",
) -> VectorView:
    """Return a task as a ``gymnasium.vector.VectorEnv`` that resets envs that are done in the same step.

    The last observations of envs that ended are in ``info["final_obs"]``, an object array as in Gymnasium's own vector
    envs, and ``info["_final_obs"]`` is the mask of these envs. ``info["final_info"]`` has the same form.

    Args:
        task: a task of any number of envs, with or without ``autoreset``.
        keys, flatten: see :func:`as_gym`.
        render_mode: "rgb_array" for ``render()`` to return a tuple of B images, (480, 640, 3) uint8.
        output: "torch" to return observations, rewards and flags as tensors instead of arrays. Actions may be either.

    Raises:
        OptionError: an argument cannot be used, or the task has no sensors.

    Example:
        >>> envs = sn.tasks.as_vector(sn.tasks.make("pick", n_envs=8), keys=("qpos",), flatten=True)
    """
    return VectorView(task, keys, flatten, render_mode, output)


class GymView(gymnasium.Env[Any, np.ndarray]):
    """A task of one env as a ``gymnasium.Env``; see :func:`as_gym`.

    Attributes:
        task: the task.
    """

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": 50}

    @checked
    def __init__(self, task: Task[Any], keys: Sequence[str] | None, flatten: bool, render_mode: str | None) -> None:
        if task.n_envs != 1:
            raise OptionError(f"as_gym needs a task of one env, got n_envs={task.n_envs}; use as_vector")
        if task.config.autoreset:
            raise OptionError("a gymnasium.Env is reset by its user: make the task with autoreset=False")
        self.task = task
        self.render_mode = checked_render_mode(render_mode)
        self.metadata = {**self.metadata, "render_fps": round(1 / task.config.dt)}
        self._view = ObservationView(task.suite, keys, flatten)
        self.observation_space = self._view.space
        self.action_space = task.single_action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode. With a seed, it is the first episode of that seed."""
        check_no_options(options)
        if seed is not None:
            self.task.reseed(seed)
        super().reset(seed=seed)
        observation, info = self.task.reset()
        return self._select(observation), {"episode_number": int(info["episode"][0])}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Apply an action (n,) for one step."""
        observation, reward, terminated, truncated, info = self.task.step(as_array(action)[None])
        single_info = {"success": bool(info["success"][0])}
        if "failed" in info:
            single_info |= {"failed": info["failed"][0]}
        return self._select(observation), float(reward[0]), bool(terminated[0]), bool(truncated[0]), single_info

    def _select(self, observation: dict[str, Any]) -> Any:
        return pick_env(self._view.select(observation), 0)

    def render(self) -> np.ndarray | None:  # type: ignore[override]
        """Return an image, (480, 640, 3) uint8, or None without a ``render_mode``."""
        return None if self.render_mode is None else self.task.render()

    def close(self) -> None:
        """Free the scene."""
        self.task.close()


class VectorView(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """A task as a ``gymnasium.vector.VectorEnv``; see :func:`as_vector`.

    Attributes:
        task: the task.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": list(RENDER_MODES), "render_fps": 50}

    @checked
    def __init__(
        self, task: Task[Any], keys: Sequence[str] | None, flatten: bool, render_mode: str | None, output: str
    ) -> None:
        if output not in ("numpy", "torch"):
            raise OptionError(f"output must be 'numpy' or 'torch', got {output!r}")
        self.task = task
        self.num_envs = task.n_envs
        self.render_mode = checked_render_mode(render_mode)
        self.metadata = {**self.metadata, "render_fps": round(1 / task.config.dt), "torch": output == "torch"}
        self._use_torch = output == "torch"
        self._view = ObservationView(task.suite, keys, flatten)
        self.single_observation_space = self._view.space
        self.observation_space = batched_space(self._view.space, task.n_envs)
        self.single_action_space, self.action_space = task.single_action_space, task.action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in all envs. With a seed, these are the first episodes of that seed."""
        check_no_options(options)
        if seed is not None:
            self.task.reseed(seed)
        super().reset(seed=seed)
        observation, info = self.task.reset()
        return self._output(self._view.select(observation)), self._full_info("episode_number", info["episode"])

    def step(self, actions: ActionLike) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Apply actions (B, n) for one step, and reset the envs that are done."""
        observation, reward, terminated, truncated, info = self.task.step(actions)
        ended = terminated | truncated
        vector_info = self._full_info("success", info["success"])
        if "failed" in info:
            texts = np.full(self.num_envs, None, object)
            texts[list(info["failed"])] = list(info["failed"].values())
            vector_info |= {"failed": texts, "_failed": np.isin(np.arange(self.num_envs), list(info["failed"]))}
        if ended.any():
            last = self._view.select(info.get("final_obs", observation))
            final = np.full(self.num_envs, None, object)
            for env in np.flatnonzero(ended):
                final[env] = self._output(pick_env(last, int(env)))
            vector_info |= {
                "final_obs": final,
                "_final_obs": ended,
                "final_info": {"success": info["success"] & ended, "_success": ended.copy()},
                "_final_info": ended.copy(),
            }
            if "final_obs" not in info:
                observation, _ = self.task.reset(ended)
            vector_info |= {"episode_number": np.where(ended, self.task.episode, 0), "_episode_number": ended.copy()}
        outputs = (self._output(each) for each in (self._view.select(observation), reward, terminated, truncated))
        selected, *rest = outputs
        return selected, rest[0], rest[1], rest[2], vector_info

    def _output(self, value: object) -> Any:
        """Return arrays as they are, or as tensors over the same memory. Text is unchanged."""
        if not self._use_torch:
            return value
        if isinstance(value, dict):
            return {name: self._output(each) for name, each in value.items()}
        return torch.from_numpy(value) if isinstance(value, np.ndarray) else value

    def _full_info(self, name: str, values: np.ndarray) -> dict[str, Any]:
        """Return an info entry that every env has."""
        return {name: values, f"_{name}": np.ones(self.num_envs, bool)}

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Return an image of each env, (480, 640, 3) uint8, or None without a ``render_mode``."""
        return None if self.render_mode is None else tuple(self.task.render(env) for env in range(self.num_envs))

    def close_extras(self, **kwargs: object) -> None:
        """Free the scene."""
        self.task.close()


def register() -> list[str]:
    """Register the tasks with Gymnasium, and return their ids: "sensorium/Pick-v0", "sensorium/Walk-v0", ...

    The tasks of the package are registered when ``sensorium`` is imported after Gymnasium, and when ``sn.tasks`` is
    imported. Call it for tasks of your own, in ``sn.tasks.TASKS`` or ``sn.tasks.TENSOR_TASKS``.

    ``gymnasium.make(id, ...)`` and ``gymnasium.make_vec(id, num_envs=..., ...)`` take the task's options, ``robot``,
    ``keys`` and ``flatten``, and ``make_vec`` also ``output``. With ``device``, "balance" and "reach" are tensor tasks.
    The multi task can only be made as a vector.

    Example:
        >>> env = gymnasium.make("sensorium/Pick-v0", keys=("qpos", "object_poses"), flatten=True)
        >>> envs = gymnasium.make_vec("sensorium/NavToObj-v0", num_envs=8, robot="holonomic")
    """
    ids = {name: f"sensorium/{cls.__name__}-v0" for name, cls in {**TENSOR_TASKS, **TASKS}.items()}
    gymnasium_ids.register(ids)
    return list(ids.values())


def make_gym(
    task: str,
    keys: Sequence[str] | None = None,
    flatten: bool = False,
    render_mode: str | None = None,
    **options: Any,
) -> GymView | TensorGymView:
    """Make a task as a ``gymnasium.Env``; ``gymnasium.make`` calls it. By default no history is kept.

    Raises:
        OptionError: an option cannot be used, or ``n_envs`` is not 1.
    """
    if options.get("n_envs", 1) != 1:
        raise OptionError(
            f"n_envs: gymnasium.make makes one env, got n_envs={options['n_envs']!r}; remove it, or use "
            "gymnasium.make_vec(..., num_envs=...)"
        )
    if "output" in options:
        raise OptionError(f"output: it is an option of gymnasium.make_vec, got output={options['output']!r}; remove it")
    _check_one_agent(options)
    made = make(task, **_with_defaults(task, options))
    return made.as_gymnasium(vector=False, keys=keys, flatten=flatten, render_mode=render_mode)


def make_vector(
    task: str,
    num_envs: int,
    keys: Sequence[str] | None = None,
    flatten: bool = False,
    render_mode: str | None = None,
    output: Literal["numpy", "torch"] = "numpy",
    **options: Any,
) -> VectorView | TensorVectorView:
    """Make a task as a ``VectorEnv``; ``gymnasium.make_vec`` calls it. By default no history is kept.

    Raises:
        OptionError: an option cannot be used, or ``n_envs`` is given.
    """
    if "n_envs" in options:
        raise OptionError(f"n_envs: gymnasium.make_vec takes num_envs instead, got n_envs={options['n_envs']!r}")
    _check_one_agent(options)
    made = make(task, n_envs=num_envs, **_with_defaults(task, options))
    return made.as_gymnasium(keys=keys, flatten=flatten, render_mode=render_mode, output=output)


def _check_one_agent(options: Mapping[str, Any]) -> None:
    """Raise OptionError for several entities, which no ``gymnasium.Env`` can have."""
    if "entities" in options:
        raise OptionError("entities: an Env has one agent; use sn.tasks.make(..., entities=...).as_parallel_env()")


def _with_defaults(task: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return options of a task that keeps no history by default. Tensor tasks never keep one."""
    return options if is_tensor_task(task, options) else {"keep_history": False, **options}
