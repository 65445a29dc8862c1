"""The networks of trainings as ONNX graphs: the actor of ``SACMLPBrain``, and those of PPO."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from sensorium.deploy.contract import VECTOR, Contract
from sensorium.entities.normalizer import MAX_NORMALIZED
from sensorium.entities.sac_inputs import VECTOR as SAC_VECTOR
from sensorium.errors import OptionError
from sensorium.training.policy_graph import PolicyGraph, add_commands, vector_input

if TYPE_CHECKING:
    from rsl_rl.models import MLPModel

    from sensorium.entities import SACMLPBrain

_FAR = 1e6
"""Value of infinite pixels, as in ``NetworkInputs``."""


def sac_graph(brain: SACMLPBrain, contract: Contract) -> PolicyGraph:
    """Return the actor of a brain without exploration, from raw observations to commands."""
    graph, inputs, actor = PolicyGraph(), brain._inputs, brain._sac.policy.actor
    features = []
    for key, extractor in actor.features_extractor.extractors.items():
        if key == SAC_VECTOR:
            normalizer = inputs.normalizers[key]
            value = graph.node("Sub", vector_input(graph, contract), graph.constant(normalizer._shift))
            value = graph.node("Mul", value, graph.constant(normalizer._scale))
            value = graph.node("Where", graph.node("IsNaN", value), graph.constant(np.zeros(1)), value)
            features.append(
                graph.node(
                    "Clip",
                    value,
                    graph.constant(-MAX_NORMALIZED),
                    graph.constant(MAX_NORMALIZED),
                )
            )
        else:
            name = inputs._images[key]
            value = _image(graph, name, inputs.boxes[name].shape, str(inputs.boxes[name].dtype))
            features.append(graph.layers(graph.layers(value, extractor.cnn), extractor.linear))
    latent = features[0] if len(features) == 1 else graph.node("Concat", *features, axis=1)
    mean = graph.layers(graph.mlp(latent, actor.latent_pi), actor.mu)
    low, high = brain.action_space.low, brain.action_space.high
    action = graph.node("Mul", graph.node("Tanh", mean), graph.constant(brain._action_half))
    action = graph.node("Add", action, graph.constant(brain._action_centre))
    add_commands(graph, graph.clipped(action, low.tolist(), high.tolist()), contract)
    return graph


def ppo_graph(actor: MLPModel, contract: Contract, order: np.ndarray) -> PolicyGraph:
    """Return the mean action of an actor of rsl_rl, from raw observations to commands.

    Args:
        actor: the actor.
        contract: the contract.
        order: column of the network's input ``observation`` for each column of the actor's own input.

    Raises:
        OptionError: the actor has layers without an ONNX form.
    """
    graph = PolicyGraph()
    value = vector_input(graph, contract)
    if not np.array_equal(order, np.arange(len(order))):
        value = graph.node("Gather", value, graph.constant(order.astype(np.int64)), axis=1)
    normalizer = actor.obs_normalizer
    if actor.obs_normalization:
        value = graph.normalized(value, normalizer._mean, normalizer._std + normalizer.eps)
    images = [term for term in contract.observations if term.input != VECTOR]
    if images:
        seen = []
        for name in actor.obs_groups_2d:
            term = next(each for each in images if each.input == name)
            seen.append(graph.layers(_image(graph, name, term.shape, term.dtype), actor.cnns[name]))
        value = graph.node("Concat", value, *seen, axis=1)
    if actor.is_recurrent:
        value = graph.recurrent(value, actor.rnn.rnn)
    action = graph.layers(value, actor.mlp)
    check = torch.linspace(-2.0, 2.0, contract.n_actions, device=normalizer._mean.device)[None]
    if actor.distribution is not None and not torch.equal(actor.distribution.deterministic_output(check), check):
        raise OptionError("a policy file holds actors whose action is the mean of a Gaussian distribution")
    add_commands(graph, action, contract)
    return graph


def _image(graph: PolicyGraph, name: str, shape: tuple[int, ...], dtype: str) -> str:
    """Add an image (H, W, C) or (H, W) as an input of its own, and return it as (B, C, H, W), scaled."""
    value = graph.input(name, shape, dtype)
    if len(shape) == 2:
        value = graph.node("Unsqueeze", value, graph.constant(np.array([3])))
    if dtype == "uint8":
        value = graph.node("Cast", value, to=1)  # float32
        value = graph.node("Div", value, graph.constant(255.0))
    else:
        zero, far = graph.constant(np.zeros(1)), graph.constant(_FAR)
        value = graph.node("Where", graph.node("IsNaN", value), zero, value)
        value = graph.node("Clip", value, graph.constant(-_FAR), far)
        value = graph.node("Softsign", value)
    return graph.node("Transpose", value, perm=[0, 3, 1, 2])
