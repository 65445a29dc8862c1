"""``sensorium train``: let a robot learn a task."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from sensorium.cli.generate import named_value
from sensorium.cli.progress import telling_progress


@dataclass
class Train:
    """Train an entity: a robot with senses, a brain and a memory. Ctrl-C makes a checkpoint and ends.

    Example: sensorium train balance --out runs/balance
    """

    task: Annotated[str, tyro.conf.Positional]
    """Name of the task: balance, reach."""
    out: Path
    """Folder to keep it in: a new one, or with --resume that of a training."""
    resume: bool = False
    """Go on from the newest checkpoint, with the options that the training has; --steps may be raised."""
    steps: int | None = None
    """Steps in all, of single envs. Default: as the task's recipe has it, as all that follow."""
    envs: int | None = None
    """Envs that run side by side."""
    seed: int | None = None
    """Everything random comes from it."""
    rig: Path | None = None
    """YAML file of the robot's sensors, in place of the recipe's."""
    option: tuple[str, ...] = ()
    """Options of the task, as max_steps=300; values are JSON, or text."""
    brain: tuple[str, ...] = ()
    """Options of the brain, as learning_rate=0.0003."""
    gradient_steps: int | None = None
    """Steps of learning after each step of all envs."""
    evaluate_every: int | None = None
    """Steps between evaluations."""
    episodes: int | None = None
    """Episodes of an evaluation."""
    checkpoint_every: int | None = None
    """Steps between checkpoints."""
    stop_at: float | None = None
    """Fraction of the greatest return at which to end early."""
    tensorboard: bool = True
    """Log for TensorBoard: tensorboard --logdir OUT."""

    def run(self) -> int:
        """Train, with a progress bar."""
        from sensorium import training

        options = self._resumed() if self.resume else self._options()
        with _asked_to_end() as stop, telling_progress("steps", options.steps) as tell:
            trained = training.train(
                options,
                self.out,
                resume=self.resume,
                tensorboard=self.tensorboard,
                progress=lambda now: tell(now.steps, _beside(now)),
                stop=stop,
            )
        best = "" if trained.best is None else f"; best evaluation: {_said(trained.best)}"
        print(f"{trained.folder}: {trained.steps:,} steps, {trained.seconds:,.0f} s now{best}")
        if not trained.finished:
            saved = ", and saved" if trained.steps else ""
            print(f"stopped{saved}. To go on: sensorium train {self.task} --out {self.out} --resume")
            return 130
        print(f"To see how good it is: sensorium evaluate {self.out}")
        return 0

    def _given(self) -> dict[str, Any]:
        """What was said about the training itself."""
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

    def _options(self) -> Any:
        from sensorium.robots import SensorRig
        from sensorium.tasks import catalogue
        from sensorium.training import RECIPES, recipe

        if self.task not in RECIPES:
            catalogue.find(self.task)  # there may be no such task at all
        made = recipe(self.task)
        changes = self._given()
        if self.rig is not None:
            changes["entity"] = made.entity.model_copy(update={"sensors": SensorRig.load(self.rig)})
        changes["task_options"] = {**made.task_options, **dict(map(named_value, self.option))}
        changes["brain_options"] = {**made.brain_options, **dict(map(named_value, self.brain))}
        return recipe(self.task, **changes)

    def _resumed(self) -> Any:
        from sensorium.errors import OptionError
        from sensorium.training import TrainOptions

        if self.rig or self.option or self.brain:
            raise OptionError("--resume goes on with the sensors, the task and the brain that the training has")
        old = TrainOptions.load(self.out)
        if old.task != self.task:
            raise OptionError(f"{self.out} holds a training of {old.task!r}, not of {self.task!r}")
        return TrainOptions(**{**{name: getattr(old, name) for name in TrainOptions.model_fields}, **self._given()})


def _beside(progress: Any) -> str:
    """What is said beside the bar."""
    said = f"{progress.rate:,.0f} steps/s"
    if progress.recent is not None:
        said = f"return {progress.recent:.1f}  {said}"
    if progress.evaluation is not None:
        said = f"{said}  evaluated: {_said(progress.evaluation)}"
    return said


def _said(evaluation: Any) -> str:
    part = "" if evaluation.fraction is None else f" ({evaluation.fraction:.0%} of the greatest)"
    return f"{evaluation.mean:.1f}{part}"


@contextmanager
def _asked_to_end() -> Iterator[Callable[[], bool]]:
    """Note the first Ctrl-C or SIGTERM, for the training to end by itself; a second Ctrl-C ends it at once."""
    asked: list[int] = []

    def note(number: int, _: Any) -> None:
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
