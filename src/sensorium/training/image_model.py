"""``ImageModel``: a network of rsl_rl that sees images, stored as bytes, and vectors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from rsl_rl.models import CNNModel, MLPModel
from tensordict import TensorDict
from torch.nn import functional

CONVOLUTIONS = {"output_channels": [32, 64, 64], "kernel_size": [8, 4, 3], "stride": [4, 2, 1], "activation": "elu"}
"""Convolutions of each image, which must have at least 36 x 36 pixels."""
GPU_TYPE = torch.bfloat16
"""Type in which convolutions compute on a GPU."""


class ImageModel(CNNModel):  # type: ignore[misc]  # rsl_rl has no types
    """Convolutions of each image in front of the hidden layers. Images are uint8, a quarter of the memory of floats.

    On a GPU the convolutions compute in bfloat16, in a third of the time; their weights and gradients are float32.
    """

    def get_latent(
        self, obs: TensorDict, masks: torch.Tensor | None = None, hidden_state: object = None
    ) -> torch.Tensor:
        """Return the input of the hidden layers; see rsl_rl."""
        return self.join(MLPModel.get_latent(self, obs), {name: obs[name] for name in self.obs_groups_2d})

    def join(self, vectors: torch.Tensor, images: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return the input of the hidden layers for normalised vectors (n, columns) and images (n, 3, H, W) uint8."""
        dtype = GPU_TYPE if vectors.device.type == "cuda" else torch.float32
        found = [vectors]
        with torch.autocast(vectors.device.type, torch.bfloat16, enabled=dtype != torch.float32, cache_enabled=False):
            for name, layers in self.cnns.items():
                first, *others = layers
                values = _convolve(first, images[name], dtype)
                for layer in others:
                    values = layer(values)
                found.append(values.float())
        return torch.cat(found, dim=-1)

    def as_jit(self) -> torch.nn.Module:
        """Return the network for TorchScript, with inputs as in the task; see rsl_rl."""
        return _scale_images(super().as_jit())

    def as_onnx(self, verbose: bool) -> torch.nn.Module:
        """Return the network for ONNX, with inputs as in the task; see rsl_rl."""
        return _scale_images(super().as_onnx(verbose))


def _convolve(layer: torch.nn.Conv2d, images: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the first convolution of images (n, C, H, W) uint8, scaled from [0, 255] to [0, 1].

    Its stride divides its kernel. So it is a convolution with stride 1 of blocks of stride x stride pixels, whose
    pixels are channels: 48 channels keep a GPU busy, 3 do not. The scale is in the weights, so that the bytes are exact
    in bfloat16.
    """
    side = layer.stride[0]
    count, channels, height, width = images.shape
    rows, columns = height // side, width // side  # the convolution does not see the pixels of what remains
    blocks = images[:, :, : rows * side, : columns * side].reshape(count, channels, rows, side, columns, side)
    blocks = blocks.permute(0, 2, 4, 1, 3, 5).to(dtype, memory_format=torch.contiguous_format)
    values = blocks.view(count, rows, columns, -1).permute(0, 3, 1, 2)
    return functional.conv2d(values, functional.pixel_unshuffle(layer.weight / 255.0, side), layer.bias)


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
