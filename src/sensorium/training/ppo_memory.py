"""The memory that PPO needs: checked before it is allocated on a CPU, and errors of a GPU that has too little."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from sensorium._system import check_memory
from sensorium.errors import OptionError, SensoriumError
from sensorium.worlds.device import is_out_of_memory, too_little_memory

if TYPE_CHECKING:
    from tensordict import TensorDict

    from sensorium.training.ppo_options import PPOOptions

_N_SCALARS = 5
"""Values per step besides observations and actions: reward, value, log-probability, return and advantage."""
_N_ACTIONS = 3
"""Values per action: the action itself, and the mean and the standard deviation of its distribution."""


def check_rollout(options: PPOOptions, observation: TensorDict, n_actions: int) -> None:
    """Raise OptionError if the steps between updates do not fit into the memory of the CPU.

    Args:
        options: options of the training.
        observation: observation of all envs.
        n_actions: number of actions.
    """
    if observation.device is not None and observation.device.type != "cpu":
        return
    values = (value for value in observation.values(True, True) if isinstance(value, torch.Tensor))
    observed = sum(value.numel() * value.element_size() for value in values)
    others = options.n_envs * (4 * (_N_SCALARS + _N_ACTIONS * n_actions) + 1)
    parts = 1 + 1 / options.minibatches  # an update copies the steps of a minibatch
    what = f"the steps of {options.n_envs} envs between updates of PPO"
    check_memory("horizon", options.horizon, what, (observed + others) * parts)


@contextmanager
def explain_too_little_memory(options: PPOOptions) -> Iterator[None]:
    """Turn errors of torch in a block that allocates too much memory into errors that name the options to lower.

    Raises:
        DeviceError: the GPU has too little memory.
        OptionError: the machine has too little memory.
    """
    try:
        yield
    except SensoriumError:
        raise
    except (RuntimeError, MemoryError) as error:
        what = f"PPO with n_envs={options.n_envs}, horizon={options.horizon} and minibatches={options.minibatches}"
        advice = "Lower n_envs or horizon, or raise minibatches"
        device = torch.device(options.device)
        if device.type == "cuda" and is_out_of_memory(error):
            raise too_little_memory(device, what, advice) from error
        if is_out_of_memory(error) or "DefaultCPUAllocator" in str(error):
            raise OptionError(f"the machine has too little memory for {what}. {advice}") from error
        raise
