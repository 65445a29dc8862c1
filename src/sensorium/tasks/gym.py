"""Tasks as environments of Gymnasium: one env, or B of them as a vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from sensorium.errors import OptionError
from sensorium.suites import flat, pick_env
from sensorium.tasks.catalogue import TASKS, make
from sensorium.tasks.objects import look_up
from sensorium.tasks.task import Task

Space = spaces.Space[Any]


def as_gym(task: Task[Any], keys: Sequence[str] | None = None, flatten: bool = False) -> GymView:
    """A task of one env as a ``gymnasium.Env``.

    ``reset(seed=...)`` begins anew as a task that was made with that seed. Make the task with ``keep_history=False`` to
    train with it, for a history grows until all envs are reset by ``task.reset()``.

    Args:
        task: with ``n_envs=1`` and ``autoreset=False``.
        keys: uuids of what is observed, in order. Default: all that reads as arrays; dicts, which are text and which
            Gymnasium cannot put together, only if they are named here.
        flatten: whether the observation is one float32 array instead of a dict of them: arrays side by side, those of
            nested ones sorted by name. Without ``keys``, images are left out then.

    Example:
        >>> env = sn.tasks.as_gym(sn.tasks.make("pick"), keys=("qpos", "object_poses"), flatten=True)
        >>> observation, info = env.reset(seed=3)
    """
    return GymView(task, keys, flatten)


def as_vector(task: Task[Any], keys: Sequence[str] | None = None, flatten: bool = False) -> VectorView:
    """A task of any number of envs as a ``gymnasium.vector.VectorEnv`` that resets what is done in the same step.

    The last observations of envs that ended are in ``info["final_obs"]``, an object array as that of Gymnasium's own
    vectors, with ``info["_final_obs"]`` telling which; ``info["final_info"]`` likewise.

    Args:
        task: with ``autoreset`` or without.
        keys, flatten: see :func:`as_gym`.
    """
    return VectorView(task, keys, flatten)


class _Shown:
    """Which part of a suite's observations is shown, and in which form."""

    def __init__(self, task: Task[Any], keys: Sequence[str] | None, flatten: bool) -> None:
        suite = task.suite
        if suite is None:
            raise OptionError("an environment needs observations: make the task with use_sensors=True")
        if isinstance(keys, str):
            raise OptionError(f"keys must be a sequence of uuids, got {keys!r}; write ({keys!r},)")
        if keys is None:
            keys = [
                uuid
                for uuid, sensor in suite.items()
                if not sensor.is_dict and not (flatten and sensor.is_image) and _boxes(sensor.space)
            ]
        look_up("sensor", keys, suite)
        text = [uuid for uuid in keys if suite[uuid].is_dict]
        if flatten and text:
            raise OptionError(f"keys: {text[0]!r} is text, which cannot be flattened; leave it out")
        if not keys or len(set(keys)) < len(keys):
            raise OptionError(f"keys must name at least one sensor, each once; got {tuple(keys)}")
        self._keys, self._flatten = tuple(keys), flatten
        if flatten:
            boxes = [box for uuid in keys for box in _boxes(suite[uuid].space)]
            low, high = (
                np.concatenate([getattr(box, side).ravel().astype(np.float32) for box in boxes])
                for side in ("low", "high")
            )
            self.space: Space = spaces.Box(low, high, dtype=np.float32)
        else:
            self.space = spaces.Dict([(uuid, suite[uuid].space) for uuid in keys])  # type: ignore[arg-type]

    def of_all(self, observation: dict[str, Any]) -> Any:
        """What all envs see."""
        if self._flatten:
            return np.concatenate([flat(observation[uuid]) for uuid in self._keys], axis=1)
        return {uuid: observation[uuid] for uuid in self._keys}


class GymView(gymnasium.Env[Any, np.ndarray]):
    """See :func:`as_gym`.

    Attributes:
        task: what it shows.
    """

    metadata = {"render_modes": []}

    def __init__(self, task: Task[Any], keys: Sequence[str] | None, flatten: bool) -> None:
        if task.n_envs != 1:
            raise OptionError(f"as_gym takes a task of one env, and this one has {task.n_envs}; use as_vector")
        if task.config.autoreset:
            raise OptionError("whoever steps a gymnasium.Env resets it: make the task with autoreset=False")
        self.task = task
        self._shown = _Shown(task, keys, flatten)
        self.observation_space = self._shown.space
        self.action_space = task.single_action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; with a seed, the first one of that seed."""
        _check_options(options)
        if seed is not None:
            self.task.reseed(seed)
        super().reset(seed=seed)
        observation, info = self.task.reset()
        return self._see(observation), {"episode": int(info["episode"][0])}

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

    def close(self) -> None:
        """Free the scene."""
        self.task.close()


class VectorView(gymnasium.vector.VectorEnv[Any, np.ndarray, np.ndarray]):
    """See :func:`as_vector`.

    Attributes:
        task: what it shows.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}

    def __init__(self, task: Task[Any], keys: Sequence[str] | None, flatten: bool) -> None:
        self.task = task
        self.num_envs = task.n_envs
        self._shown = _Shown(task, keys, flatten)
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
        return self._shown.of_all(observation), self._of_all("episode", info["episode"])

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
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
                final[env] = pick_env(last, int(env))
            told |= {
                "final_obs": final,
                "_final_obs": ended,
                "final_info": {"success": info["success"], "_success": ended},
                "_final_info": ended,
            }
            if "final_obs" not in info:
                observation, _ = self.task.reset(ended)
        return self._shown.of_all(observation), reward, terminated, truncated, told

    def _of_all(self, name: str, values: np.ndarray) -> dict[str, Any]:
        """An entry of info that every env has."""
        return {name: values, f"_{name}": np.ones(self.num_envs, bool)}

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


def make_gym(task: str, keys: Sequence[str] | None = None, flatten: bool = False, **options: Any) -> GymView:
    """What ``gymnasium.make`` calls. Histories are not kept unless asked for."""
    return as_gym(make(task, **{"keep_history": False, **options}), keys, flatten)


def make_vector(
    task: str, num_envs: int, keys: Sequence[str] | None = None, flatten: bool = False, **options: Any
) -> VectorView:
    """What ``gymnasium.make_vec`` calls."""
    return as_vector(make(task, n_envs=num_envs, **{"keep_history": False, **options}), keys, flatten)


def _boxes(space: Space) -> list[spaces.Box]:
    """The arrays of a space, in the order in which :func:`flat` puts them side by side."""
    if isinstance(space, spaces.Dict):
        return [box for name in sorted(space) for box in _boxes(space[name])]
    return [space] if isinstance(space, spaces.Box) else []


def _batched(space: Space, n_envs: int) -> Space:
    if isinstance(space, spaces.Dict):  # one by one, for Gymnasium sorts what it batches
        return spaces.Dict([(uuid, batch_space(each, n_envs)) for uuid, each in space.items()])  # type: ignore[arg-type]
    return batch_space(space, n_envs)


def _check_options(options: dict[str, Any] | None) -> None:
    if options:
        raise OptionError(f"reset takes no options, got {sorted(options)}")
