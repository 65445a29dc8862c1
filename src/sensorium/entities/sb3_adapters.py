"""Adapters that connect our memory, spaces and layers to Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import gymnasium
import torch
from gymnasium import spaces

from sensorium.entities.brain import TransitionSource

if TYPE_CHECKING:
    from stable_baselines3.common.type_aliases import DictReplayBufferSamples


class NormedReLU(torch.nn.Module):
    """ReLU after layer normalisation."""

    def forward(self, units: torch.Tensor) -> torch.Tensor:
        """Return the activations of a layer's units."""
        return torch.relu(torch.nn.functional.layer_norm(units, units.shape[-1:]))


class ReplayAdapter:
    """A memory with the interface of Stable-Baselines3's replay buffer.

    Args:
        memory: the source of transitions.
        inputs: turns observations by key into the inputs of the networks.
        normalized_actions: scales actions to [-1, 1], on the device of the networks.
    """

    def __init__(
        self,
        memory: TransitionSource,
        inputs: Callable[[Mapping[str, torch.Tensor]], dict[str, torch.Tensor]],
        normalized_actions: Callable[[torch.Tensor], torch.Tensor],
    ) -> None:
        self._memory, self._inputs, self._normalized_actions = memory, inputs, normalized_actions

    def sample(self, batch_size: int, env: object = None) -> DictReplayBufferSamples:
        """Return a batch of transitions. ``env`` is ignored."""
        from stable_baselines3.common.type_aliases import DictReplayBufferSamples

        batch = self._memory.sample(batch_size)
        actions = self._normalized_actions(batch.action)
        return DictReplayBufferSamples(
            observations=self._inputs(batch.observation),
            actions=actions,
            next_observations=self._inputs(batch.next_observation),
            dones=batch.terminated.to(actions.device).float().reshape(-1, 1),
            rewards=batch.reward.to(actions.device).reshape(-1, 1),
        )


class SpacesEnv(gymnasium.Env[Any, Any]):
    """An environment that only has spaces, which the constructor of SAC needs."""

    def __init__(self, observation_space: spaces.Dict, action_space: spaces.Box) -> None:
        self.observation_space, self.action_space = observation_space, action_space
