"""``RslRlEnv``: a tensor task as the ``VecEnv`` of rsl_rl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

if TYPE_CHECKING:
    from sensorium.tasks.tensor.task import TensorTask


class RslRlEnv(VecEnv):  # type: ignore[misc]  # rsl_rl has no types
    """A tensor task for the runners and algorithms of rsl_rl, without copies between devices.

    Observations are a TensorDict with the groups "actor" and "critic". ``extras["time_outs"]`` are the truncated envs.
    Steps do not wait for the device: a reward that is NaN or infinite is reported by ``task.log.take()``.

    Args:
        task: the task. It is reset.
    """

    def __init__(self, task: TensorTask[Any]) -> None:
        self.task = task
        self.num_envs = task.n_envs
        self.num_actions = int(task.single_action_space.shape[0])
        self.max_episode_length = task.config.max_steps
        self.device = task.device
        self.cfg = task.config.model_dump(mode="json")
        task.reset()

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Steps of each env's episode so far, (B,) int64."""
        return self.task.step_count

    @episode_length_buf.setter
    def episode_length_buf(self, value: torch.Tensor) -> None:
        self.task.step_count.copy_(value)

    def get_observations(self) -> TensorDict:
        """Return the current observations."""
        return self.task.as_tensordict()

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Apply actions (B, n); see rsl_rl's ``VecEnv.step``."""
        task = self.task
        task.step_in_place(actions)
        dones = (task.terminated | task.truncated).long()
        return self.get_observations(), task.reward.clone(), dones, {"time_outs": task.truncated.clone()}
