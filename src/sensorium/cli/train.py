"""``sensorium train``: train an entity on a task."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from sensorium.cli.arguments import default, parse_options
from sensorium.cli.progress import NOTHING_KEPT, status_progress, stop_request

if TYPE_CHECKING:
    from sensorium.entities import ClusterOptions
    from sensorium.training import PPOOptions, Progress, TrainOptions

_RECIPE = "as in the task's recipe"


@dataclass
class Train:
    """Train a robot on a task.

    SAC trains an entity with sensors, a brain and a memory, on arrays, or with --device on tensors. PPO trains a
    policy on tensors. balance and reach train by either, lift and walk by PPO. Each has a recipe with default options.

    Ctrl-C saves a checkpoint and ends; continue with --resume.

    Examples:
        sensorium train walk --device cuda --envs 4096 --out runs/walk
        sensorium train balance --out runs/balance
        sensorium train reach --algorithm ppo --out runs/reach
        sensorium train balance --out runs/balance --resume --steps 200000
        sensorium train reach --envs 64 --brain learning_rate=0.0003 --out runs/reach
        sensorium train balance --algorithm sac --device cuda --envs 256 --out runs/balance
        sensorium train balance --memory clusters=16 balance=0.5 --out runs/balanced
        sensorium train my_task --module my_tasks.py --out runs/my_task
    """

    task: Annotated[str, tyro.conf.Positional]
    """Name of the task: balance, reach, lift, walk, or one of your own; see --module."""
    out: Path
    """Output folder: a new one, or with --resume the folder of a training."""
    algorithm: Annotated[
        Literal["sac", "ppo"] | None, default("sac for balance and reach on the CPU, otherwise ppo")
    ] = None
    """Learner: sac or ppo."""
    modules: Annotated[tuple[str, ...], default("none", aliases=("--module",))] = ()
    """Python files to import first, with tasks and robots of your own, or names of installed modules. The
    working folder is not searched."""
    resume: bool = False
    """Continue from the newest checkpoint with the stored options; --steps can be raised."""
    steps: Annotated[int | None, default(_RECIPE)] = None
    """Total number of env steps. A training by PPO ends with the update that reaches it."""
    envs: Annotated[int | None, default(_RECIPE)] = None
    """Number of envs that are simulated in parallel."""
    seed: Annotated[int | None, default(_RECIPE)] = None
    """Seed of all randomness."""
    device: Annotated[str | None, default("cpu; for SAC, a task on arrays")] = None
    """Device of a tensor task, its memory and its networks: cpu, cuda, cuda:1, ..."""
    rig: Annotated[Path | None, default(_RECIPE)] = None
    """YAML file of the robot's sensors."""
    option: Annotated[tuple[str, ...], default(_RECIPE)] = ()
    """Options of the task as name=value, e.g. max_steps=300, or rewards.torque=-1e-3 for one key of an option. Values
    are JSON or text."""
    brain: Annotated[tuple[str, ...], default(_RECIPE)] = ()
    """Options of the brain or of PPO as name=value, e.g. learning_rate=0.0003."""
    memory: Annotated[tuple[str, ...], default(_RECIPE)] = ()
    """Options of SAC's memory as name=value, e.g. capacity=500000. With others than capacity, e.g. clusters=16
    balance=0.5, batches are balanced over clusters of states."""
    gradient_steps: Annotated[int | None, default(_RECIPE)] = None
    """Number of gradient steps after each step of all envs."""
    evaluate_every: Annotated[int | None, default(_RECIPE)] = None
    """Number of env steps between evaluations."""
    episodes: Annotated[int | None, default(_RECIPE)] = None
    """Number of episodes of an evaluation."""
    checkpoint_every: Annotated[int | None, default(_RECIPE)] = None
    """Number of env steps between checkpoints."""
    stop_at: Annotated[float | None, default(_RECIPE)] = None
    """Fraction of the maximum return at which training ends early, 0 to 1."""
    tensorboard: bool = True
    """Write logs for TensorBoard: tensorboard --logdir OUT."""
    progress_every: float = 10.0
    """Seconds between lines of progress if stderr is not a terminal; a terminal shows a bar."""

    def run(self) -> int:
        """Train with a progress bar, or lines of progress without a terminal."""
        from sensorium import training
        from sensorium.errors import OptionError
        from sensorium.training.progress_lines import score
        from sensorium.user_modules import import_modules

        if not self.progress_every > 0:
            raise OptionError(f"--progress-every must be > 0, got {self.progress_every}")
        import_modules(self.modules)
        how: dict[str, Any] = {"resume": self.resume, "tensorboard": self.tensorboard}
        if self._learner() == "ppo":
            options: PPOOptions | TrainOptions = self._ppo_options()
        else:
            options = self._stored_options() if self.resume else self._new_options()
        with stop_request() as received, _shown_progress(options.steps, self.progress_every) as show:
            how |= {"progress": show, "stop": lambda: bool(received)}
            if isinstance(options, training.PPOOptions):
                trained = training.train_ppo(options, self.out, **how)
            else:
                trained = training.train(options, self.out, **how)
        best = "" if trained.best is None else f"; best evaluation: {score(trained.best)}"
        print(f"{trained.folder}: {trained.steps:,} steps, {trained.seconds:,.0f} s in this run{best}")
        if trained.diverged:
            print(f"the physics diverged in {trained.diverged:,} episodes, which ended there")
        own = "".join(f" --module {each}" for each in self.modules)
        if not trained.finished:
            saved = " and saved" if trained.steps else ""
            print(f"stopped{saved}. To continue: sensorium train {self.task} --out {self.out} --resume{own}")
            return 143 if received[:1] == [signal.SIGTERM] else 130
        if not trained.new_steps:
            print(
                f"nothing to train: {self.out} has {trained.steps:,} steps, and --steps is {options.steps:,}. "
                "To train longer: a larger --steps with --resume"
            )
        print(f"To evaluate it: sensorium evaluate {self.out}{own}")
        return 0

    @property
    def interrupted(self) -> str:
        """What a training keeps that is interrupted twice, or before it begins."""
        if any((self.out / "checkpoints").glob("[0-9]*")):
            return f"the checkpoints in {self.out} are kept; continue with --resume"
        if (self.out / "config.json").is_file():  # CONFIG of training/options.py, which imports torch
            return f"{self.out} has no checkpoint yet; begin again with --resume"
        return NOTHING_KEPT

    def _learner(self) -> str:
        """Return "sac" or "ppo": as given, as in the folder that is resumed, or the default of the task."""
        from sensorium.errors import DatasetError, OptionError
        from sensorium.tasks.catalogue import TENSOR_TASKS
        from sensorium.training import RECIPES
        from sensorium.training.options import CONFIG
        from sensorium.training.ppo_options import is_ppo

        if self.resume:
            if not (self.out / CONFIG).is_file():
                raise DatasetError(
                    f"{self.out} holds no training: {CONFIG} is missing; to begin one, run it again without --resume"
                )
            stored = "ppo" if is_ppo(self.out) else "sac"
            if self.algorithm not in (None, stored):
                raise OptionError(f"--algorithm: {self.out} is a training by {stored.upper()}; remove --algorithm")
            return stored
        on_gpu = self.device not in (None, "cpu")
        default_learner = "ppo" if self.task in TENSOR_TASKS and (on_gpu or self.task not in RECIPES) else "sac"
        return self.algorithm or default_learner

    def _given(self) -> dict[str, Any]:
        """Return the training options that were given on the command line."""
        given = {
            "steps": self.steps,
            "n_envs": self.envs,
            "seed": self.seed,
            "gradient_steps": self.gradient_steps,
            "evaluate_every": self.evaluate_every,
            "episodes": self.episodes,
            "checkpoint_every": self.checkpoint_every,
            "stop_at": self.stop_at,
        }
        return {name: value for name, value in given.items() if value is not None}

    def _ppo_options(self) -> PPOOptions:
        """Return the options of a training by PPO: those on the command line, or with --resume the stored ones."""
        from sensorium.errors import OptionError
        from sensorium.robots import SensorRig
        from sensorium.training import PPOOptions, ppo_recipe

        given = self._given()
        if self.device is not None:
            given["device"] = self.device
        for name in ("gradient_steps", "stop_at", "memory"):
            if getattr(self, name) not in (None, ()):
                raise OptionError(f"--{name.replace('_', '-')} is an option of SAC, and this is a training by PPO")
        if self.resume:
            stored = PPOOptions.load(self.out)
            if stored.task != self.task:
                raise OptionError(f"{self.out} is a training of the task {stored.task!r}, not {self.task!r}")
            if self.rig or self.option or self.brain:
                raise OptionError("--rig, --option and --brain cannot be changed with --resume; remove them")
            values = {name: getattr(stored, name) for name in PPOOptions.model_fields}
            return PPOOptions(**{**values, **given})
        given["task_options"] = parse_options("--option", self.option)
        if self.rig is not None:
            given["task_options"]["rig"] = SensorRig.load(self.rig).model_dump(mode="json")
        return ppo_recipe(self.task, **given, **parse_options("--brain", self.brain))

    def _new_options(self) -> TrainOptions:
        from sensorium.errors import NameNotFoundError, OptionError
        from sensorium.robots import SensorRig
        from sensorium.tasks import catalogue
        from sensorium.training import RECIPES, recipe

        if self.task not in RECIPES:
            if catalogue.is_tensor_task(self.task, ()):
                raise OptionError(
                    f"--algorithm sac: there is no recipe to train {self.task!r} by SAC; remove --algorithm to train "
                    "it by PPO, or train it from Python with sn.training.TrainOptions and device"
                )
            try:
                catalogue.find(self.task)  # raises a better error if the task does not exist at all
            except NameNotFoundError as error:
                text = f"{error}; a task of your own must be imported first (--module FILE)"
                raise NameNotFoundError(text) from None
            if self.device not in (None, "cpu"):
                raise OptionError(
                    f"--device {self.device}: the task {self.task!r} runs on the CPU only, and there is no recipe to "
                    f"train it; tensor tasks, which run on a GPU, are {', '.join(catalogue.TENSOR_TASKS)}"
                )
        base = recipe(self.task)
        changes = self._given()
        if self.device is not None:
            changes["device"] = self.device
        if self.rig is not None:
            changes["entity"] = base.entity.model_copy(update={"sensors": SensorRig.load(self.rig)})
        if self.memory:
            changes["memory"] = self._memory(base.memory)
        changes["task_options"] = parse_options("--option", self.option, base.task_options)
        changes["brain_options"] = parse_options("--brain", self.brain, base.brain_options)
        return recipe(self.task, **changes)

    def _memory(self, default: int | ClusterOptions) -> int | ClusterOptions:
        """Return the option "memory": a capacity, or options of clusters. Defaults are those of the recipe."""
        from sensorium.entities import ClusterOptions

        base = default.model_dump() if isinstance(default, ClusterOptions) else {"capacity": default}
        values = parse_options("--memory", self.memory, base)
        return values["capacity"] if values.keys() == {"capacity"} else ClusterOptions(**values)

    def _stored_options(self) -> TrainOptions:
        from sensorium.errors import OptionError
        from sensorium.training import TrainOptions

        if self.rig or self.option or self.brain or self.memory:
            raise OptionError("--rig, --option, --brain and --memory cannot be changed with --resume; remove them")
        stored = TrainOptions.load(self.out)
        if stored.task != self.task:
            raise OptionError(f"{self.out} is a training of the task {stored.task!r}, not {self.task!r}")
        values = {name: getattr(stored, name) for name in TrainOptions.model_fields}
        return TrainOptions(**{**values, **self._given()})


@contextmanager
def _shown_progress(total: int, every: float) -> Iterator[Callable[[Progress], None]]:
    """Show a progress bar on a terminal, and lines every few seconds elsewhere, on stderr.

    Args:
        total: total number of steps.
        every: seconds between lines.

    Yields:
        A function that is called with the progress of the training.
    """
    from rich.console import Console

    from sensorium.training.progress_lines import progress_lines, status

    if Console(stderr=True).is_terminal:
        with status_progress("steps", total) as show:
            yield lambda now: show(now.steps, status(now))
    else:
        with progress_lines(every) as show_line:
            yield show_line
