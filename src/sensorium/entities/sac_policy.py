"""The networks of ``SACMLPBrain``: an actor without privileged inputs, and critics with all of them.

This module imports Stable-Baselines3, which is optional, so it is imported where a brain is made.
"""

from __future__ import annotations

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, NatureCNN
from stable_baselines3.sac.policies import Actor, MultiInputPolicy

from sensorium.suites.observation import PRIVILEGED

_N_FEATURES = 256
"""Number of features of an image."""


class InputExtractor(BaseFeaturesExtractor):
    """Features of all inputs: a CNN for each image (C, H, W), uint8 or float, and vectors unchanged.

    Its parameters have the names and the initial values of those of Stable-Baselines3's ``CombinedExtractor``, which
    has no CNN for floats.

    Args:
        observation_space: space of the inputs.
    """

    def __init__(self, observation_space: spaces.Dict) -> None:
        super().__init__(observation_space, features_dim=1)
        extractors: dict[str, torch.nn.Module] = {}
        width = 0
        for key, box in observation_space.spaces.items():
            assert isinstance(box, spaces.Box)
            if len(box.shape) == 3:
                extractors[key] = NatureCNN(box, _N_FEATURES, normalized_image=box.dtype != np.uint8)
                width += _N_FEATURES
            else:
                extractors[key] = torch.nn.Flatten()
                width += int(np.prod(box.shape))
        self.extractors = torch.nn.ModuleDict(extractors)
        self._features_dim = width

    def forward(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the features (B, k) of the inputs of B envs."""
        return torch.cat([extractor(inputs[key]) for key, extractor in self.extractors.items()], dim=1)


class BlindActor(Actor):
    """An actor that ignores inputs that are not in its space."""

    def extract_features(  # type: ignore[override]
        self, obs: dict[str, torch.Tensor], features_extractor: BaseFeaturesExtractor
    ) -> torch.Tensor:
        """Return the features of the inputs that are in its space."""
        assert isinstance(self.observation_space, spaces.Dict)
        own = {key: obs[key] for key in self.observation_space.spaces}
        return super().extract_features(own, features_extractor)


class AsymmetricPolicy(MultiInputPolicy):
    """Networks of soft actor-critic whose actor is built without inputs that begin with "privileged/"."""

    def make_actor(self, features_extractor: BaseFeaturesExtractor | None = None) -> Actor:
        """Return a new actor."""
        assert isinstance(self.observation_space, spaces.Dict)
        inputs = self.observation_space.spaces.items()
        space = spaces.Dict([(key, box) for key, box in inputs if not key.startswith(PRIVILEGED)])  # type: ignore[arg-type]
        extractor = features_extractor or self.features_extractor_class(space, **self.features_extractor_kwargs)
        options = {**self.actor_kwargs, "observation_space": space}
        return BlindActor(**self._update_features_extractor(options, extractor)).to(self.device)
