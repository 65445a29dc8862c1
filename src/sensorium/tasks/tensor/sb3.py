"""``Sb3VecEnv``: a tensor task as the ``VecEnv`` of Stable-Baselines3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs

from sensorium.tasks.sb3 import BatchedVecEnv, Final

if TYPE_CHECKING:
    from sensorium.tasks.tensor.task import TensorTask


class Sb3VecEnv(BatchedVecEnv):
    """A tensor task for the algorithms of Stable-Baselines3: B envs, the actor's observations as (B, n) float32 arrays.

    Args:
        task: the task.
    """

    task: TensorTask[Any]

    def __init__(self, task: TensorTask[Any]) -> None:
        task.keep_final = True
        width = task.groups()["actor"].shape[1]
        super().__init__(task, spaces.Box(-np.inf, np.inf, (width,), np.float32))

    def _observation(self) -> np.ndarray:
        return self.task.groups()["actor"].numpy(force=True)

    def _begin(self) -> VecEnvObs:
        self.task.reset()
        return self._observation()

    def _step(self) -> tuple[VecEnvObs, np.ndarray, np.ndarray, np.ndarray, Final]:
        task = self.task
        task.step_in_place(torch.from_numpy(self._action).to(task.device))
        reward, terminated, truncated = (
            each.numpy(force=True).copy() for each in (task.reward, task.terminated, task.truncated)
        )
        task.log.check_reward(reward)
        final = task.final_actor().numpy(force=True)
        return self._observation(), reward, terminated, truncated, lambda env: final[env]
