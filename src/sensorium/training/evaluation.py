"""Evaluation of a brain: whole episodes that it was not trained on, without exploration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sensorium._arguments import checked
from sensorium.entities import Brain, LearningBrain
from sensorium.errors import OptionError
from sensorium.options import Options
from sensorium.tasks.hook_results import max_return_of
from sensorium.training.options import EntityOptions, TrainOptions

if TYPE_CHECKING:
    from sensorium.training.tensor_evaluation import TensorEvaluator

_MAX_ENVS = 16
"""Maximum number of episodes that run at the same time."""
SEED = 1_000_000
"""Offset of the seed of evaluations from the seed of the training; twice this for evaluations after the training."""


class Evaluation(Options):
    """The results of some episodes."""

    returns: tuple[float, ...]
    """Return (sum of rewards) of each episode."""
    lengths: tuple[int, ...]
    """Steps of each episode."""
    successes: tuple[bool, ...]
    """Whether each episode reached the goal."""
    max_return: float | None = None
    """Maximum return of the task, or None if it is unknown."""
    metrics: dict[str, float] = {}
    """Means of the task's own metrics per step, for example ``tracking`` of "walk"."""

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.returns))

    @property
    def fraction(self) -> float | None:
        """Mean return divided by the maximum return, or None if that is unknown or 0."""
        return self.mean / self.max_return if self.max_return else None

    @property
    def success(self) -> float:
        """Fraction of episodes that succeeded."""
        return float(np.mean(self.successes))

    def summary(self) -> dict[str, Any]:
        """Return the summary statistics, JSON-able."""
        return {
            "episodes": len(self.returns),
            "return_mean": self.mean,
            "return_min": min(self.returns),
            "return_max": max(self.returns),
            "fraction_of_max": self.fraction,
            "success": self.success,
            **self.metrics,
        }


class Evaluator:
    """Runs episodes of a training's task with a brain that acts without exploration.

    Args:
        options: options of the training.
        brain: the brain, which acts through an entity's ``decide_batch``.
        episodes: number of episodes per run.
        seed: seed of the episodes.
        entity: options of the entity if it is not that of the training, for example with other imperfections.

    Attributes:
        n_episodes: number of episodes so far, which is also the number of the next one.
    """

    @checked
    def __init__(
        self, options: TrainOptions, brain: Brain, episodes: int, seed: int, entity: EntityOptions | None = None
    ) -> None:
        self.episodes = episodes
        self._entity = (entity or options.entity).make(lambda *spaces: brain)
        self._task = options.make_task(self._entity, min(episodes, _MAX_ENVS), seed)
        self.n_episodes = 0

    def run(self) -> Evaluation:
        """Run new episodes, different ones at each call."""
        parts = [self._run_batch() for _ in range(-(-self.episodes // self._task.n_envs))]
        returns, lengths, successes = (np.concatenate(part)[: self.episodes] for part in zip(*parts, strict=True))
        return Evaluation(
            returns=tuple(returns.tolist()),
            lengths=tuple(lengths.tolist()),
            successes=tuple(successes.tolist()),
            max_return=max_return_of(self._task),
        )

    def _run_batch(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Run one episode in each env; returns their returns, lengths and successes."""
        task = self._task
        # noise of actions depends on the step: this range of steps follows from the episode numbers
        task.set_sensor_step(self.n_episodes * task.config.max_steps)
        observation, _ = task.reset(numbers=range(self.n_episodes, self.n_episodes + task.n_envs))
        self.n_episodes += task.n_envs
        returns = np.zeros(task.n_envs)
        while not task.is_done().all():
            action = self._entity.decide_batch(observation, deterministic=True)
            observation, reward, *_ = task.step(action)
            returns += reward
        return returns, task.step_count.copy(), task.judge_success()

    def close(self) -> None:
        """Free the scene."""
        self._task.close()


@checked
def evaluate(
    folder: str | Path,
    episodes: int = 20,
    seed: int | None = None,
    which: str = "best",
    entity: EntityOptions | None = None,
    device: str | None = None,
) -> Evaluation:
    """Evaluate the brain of a training.

    Args:
        folder: folder of the training.
        episodes: number of episodes.
        seed: seed of the episodes. Default: one that neither the training nor its evaluations used.
        which: "best", the brain of the best evaluation during the training, or "last".
        entity: options of the entity if it is not the one that was trained, for example with other imperfections.
        device: device to evaluate on, for a training on tensors. Default: that of the training.

    Raises:
        DatasetError: the folder holds no training, or the training has no such brain yet.
        OptionError: ``device`` is given, and the training was on arrays.

    Example:
        >>> evaluate("runs/balance", episodes=20).fraction
        0.97
    """
    folder = Path(folder)
    options = TrainOptions.load(folder)
    if options.device is None and device is not None:
        raise OptionError(f"device: {folder} is a training on arrays, which is evaluated on the CPU; remove device")
    brain, seed = load_brain(folder, which, device), options.seed + 2 * SEED if seed is None else seed
    evaluator: Evaluator | TensorEvaluator
    if options.device is None:
        evaluator = Evaluator(options, brain, episodes, seed, entity)
    else:
        from sensorium.training.tensor_evaluation import TensorEvaluator

        evaluator = TensorEvaluator(options, brain, episodes, seed, entity, device)
    try:
        return evaluator.run()
    finally:
        evaluator.close()


@checked
def load_brain(folder: str | Path, which: str = "best", device: str | None = None) -> LearningBrain:
    """Return the brain of a training.

    Args:
        folder: folder of the training.
        which: "best", the brain of the best evaluation during the training, or "last".
        device: device of the brain. Default: that of the training.

    Raises:
        DatasetError: the folder holds no training, or the training has no such brain yet.

    Example:
        >>> brain = load_brain("runs/balance")
    """
    from sensorium.training.run_folder import brain_folder

    folder = Path(folder)
    options = TrainOptions.load(folder)
    saved = brain_folder(folder, which)
    made = options.entity.make()
    if options.device is not None:  # the spaces of the entity are those of the task
        options.make_tensor_task(made, 1, options.seed, device).close()
    brain = options.make_brain(made.observation_space, made.action_space, device)
    brain.restore(saved)
    return brain
