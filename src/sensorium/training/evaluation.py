"""How good a brain is: whole episodes that it was not trained on, by the same path as in training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sensorium.entities import Brain
from sensorium.options import Options
from sensorium.training.options import EntityOptions, TrainOptions

_ENVS = 16
"""Most episodes that run side by side."""
SEED = 1_000_000
"""Added to a training's seed, for episodes of the evaluations meanwhile; twice, for those afterwards."""


class Evaluation(Options):
    """Episodes, and how they went."""

    returns: tuple[float, ...]
    """Sum of rewards of each episode."""
    lengths: tuple[int, ...]
    """Steps of each."""
    successes: tuple[bool, ...]
    """Whether each reached the goal."""
    max_return: float | None = None
    """The greatest return that the task allows, if that is known."""

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.returns))

    @property
    def fraction(self) -> float | None:
        """Mean return, of the greatest."""
        return None if self.max_return is None else self.mean / self.max_return

    @property
    def success(self) -> float:
        """Fraction of episodes that succeeded."""
        return float(np.mean(self.successes))

    def summary(self) -> dict[str, Any]:
        """The figures, for JSON."""
        return {
            "episodes": len(self.returns),
            "return_mean": self.mean,
            "return_min": min(self.returns),
            "return_max": max(self.returns),
            "fraction_of_max": self.fraction,
            "success": self.success,
        }


class Evaluator:
    """Runs episodes of a training's task with a brain that acts as well as it can, without exploring.

    Args:
        options: of the training.
        brain: what decides, through an entity's ``decide_batch``.
        episodes: how many to a run.
        seed: of the episodes.
        entity: who acts, if it is another than the training's: one with other imperfections, say.
    """

    def __init__(
        self, options: TrainOptions, brain: Brain, episodes: int, seed: int, entity: EntityOptions | None = None
    ) -> None:
        self.episodes = episodes
        self._entity = (entity or options.entity).make(lambda *spaces: brain)
        self._task = options.make_task(self._entity, min(episodes, _ENVS), seed)
        self.n_episodes = 0
        """Episodes so far; the number of the next one."""

    def run(self) -> Evaluation:
        """New episodes, each time others."""
        parts = [self._run_side_by_side() for _ in range(-(-self.episodes // self._task.n_envs))]
        returns, lengths, successes = (np.concatenate(part)[: self.episodes] for part in zip(*parts, strict=True))
        return Evaluation(
            returns=tuple(returns.tolist()),
            lengths=tuple(lengths.tolist()),
            successes=tuple(successes.tolist()),
            max_return=self._task.max_return,
        )

    def _run_side_by_side(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        task = self._task
        task.set_sensor_step(self.n_episodes * task.config.max_steps)  # noise, too, by the episodes' numbers alone
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


def evaluate(
    folder: str | Path,
    episodes: int = 20,
    seed: int | None = None,
    which: str = "best",
    entity: EntityOptions | None = None,
) -> Evaluation:
    """Evaluate what a training came to.

    Args:
        folder: of the training.
        episodes: how many.
        seed: of the episodes. Default: one that neither the training nor its own evaluations had.
        which: "best", the brain of the best evaluation during the training, or "last".
        entity: who acts, if it is another than the one that was trained: with other imperfections, say.

    Raises:
        DatasetError: the folder holds no training, or none that has got so far.

    Example:
        >>> evaluate("runs/balance", episodes=20).fraction
        0.97
    """
    from sensorium.training.trainer import brain_folder

    folder = Path(folder)
    options = TrainOptions.load(folder)
    place = brain_folder(folder, which)
    made = options.entity.make()
    brain = options.make_brain(made.observation_space, made.action_space)
    brain.restore(place)
    runner = Evaluator(options, brain, episodes, options.seed + 2 * SEED if seed is None else seed, entity)
    try:
        return runner.run()
    finally:
        runner.close()
