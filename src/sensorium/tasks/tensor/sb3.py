"""``Sb3VecEnv``: a tensor task as the ``VecEnv`` of Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices

from sensorium.errors import OptionError

if TYPE_CHECKING:
    from sensorium.tasks.tensor.task import TensorTask


class Sb3VecEnv(VecEnv):
    """A tensor task for the algorithms of Stable-Baselines3: B envs, the actor's observations as (B, n) float32 arrays.

    Args:
        task: the task.
    """

    def __init__(self, task: TensorTask[Any]) -> None:
        self.task = task
        task.keep_final = True
        width = task.groups()["actor"].shape[1]
        observed = spaces.Box(-np.inf, np.inf, (width,), np.float32)
        super().__init__(task.n_envs, observed, task.single_action_space)
        self._action = np.zeros((task.n_envs, *task.single_action_space.shape), np.float32)
        self._length = np.zeros(task.n_envs, np.int64)
        self._return = np.zeros(task.n_envs)

    def _observation(self) -> np.ndarray:
        return self.task.groups()["actor"].numpy(force=True)

    def reset(self) -> np.ndarray:
        """Begin an episode in every env."""
        self.task.reset()
        self._length[:], self._return[:] = 0, 0.0
        return self._observation()

    def step_async(self, actions: np.ndarray) -> None:
        """Store the actions of the next step."""
        self._action = np.asarray(actions, np.float32)

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Make the step, and return observations, rewards, ends and one info per env."""
        task = self.task
        task.step_in_place(torch.from_numpy(self._action).to(task.device))
        reward, terminated, truncated = (
            each.numpy(force=True).copy() for each in (task.reward, task.terminated, task.truncated)
        )
        done, observation = terminated | truncated, self._observation()
        final = task.final_actor().numpy(force=True)
        self._length += 1
        self._return += reward
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for env in np.flatnonzero(done).tolist():
            infos[env] = {
                "terminal_observation": final[env],
                "TimeLimit.truncated": bool(truncated[env]),
                "episode": {"r": float(self._return[env]), "l": int(self._length[env])},
            }
        self._length[done], self._return[done] = 0, 0.0
        return observation, reward, done, infos

    def close(self) -> None:
        """Free the task's scene."""
        self.task.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute of the task, once per env."""
        value = "rgb_array" if attr_name == "render_mode" else getattr(self.task, attr_name)
        return [value] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: object, indices: VecEnvIndices = None) -> None:
        """Refuse: all envs are one task."""
        raise OptionError(f"set_attr: all envs are one task; set {attr_name!r} of env.task instead")

    def env_method(self, method_name: str, *args: object, indices: VecEnvIndices = None, **kwargs: object) -> list[Any]:
        """Call a method of the task once, and return its result once per env."""
        result = getattr(self.task, method_name)(*args, **kwargs)
        return [result] * len(list(self._get_indices(indices)))

    def env_is_wrapped(self, wrapper_class: type, indices: VecEnvIndices = None) -> list[bool]:
        """Return False for every env."""
        return [False] * len(list(self._get_indices(indices)))

    def get_images(self) -> Sequence[np.ndarray | None]:
        """Return an image of each env."""
        return [self.task.render(env) for env in range(self.num_envs)]
