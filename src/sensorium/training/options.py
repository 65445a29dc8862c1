"""What a training is: everything that rebuilds its task and its entity, and how it learns."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError

from sensorium import __version__, entities, tasks
from sensorium.entities import LearningBrain, TrainableEntity
from sensorium.entities.brain import check_brain
from sensorium.errors import DatasetError, NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.files import write_whole
from sensorium.options import Options
from sensorium.robots import SensorRig
from sensorium.tasks import Task

CONFIG = "config.json"
_FORMAT = "sensorium-training"


class EntityOptions(Options):
    """Who is trained: a robot with its senses."""

    robot: str
    """Name of the robot, or a model file."""
    robot_options: dict[str, Any] = {}
    """Further options of the robot, as ``{"controllers": {"arm": "joint_velocity"}}``."""
    sensors: SensorRig
    """What it senses with."""
    landmarks: tuple[str, ...] = ()
    """Things of the task that its sensors look for by name."""

    def make(self, brain: Callable[..., Any] | None = None, **brain_options: Any) -> TrainableEntity:
        """The entity, with a brain or without."""
        return TrainableEntity(
            self.robot,
            self.sensors,
            brain,
            robot_options=self.robot_options,
            landmarks=self.landmarks,
            brain_options=brain_options,
        )


class TrainOptions(Options):
    """A training. Steps are those of single envs, each one transition: B envs that step once make B of them."""

    task: str
    """Name of the task."""
    task_options: dict[str, Any] = {}
    """Options of the task other than ``n_envs``, ``seed``, ``autoreset`` and what is kept of its history."""
    entity: EntityOptions
    """Who is trained."""
    brain: str = "SACMLPBrain"
    """What learns: a brain of ``sensorium.entities``, or ``package.module:Class`` of a module that the program has
    imported. It is made from (observation space, action space, seed=..., **brain_options)."""
    brain_options: dict[str, Any] = {}
    """Its further options."""
    n_envs: int = Field(default=16, ge=1)
    """Envs that run side by side."""
    steps: int = Field(default=100_000, ge=1)
    """Steps in all."""
    warmup: int = Field(default=1_000, ge=1)
    """Steps of random actions before learning begins."""
    gradient_steps: int = Field(default=8, ge=1)
    """Steps of learning after each step of all envs."""
    memory: int = Field(default=200_000, ge=1)
    """Transitions to remember."""
    evaluate_every: int = Field(default=10_000, ge=1)
    """Steps between evaluations; there is one at the end in any case."""
    episodes: int = Field(default=10, ge=1)
    """Episodes of an evaluation, new ones each time."""
    checkpoint_every: int = Field(default=10_000, ge=1)
    """Steps between checkpoints, at which all envs begin new episodes."""
    stop_at: float | None = Field(default=None, gt=0, le=1)
    """Fraction of the greatest return at which to end early, when an evaluation reaches it. Default: never."""
    seed: int = Field(default=0, ge=0)
    """Everything random comes from it."""
    threads: int = Field(default=1, ge=1)
    """Threads of torch. Networks of this size are faster with one."""

    def make_brain(self, observation_space: Any, action_space: Any) -> LearningBrain:
        """A new brain."""
        kind = brain_type(self.brain)
        if "seed" in self.brain_options:
            raise OptionError("brain_options: 'seed' is set by the training itself; leave it out")
        check_brain(kind, {"seed": self.seed, **self.brain_options})
        return kind(observation_space, action_space, seed=self.seed, **self.brain_options)

    def make_task(self, entity: TrainableEntity, n_envs: int, seed: int, autoreset: bool = False) -> Task[Any]:
        """The task, for this entity to act in."""
        fixed: dict[str, Any] = {"n_envs": n_envs, "seed": seed, "autoreset": autoreset, "keep_history": False}
        for name in fixed:
            if name in self.task_options:
                raise OptionError(f"task_options: {name!r} is set by the training itself; leave it out")
        return tasks.make(self.task, entity=entity, **self.task_options, **fixed)

    def save(self, folder: Path) -> None:
        """Write ``config.json``."""
        about = {"format": _FORMAT, "version": 1, "sensorium": __version__, **self.model_dump(mode="json")}
        about["entity"]["sensors"] = self.entity.sensors.model_dump(mode="json", exclude_unset=True)
        write_whole(folder / CONFIG, json.dumps(about, indent=2).encode() + b"\n")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """What a folder's ``config.json`` says.

        Raises:
            DatasetError: there is none, or it is damaged.
        """
        path = folder / CONFIG
        if not path.is_file():
            beside = [each.parent.name for each in folder.parent.glob(f"*/{CONFIG}")] if folder.parent.is_dir() else []
            hint = did_you_mean(folder.name, beside)
            raise DatasetError(f"{folder} holds no training: there is no {CONFIG}{hint}")
        try:
            about = json.loads(path.read_bytes())
            if about.pop("format") != _FORMAT or about.pop("version") != 1:
                raise DatasetError(f"{path} is not of a training that this version can read")
            about.pop("sensorium")
            return cls(**about)
        except (ValueError, KeyError, TypeError, AttributeError, ValidationError) as error:
            raise DatasetError(f"{path} is damaged: {error}") from None


def brain_type(name: str) -> Callable[..., LearningBrain]:
    """The class of a brain by its name in ``sensorium.entities``, or by ``package.module:Class``."""
    if ":" in name:
        module, _, attribute = name.partition(":")
        if module not in sys.modules:  # a file must not choose what code runs
            raise NameNotFoundError(f"there is no brain {name!r}: import the module {module!r} first")
        found: Any = getattr(sys.modules[module], attribute, None)
    else:
        known = [each for each in entities.__all__ if each.endswith("Brain") and _learns(getattr(entities, each))]
        if name not in known:
            hint = did_you_mean(name, known) or f"; there are {shorten(known)}"
            raise NameNotFoundError(f"there is no brain {name!r}{hint}; or give package.module:Class of your own")
        found = getattr(entities, name)
    if not _learns(found):
        raise NameNotFoundError(f"{name!r} is no brain that learns: it needs {', '.join(_LEARNING)}")
    return found  # type: ignore[no-any-return]


_LEARNING = ("decide_batch", "observe", "learn", "save", "restore")


def _learns(value: Any) -> bool:
    return (
        isinstance(value, type)
        and not getattr(value, "_is_protocol", False)
        and all(callable(getattr(value, method, None)) for method in _LEARNING)
    )
