"""Datasets of tensor tasks: the task, and the policy that PPO trained for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from sensorium import tasks
from sensorium.errors import OptionError
from sensorium.policies import POLICIES, Policy
from sensorium.robots import Robot, make
from sensorium.tasks import Task
from sensorium.tasks.rig_cameras import choose_cameras
from sensorium.tasks.tensor import TensorTask
from sensorium.tasks.tensor.episodes import TensorEpisodes
from sensorium.worlds import Envs

if TYPE_CHECKING:
    from sensorium.generation.options import GenerateOptions
    from sensorium.training import PPOOptions

_TASK_ONLY = ("keep_history",)
"""Options that callers set and tensor tasks do not have."""


def find_training(policy: str) -> PPOOptions | None:
    """Return the options of the training if a policy is the folder of a training by PPO, or None."""
    if policy in POLICIES or not os.path.isdir(policy):
        return None
    from sensorium.training.ppo_options import PPOOptions, is_ppo

    return PPOOptions.load(Path(policy)) if is_ppo(Path(policy)) else None


def is_tensor_task(options: GenerateOptions) -> bool:
    """Return whether the task of a dataset is a tensor task.

    It is one if it has no other form, if its option ``device`` is set, as in ``tasks.make``, or if PPO trained the
    policy.

    Raises:
        OptionError: PPO trained the policy for another task, the task has no planner and takes no entities, or the
            device is a GPU.
    """
    training = find_training(options.policy)
    if training is not None and training.task != options.task:
        raise OptionError(
            f"policy: {options.policy} is a training by PPO of the task {training.task!r}, got the task "
            f"{options.task!r}; generate {training.task!r}"
        )
    device = options.options.get("device")
    if options.task in tasks.TENSOR_TASKS and device not in (None, "cpu"):
        raise OptionError(f"device: datasets are generated on the CPU, got {device!r}; remove device")
    only = options.task in tasks.TENSOR_TASKS and (options.task not in tasks.TASKS or device is not None)
    if only and options.policy == "planner":
        raise OptionError(
            f"policy: there is no planner for the tensor task {options.task!r}; set policy to the folder of a "
            f'training ("sensorium train {options.task}"), an ONNX file, module:name, or "random"'
        )
    if only and training is None and os.path.isdir(options.policy) and options.policy not in POLICIES:
        raise OptionError(
            f"policy: {options.policy} holds no training by PPO, which the tensor task {options.task!r} needs"
        )
    return only or training is not None


def make_episodes(
    options: GenerateOptions, robot: str | Robot, settings: Mapping[str, object], changes: Mapping[str, object]
) -> TensorEpisodes:
    """Return the tensor task of a dataset.

    Args:
        options: options of the dataset.
        robot: the robot.
        settings: options of the task, which take precedence over those of the training.
        changes: further options, which take precedence over all others.
    """
    training = find_training(options.policy)
    values = {**({} if training is None else training.task_options), **settings}
    wanted = values.pop("rig_cameras", None)
    values = {**values, "n_envs": options.envs, "seed": options.seed, **changes, "robot": None, "device": "cpu"}
    use_sensors = values.pop("use_sensors", True)
    for name in (*_TASK_ONLY, "robot"):
        values.pop(name, None)
    body = choose_cameras(robot if isinstance(robot, Robot) else make(robot), wanted)
    task = tasks.make(options.task, robot=body, **values)
    assert isinstance(task, TensorTask)
    return TensorEpisodes(task, use_sensors)


class ActorPolicy(Policy):
    """The policy of a training by PPO, without exploration.

    It observes what the tensor task gives its actor, with the history of the training; the suite is only recorded.

    Args:
        episodes: the task.
        folder: folder of the training. Its best policy is used.

    Raises:
        DatasetError: the training has no policy yet, or the task has other observations or actions.
    """

    def __init__(self, episodes: TensorEpisodes, folder: Path) -> None:
        from sensorium.training.ppo_evaluation import load_policy

        super().__init__(cast("Task[Any]", episodes))
        self._tensor_task = episodes.task
        self._actor = load_policy(folder, episodes.task)

    def reset(self, envs: Envs = None) -> None:
        """Forget the episodes before, in every env."""
        self._actor.reset()

    def get_action(self, observation: dict[str, Any]) -> np.ndarray:
        """Return the mean actions, (B, n)."""
        with torch.inference_mode():
            action: np.ndarray = self._actor(self._tensor_task.as_tensordict()).numpy()
        return action
