"""Tasks as the ``VecEnv`` of Stable-Baselines3: B envs in one process, without a copy of the task per env."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs

from sensorium.errors import NameNotFoundError, OptionError
from sensorium.options import checked_integer
from sensorium.suites import flatten_reading
from sensorium.suites.observation import Arrays
from sensorium.tasks.checks import checked_seed

if TYPE_CHECKING:
    from sensorium.tasks.task import Task
    from sensorium.tasks.tensor import TensorTask


class _NoAttributeError(NameNotFoundError, AttributeError):
    """The task has no such attribute. Stable-Baselines3 expects an AttributeError, for example in ``has_attr``."""


class TaskVecEnv(VecEnv):
    """A task of B envs as a ``VecEnv``. Envs that are done are reset in the same step; see ``task.as_sb3``.

    Args:
        task: the task, on arrays or on tensors.
        keys: uuids to observe, in order. Default: those of ``task.as_gymnasium``.
        flatten: whether the observation of an env is one float32 array, or a dict with one array per uuid.
    """

    def __init__(self, task: Task[Any] | TensorTask[Any], keys: Sequence[str] | None, flatten: bool) -> None:
        self.task = task
        self._view = task.as_gymnasium(keys=keys, flatten=flatten)
        self._seed: int | None = None
        space = self._view.single_observation_space
        if isinstance(space, spaces.Dict):  # Stable-Baselines3 has no nested dicts
            space = spaces.Dict([(uuid, _flat_space(each)) for uuid, each in space.items()])  # type: ignore[arg-type]
        super().__init__(task.n_envs, space, task.single_action_space)
        self._action = np.zeros((task.n_envs, *(task.single_action_space.shape or ())), np.float32)
        self._length = np.zeros(task.n_envs, np.int64)
        self._return = np.zeros(task.n_envs)

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Begin the first episodes of a seed at the next reset."""
        self._seed = None if seed is None else checked_seed(seed)
        return [seed] * self.num_envs

    def reset(self) -> VecEnvObs:
        """Begin an episode in every env."""
        self._length[:], self._return[:] = 0, 0.0
        observation, _ = self._view.reset(seed=self._seed)
        self._seed = None
        return _flat(observation, 1)

    def step_async(self, actions: np.ndarray) -> None:
        """Store the actions of the next step, (B, n)."""
        try:
            action = np.asarray(actions, np.float32)
        except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: a tensor that requires a gradient
            raise OptionError(f"actions must be numbers, got {actions!r:.80}") from error
        if action.shape != self._action.shape:
            raise OptionError(f"actions must have shape {self._action.shape}, got {action.shape}")
        self._action = action

    def step_wait(self) -> tuple[VecEnvObs, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Make the step, and return observations, rewards, ends and one info per env."""
        observation, reward, terminated, truncated, info = self._view.step(self._action)
        done = terminated | truncated
        self._length += 1
        self._return += reward
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for env in np.flatnonzero(done).tolist():
            infos[env] = {
                "terminal_observation": _flat(info["final_obs"][env], 0),
                "TimeLimit.truncated": bool(truncated[env]),
                "episode": {"r": float(self._return[env]), "l": int(self._length[env])},
            }
        self._length[done], self._return[done] = 0, 0.0
        return _flat(observation, 1), reward, done, infos

    def close(self) -> None:
        """Free the task's scene."""
        self.task.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute of the task, once per env.

        Raises:
            NameNotFoundError: the task does not have it. It is an AttributeError too, for Stable-Baselines3.
        """
        return [self._attribute(attr_name)] * self._count(indices)

    def set_attr(self, attr_name: str, value: object, indices: VecEnvIndices = None) -> None:
        """Refuse: all envs are one task."""
        raise OptionError(f"set_attr: all envs are one task; set {attr_name!r} of env.task instead")

    def env_method(self, method_name: str, *args: object, indices: VecEnvIndices = None, **kwargs: object) -> list[Any]:
        """Call a method of the task once, and return its result once per env.

        Raises:
            NameNotFoundError: the task does not have it. It is an AttributeError too, for Stable-Baselines3.
        """
        count, method = self._count(indices), self._attribute(method_name)
        if not callable(method):
            raise OptionError(f"{method_name!r} of the task is no method; use get_attr")
        return [method(*args, **kwargs)] * count

    def env_is_wrapped(self, wrapper_class: type, indices: VecEnvIndices = None) -> list[bool]:
        """Return False for every env."""
        return [False] * self._count(indices)

    def _attribute(self, name: str) -> Any:
        if not isinstance(name, str):
            raise OptionError(f"the name of an attribute must be text, got {name!r:.80}")
        if name == "render_mode":
            return "rgb_array"
        try:
            return getattr(self.task, name)
        except AttributeError:
            raise _NoAttributeError(f"the task {self.task.name!r} has no attribute {name!r}") from None

    def _count(self, indices: VecEnvIndices) -> int:
        """Return the number of envs that indices select."""
        try:
            chosen = list(self._get_indices(indices))
        except (TypeError, RuntimeError):  # RuntimeError: a nested tensor
            raise OptionError(f"indices must be None, an integer or integers, got {indices!r:.80}") from None
        return len([checked_integer("indices", each, -self.num_envs, self.num_envs - 1) for each in chosen])

    def get_images(self) -> Sequence[np.ndarray | None]:
        """Return an image of each env."""
        return [self.task.render(env) for env in range(self.num_envs)]


def _flat_space(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Return the space of a nested reading as one array."""
    if not isinstance(space, spaces.Dict):
        return space
    sample = flatten_reading(_with_batch(space.sample()))
    return spaces.Box(-np.inf, np.inf, (sample.shape[1],), np.float32)


def _flat(observation: dict[str, Any] | np.ndarray, batch_dims: int) -> VecEnvObs:
    """Return an observation whose nested readings are one array each."""
    if not isinstance(observation, dict):
        return observation
    return {uuid: _flat_reading(value, batch_dims) for uuid, value in observation.items()}


def _flat_reading(value: Arrays, batch_dims: int) -> np.ndarray:
    if not isinstance(value, dict):
        return np.asarray(value)
    if batch_dims:
        return flatten_reading(value)
    return flatten_reading(_with_batch(value))[0]


def _with_batch(value: Arrays) -> Arrays:
    """Return a reading of one env as that of a batch of one."""
    if isinstance(value, dict):
        return {name: _with_batch(each) for name, each in value.items()}
    return np.asarray(value)[None]
