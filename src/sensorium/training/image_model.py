"""``ImageModel``: a network of rsl_rl that sees images, stored as bytes, and vectors."""

from __future__ import annotations

import torch
from rsl_rl.models import CNNModel
from tensordict import TensorDict

CONVOLUTIONS = {"output_channels": [32, 64, 64], "kernel_size": [8, 4, 3], "stride": [4, 2, 1], "activation": "elu"}
"""Convolutions of each image, which must have at least 36 x 36 pixels."""


class ImageModel(CNNModel):  # type: ignore[misc]  # rsl_rl has no types
    """Convolutions of each image in front of the hidden layers. Images are uint8, a quarter of the memory of floats."""

    def get_latent(
        self, obs: TensorDict, masks: torch.Tensor | None = None, hidden_state: object = None
    ) -> torch.Tensor:
        """Return the input of the hidden layers; see rsl_rl."""
        scaled = {name: obs[name].float() / 255.0 for name in self.obs_groups_2d}
        return super().get_latent({**{name: obs[name] for name in self.obs_groups}, **scaled}, masks, hidden_state)


def image_groups(observation: TensorDict) -> list[str]:
    """Return the names of the observations that are images."""
    return [name for name, value in observation.items() if value.dim() == 4]
