"""``export_policy``: a trained policy as an ONNX file with its contract.

::

    policy.onnx      the network, with normalisation and the contract inside
    policy.json      the contract; see :class:`sensorium.deploy.Contract`
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import torch

from sensorium import __version__
from sensorium._arguments import checked
from sensorium.deploy.contract import VECTOR, ActionTerm, Contract, ObservationTerm
from sensorium.entities import SACMLPBrain
from sensorium.entities.nesting import flat_observation
from sensorium.errors import DatasetError, OptionError, SensoriumError
from sensorium.files import check_replaceable, made_folder, write_whole
from sensorium.json_files import load_json
from sensorium.tasks import Task
from sensorium.tasks.tensor import TensorTask
from sensorium.tasks.tensor.hook_results import checked_terms
from sensorium.training.evaluation import SEED, load_brain
from sensorium.training.options import TrainOptions
from sensorium.training.policy_actions import robot_actions
from sensorium.training.policy_graph import PolicyGraph, has_onnx, require_onnx, with_contract
from sensorium.training.policy_networks import ppo_graph, sac_graph
from sensorium.training.policy_terms import TermMaker, with_seen
from sensorium.training.ppo_options import PPOOptions, is_ppo
from sensorium.training.robot_files import stored_name
from sensorium.training.run_folder import brain_folder

if TYPE_CHECKING:
    from rsl_rl.models import MLPModel

FILE = "policy.onnx"
"""Name of the policy file in the folder of a training."""
_N_ENVS, _N_STEPS, _N_STEPS_WITH_IMAGES = 8, 256, 32
"""Envs and steps of the episodes that give the ranges of observations."""


@checked
def export_policy(folder: str | Path, out: str | Path | None = None, which: str = "best") -> Contract:
    """Write the policy of a training as an ONNX file with its contract inside, and the contract beside it as JSON.

    Runs some episodes of the policy, for the ranges of its observations.

    Args:
        folder: folder of the training.
        out: the file, e.g. "policy.onnx"; its contract is then "policy.json". Default: "policy.onnx" in the folder.
        which: "best", the policy of the best evaluation during the training, or "last".

    Returns:
        The contract.

    Raises:
        DatasetError: the folder holds no training, or the training has no such policy yet.
        OptionError: the policy has no ONNX form, ``out`` does not end in ".onnx", or onnx is not installed.

    Example:
        >>> contract = export_policy("runs/balance", "policy.onnx")
        >>> [term.name for term in contract.observations]
    """
    folder = Path(folder)
    path = folder / FILE if out is None else Path(out)
    if path.suffix != ".onnx":
        raise OptionError(f"out must end in '.onnx', got {str(path)!r}")
    require_onnx()
    check_replaceable(path)
    check_replaceable(path.with_suffix(".json"))
    graph, contract = (_export_ppo if is_ppo(folder) else _export_sac)(folder, which)
    data, contract = with_contract(graph.to_bytes(), contract)
    with made_folder(path.parent, path):
        write_whole(path.with_suffix(".json"), contract.to_json().encode())
        write_whole(path, data)
    return contract


def export_at_end(folder: Path, brain: object = None) -> None:
    """Write the policy file of a training that ended, if onnx is installed and the brain has an ONNX form.

    Errors become warnings, since the training itself succeeded.
    """
    if has_onnx() and (brain is None or isinstance(brain, SACMLPBrain)):
        try:
            export_policy(folder, which="best" if (folder / "best").is_dir() else "last")
        except SensoriumError as error:
            warnings.warn(f"the training is complete, but its policy file was not written: {error}", stacklevel=4)


# -- SAC ---------------------------------------------------------------------------------------------------------------


def _export_sac(folder: Path, which: str) -> tuple[PolicyGraph, Contract]:
    options = TrainOptions.load(folder)
    brain = load_brain(folder, which, None if options.device is None else "cpu")
    if not isinstance(brain, SACMLPBrain):
        raise OptionError(
            f"policy files are made of SACMLPBrain and of PPO, and the brain of {folder} is {options.brain}"
        )
    entity = options.entity.make(lambda *spaces: brain)
    task: Task[Any] | TensorTask[Any]
    if options.device is None:
        task = options.make_task(entity, _N_ENVS, options.seed + 2 * SEED, autoreset=True)
    else:
        task = options.make_tensor_task(entity, _N_ENVS, options.seed + 2 * SEED, "cpu")
    try:
        dt, robot = float(task.config.dt), task.robot
        maker, inputs = TermMaker(robot, dt), brain._inputs
        images = list(inputs._images.values())
        terms: list[ObservationTerm] = []
        for name in (name for name in inputs.actor_names if name not in images):
            key, _, part = name.partition(".")
            if isinstance(task, TensorTask) and key not in robot.rig.names:
                value, shape = task.describe_input(key), inputs.boxes[name].shape
                terms.append(maker.given(key, value.source, value.unit, value.frame, value.names, shape))
            else:
                terms.append(maker.sensor(key, part))
        for name in (name for name in inputs.actor_names if name in images):
            key, _, part = name.partition(".")
            box = inputs.boxes[name]
            terms.append(maker.image(key, robot.rig[key], part, box.shape, str(box.dtype), name))

        def observations() -> Iterator[dict[str, np.ndarray]]:
            observation, _ = task.reset()
            for _ in range(_N_STEPS_WITH_IMAGES if images else _N_STEPS):
                yield flat_observation(observation)
                observation, *_ = task.step(entity.decide_batch(observation, deterministic=True))

        terms = _with_ranges(terms, observations())
        own = checked_terms(task, task.action_terms()) if isinstance(task, TensorTask) else None
        actions = tuple(own or robot_actions(robot, _rate(dt)))
        contract = _contract(folder, which, options, str(stored_name(entity.robot_name, folder)), terms, actions, dt)
        return sac_graph(brain, contract), contract
    finally:
        task.close()


# -- PPO ---------------------------------------------------------------------------------------------------------------


def _export_ppo(folder: Path, which: str) -> tuple[PolicyGraph, Contract]:
    from sensorium.training.ppo_evaluation import load_policy

    options = PPOOptions.load(folder)
    task = options.make_task(_N_ENVS, options.seed + 2 * SEED, "cpu")
    try:
        actor = load_policy(folder, task, which)
        config, dt = task.config, float(task.config.dt)
        maker = TermMaker(task.robot, dt, config.history, config.randomize_sensors, config.ground_truth)
        parts = task.actor_parts
        terms = []
        for part in parts:
            if part.uuid in task.robot.rig.names:
                terms.append(maker.sensor(part.uuid, part.part))
            else:
                value = task.describe_input(part.uuid)
                terms.append(maker.given(part.uuid, value.source, value.unit, value.frame, value.names, part.shape))
        vectors = list(terms)
        for name in config.observe_cameras:
            camera = task.cameras[name]
            rgb = camera.read().rgb
            assert rgb is not None
            terms.append(maker.image(name, camera, "rgb", rgb.shape[1:], "uint8", f"image_{name}"))

        def observations() -> Iterator[dict[str, np.ndarray]]:
            task.difficulty.fill_(1.0)
            task.reset()
            actor.reset()
            with torch.inference_mode():
                for _ in range(_N_STEPS_WITH_IMAGES if config.observe_cameras else _N_STEPS):
                    values = task.observation_matrix().numpy()
                    yield {term.name: values[:, part.columns] for term, part in zip(vectors, parts, strict=True)}
                    task.step_in_place(actor(task.as_tensordict()))
                    actor.reset(task.terminated | task.truncated)

        terms = _with_ranges(terms, observations())
        actions = tuple(checked_terms(task, task.action_terms()) or robot_actions(task.robot, _rate(dt)))
        contract = _contract(folder, which, options, str(stored_name(config.robot, folder)), terms, actions, dt)
        if actor.is_recurrent:
            contract = _with_state(contract, actor)
        return ppo_graph(actor, contract, _frame_order(task)), contract
    finally:
        task.close()


def _with_state(contract: Contract, actor: MLPModel) -> Contract:
    layer = actor.rnn.rnn
    return dataclasses.replace(contract, state=layer.hidden_size * (2 if isinstance(layer, torch.nn.LSTM) else 1))


def _frame_order(task: TensorTask[Any]) -> np.ndarray:
    """Return the column in the contract's order, by terms, for each column of the actor, by frames.

    The actor gets whole frames, newest first; a term of the contract has its readings of all frames together.
    """
    frames, order, start = task.config.history, [], 0
    for part in task.actor_parts:
        size = part.columns.stop - part.columns.start
        order.append(start + np.arange(frames)[:, None] * size + np.arange(size))
        start += frames * size
    return np.concatenate(order, axis=1).reshape(-1)


# -- both --------------------------------------------------------------------------------------------------------------


def _with_ranges(terms: list[ObservationTerm], observations: Iterator[dict[str, np.ndarray]]) -> list[ObservationTerm]:
    """Return the terms with statistics of their newest readings."""
    rows: dict[str, list[np.ndarray]] = {term.name: [] for term in terms if term.input == VECTOR}
    sizes = {term.name: term.size for term in terms}
    for observation in observations:
        for name, kept in rows.items():
            values = observation[name]
            kept.append(values.reshape(len(values), -1)[:, : sizes[name]].copy())
    return [with_seen(term, np.concatenate(rows[term.name])) if term.name in rows else term for term in terms]


def _rate(dt: float) -> float:
    return round(1 / dt, 6)


def _steps_evaluated(path: Path) -> int | None:
    """Return the steps of training before the last evaluation; None without evaluations."""
    if not path.is_file():
        return None
    try:
        return int(load_json(path.read_bytes())[-1]["steps"])
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise DatasetError(f"{path} cannot be read: {error}; remove it, or restore it from a backup") from error


def _contract(
    folder: Path,
    which: str,
    options: TrainOptions | PPOOptions,
    robot: str,
    terms: list[ObservationTerm],
    actions: tuple[ActionTerm, ...],
    dt: float,
) -> Contract:
    steps = _steps_evaluated(brain_folder(folder, which).parent / "evaluations.json")
    return Contract(
        task=options.task,
        robot=robot,
        rate=_rate(dt),
        observations=tuple(terms),
        actions=actions,
        seed=options.seed,
        algorithm="ppo" if isinstance(options, PPOOptions) else "sac",
        steps=steps,
        which=which,
        versions={"sensorium": __version__, "mujoco": mujoco.__version__, "torch": str(torch.__version__)},
    )
