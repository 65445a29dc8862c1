"""``BufferedMLP``: an MLP whose activations and their gradients stay in the same memory, for updates on a CPU.

torch allocates each of them anew in every minibatch. They are larger than the caches, so that an update of PPO takes a
fifth longer.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.autograd.function import FunctionCtx, once_differentiable


class BufferedMLP:
    """An MLP of linear layers with ELUs between them, of which at most one result waits for its gradients.

    The values and the gradients are those of the network itself up to rounding: exp(x) - 1 takes half of the time that
    torch's ELU takes.

    Args:
        network: the network, whose parameters are used as they are at each call.

    Example:
        >>> network = nn.Sequential(nn.Linear(45, 256), nn.ELU(), nn.Linear(256, 12))
        >>> BufferedMLP(network)(observations).square().mean().backward()      # gradients of network's parameters
    """

    def __init__(self, network: nn.Sequential) -> None:
        layers = list(network)
        self.linear = [layer for layer in layers[::2] if isinstance(layer, nn.Linear)]
        between = [layer for layer in layers[1::2] if isinstance(layer, nn.ELU) and layer.alpha == 1.0]
        if len(self.linear) + len(between) != len(layers) or len(self.linear) != len(between) + 1:
            raise TypeError(f"network: must be linear layers with ELUs between them, got {network}")
        self._room: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.hidden: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the outputs, (rows, n), for inputs (rows, m). Gradients must be asked for before the next call."""
        rows = len(inputs)
        if self.linear[1:] and (not self._room or len(self._room[0][0]) < rows):
            with torch.inference_mode(False):
                widths = [layer.out_features for layer in self.linear[:-1]]
                self._room = [(torch.zeros(rows, width), torch.zeros(rows, width)) for width in widths]
        self.hidden = [(value[:rows], gradient[:rows]) for value, gradient in self._room]
        parameters = [each for layer in self.linear for each in (layer.weight, layer.bias)]
        outputs: torch.Tensor = _Pass.apply(self, inputs, *parameters)  # type: ignore[no-untyped-call]
        return outputs


class _Context(FunctionCtx):
    """What a pass keeps until it goes back."""

    mlp: BufferedMLP
    saved_tensors: tuple[torch.Tensor, ...]
    needs_input_grad: tuple[bool, ...]


class _Pass(torch.autograd.Function):
    """A pass through the layers and back."""

    @staticmethod
    def forward(ctx: _Context, mlp: BufferedMLP, inputs: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        ctx.mlp = mlp
        ctx.save_for_backward(inputs, *parameters)
        hidden = inputs
        for (value, scratch), weight, bias in zip(mlp.hidden, parameters[:-2:2], parameters[1:-2:2], strict=True):
            torch.addmm(bias, hidden, weight.T, out=value)
            torch.clamp(value, max=0.0, out=scratch).exp_().sub_(1.0)
            hidden = torch.maximum(value, scratch, out=value)
        return torch.addmm(parameters[-1], hidden, parameters[-2].T)

    @staticmethod
    @once_differentiable
    def backward(ctx: _Context, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        inputs, *parameters = ctx.saved_tensors
        found: list[torch.Tensor | None] = []
        for weight, (value, before) in zip(parameters[-2:0:-2], reversed(ctx.mlp.hidden), strict=True):
            found += [gradient.sum(0), gradient.T @ value]
            gradient = torch.mm(gradient, weight, out=before)
            torch.ops.aten.elu_backward.grad_input(gradient, 1.0, 1.0, 1.0, True, value, grad_input=gradient)
        found += [gradient.sum(0), gradient.T @ inputs]
        found += [gradient @ parameters[0] if ctx.needs_input_grad[1] else None, None]
        return tuple(reversed(found))
