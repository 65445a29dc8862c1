"""``PPOOptions``: options of a training by PPO on a tensor task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from sensorium import __version__, tasks
from sensorium._arguments import checked
from sensorium.errors import DatasetError, OptionError, did_you_mean
from sensorium.files import write_whole
from sensorium.json_files import load_json
from sensorium.options import Options
from sensorium.tasks.catalogue import TENSOR_TASKS
from sensorium.tasks.tensor import TensorTask, TensorTaskConfig
from sensorium.training.options import CONFIG, PPO_FORMAT, EntityOptions
from sensorium.training.robot_files import loaded_name, stored_name, whole_rig

_FIXED = ("n_envs", "seed", "device")


class PPOOptions(Options):
    """Options of a training by PPO.

    Steps are counted per env: B envs that step once make B steps.
    """

    task: str = "walk"
    """Name of a tensor task."""
    task_options: dict[str, Any] = {}
    """Options of the task except ``n_envs``, ``seed`` and ``device``."""
    entity: EntityOptions | None = None
    """A trainable entity that acts instead of the robot of the task. The actor observes its sensors, and what the task
    itself observes, such as a command; its privileged sensors are the critic's. Default: the robot and its rig."""
    device: str = "cpu"
    """Device of the physics and of the networks: "cpu", "cuda", "cuda:1"."""
    n_envs: int = Field(default=256, ge=1)
    """Number of envs, B."""
    steps: int = Field(default=20_000_000, ge=1)
    """Total number of steps."""
    horizon: int = Field(default=24, ge=1)
    """Steps of each env between updates."""
    epochs: int = Field(default=5, ge=1)
    """Passes over the steps in each update."""
    minibatches: int = Field(default=4, ge=1)
    """Parts into which the steps are divided in each pass; those of recurrent networks are groups of envs."""
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(256, 128, 64), min_length=1)
    """Widths of the hidden layers of the actor and of the critic, at least one."""
    network: Literal["mlp", "gru", "lstm"] = "mlp"
    """Kind of the networks; the recurrent ones have a memory of one layer before the hidden layers."""
    memory: int = Field(default=128, ge=1)
    """Width of the memory of recurrent networks."""
    teacher: str | None = None
    """Folder of a training by PPO for the same task. Its best policy is imitated, instead of learning from rewards. It
    may observe ground truth, and readings that the student does not observe. None: learn from rewards."""
    learning_rate: float = Field(default=1e-3, gt=0)
    """Initial step size; it is adapted so that the policy changes by ``desired_kl`` in an update."""
    desired_kl: float = Field(default=0.01, gt=0)
    """Kullback-Leibler divergence of the policy per update."""
    gamma: float = Field(default=0.98, gt=0, le=1)
    """Discount factor. At 50 steps per second, 0.98 looks one second ahead; it learned faster than 0.99 to walk."""
    lam: float = Field(default=0.9, ge=0, le=1)
    """Factor of the generalised advantage estimate."""
    clip: float = Field(default=0.2, gt=0)
    """Maximum relative change of an action's probability that is rewarded."""
    entropy: float = Field(default=0.005, ge=0)
    """Weight of the entropy of the actions."""
    exploration: float = Field(default=1.0, gt=0)
    """Initial standard deviation of the actions. With a teacher it stays as it is, and the default is 0.1."""
    episodes: int = Field(default=64, ge=1)
    """Episodes per evaluation; at most ``n_envs`` are run."""
    evaluate_every: int = Field(default=5_000_000, ge=1)
    """Steps between evaluations. There is always one at the end."""
    checkpoint_every: int = Field(default=5_000_000, ge=1)
    """Steps between checkpoints. All envs begin new episodes at an evaluation and at a checkpoint."""
    stagger: bool = False
    """Whether envs that begin together count their first episode from different steps, evenly spread, so that they do
    not end together. Otherwise what is observed drifts in the rhythm of the episodes, and the learning rate falls. The
    means of those first episodes in the log are too small."""
    seed: int = Field(default=0, ge=0)
    """Seed of everything random."""
    threads: int = Field(default=1, ge=1)
    """Threads of torch for each operation on the CPU. The critic learns beside the actor, on a thread of its own."""

    @field_validator("task_options")
    @classmethod
    def _load_rig(cls, value: dict[str, Any]) -> dict[str, Any]:
        return {**value, "rig": whole_rig(value["rig"])} if "rig" in value else value

    @model_validator(mode="after")
    def _minibatches_have_steps(self) -> Self:
        recurrent = self.network != "mlp"
        limit = self.n_envs if recurrent else self.n_envs * self.horizon
        if self.minibatches > limit:
            what = "n_envs, for a recurrent network" if recurrent else "n_envs x horizon"
            raise ValueError(f"minibatches must be <= {limit}, {what}; got {self.minibatches}")
        return self

    @property
    def robot(self) -> object:
        """Name of the robot, or a model file; None for the default of the task."""
        return self.task_options.get("robot") if self.entity is None else self.entity.robot

    def with_robot(self, robot: str) -> Self:
        """Return a copy with another robot."""
        if self.entity is not None:
            return self.model_copy(update={"entity": self.entity.model_copy(update={"robot": robot})})
        return self.model_copy(update={"task_options": {**self.task_options, "robot": robot}})

    def make_config(self) -> TensorTaskConfig:
        """Return the options of the task, without those that :meth:`make_task` sets.

        Raises:
            OptionError: the task is no tensor task, or an option of the task cannot be used.
        """
        if self.task not in TENSOR_TASKS:
            hint = did_you_mean(self.task, TENSOR_TASKS) or f"; there are {', '.join(TENSOR_TASKS)}"
            own = "; a task of your own must be imported first (--module FILE)"
            raise OptionError(f"task: PPO trains tensor tasks, got {self.task!r}{hint}{own}")
        for name in _FIXED:
            if name in self.task_options:
                raise OptionError(f"task_options: the training sets {name!r} itself; remove it")
        return TENSOR_TASKS[self.task].config_type(**self.task_options)

    @checked
    def make_task(
        self, n_envs: int | None = None, seed: int | None = None, device: str | None = None
    ) -> TensorTask[Any]:
        """Return the task.

        Args:
            n_envs, seed, device: values instead of those of the training.

        Raises:
            OptionError: see :meth:`make_config`.
        """
        self.make_config()
        made = tasks.make(
            self.task,
            n_envs=self.n_envs if n_envs is None else n_envs,
            seed=self.seed if seed is None else seed,
            device=self.device if device is None else device,
            entity=None if self.entity is None else self.entity.make(),
            **self.task_options,
        )
        assert isinstance(made, TensorTask)
        made.keep_final = False  # PPO does not use the last observations of episodes
        return made

    @checked
    def save(self, folder: str | Path) -> None:
        """Write ``config.json`` to the folder of a training.

        Raises:
            DatasetError: the file cannot be written.
        """
        config = {"format": PPO_FORMAT, "version": 1, "sensorium": __version__, **self.model_dump(mode="json")}
        if self.entity is not None:
            config["entity"]["sensors"] = self.entity.sensors.model_dump(mode="json", exclude_unset=True)
            config["entity"]["robot"] = stored_name(self.robot, Path(folder))
        elif self.robot is not None:
            config["task_options"]["robot"] = stored_name(self.robot, Path(folder))
        write_whole(Path(folder) / CONFIG, json.dumps(config, indent=2).encode() + b"\n")

    @classmethod
    @checked
    def load(cls, folder: str | Path) -> Self:
        """Return the options in ``config.json`` of the folder of a training.

        Raises:
            DatasetError: there is no such file, or it is damaged.
        """
        folder = Path(folder)
        try:
            config = load_json((folder / CONFIG).read_bytes())
            if config.pop("format") != PPO_FORMAT or config.pop("version") != 1:
                raise DatasetError(f"{folder / CONFIG} is not a training by PPO that this version can read")
            config.pop("sensorium")
            for owner in (config.get("task_options"), config.get("entity")):
                if owner and "robot" in owner:
                    owner["robot"] = loaded_name(owner["robot"], folder)
            return cls(**config)
        except (FileNotFoundError, NotADirectoryError):
            raise DatasetError(f"{folder} holds no training: {CONFIG} is missing") from None
        except OSError as error:
            raise DatasetError(f"cannot read {folder / CONFIG}: {error.strerror}") from None
        except KeyError as error:
            raise DatasetError(f"{folder / CONFIG} is damaged: it lacks {error}") from None
        except (ValueError, TypeError, AttributeError, ValidationError) as error:
            raise DatasetError(f"{folder / CONFIG} is damaged: {error}") from None


def is_ppo(folder: Path) -> bool:
    """Return whether a folder holds a training by PPO."""
    try:
        return bool(load_json((folder / CONFIG).read_bytes())["format"] == PPO_FORMAT)
    except (OSError, ValueError, KeyError, TypeError):
        return False
