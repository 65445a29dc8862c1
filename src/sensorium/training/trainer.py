"""``train``: train an entity in B envs, with evaluations and checkpoints.

::

    DIR/config.json           options; see TrainOptions
    DIR/robot/                the robot's model file with the files that it names, if the robot is not one of a name
    DIR/checkpoints/STEPS/    brain, memory and counters after STEPS steps
    DIR/best/                 the brain of the best evaluation
    DIR/last/                 the brain of the last checkpoint
    DIR/evaluations.json      all evaluations
    DIR/curve.png             the learning curve: evaluations over steps
    DIR/policy.onnx           the best policy when the training ended, with its contract; policy.json is the contract
    DIR/tensorboard/          scalars over steps

All envs begin new episodes after a checkpoint, so that what follows depends only on the contents of the checkpoint. A
training that was killed and is resumed from a checkpoint therefore takes exactly the steps that it would have taken.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sensorium._arguments import checked
from sensorium.entities.memory_choice import load_memory, make_memory
from sensorium.entities.nesting import flat_observation
from sensorium.errors import OptionError
from sensorium.files import explain_errors
from sensorium.tasks import Task
from sensorium.training import checkpoints
from sensorium.training.curve import write_evaluations
from sensorium.training.evaluation import SEED, Evaluation, Evaluator
from sensorium.training.log import TrainingLog
from sensorium.training.options import TrainOptions
from sensorium.training.policy_file import export_at_end
from sensorium.training.robot_files import save_with_robot, with_stored_robot
from sensorium.training.run_folder import run_folder

LOG_EVERY = 64
"""Steps of all envs between log entries."""
_N_RECENT = 50
"""Number of episodes of the mean return during the training."""


@dataclass(frozen=True)
class Progress:
    """The progress of a training."""

    steps: int
    """Steps so far."""
    total: int
    """Total number of steps."""
    rate: float
    """Steps per second since the start or resume, including evaluations and checkpoints."""
    recent: float | None
    """Mean return of the last episodes, with exploration."""
    evaluation: Evaluation | None
    """The last evaluation."""


@dataclass(frozen=True)
class TrainResult:
    """The result of a training."""

    folder: Path
    """Folder of the training."""
    steps: int
    """Steps so far."""
    seconds: float
    """Duration since the start or resume."""
    finished: bool
    """Whether the training is complete. False if it was stopped before."""
    best: Evaluation | None
    """The best evaluation."""
    diverged: int = 0
    """Number of episodes so far that ended because the physics diverged, without those of evaluations."""
    new_steps: int = 0
    """Steps since the start or resume; 0 if the training had all of them before."""


class Trainer:
    """A training, from its start or from its newest checkpoint. Most users call :func:`train`.

    Args:
        options: options of the training.
        folder: folder of the training.
        resume: whether to continue from the newest checkpoint.
        tensorboard: whether to write a TensorBoard log.
    """

    @checked
    def __init__(self, options: TrainOptions, folder: Path, resume: bool, tensorboard: bool) -> None:
        self.options, self.folder = options, folder
        self.entity = options.entity.make()
        self.task = self._make_task()
        self.brain = options.make_brain(self.entity.observation_space, self.entity.action_space)
        self.entity.brain = self.brain
        self.steps = 0
        self.evaluations: list[dict[str, Any]] = []
        self.best: Evaluation | None = None
        self.diverged = self._logged_diverged = 0
        checkpoint = checkpoints.newest(folder / "checkpoints") if resume else None  # None before the first one
        self._evaluator = self._make_evaluator()
        if checkpoint is None:
            spaces = self.entity.observation_space, self.entity.action_space
            device = self._memory_device()
            self.memory = make_memory(*spaces, options.memory, options.n_envs, seed=options.seed, device=device)
        else:
            self._restore(checkpoint)
        if options.steps <= self.steps - options.n_envs:
            raise OptionError(
                f"steps must be at least the {self.steps:,} that the training has taken, got {options.steps:,}"
            )
        self._log = TrainingLog(folder, self.steps, tensorboard)
        self._returns = np.zeros(options.n_envs)
        self._recent: deque[float] = deque(maxlen=_N_RECENT)
        self._observation: dict[str, Any] = {}
        self._begin_episodes()

    def _make_task(self) -> Task[Any]:
        return self.options.make_task(self.entity, self.options.n_envs, self.options.seed, autoreset=True)

    def _make_evaluator(self) -> Evaluator:
        return Evaluator(self.options, self.brain, self.options.episodes, self.options.seed + SEED)

    def _memory_device(self) -> str:
        return "cpu"

    # -- steps --------------------------------------------------------------------------------------------------------

    def run(self, progress: Callable[[Progress], None], stop: Callable[[], bool]) -> TrainResult:
        """Train until the end, or until ``stop()`` returns True, and make a checkpoint.

        Args:
            progress: called after each step of all envs.
            stop: called before each step of all envs.
        """
        started, first, saved = time.monotonic(), self.steps, self.steps
        with torch_threads(self.options.threads):
            while self.steps < self.options.steps and not stop():
                scalars = self._step()
                rate = (self.steps - first) / max(time.monotonic() - started, 1e-9)
                if self.steps // self.options.n_envs % LOG_EVERY == 0:
                    scalars |= {"episode/ended/diverged": float(self.diverged - self._logged_diverged)}
                    self._logged_diverged = self.diverged
                    self._log.add(self.steps, scalars | {"train/return": self._mean_return(), "train/rate": rate})
                if self._passed(self.options.evaluate_every) or self.steps >= self.options.steps:
                    self._evaluate()
                    if self._is_good_enough():
                        break
                if self._passed(self.options.checkpoint_every):
                    self._save()
                    saved = self.steps
                evaluation = Evaluation(**self.evaluations[-1]["episodes"]) if self.evaluations else None
                progress(Progress(self.steps, self.options.steps, rate, self._mean_return(), evaluation))
            if saved < self.steps:
                self._save()
            finished = self.steps >= self.options.steps or self._is_good_enough()
            if finished and self.steps and not self.evaluations:  # resumed with no more steps than it had
                self._evaluate()
                self._save()
        return TrainResult(
            self.folder, self.steps, time.monotonic() - started, finished, self.best, self.diverged, self.steps - first
        )

    def _step(self) -> dict[str, float]:
        """Step all envs, store the transitions and learn; returns scalars to log."""
        options, last_observation = self.options, self._observation
        self.brain.observe(last_observation)
        if self.steps < options.warmup:
            rng = np.random.default_rng([options.seed, self.steps])
            space = self.task.action_space
            action = rng.uniform(space.low, space.high).astype(np.float32)
        else:
            action = np.asarray(self.entity.decide_batch(last_observation))
        observation, reward, terminated, truncated, info = self.task.step(action)
        if not np.isfinite(reward).all():
            bad = int(np.flatnonzero(~np.isfinite(reward))[0])
            raise OptionError(
                f"rewards must be finite; the task {options.task!r} gave the reward {reward[bad]} in env {bad} after "
                f"{self.steps} steps"
            )
        before, after = flat_observation(last_observation), flat_observation(info.get("final_obs", observation))
        self.diverged += len(info.get("failed", ()))
        for env in info.get("failed", ()):  # readings of a step in which the physics diverged are not meaningful
            for name, value in after.items():
                value[env] = before[name][env]
        self.memory.add(before, action, reward, after, terminated, truncated)
        self._observation = observation
        self.steps += options.n_envs
        self._returns += reward
        for env in np.flatnonzero(terminated | truncated):
            self._recent.append(float(self._returns[env]))
            self._returns[env] = 0.0
        if self.steps <= options.warmup:
            return {}
        return dict(self.brain.learn(self.memory, options.gradient_steps))

    def _begin_episodes(self) -> None:
        """Begin an episode in all envs. It only depends on the seed, the episode numbers and the number of steps."""
        self.task.set_sensor_step(self.steps // self.options.n_envs)
        self._observation, _ = self.task.reset()
        self._returns[:] = 0.0

    def _passed(self, every: int) -> bool:
        """Return whether the last step was the first one at or after a multiple of ``every``."""
        return self.steps // every > (self.steps - self.options.n_envs) // every

    def _mean_return(self) -> float | None:
        return float(np.mean(self._recent)) if self._recent else None

    # -- evaluation ---------------------------------------------------------------------------------------------------

    def _evaluate(self) -> None:
        result = self._evaluator.run()
        entry = {"steps": self.steps, **result.summary(), "episodes": result.model_dump(mode="json")}
        self.evaluations.append(entry)
        write_evaluations(self.folder, self.evaluations)
        self._log.add(self.steps, {"evaluation/return": result.mean, "evaluation/success": result.success})
        if self.best is None or result.mean > self.best.mean:
            self.best = result
            self._save_brain("best")

    def _is_good_enough(self) -> bool:
        target, best = self.options.stop_at, None if self.best is None else self.best.fraction
        return target is not None and best is not None and best >= target

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        checkpoints.save(self.folder / "checkpoints", self.steps, self._write)
        self._save_brain("last")
        self._begin_episodes()

    def _save_brain(self, which: str) -> None:
        """Write the brain to the folder of :func:`brain_folder`."""
        folder = self.folder / which
        with explain_errors(folder):
            folder.mkdir(exist_ok=True)
        self.brain.save(folder)

    def _write(self, folder: Path) -> None:
        (folder / "brain").mkdir()
        self.brain.save(folder / "brain")
        self.memory.save(folder / "memory")
        state = {
            "steps": self.steps,
            **self._task_state(),
            "evaluated": self._evaluator.n_episodes,
            "diverged": self.diverged,
            "evaluations": self.evaluations,
            "best": None if self.best is None else self.best.model_dump(mode="json"),
        }
        (folder / checkpoints.STATE).write_text(json.dumps(state))

    def _restore(self, folder: Path) -> None:
        state = checkpoints.read_state(folder)
        self.brain.restore(folder / "brain")
        self.memory = load_memory(folder / "memory", self._memory_device())
        with checkpoints.explain_wrong_state(folder):
            self.steps, self.evaluations = state["steps"], state["evaluations"]
            self.best = None if state["best"] is None else Evaluation(**state["best"])
            self._restore_task(state)
            self._evaluator.n_episodes = state["evaluated"]
            self.diverged = self._logged_diverged = state.get("diverged", 0)  # earlier versions did not count them

    def _task_state(self) -> dict[str, Any]:
        """Return what the next episodes of the task depend on, JSON-able."""
        return {"episode": self.task.episode.tolist()}

    def _restore_task(self, state: dict[str, Any]) -> None:
        self.task.episode[:] = state["episode"]

    def close(self) -> None:
        """Free the scenes and the memory."""
        self._log.close()
        self._evaluator.close()
        self.task.close()
        self.memory.close()


@checked
def train(
    options: TrainOptions,
    folder: str | Path,
    *,
    resume: bool = False,
    tensorboard: bool = True,
    progress: Callable[[Progress], None] = lambda progress: None,
    stop: Callable[[], bool] = lambda: False,
) -> TrainResult:
    """Train an entity.

    Args:
        options: options of the training; see :func:`~sensorium.training.recipe`. With ``resume`` they must be those of
            the training; only ``steps`` and ``stop_at`` may change.
        folder: a new folder, or with ``resume`` one that holds a training.
        resume: whether to continue from the newest checkpoint, or from the start if there is none yet. After a kill the
            result is bit-identical to that of an uninterrupted training. After ``stop`` it is not, since the envs begin
            new episodes there.
        tensorboard: whether to write a TensorBoard log.
        progress: called after each step of all envs.
        stop: called before each step of all envs. If it returns True, the training makes a checkpoint and returns.

    Returns:
        The result, with the best evaluation.

    Raises:
        OptionError: the folder is not empty, or its training has other options.
        DatasetError: the folder holds no training to resume, or all its checkpoints are damaged.

    Example:
        >>> result = train(recipe("balance"), "runs/balance")
        >>> result.best.fraction
        0.98
    """
    from sensorium.training.tensor_trainer import TensorTrainer

    folder, kind = Path(folder), Trainer if options.device is None else TensorTrainer
    options = with_stored_robot(options, folder)
    with (
        run_folder(
            folder, resume, options, lambda path: with_stored_robot(TrainOptions.load(path), path), {"steps", "stop_at"}
        ),
        closing(kind(options, folder, resume, tensorboard)) as trainer,
    ):
        save_with_robot(options, folder)
        result = trainer.run(progress, stop)
    if result.finished:
        export_at_end(folder, trainer.brain)
    return result


@contextmanager
def torch_threads(n: int) -> Iterator[None]:
    """Set the number of torch's threads for the duration of a block."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
