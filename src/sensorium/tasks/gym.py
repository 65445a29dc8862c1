"""Tasks as environments of Gymnasium: one env, or B of them as a vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from sensorium.errors import OptionError
from sensorium.suites import pick_env
from sensorium.tasks.catalogue import TASKS, make
from sensorium.tasks.shown import RENDER_MODES, Shown, Space, checked_render_mode
from sensorium.tasks.task import Task


def as_gym(
    task: Task[Any], keys: Sequence[str] | None = None, flatten: bool = False, render_mode: str | None = None
) -> GymView:
    """A task of one env as a ``gymnasium.Env``.

    ``reset(seed=...)`` draws episodes as a task does that was made with that seed; noise of sensors begins anew, from
    the seed with which the task was made. Make the task with ``keep_history=False`` to train with it, for a history
    grows until all envs are reset by ``task.reset()``; that of an entity keeps none.

    Args:
        task: with ``n_envs=1`` and ``autoreset=False``.
        keys: uuids of what is observed, in order. Default: all that reads as arrays; dicts, which are text and which
            Gymnasium cannot put together, only if they are named here.
        flatten: whether the observation is one float32 array instead of a dict of them: arrays side by side, those of
            nested ones sorted by name. Without ``keys``, images are left out then.
        render_mode: "rgb_array" for ``render()`` to give pictures, (480, 640, 3) uint8.

    Example:
        >>> env = sn.tasks.as_gym(sn.tasks.make("pick"), keys=("qpos", "object_poses"), flatten=True)
        >>> observation, info = env.reset(seed=3)
    """
    return GymView(task, keys, flatten, render_mode)


def as_vector(
    task: Task[Any],
    keys: Sequence[str] | None = None,
    flatten: bool = False,
    render_mode: str | None = None,
    output: Literal["numpy", "torch"] = "numpy",
) -> VectorView:
    """A task of any number of envs as a ``gymnasium.vector.VectorEnv`` that resets what is done in the same step.

    The last observations of envs that ended are in ``info["final_obs"]``, an object array as that of Gymnasium's own
    vectors, with ``info["_final_obs"]`` telling which; ``info["final_info"]`` likewise.

    Args:
        task: with ``autoreset`` or without.
        keys, flatten: see :func:`as_gym`.
        render_mode: "rgb_array" for ``render()`` to give a tuple of B pictures, (480, 640, 3) uint8.
        output: "torch" for tensors instead of arrays: observations, rewards and flags. Actions may be either.
    """
    return VectorView(task, keys, flatten, render_mode, output)


class GymView(gymnasium.Env[Any, np.ndarray]):
    """See :func:`as_gym`.

    Attributes:
        task: what it shows.
    """

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": 50}

    def __init__(self, task: Task[Any], keys: Sequence[str] | None, flatten: bool, render_mode: str | None) -> None:
        if task.n_envs != 1:
            raise OptionError(f"as_gym takes a task of one env, and this one has {task.n_envs}; use as_vector")
        if task.config.autoreset:
            raise OptionError("whoever steps a gymnasium.Env resets it: make the task with autoreset=False")
        self.task = task
        self.render_mode = checked_render_mode(render_mode)
        self.metadata = {**self.metadata, "render_fps": round(1 / task.config.dt)}
        self._shown = Shown(task.suite, keys, flatten)
        self.observation_space = self._shown.space
        self.action_space = task.single_action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; with a seed, the first one of that seed."""
        _check_options(options)
        if seed is not None:
            self.task.reseed(seed)
        super().reset(seed=seed)
        observation, info = self.task.reset()
        return self._see(observation), {"episode_number": int(info["episode"][0])}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Act once."""
        told = np.asarray(action)[None]
        observation, reward, terminated, truncated, info = self.task.step(told)
        told_of = {"success": bool(info["success"][0])}
        if "failed" in info:
            told_of |= {"failed": info["failed"][0]}
        return self._see(observation), float(reward[0]), bool(terminated[0]), bool(truncated[0]), told_of

    def _see(self, observation: dict[str, Any]) -> Any:
        return pick_env(self._shown.of_all(observation), 0)

    def render(self) -> np.ndarray | None:  # type: ignore[override]
        """A picture, (480, 640, 3) uint8; None without a ``render_mode``."""
        return None if self.render_mode is None else self.task.render()

    def close(self) -> None:
        """Free the scene."""
        self.task.close()


class VectorView(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """See :func:`as_vector`.

    Attributes:
        task: what it shows.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": list(RENDER_MODES), "render_fps": 50}

    def __init__(
        self, task: Task[Any], keys: Sequence[str] | None, flatten: bool, render_mode: str | None, output: str
    ) -> None:
        if output not in ("numpy", "torch"):
            raise OptionError(f"output must be 'numpy' or 'torch', got {output!r}")
        self.task = task
        self.num_envs = task.n_envs
        self.render_mode = checked_render_mode(render_mode)
        self.metadata = {**self.metadata, "render_fps": round(1 / task.config.dt), "torch": output == "torch"}
        self._given = _tensors if output == "torch" else _same
        self._shown = Shown(task.suite, keys, flatten)
        self.single_observation_space = self._shown.space
        self.observation_space = _batched(self._shown.space, task.n_envs)
        self.single_action_space, self.action_space = task.single_action_space, task.action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in all envs; with a seed, the first ones of that seed, in each env another."""
        _check_options(options)
        if seed is not None:
            self.task.reseed(seed)
        super().reset(seed=seed)
        observation, info = self.task.reset()
        return self._given(self._shown.of_all(observation)), self._of_all("episode_number", info["episode"])

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Act once in all envs, and reset those that are done."""
        observation, reward, terminated, truncated, info = self.task.step(actions)
        ended = terminated | truncated
        told = self._of_all("success", info["success"])
        if "failed" in info:
            texts = np.full(self.num_envs, None, object)
            texts[list(info["failed"])] = list(info["failed"].values())
            told |= {"failed": texts, "_failed": np.isin(np.arange(self.num_envs), list(info["failed"]))}
        if ended.any():
            last = self._shown.of_all(info.get("final_obs", observation))
            final = np.full(self.num_envs, None, object)
            for env in np.flatnonzero(ended):
                final[env] = self._given(pick_env(last, int(env)))
            told |= {
                "final_obs": final,
                "_final_obs": ended,
                "final_info": {"success": info["success"] & ended, "_success": ended.copy()},
                "_final_info": ended.copy(),
            }
            if "final_obs" not in info:
                observation, _ = self.task.reset(ended)
            told |= {"episode_number": np.where(ended, self.task.episode, 0), "_episode_number": ended.copy()}
        seen, *rest = (self._given(each) for each in (self._shown.of_all(observation), reward, terminated, truncated))
        return seen, rest[0], rest[1], rest[2], told

    def _of_all(self, name: str, values: np.ndarray) -> dict[str, Any]:
        """An entry of info that every env has."""
        return {name: values, f"_{name}": np.ones(self.num_envs, bool)}

    def render(self) -> tuple[np.ndarray, ...] | None:
        """A picture of each env, (480, 640, 3) uint8; None without a ``render_mode``."""
        return None if self.render_mode is None else tuple(self.task.render(env) for env in range(self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:
        """Free the scene."""
        self.task.close()


def register() -> list[str]:
    """Make the tasks known to Gymnasium: "sensorium/Pick-v0", "sensorium/NavToObj-v0", ...; returns their ids.

    ``gymnasium.make(id, ...)`` and ``gymnasium.make_vec(id, num_envs=..., ...)`` take the task's options, ``robot``,
    ``keys`` and ``flatten``. A task of several tasks can be made as a vector alone.

    Example:
        >>> sn.tasks.register()
        >>> env = gymnasium.make("sensorium/Pick-v0", keys=("qpos", "object_poses"), flatten=True)
        >>> envs = gymnasium.make_vec("sensorium/NavToObj-v0", num_envs=8, robot="holonomic")
    """
    ids = []
    for name, cls in TASKS.items():
        ids.append(f"sensorium/{cls.__name__}-v0")
        if ids[-1] not in gymnasium.registry:
            gymnasium.register(
                id=ids[-1],
                entry_point=None if name == "multi" else "sensorium.tasks.gym:make_gym",
                vector_entry_point="sensorium.tasks.gym:make_vector",
                kwargs={"task": name},
            )
    return ids


def make_gym(
    task: str,
    keys: Sequence[str] | None = None,
    flatten: bool = False,
    render_mode: str | None = None,
    **options: Any,
) -> GymView:
    """What ``gymnasium.make`` calls. Histories are not kept unless asked for."""
    return as_gym(make(task, **{"keep_history": False, **options}), keys, flatten, render_mode)


def make_vector(
    task: str,
    num_envs: int,
    keys: Sequence[str] | None = None,
    flatten: bool = False,
    render_mode: str | None = None,
    **options: Any,
) -> VectorView:
    """What ``gymnasium.make_vec`` calls."""
    return as_vector(make(task, n_envs=num_envs, **{"keep_history": False, **options}), keys, flatten, render_mode)


def _same(value: Any) -> Any:
    return value


def _tensors(value: Any) -> Any:
    """Arrays as tensors over the same memory; text stays as it is."""
    if isinstance(value, dict):
        return {name: _tensors(each) for name, each in value.items()}
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def _batched(space: Space, n_envs: int) -> Space:
    if isinstance(space, spaces.Dict):  # one by one, for Gymnasium sorts what it batches
        return spaces.Dict([(uuid, batch_space(each, n_envs)) for uuid, each in space.items()])  # type: ignore[arg-type]
    return batch_space(space, n_envs)


def _check_options(options: dict[str, Any] | None) -> None:
    if options:
        raise OptionError(f"reset takes no options, got {sorted(options)}")
