"""Options of a training: its task, its entity and how it learns."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from gymnasium import spaces
from pydantic import Field, ValidationError, field_validator

from sensorium import __version__, entities, tasks
from sensorium._arguments import checked
from sensorium.entities import Brain, ClusterOptions, LearningBrain, TrainableEntity
from sensorium.entities.brain import check_brain, with_device
from sensorium.entities.device import usable_device
from sensorium.errors import DatasetError, NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.files import write_whole
from sensorium.json_files import load_json
from sensorium.options import Options
from sensorium.robots import SensorRig
from sensorium.tasks import Task
from sensorium.tasks.tensor import TensorTask
from sensorium.training.robot_files import loaded_name, stored_name

CONFIG = "config.json"
_FORMAT, PPO_FORMAT = "sensorium-training", "sensorium-training-ppo"
"""Formats in the options of a training by SAC, and of one by PPO."""
_LEARNING_METHODS = ("decide_batch", "observe", "learn", "save", "restore")


class EntityOptions(Options):
    """Options of the entity that is trained."""

    robot: str
    """Name of the robot, or a model file."""
    robot_options: dict[str, Any] = {}
    """Further options of the robot, for example ``{"controllers": {"arm": "joint_velocity"}}``."""
    sensors: SensorRig
    """Its sensors."""
    privileged: SensorRig = SensorRig(sensors=())
    """Sensors whose ground truth only the critics receive."""
    landmarks: tuple[str, ...] = ()
    """Names of entities of the task that its sensors refer to."""

    def make(self, brain: Callable[..., Brain] | None = None, **brain_options: Any) -> TrainableEntity:
        """Return the entity, with or without a brain."""
        return TrainableEntity(
            self.robot,
            self.sensors,
            brain,
            privileged=self.privileged,
            robot_options=self.robot_options,
            landmarks=self.landmarks,
            brain_options=brain_options,
        )


class TrainOptions(Options):
    """Options of a training.

    Steps are counted per env, one transition each: B envs that step once make B steps.
    """

    task: str
    """Name of the task."""
    task_options: dict[str, Any] = {}
    """Options of the task except ``n_envs``, ``seed``, ``autoreset`` and ``keep_history``."""
    entity: EntityOptions
    """The entity that is trained."""
    brain: str = "SACMLPBrain"
    """Name of a brain of ``sensorium.entities`` that learns, or ``package.module:Class`` of an imported module. It is
    made from ``(observation space, action space, seed=..., **brain_options)``."""
    brain_options: dict[str, Any] = {}
    """Further options of the brain."""
    n_envs: int = Field(default=16, ge=1)
    """Number of envs, B."""
    steps: int = Field(default=100_000, ge=1)
    """Total number of steps."""
    warmup: int = Field(default=1_000, ge=1)
    """Steps of random actions before learning begins."""
    gradient_steps: int = Field(default=8, ge=1)
    """Gradient steps after each step of all envs."""
    memory: int | ClusterOptions = 200_000
    """Capacity of the memory in transitions, or the options of a ``VectorizedClusterBuffer``."""
    evaluate_every: int = Field(default=10_000, ge=1)
    """Steps between evaluations. There is always one at the end."""
    episodes: int = Field(default=10, ge=1)
    """Episodes per evaluation, different ones each time."""
    checkpoint_every: int = Field(default=10_000, ge=1)
    """Steps between checkpoints. All envs begin new episodes at a checkpoint."""
    stop_at: float | None = Field(default=None, gt=0, le=1)
    """Fraction of the maximum return at which the training stops early, if an evaluation reaches it. Default: never."""
    seed: int = Field(default=0, ge=0)
    """Seed of everything random."""
    device: str | None = None
    """Device of a tensor task, its memory and its brain: "cpu", "cuda", "cuda:1", ... Default: a task on arrays."""
    threads: int = Field(default=1, ge=1)
    """Threads of torch. Networks of this size are fastest with one."""

    @field_validator("memory", mode="before")
    @classmethod
    def _check_memory(cls, value: object) -> object:
        if isinstance(value, Mapping):
            return ClusterOptions(**{str(name): each for name, each in value.items()})
        if isinstance(value, ClusterOptions):
            return value
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise ValueError("must be an integer >= 1 or ClusterOptions")
        return int(value)

    @checked
    def make_brain(
        self, observation_space: spaces.Dict, action_space: spaces.Box, device: str | None = None
    ) -> LearningBrain:
        """Return a new brain.

        Args:
            observation_space, action_space: spaces of one env.
            device: its device. Default: that of the training.

        Raises:
            NameNotFoundError: there is no such brain.
            OptionError: the brain does not have an option.
        """
        kind = brain_type(self.brain)
        if "seed" in self.brain_options:
            raise OptionError("brain_options: the training sets 'seed' itself; remove it")
        check_brain(kind, {"seed": self.seed, **self.brain_options})
        options = self.brain_options
        if device is None:
            device = self.device
        else:  # instead of that of the options
            options = {name: value for name, value in options.items() if name != "device"}
        if device is not None:
            options = with_device(kind, options, usable_device(device))
        return kind(observation_space, action_space, seed=self.seed, **options)

    @checked
    def make_task(self, entity: TrainableEntity, n_envs: int, seed: int, autoreset: bool = False) -> Task[Any]:
        """Return the task with this entity in it.

        Raises:
            OptionError: ``task_options`` has an option that the training sets itself.
        """
        fixed: dict[str, Any] = {"n_envs": n_envs, "seed": seed, "autoreset": autoreset, "keep_history": False}
        self._check_task_options((*fixed, "device"))
        return tasks.make(self.task, entity=entity, **self.task_options, **fixed)

    @checked
    def make_tensor_task(
        self, entity: TrainableEntity, n_envs: int, seed: int, device: str | None = None
    ) -> TensorTask[Any]:
        """Return the tensor task with this entity in it.

        Args:
            entity: the entity.
            n_envs: number of envs, B.
            seed: seed of the episodes.
            device: device of the task. Default: that of the training.

        Raises:
            OptionError: ``task_options`` has an option that the training sets itself, or the task runs on arrays only.
        """
        device = (self.device or "cpu") if device is None else device
        fixed: dict[str, Any] = {"n_envs": n_envs, "seed": seed, "device": device}
        self._check_task_options(fixed)
        made = tasks.make(self.task, entity=entity, **self.task_options, **fixed)
        if not isinstance(made, TensorTask):
            raise OptionError(f"device: the task {self.task!r} runs on arrays only; remove device")
        return made

    def _check_task_options(self, fixed: Iterable[str]) -> None:
        for name in fixed:
            if name in self.task_options:
                raise OptionError(f"task_options: the training sets {name!r} itself; remove it")

    @property
    def robot(self) -> str:
        """Name of the robot, or a model file."""
        return self.entity.robot

    def with_robot(self, robot: str) -> Self:
        """Return a copy with another robot."""
        return self.model_copy(update={"entity": self.entity.model_copy(update={"robot": robot})})

    @checked
    def save(self, folder: str | Path) -> None:
        """Write ``config.json`` to the folder of a training.

        Raises:
            DatasetError: the file cannot be written.
        """
        config = {"format": _FORMAT, "version": 1, "sensorium": __version__, **self.model_dump(mode="json")}
        config["entity"]["sensors"] = self.entity.sensors.model_dump(mode="json", exclude_unset=True)
        config["entity"]["robot"] = stored_name(self.robot, Path(folder))
        write_whole(Path(folder) / CONFIG, json.dumps(config, indent=2).encode() + b"\n")

    @classmethod
    @checked
    def load(cls, folder: str | Path) -> Self:
        """Return the options in ``config.json`` of the folder of a training.

        Raises:
            DatasetError: there is no such file, or it is damaged.
        """
        folder = Path(folder)
        path = folder / CONFIG
        if not path.is_file():
            siblings = [each.parent.name for each in folder.parent.glob(f"*/{CONFIG}")]
            hint = did_you_mean(folder.name, siblings)
            raise DatasetError(f"{folder} holds no training: {CONFIG} is missing{hint}")
        try:
            config = load_json(path.read_bytes())
            if config["format"] == PPO_FORMAT:
                raise DatasetError(
                    f"{folder} holds a training by PPO: use evaluate_ppo() or load_policy(), or PPOBrain as the brain "
                    "of an entity"
                )
            if config.pop("format") != _FORMAT or config.pop("version") != 1:
                raise DatasetError(f"{path} is not a training that this version can read")
            config.pop("sensorium")
            config["entity"]["robot"] = loaded_name(config["entity"]["robot"], folder)
            return cls(**config)
        except KeyError as error:
            raise DatasetError(f"{path} is damaged: it lacks {error}") from None
        except (ValueError, TypeError, AttributeError, ValidationError) as error:
            raise DatasetError(f"{path} is damaged: {error}") from None


def brain_type(name: str) -> Callable[..., LearningBrain]:
    """Return the class of a learning brain: its name in ``sensorium.entities``, or ``package.module:Class``.

    Raises:
        NameNotFoundError: there is no such class, its module is not imported, or it does not learn.
    """
    found: object
    if ":" in name:
        module, _, attribute = name.partition(":")
        if module not in sys.modules:  # a file must not choose what code is imported
            raise NameNotFoundError(f"there is no brain {name!r}: import the module {module!r} first")
        found = getattr(sys.modules[module], attribute, None)
    else:
        known = [each for each in entities.__all__ if each.endswith("Brain") and _learns(getattr(entities, each))]
        if name not in known:
            hint = did_you_mean(name, known) or f"; there are {shorten(known)}"
            raise NameNotFoundError(f"there is no brain {name!r}{hint}; for your own, write package.module:Class")
        found = getattr(entities, name)
    if not isinstance(found, type) or not _learns(found):
        raise NameNotFoundError(
            f"{name!r} is not a class of a brain that learns: it needs the methods {', '.join(_LEARNING_METHODS)}"
        )
    return found


def _learns(value: object) -> bool:
    return (
        isinstance(value, type)
        and not getattr(value, "_is_protocol", False)
        and all(callable(getattr(value, method, None)) for method in _LEARNING_METHODS)
    )
