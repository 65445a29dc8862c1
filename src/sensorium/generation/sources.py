"""The task and the policy of a dataset: by name, of a training, of an ONNX file, or of your own modules."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sensorium import policies, tasks
from sensorium.entities import TrainableEntity
from sensorium.errors import OptionError
from sensorium.generation import tensor_sources
from sensorium.generation.onnx_policy import OnnxPolicy
from sensorium.policies import FunctionPolicy, Policy
from sensorium.robots import Manipulator, Robot, make
from sensorium.tasks import Task
from sensorium.tasks.shared_task import period_of
from sensorium.tasks.tensor.episodes import TensorEpisodes
from sensorium.user_modules import import_modules

if TYPE_CHECKING:
    from sensorium.generation.options import GenerateOptions
    from sensorium.training import TrainOptions

_ROBOTS: dict[str, type[Robot]] = {"Robot": Robot, "Manipulator": Manipulator}


def describe_robot(robot: Robot) -> dict[str, Any]:
    """Return a robot as plain values, for :func:`make_task`."""
    kind = next((name for name, cls in _ROBOTS.items() if type(robot) is cls), None)
    if kind is None:
        raise OptionError(
            f"robot: {robot!r} cannot be stored with a dataset; make it with sn.robots.make, or register it in a module"
        )
    return {"type": kind, "options": robot.options.model_dump(mode="json")}


def make_task(options: GenerateOptions, **changes: object) -> Task[Any] | TensorEpisodes:
    """Return the task of a dataset.

    Args:
        options: options of the dataset.
        **changes: further options of the task, which take precedence.

    Raises:
        OptionError: the policy, the robot or the rig does not suit the task.
    """
    import_modules(options.modules)
    robot: str | Robot = options.robot
    settings = dict(options.options)
    is_tensor_task = tensor_sources.is_tensor_task(options)
    entity = None if is_tensor_task else policy_entity(options.policy)
    if entity is not None:
        settings = {**entity[1], **settings}
    if options.robot_options is not None:
        cls = _ROBOTS[options.robot_options["type"]]
        robot = cls(cls.options_type(**options.robot_options["options"]))
    elif entity is not None:
        if options.robot != entity[0].robot_name:
            raise OptionError(
                f"robot: the policy acts on {entity[0].robot_name!r}, got {options.robot!r}; remove robot"
            )
        robot = entity[0].make_robot()
    if options.rig is not None:
        if entity is not None:
            raise OptionError("rig: an entity has its own sensors, those it was trained with; remove rig")
        body = robot if isinstance(robot, Robot) else make(robot)
        robot = type(body)(body.options.model_copy(update={"rig": options.rig}))
    if is_tensor_task:
        return tensor_sources.make_episodes(options, robot, settings, changes)
    fixed = {"n_envs": options.envs, "seed": options.seed, "keep_history": False, "autoreset": False}
    return tasks.make(options.task, robot=robot, **{**settings, **fixed, **changes})


def policy_entity(policy: str) -> tuple[TrainableEntity, dict[str, Any]] | None:
    """Return the entity of a policy, and the options of its task; None for other policies.

    Args:
        policy: the folder of a training, whose entity has its best brain; or ``module:name`` of an entity.

    Raises:
        DatasetError: the folder holds no training, or the training has no brain yet.
        OptionError: the folder holds a training of a tensor task, which has no entity, for another task.
    """
    if not _is_training(policy):
        found = _find(policy)
        return (found, {}) if isinstance(found, TrainableEntity) else None
    from sensorium.training import load_brain

    folder = Path(policy)
    options = _load_training(folder)
    return options.entity.make(lambda *spaces: load_brain(folder)), options.task_options


def policy_robot(policy: str) -> str | None:
    """Return the name of the robot that a policy was trained with or its entity has; None if any robot will do."""
    ppo = tensor_sources.find_training(policy)
    if ppo is not None:
        return str(ppo.make_config().robot)
    if _is_training(policy):
        return _load_training(Path(policy)).entity.robot
    found = _find(policy)
    return found.robot_name if isinstance(found, TrainableEntity) else None


def _is_training(policy: str) -> bool:
    return policy not in policies.POLICIES and os.path.isdir(policy)


def _load_training(folder: Path) -> TrainOptions:
    from sensorium.training import TrainOptions
    from sensorium.training.ppo_options import is_ppo

    if is_ppo(folder):
        raise OptionError(
            f"policy: {folder} is a training of a tensor task by PPO, which has no entity; use a training of an entity"
        )
    options = TrainOptions.load(folder)
    if options.device is not None:
        raise OptionError(
            f"policy: {folder} is a training by SAC on tensors, and entities generate datasets of tasks on arrays; "
            "train it without device, or by PPO"
        )
    return options


def _find(policy: str) -> object:
    """Return what ``module:name`` is; None if it is not such a text, or the module lacks the name."""
    module, _, name = policy.partition(":")
    if not name:
        return None
    import_modules([module])
    return getattr(sys.modules[Path(module).stem if module.endswith(".py") else module], name, None)


class EntityPolicy(Policy):
    """A policy that lets an entity decide, from its own sensors and without exploration.

    Args:
        task: a task with a robot of ``entity.make_robot()``.
        entity: the entity, with a brain.

    Raises:
        OptionError: the robot has other sensors than the entity, or the entity decides at another rate.
    """

    def __init__(self, task: Task[Any], entity: TrainableEntity) -> None:
        super().__init__(task)
        if entity.rate is not None and period_of("policy", entity, task.config.dt) != 1:
            raise OptionError(
                f"policy: the entity decides {entity.rate:g} times per second, but a step of the task takes "
                f"{task.config.dt:g} s; set dt={1 / entity.rate:g}"
            )
        self._entity, self._suite = entity, entity.bind(task.robot, task.n_envs)

    def get_action(self, observation: dict[str, Any]) -> np.ndarray:
        """Return the decisions of the entity, (B, n)."""
        return np.asarray(self._entity.decide_batch(self._suite.read(), deterministic=True))


def make_policy(options: GenerateOptions, made: Task[Any] | TensorEpisodes) -> Policy:
    """Return the policy of a dataset for its task, which :func:`make_task` made.

    ``options.policy`` is a name ("planner", "random"), the folder of a training, an ONNX file, or ``module:name`` of
    one of your modules: a class derived from ``Policy``, a function from observation to action (B, n), or an entity.

    Raises:
        OptionError: there is no such policy.
    """
    text = options.policy
    task = cast("Task[Any]", made)  # policies use what both have
    if isinstance(made, TensorEpisodes) and tensor_sources.find_training(text) is not None:
        return tensor_sources.ActorPolicy(made, Path(text))
    entity = policy_entity(text)
    if entity is not None:
        if isinstance(made, TensorEpisodes):
            raise OptionError(f"policy: the tensor task {options.task!r} takes no entities, got {text!r}")
        return EntityPolicy(task, entity[0])
    if text.endswith(".onnx"):
        if not os.path.isfile(text):
            raise OptionError(f"policy: there is no file {text!r}")
        return OnnxPolicy(made, Path(text))
    if ":" not in text:
        return policies.make(text, task)
    found = _find(text)
    if isinstance(found, type) and issubclass(found, Policy):
        return found(task)
    if callable(found):
        return FunctionPolicy(task, found)
    module, _, name = text.partition(":")
    raise OptionError(f"policy: {module} has no policy, function or entity named {name!r}")
