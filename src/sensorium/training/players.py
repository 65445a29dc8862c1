"""Players: the policy of a training at work in its task, on the CPU and without exploration."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from sensorium.entities import TrainableEntity
from sensorium.robots import Robot
from sensorium.suites.observation import PRIVILEGED
from sensorium.tasks import Task
from sensorium.tasks.rig_cameras import find_cameras
from sensorium.tasks.tensor import TensorTask
from sensorium.tasks.tensor.observations import Tensors, select_readings
from sensorium.training.evaluation import SEED, load_brain
from sensorium.training.options import TrainOptions
from sensorium.training.play_plots import MAX_PLOTS, ReadingLabel, sensor_label
from sensorium.training.ppo_evaluation import load_policy
from sensorium.training.ppo_options import PPOOptions, is_ppo

if TYPE_CHECKING:
    from rsl_rl.models import MLPModel


class Player(Protocol):
    """A policy at work in a task, in whose envs episodes begin anew when they end.

    Attributes:
        labels: labels of the first readings that have a ground truth. Images are excluded.
    """

    labels: list[ReadingLabel]

    @property
    def task(self) -> Task[Any] | TensorTask[Any]:
        """The task."""

    def step(self) -> None:
        """Make a step with the actions of the policy."""

    def readings(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return the measured and the true value (B, ...) of the reading of each label."""

    def images(self) -> list[np.ndarray]:
        """Return the images that the policy observes in env 0: (H, W, 3) uint8, or depths (H, W) in m."""


@contextmanager
def open_player(
    folder: str | Path,
    which: str = "best",
    seed: int | None = None,
    n_envs: int = 1,
    task_options: Mapping[str, object] = MappingProxyType({}),
) -> Iterator[Player]:
    """Load the policy of a training and begin its episodes, for the duration of a block.

    Args:
        folder: folder of the training.
        which: "best" or "last".
        seed: seed of the episodes. Default: one that the training did not use.
        n_envs: number of envs, B.
        task_options: options of the task that replace those of the training.

    Raises:
        DatasetError: the folder holds no training, or the training has no such policy yet.
    """
    folder = Path(folder)
    options: PPOOptions | TrainOptions = PPOOptions.load(folder) if is_ppo(folder) else TrainOptions.load(folder)
    options = options.model_copy(update={"task_options": {**options.task_options, **task_options}})
    seed = options.seed + 2 * SEED if seed is None else seed
    task: Task[Any] | TensorTask[Any]
    if isinstance(options, PPOOptions):
        with closing(options.make_task(n_envs, seed, "cpu")) as task:
            yield PPOPlayer(task, load_policy(folder, task, which))
        return
    brain, entity = load_brain(folder, which, "cpu"), options.entity.make()
    if options.device is None:
        task = options.make_task(entity, n_envs, seed, autoreset=True)
    else:
        task = options.make_tensor_task(entity, n_envs, seed, "cpu")
    entity.brain = brain
    with closing(task):
        yield SACPlayer(task, entity)


class PPOPlayer:
    """A policy of PPO in a tensor task. Its readings are those that it observes, also a command of the task.

    Args:
        task: the task.
        policy: the actor.
    """

    def __init__(self, task: TensorTask[Any], policy: MLPModel) -> None:
        self.task, self._policy = task, policy
        task.difficulty.fill_(1.0)
        self._observation, _ = task.reset()
        policy.reset()
        parts = _parts(self._observation)
        keys = [(uuid, part) for uuid, part in parts if not uuid.startswith(PRIVILEGED)]
        self._keys = [(uuid, part) for uuid, part in keys if (PRIVILEGED + uuid, part) in parts][:MAX_PLOTS]
        pairs = zip(self._keys, self.readings(), strict=True)
        self.labels = [self._label(*key, tuple(measured.shape[1:])) for key, (measured, _) in pairs]

    def step(self) -> None:
        """Make a step with the mean actions of the policy."""
        with torch.inference_mode():
            action = self._policy(self.task.as_tensordict())
        self._observation, _, terminated, truncated, _ = self.task.step(action)
        self._policy.reset(terminated | truncated)

    def readings(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return the measured and the true value (B, ...) of the reading of each label."""
        parts, robot = _parts(self._observation), self.task.robot
        pairs = [((uuid, part), (PRIVILEGED + uuid, part)) for uuid, part in self._keys]
        return [(_newest(robot, own[0], parts[own]), _newest(robot, own[0], parts[true])) for own, true in pairs]

    def images(self) -> list[np.ndarray]:
        """Return the images that the policy observes in env 0, (H, W, 3) uint8."""
        return [image[0].movedim(0, -1).numpy(force=True) for image in self.task.images().values()]

    def _label(self, uuid: str, part: str, shape: tuple[int, ...]) -> ReadingLabel:
        if uuid in self.task.robot.rig:
            return sensor_label(self.task.robot, uuid, part, shape)
        names = list(self.task.describe_input(uuid).names)
        return ReadingLabel(uuid, names or [str(number) for number in range(math.prod(shape))])


class SACPlayer:
    """An entity with a brain, in a task on arrays or on tensors. Its readings are those of its own sensors.

    Args:
        task: the task, with the entity in it.
        entity: the entity.
    """

    def __init__(self, task: Task[Any] | TensorTask[Any], entity: TrainableEntity) -> None:
        self.task, self._entity = task, entity
        if isinstance(task, TensorTask):
            task.difficulty.fill_(1.0)
            task.keep_final = False
        self._observation: Any = task.reset()[0]
        cameras = find_cameras(task.robot)
        self._cameras = [name for name in entity.sensors[0] if name in cameras]
        own = select_readings(task.robot, [name for name in entity.sensors[0] if name not in cameras])
        self._selected = [each for each in own if not _is_image(_newest(task.robot, each[0], each[2](False)))][
            :MAX_PLOTS
        ]
        pairs = zip(self._selected, self.readings(), strict=True)
        self.labels = [
            sensor_label(task.robot, uuid, part, tuple(measured.shape[1:])) for (uuid, part, _), (measured, _) in pairs
        ]

    def step(self) -> None:
        """Make a step with the actions of the brain, without exploration."""
        action: Any = self._entity.decide_batch(self._observation, deterministic=True)
        self._observation = self.task.step(action)[0]

    def readings(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return the measured and the true value (B, ...) of the reading of each label."""
        robot = self.task.robot
        return [
            (_newest(robot, uuid, read(False)), _newest(robot, uuid, read(True))) for uuid, _, read in self._selected
        ]

    def images(self) -> list[np.ndarray]:
        """Return the images of the entity's cameras in env 0: colours (H, W, 3) uint8, else depths (H, W) in m."""
        found = []
        for uuid in self._cameras:
            reading = self._observation[uuid]
            for part, axes in (("rgb", 3), ("depth", 2)):
                if part in reading:
                    image = np.asarray(reading[part])
                    while image.ndim > axes:  # the first env, and the newest image of a history
                        image = image[0]
                    found.append(image)
                    break
        return found


def _newest(robot: Robot, uuid: str, values: torch.Tensor) -> torch.Tensor:
    """Return the newest of the values (B, N, ...) of a sensor that reads its last N samples; of others, all values."""
    return values[:, 0] if uuid in robot.rig and robot.rig[uuid].options.history_length else values


def _is_image(values: torch.Tensor) -> bool:
    """Return whether values (B, ...) have rows and columns, as those of a depth camera or of a tactile array."""
    return sum(length > 1 for length in values.shape[1:]) > 1


def _parts(observation: Tensors) -> dict[tuple[str, str], torch.Tensor]:
    """Return (uuid, part) -> tensor of the parts of an observation."""
    found: dict[tuple[str, str], torch.Tensor] = {}
    for uuid, value in observation.items():
        found |= (
            {(uuid, part): each for part, each in value.items()} if isinstance(value, dict) else {(uuid, ""): value}
        )
    return found
