"""``train``: let an entity act in B envs, remember, learn, and be evaluated; with checkpoints to go on from.

::

    DIR/config.json           what is trained, and how: see TrainOptions
    DIR/checkpoints/STEPS/    brain, memory and counters after so many steps
    DIR/best/                 the brain of the best evaluation, with that evaluation
    DIR/last/                 the brain at the end
    DIR/evaluations.json      all evaluations
    DIR/tensorboard/          figures over steps

A checkpoint is made between episodes: all envs begin new ones after it. What comes then depends on what it holds alone,
so a training that was killed and goes on from it takes the very steps that it would have taken.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from sensorium.entities import Memory
from sensorium.entities.brain import flat_observation, flat_space
from sensorium.errors import DatasetError, OptionError, did_you_mean
from sensorium.files import lock_folder, write_whole
from sensorium.training import checkpoints
from sensorium.training.evaluation import SEED, Evaluation, Evaluator
from sensorium.training.log import Log
from sensorium.training.options import CONFIG, TrainOptions

_WHICH = ("best", "last")
_REPORT = 64
"""Steps of all envs between figures for the log."""
_RECENT = 50
"""Episodes over which the return shown meanwhile is a mean."""


@dataclass(frozen=True)
class Progress:
    """How far a training is."""

    steps: int
    """Steps so far."""
    total: int
    """Steps in all."""
    rate: float
    """Steps a second, since it began or was resumed; evaluations and checkpoints counted in."""
    recent: float | None
    """Mean return of the last episodes, exploration and all."""
    evaluation: Evaluation | None
    """The last one."""


@dataclass(frozen=True)
class Trained:
    """What a training came to."""

    folder: Path
    steps: int
    """Steps that were taken."""
    seconds: float
    """How long this took, since it began or was resumed."""
    finished: bool
    """Whether it is at its end; or was asked to stop before."""
    best: Evaluation | None
    """The best evaluation."""


class Trainer:
    """A training, from its start or from its newest checkpoint. Most users call :func:`train`.

    Args:
        options: of the training.
        folder: where it is kept; holds ``config.json``.
        resume: whether to go on from the newest checkpoint.
        tensorboard: whether to log for it.
    """

    def __init__(self, options: TrainOptions, folder: Path, resume: bool, tensorboard: bool) -> None:
        self.options, self.folder = options, folder
        self.entity = options.entity.make()
        self.brain = options.make_brain(self.entity.observation_space, self.entity.action_space)
        self.entity.brain = self.brain
        self.steps = 0
        self.evaluations: list[dict[str, Any]] = []
        self.best: Evaluation | None = None
        checkpoint = checkpoints.newest(folder / "checkpoints") if resume else None  # none if it was ended before one
        self.task = options.make_task(self.entity, options.n_envs, options.seed, autoreset=True)
        self._evaluator = Evaluator(options, self.brain, options.episodes, options.seed + SEED)
        flat = spaces.Dict(list(flat_space(self.entity.observation_space).items()))  # type: ignore[arg-type]
        if checkpoint is None:
            self.memory = Memory(flat, self.entity.action_space, options.memory, options.n_envs, seed=options.seed)
        else:
            self._restore(checkpoint)
        if options.steps <= self.steps - options.n_envs:
            raise OptionError(f"steps: the training has taken {self.steps:,} already, so {options.steps:,} are too few")
        self._log = Log(folder, self.steps, tensorboard)
        self._returns = np.zeros(options.n_envs)
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._seen: dict[str, Any] = {}
        self._begin_episodes()

    # -- steps --------------------------------------------------------------------------------------------------------

    def run(self, progress: Callable[[Progress], None], stop: Callable[[], bool]) -> Trained:
        """Train until the end, or until ``stop()``; then there is a checkpoint."""
        begun, first, saved = time.monotonic(), self.steps, self.steps
        with _threads(self.options.threads):
            while self.steps < self.options.steps and not stop():
                figures = self._step()
                rate = (self.steps - first) / max(time.monotonic() - begun, 1e-9)
                if self.steps // self.options.n_envs % _REPORT == 0:
                    self._log.add(self.steps, figures | {"train/return": self._mean_return(), "train/rate": rate})
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
        return Trained(self.folder, self.steps, time.monotonic() - begun, finished, self.best)

    def _step(self) -> dict[str, float]:
        """Act once in all envs, remember, and learn; returns what there is to log."""
        options, seen = self.options, self._seen
        self.brain.observe(seen)
        if self.steps < options.warmup:
            draw = np.random.default_rng([options.seed, self.steps])
            space = self.task.action_space
            action = draw.uniform(space.low, space.high).astype(np.float32)
        else:
            action = self.entity.decide_batch(seen)
        observation, reward, terminated, truncated, info = self.task.step(action)
        if not np.isfinite(reward).all():
            bad = int(np.flatnonzero(~np.isfinite(reward))[0])
            raise OptionError(
                f"the task {options.task!r} gave the reward {reward[bad]} in env {bad} after {self.steps} steps; "
                "rewards must be finite"
            )
        before, last = flat_observation(seen), flat_observation(info.get("final_obs", observation))
        for env in info.get("failed", ()):  # what was sensed while the physics broke down teaches nothing
            for name, value in last.items():
                value[env] = before[name][env]
        self.memory.add(before, action, reward, last, terminated, truncated)
        self._seen = observation
        self.steps += options.n_envs
        self._returns += reward
        for env in np.flatnonzero(terminated | truncated):
            self._recent.append(float(self._returns[env]))
            self._returns[env] = 0.0
        if self.steps <= options.warmup:
            return {}
        return dict(self.brain.learn(self.memory, options.gradient_steps))

    def _begin_episodes(self) -> None:
        """Begin an episode in all envs, as one does who has taken so many steps."""
        self.task.set_sensor_step(self.steps // self.options.n_envs)
        self._seen, _ = self.task.reset()
        self._returns[:] = 0.0

    def _passed(self, every: int) -> bool:
        """Whether the last step was the first one at or after a multiple of ``every``."""
        return self.steps // every > (self.steps - self.options.n_envs) // every

    def _mean_return(self) -> float | None:
        return float(np.mean(self._recent)) if self._recent else None

    # -- evaluation ---------------------------------------------------------------------------------------------------

    def _evaluate(self) -> None:
        result = self._evaluator.run()
        entry = {"steps": self.steps, **result.summary(), "episodes": result.model_dump(mode="json")}
        self.evaluations.append(entry)
        write_whole(self.folder / "evaluations.json", json.dumps(self.evaluations, indent=1).encode())
        self._log.add(self.steps, {"evaluation/return": result.mean, "evaluation/success": result.success})
        if self.best is None or result.mean > self.best.mean:
            self.best = result
            self._keep("best")

    def _is_good_enough(self) -> bool:
        wanted, best = self.options.stop_at, None if self.best is None else self.best.fraction
        return wanted is not None and best is not None and best >= wanted

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        checkpoints.save(self.folder / "checkpoints", self.steps, self._write)
        self._keep("last")
        self._begin_episodes()

    def _keep(self, which: str) -> None:
        """Write the brain where :func:`brain_folder` finds it."""
        place = self.folder / which
        place.mkdir(exist_ok=True)
        self.brain.save(place)

    def _write(self, folder: Path) -> None:
        (folder / "brain").mkdir()
        self.brain.save(folder / "brain")
        self.memory.save(folder / "memory")
        state = {
            "steps": self.steps,
            "episode": self.task.episode.tolist(),
            "evaluated": self._evaluator.n_episodes,
            "evaluations": self.evaluations,
            "best": None if self.best is None else self.best.model_dump(mode="json"),
        }
        (folder / "state.json").write_text(json.dumps(state))

    def _restore(self, folder: Path) -> None:
        state = json.loads((folder / "state.json").read_bytes())
        self.brain.restore(folder / "brain")
        self.memory = Memory.load(folder / "memory")
        self.steps, self.evaluations = state["steps"], state["evaluations"]
        self.best = None if state["best"] is None else Evaluation(**state["best"])
        self.task.episode[:] = state["episode"]
        self._evaluator.n_episodes = state["evaluated"]

    def close(self) -> None:
        """Free the scenes and the memory."""
        self._log.close()
        self._evaluator.close()
        self.task.close()
        self.memory.close()


def train(
    options: TrainOptions,
    folder: str | Path,
    *,
    resume: bool = False,
    tensorboard: bool = True,
    progress: Callable[[Progress], None] = lambda progress: None,
    stop: Callable[[], bool] = lambda: False,
) -> Trained:
    """Train an entity.

    Args:
        options: what is trained, and how; see :func:`~sensorium.training.recipe`. To resume, as they were; ``steps``
            and ``stop_at`` may change.
        folder: where to keep it: a new one, or with ``resume`` one that holds a training.
        resume: go on from the newest checkpoint, or begin where there is none yet. After a kill the result is the
            same, bit by bit, as without it; after ``stop`` it is another, for the envs began new episodes there.
        tensorboard: log figures for TensorBoard.
        progress: is told how far it is, after each step of all envs.
        stop: asked after each step; where it says True, the training makes a checkpoint and returns.

    Raises:
        OptionError: the folder holds something already, or the training in it has other options.
        DatasetError: the folder holds no training to resume, or all its checkpoints are damaged.

    Example:
        >>> trained = train(recipe("balance"), "runs/balance")
        >>> trained.best.fraction
        0.98
    """
    folder = Path(folder)
    if resume:
        _check_same(options, TrainOptions.load(folder))
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        if (folder / CONFIG).is_file():
            raise OptionError(f"{folder} holds a training already: resume it (--resume), or train in a new folder")
        raise OptionError(f"{folder} holds something else; train in a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    with lock_folder(folder):
        try:
            trainer = Trainer(options, folder, resume, tensorboard)
        except BaseException:
            if not any(folder.iterdir()):
                folder.rmdir()
            raise
        try:
            options.save(folder)
            return trainer.run(progress, stop)
        finally:
            trainer.close()


def brain_folder(folder: Path, which: str) -> Path:
    """Where a training keeps its "best" or "last" brain.

    Raises:
        DatasetError: it has none yet.
    """
    if which not in _WHICH:
        raise OptionError(f"which: 'best' or 'last', got {which!r}{did_you_mean(which, _WHICH)}")
    place = folder / which
    other = "; or take the newest, by --which last" if which == "best" and (folder / "last").is_dir() else ""
    if not place.is_dir() or not any(place.iterdir()):
        raise DatasetError(f"{folder} has no {which} brain yet: train it further, by --resume{other}")
    return place


def _check_same(new: TrainOptions, old: TrainOptions) -> None:
    free = {"steps", "stop_at"}
    one, other = (each.model_dump(mode="json", exclude=free) for each in (new, old))
    for name, value in one.items():
        if value != other[name]:
            raise OptionError(f"{name} was {other[name]!r} in this training, got {value!r}: resume it as it was")


@contextmanager
def _threads(n: int) -> Iterator[None]:
    """So many threads of torch, meanwhile."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
