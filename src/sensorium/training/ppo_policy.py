"""The networks of PPO, by rsl_rl, and their files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from sensorium.entities.tensor_files import load_tensors, save_tensors
from sensorium.errors import DatasetError, OptionError
from sensorium.files import explain_errors, write_whole
from sensorium.json_files import load_json

if TYPE_CHECKING:
    from rsl_rl.algorithms import PPO
    from rsl_rl.models import MLPModel
    from tensordict import TensorDict

    from sensorium.tasks.tensor.observations import ObservationPart
    from sensorium.training.ppo_options import PPOOptions

_FORMAT = "sensorium-ppo-policy"


def make_network(options: PPOOptions, observation: TensorDict, group: str, n_outputs: int) -> MLPModel:
    """Return a network of rsl_rl that sees one group of observations: "actor" or "critic".

    The actor is built from the group "actor" and the images alone, so that it cannot depend on what is privileged.

    Raises:
        OptionError: the network cannot see images.
    """
    from rsl_rl.models import MLPModel, RNNModel

    from sensorium.training.image_model import CONVOLUTIONS, ImageModel, image_groups

    images = image_groups(observation) if group == "actor" else []
    groups = {group: [group, *images]}
    values: dict[str, Any] = {"hidden_dims": list(options.hidden), "activation": "elu", "obs_normalization": True}
    if group == "actor":
        values["distribution_cfg"] = {
            "class_name": "GaussianDistribution",
            "init_std": options.exploration,
            "std_type": "scalar",
        }
    if images:
        if options.network != "mlp":
            raise OptionError(f"network must be 'mlp' for a task with images, got {options.network!r}")
        return ImageModel(observation, groups, group, n_outputs, cnn_cfg=CONVOLUTIONS, **values)
    if options.network == "mlp":
        return MLPModel(observation, groups, group, n_outputs, **values)
    values |= {"rnn_type": options.network, "rnn_hidden_dim": options.memory, "rnn_num_layers": 1}
    return RNNModel(observation, groups, group, n_outputs, **values)


def make_ppo(options: PPOOptions, observation: TensorDict, n_actions: int) -> PPO:
    """Return PPO with new networks."""
    from rsl_rl.storage import RolloutStorage

    from sensorium.training.ppo_graph import GraphPPO

    device = str(observation.device)
    torch.manual_seed(options.seed)
    actor = make_network(options, observation, "actor", n_actions)
    critic = make_network(options, observation, "critic", 1)
    storage = RolloutStorage("rl", options.n_envs, options.horizon, observation, [n_actions], device)
    return GraphPPO(
        actor,
        critic,
        storage,
        num_learning_epochs=options.epochs,
        num_mini_batches=options.minibatches,
        clip_param=options.clip,
        gamma=options.gamma,
        lam=options.lam,
        entropy_coef=options.entropy,
        learning_rate=options.learning_rate,
        desired_kl=options.desired_kl,
        device=device,
    )


def save_actor(actor: MLPModel, folder: Path, parts: Sequence[ObservationPart], n_actions: int) -> None:
    """Write ``policy.safetensors`` and ``policy.json``.

    Args:
        actor: the network.
        folder: where to write them.
        parts: what the actor observes, in the order of its columns.
        n_actions: number of actions.
    """
    with explain_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    save_tensors(folder / "policy.safetensors", actor.state_dict())
    inputs = {name: list(shape) for name, shape in _named(parts)}
    header = {"format": _FORMAT, "version": 1, "observations": actor.obs_dim, "inputs": inputs, "actions": n_actions}
    write_whole(folder / "policy.json", json.dumps(header, indent=1).encode())


def _named(parts: Sequence[ObservationPart]) -> list[tuple[str, tuple[int, ...]]]:
    """Return dotted names and shapes of what an actor observes."""
    return [(f"{part.uuid}.{part.part}".rstrip("."), tuple(part.shape)) for part in parts]


def load_actor(
    options: PPOOptions,
    folder: Path,
    observation: TensorDict,
    n_actions: int,
    parts: Sequence[ObservationPart] | None = None,
) -> MLPModel:
    """Return the actor of a folder that :func:`save_actor` wrote, on the device of the observations.

    Args:
        options: options of the training.
        folder: the folder.
        observation: an observation of the task.
        n_actions: number of actions of the task.
        parts: what the task gives the actor, in the order of its columns; None if the caller has chosen it by name.

    Raises:
        DatasetError: the folder holds no policy, or one for other observations or actions.
    """
    try:
        header = load_json((folder / "policy.json").read_bytes())
    except (OSError, ValueError) as error:
        raise DatasetError(f"cannot read the policy in {folder}: {error}") from None
    tensors = load_tensors(folder / "policy.safetensors")
    if parts is not None:
        _check_inputs(header.get("inputs"), _named(parts), folder, options)
    actor = make_network(options, observation, "actor", n_actions)
    if header.get("format") != _FORMAT or header["observations"] != actor.obs_dim:
        raise DatasetError(
            f"the policy in {folder} takes {header.get('observations')} observations, and the task has {actor.obs_dim}"
        )
    shapes, own = ({name: tuple(value.shape) for name, value in each.items()} for each in (tensors, actor.state_dict()))
    if shapes != own:
        name = next(name for name in {**own, **shapes} if shapes.get(name) != own.get(name))
        raise DatasetError(
            f"the policy in {folder} does not fit the options of its training: {name!r} has the shape "
            f"{shapes.get(name)}, and {own.get(name)} in a network with hidden={options.hidden} and "
            f"network={options.network!r} for {n_actions} actions"
        )
    actor.load_state_dict(tensors)
    return actor.to(observation.device).eval()


def _check_inputs(
    inputs: object, given: Sequence[tuple[str, tuple[int, ...]]], folder: Path, options: PPOOptions
) -> None:
    """Raise DatasetError if a task gives an actor something else than what it was trained with.

    Args:
        inputs: what the file says; policies of earlier versions do not say it.
        given: names and shapes of what the task gives.
        folder: folder of the policy, for the message.
        options: options of the training.
    """
    if not isinstance(inputs, Mapping):
        return
    trained = [(str(name), tuple(shape)) for name, shape in inputs.items()]
    if trained == list(given):
        return
    lacking = [f"{name!r} {shape}" for name, shape in trained if (name, shape) not in given]
    added = [f"{name!r} {shape}" for name, shape in given if (name, shape) not in trained]
    entity = "; it is that of an entity, which must be given to the task" if options.entity is not None else ""
    what = f"observes {', '.join(lacking)}, which the task does not give" if lacking else "observes less"
    what = f"{what}; the task gives {', '.join(added)}" if added else what
    order = "observes the same in another order than the task gives"
    raise DatasetError(f"the policy in {folder} {what if lacking or added else order}{entity}")


def to_tensors(algorithm: PPO) -> dict[str, torch.Tensor]:
    """Return networks, optimizer and random state of a training, by name, on the CPU."""
    found: dict[str, torch.Tensor] = {}
    saved = algorithm.save()
    for part in ("actor", "critic"):
        found |= {f"{part}/{name}": value for name, value in saved[f"{part}_state_dict"].items()}
    for number, values in saved["optimizer_state_dict"]["state"].items():
        found |= {f"optimizer/{number}/{name}": torch.as_tensor(value) for name, value in values.items()}
    found["random/cpu"] = torch.get_rng_state()
    if torch.device(algorithm.device).type == "cuda":
        found["random/cuda"] = torch.cuda.get_rng_state(algorithm.device)
    return {name: value.detach().cpu().clone().contiguous() for name, value in found.items()}


def from_tensors(algorithm: PPO, tensors: Mapping[str, torch.Tensor], learning_rate: float) -> None:
    """Restore what :func:`to_tensors` returned.

    Raises:
        OptionError: the networks have other shapes.
    """
    parts: dict[str, dict[str, torch.Tensor]] = {"actor": {}, "critic": {}}
    state: dict[int, dict[str, torch.Tensor]] = {}
    for name, value in tensors.items():
        part, _, rest = name.partition("/")
        if part == "optimizer":
            number, _, key = rest.partition("/")
            state.setdefault(int(number), {})[key] = value
        elif part in parts:
            parts[part][rest] = value
    optimizer = algorithm.optimizer.state_dict()
    optimizer["state"] = state
    for group in optimizer["param_groups"]:
        group["lr"] = learning_rate
    saved = {
        "actor_state_dict": parts["actor"],
        "critic_state_dict": parts["critic"],
        "optimizer_state_dict": optimizer,
    }
    try:
        algorithm.load(saved, None, strict=True)
    except RuntimeError as error:
        raise OptionError(f"the checkpoint does not fit the options of the training: {error}") from None
    torch.set_rng_state(tensors["random/cpu"])
    if "random/cuda" in tensors and torch.device(algorithm.device).type == "cuda":
        torch.cuda.set_rng_state(tensors["random/cuda"], algorithm.device)
