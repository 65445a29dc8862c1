"""``PolicyGraph``: the network of a policy as an ONNX graph, made of its layers.

Networks of trainings consist of few kinds of layers, so the graph is made directly: it needs the package onnx only, and
takes milliseconds instead of the seconds of torch's exporter.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import cast

import numpy as np
import torch
from torch import nn

from sensorium.deploy.contract import METADATA, VECTOR, Contract
from sensorium.deploy.onnx_file import join
from sensorium.entities.sb3_adapters import NormedReLU
from sensorium.errors import OptionError

_OPSET, _IR_VERSION = 17, 8
"""Versions that onnxruntime 1.13 and later can read. LayerNormalization needs opset 17."""
_EPSILON = 1e-5
"""Of ``torch.nn.functional.layer_norm``."""


def has_onnx() -> bool:
    """Return whether the package onnx is installed."""
    return importlib.util.find_spec("onnx") is not None


def require_onnx() -> ModuleType:
    """Return the package onnx.

    Raises:
        OptionError: it is not installed.
    """
    try:
        return importlib.import_module("onnx")
    except ImportError:
        raise OptionError("policy files need the package onnx: pip install 'sensorium[train]'") from None


class PolicyGraph:
    """A graph that is built node by node. Methods take and return names of values, (B, ...) each.

    Attributes:
        n_state: size of the memory of recurrent layers so far.
    """

    def __init__(self) -> None:
        self._onnx = require_onnx()
        self._nodes: list[object] = []
        self._weights: list[object] = []
        self._inputs: list[object] = []
        self._outputs: list[object] = []
        self.n_state = 0

    # -- values -------------------------------------------------------------------------------------------------------

    def input(self, name: str, shape: Sequence[int], dtype: str = "float32") -> str:
        """Add an input (B, *shape)."""
        self._inputs.append(self._info(name, shape, dtype))
        return name

    def output(self, name: str, value: str, shape: Sequence[int]) -> None:
        """Add an output (B, *shape) of float32."""
        self._outputs.append(self._info(name, shape, "float32"))
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))

    def constant(self, value: torch.Tensor | np.ndarray | Sequence[float] | float) -> str:
        """Add a constant: float32, or int64 if it has integers."""
        array = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
        array = np.ascontiguousarray(array, np.int64 if array.dtype.kind in "iu" else np.float32)
        name = f"w{len(self._weights)}"
        self._weights.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def node(self, kind: str, *inputs: str, **attributes: object) -> str:
        """Add a node with one output."""
        name = f"v{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def _info(self, name: str, shape: Sequence[int], dtype: str) -> object:
        kind = self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self._onnx.helper.make_tensor_value_info(name, kind, ["B", *shape])

    # -- layers -------------------------------------------------------------------------------------------------------

    def layers(self, value: str, module: nn.Module) -> str:
        """Add the layers of a module.

        Raises:
            OptionError: there is no ONNX form of a layer.
        """
        if isinstance(module, nn.Sequential):
            for layer in module:
                value = self.layers(value, layer)
            return value
        if isinstance(module, nn.Identity):
            return value
        if isinstance(module, nn.Linear):
            return self.linear(value, module.weight, module.bias)
        if isinstance(module, NormedReLU):
            raise OptionError("NormedReLU must follow a linear layer")
        if isinstance(module, nn.ELU):
            return self.node("Elu", value, alpha=float(module.alpha))
        if isinstance(module, nn.Conv2d) and module.padding_mode == "zeros" and not isinstance(module.padding, str):
            return self.node(
                "Conv",
                value,
                self.constant(module.weight),
                *([] if module.bias is None else [self.constant(module.bias)]),
                kernel_shape=list(module.kernel_size),
                strides=list(module.stride),
                dilations=list(module.dilation),
                pads=[*module.padding, *module.padding],
                group=module.groups,
            )
        simple = {nn.ReLU: "Relu", nn.Tanh: "Tanh", nn.Flatten: "Flatten"}
        if type(module) in simple:
            return self.node(simple[type(module)], value)
        raise OptionError(f"a policy file cannot hold the layer {module}: there is no ONNX form of it here")

    def mlp(self, value: str, module: nn.Sequential) -> str:
        """Add a sequence of layers in which :class:`NormedReLU` may follow a linear layer."""
        width = 0
        for layer in module:
            if isinstance(layer, NormedReLU):
                value = self.node("LayerNormalization", value, self.constant(np.ones(width)), axis=-1, epsilon=_EPSILON)
                value = self.node("Relu", value)
            else:
                value = self.layers(value, layer)
            width = layer.out_features if isinstance(layer, nn.Linear) else width
        return value

    def linear(self, value: str, weight: torch.Tensor, bias: torch.Tensor) -> str:
        """Add ``value @ weight.T + bias``."""
        return self.node("Gemm", value, self.constant(weight), self.constant(bias), transB=1)

    def normalized(self, value: str, mean: torch.Tensor, divisor: torch.Tensor) -> str:
        """Add ``(value - mean) / divisor``."""
        return self.node("Div", self.node("Sub", value, self.constant(mean)), self.constant(divisor))

    def clipped(self, value: str, low: Sequence[float | None], high: Sequence[float | None]) -> str:
        """Add bounds for each column; None for none."""
        bounds = [[math.inf * sign if each is None else each for each in side] for sign, side in ((-1, low), (1, high))]
        if any(math.isfinite(each) for each in bounds[0]):
            value = self.node("Max", value, self.constant(bounds[0]))
        if any(math.isfinite(each) for each in bounds[1]):
            value = self.node("Min", value, self.constant(bounds[1]))
        return value

    def recurrent(self, value: str, module: nn.RNNBase) -> str:
        """Add one recurrent layer, with the input ``state`` and the output ``next_state``; see torch for the formulas.

        Raises:
            OptionError: the module has several layers or is neither GRU nor LSTM.
        """
        if not isinstance(module, nn.GRU | nn.LSTM) or module.num_layers != 1 or not module.bias:
            raise OptionError(f"a policy file holds recurrent networks of one GRU or LSTM layer, got {module}")
        n, is_gru = module.hidden_size, isinstance(module, nn.GRU)
        self.n_state = n if is_gru else 2 * n
        state = self.input("state", [self.n_state])
        hidden = state if is_gru else self._columns(state, 0, n)
        weights = cast("Mapping[str, torch.Tensor]", dict(module.named_parameters()))
        new = self.linear(value, weights["weight_ih_l0"], weights["bias_ih_l0"])
        old = self.linear(hidden, weights["weight_hh_l0"], weights["bias_hh_l0"])
        if is_gru:
            gates = [(self._columns(new, i * n, n), self._columns(old, i * n, n)) for i in range(3)]
            reset, keep = (self.node("Sigmoid", self.node("Add", *pair)) for pair in gates[:2])
            guess = self.node("Tanh", self.node("Add", gates[2][0], self.node("Mul", reset, gates[2][1])))
            change = self.node("Mul", keep, self.node("Sub", hidden, guess))
            result = after = self.node("Add", guess, change)
        else:
            total = self.node("Add", new, old)
            take, forget, show = (self.node("Sigmoid", self._columns(total, i * n, n)) for i in (0, 1, 3))
            guess = self.node("Tanh", self._columns(total, 2 * n, n))
            kept = self.node("Mul", forget, self._columns(state, n, n))
            cell = self.node("Add", kept, self.node("Mul", take, guess))
            result = self.node("Mul", show, self.node("Tanh", cell))
            after = self.node("Concat", result, cell, axis=1)
        self.output("next_state", after, [self.n_state])
        return result

    def _columns(self, value: str, start: int, count: int) -> str:
        return self.node("Slice", value, *(self.constant(np.array([each])) for each in (start, start + count, 1)))

    # -- the file -----------------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Return the network as an ONNX file without metadata."""
        helper = self._onnx.helper
        graph = helper.make_graph(self._nodes, "policy", self._inputs, self._outputs, self._weights)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION, producer_name="sensorium"
        )
        self._onnx.checker.check_model(model)
        return bytes(model.SerializeToString())


def with_contract(network: bytes, contract: Contract) -> tuple[bytes, Contract]:
    """Return the ONNX file of a network with its contract inside, and the contract with its hash."""
    contract = contract.hashed(network)
    return join(network, {METADATA: contract.to_json()}), contract


def vector_input(graph: PolicyGraph, contract: Contract) -> str:
    """Add the input of all terms that are not images, and return its name."""
    return graph.input(VECTOR, [contract.n_observations])


def add_commands(graph: PolicyGraph, action: str, contract: Contract) -> None:
    """Add the outputs ``action`` and ``command``."""
    terms = contract.actions
    scale, offset = ([x for term in terms for x in getattr(term, key)] for key in ("scale", "offset"))
    low, high = ([x for term in terms for x in getattr(term, key)] for key in ("min", "max"))
    command = graph.node("Add", graph.node("Mul", action, graph.constant(scale)), graph.constant(offset))
    graph.output("action", action, [contract.n_actions])
    graph.output("command", graph.clipped(command, low, high), [contract.n_actions])
