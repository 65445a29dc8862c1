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

    def as_jit(self) -> torch.nn.Module:
        """Return the network for TorchScript, with inputs as in the task; see rsl_rl."""
        return _scale_images(super().as_jit())

    def as_onnx(self, verbose: bool) -> torch.nn.Module:
        """Return the network for ONNX, with inputs as in the task; see rsl_rl."""
        return _scale_images(super().as_onnx(verbose))


class _Scale(torch.nn.Module):
    """Scales an image from [0, 255] to [0, 1]."""

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return image.float() / 255.0


def _scale_images(exported: torch.nn.Module) -> torch.nn.Module:
    """Put the scaling of images into an exported network: rsl_rl exports its parts without :meth:`get_latent`."""
    convolutions = exported.cnns
    assert isinstance(convolutions, torch.nn.ModuleList)
    exported.cnns = torch.nn.ModuleList(torch.nn.Sequential(_Scale(), each) for each in convolutions)
    return exported


def image_groups(observation: TensorDict) -> list[str]:
    """Return the names of the observations that are images."""
    return [name for name, value in observation.items() if value.dim() == 4]
