"""Episodes of tensor tasks without exploration, and the evaluation of a brain in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from sensorium._arguments import checked
from sensorium.entities import Brain
from sensorium.tasks.hook_results import max_return_of
from sensorium.tasks.tensor import TensorTask
from sensorium.training.evaluation import Evaluation
from sensorium.training.options import EntityOptions, TrainOptions

MAX_ENVS = 1024
"""Maximum number of episodes that run at the same time."""


def run_actions(
    task: TensorTask[Any],
    act: Callable[[], torch.Tensor],
    episodes: int,
    restart: Callable[[torch.Tensor | None], None] = lambda ended: None,
    on_step: Callable[[], None] = lambda: None,
) -> Evaluation:
    """Run the next episode of the first envs of a task at its full difficulty.

    Args:
        task: the task.
        act: returns the actions (B, n) for the last observation.
        episodes: number of episodes, at most the number of envs.
        restart: called with None when the episodes began, and with the mask (B,) of those that end after each step.
        on_step: called after each step.

    Returns:
        The result. An episode succeeds if it lasts ``max_steps`` steps and, for a task with the metric "reached", if
        the goal is reached at its end. One whose physics diverged does not.
    """
    n = min(episodes, task.n_envs)
    difficulty = task.difficulty.clone()
    task.difficulty.fill_(1.0)
    task.reset()
    restart(None)
    returns = torch.zeros(task.n_envs, device=task.device)
    lengths = torch.zeros_like(returns)
    running = torch.ones_like(task.terminated)
    succeeded = torch.zeros_like(running)
    sums: dict[str, torch.Tensor] = {}
    with torch.inference_mode():
        for _ in range(task.config.max_steps):
            task.step_in_place(act())
            returns += torch.where(running, task.reward, 0.0)
            lengths += running
            for name, value in task.last_metrics().items():
                sums[name] = sums.get(name, torch.zeros_like(returns)) + torch.where(running, value, 0.0)
            at_goal = task.last_metrics().get("reached")
            succeeded |= running & task.truncated & ~task.diverged & (True if at_goal is None else at_goal > 0.5)
            running &= ~(task.terminated | task.truncated)
            restart(task.terminated | task.truncated)
            on_step()
            if not bool(running[:n].any()):
                break
    task.difficulty.copy_(difficulty)
    means = {name: float((value / lengths)[:n].mean()) for name, value in sums.items()}
    return Evaluation(
        returns=tuple(returns[:n].tolist()),
        lengths=tuple(int(each) for each in lengths[:n].tolist()),
        successes=tuple(succeeded[:n].tolist()),
        max_return=max_return_of(task),
        metrics=means,
    )


class TensorEvaluator:
    """Runs episodes of a training's tensor task with a brain that acts without exploration.

    Args:
        options: options of the training.
        brain: the brain.
        episodes: number of episodes per run.
        seed: seed of the episodes.
        entity: options of the entity if it is not that of the training, for example with other imperfections.
        device: device of the task. Default: that of the training.

    Attributes:
        n_episodes: number of episodes of each env so far, which is also the number of the next one.
    """

    @checked
    def __init__(
        self,
        options: TrainOptions,
        brain: Brain,
        episodes: int,
        seed: int,
        entity: EntityOptions | None = None,
        device: str | None = None,
    ) -> None:
        self.episodes = episodes
        self._entity = (entity or options.entity).make()
        self._task = options.make_tensor_task(self._entity, min(episodes, MAX_ENVS), seed, device)
        self._task.keep_final = False
        self._entity.brain = brain
        self.n_episodes = 0

    def run(self) -> Evaluation:
        """Run new episodes, different ones at each call."""
        parts = [self._run_batch() for _ in range(-(-self.episodes // self._task.n_envs))]
        n = self.episodes
        return Evaluation(
            returns=sum((part.returns for part in parts), ())[:n],
            lengths=sum((part.lengths for part in parts), ())[:n],
            successes=sum((part.successes for part in parts), ())[:n],
            max_return=max_return_of(self._task),
            metrics={name: float(np.mean([part.metrics[name] for part in parts])) for name in parts[0].metrics},
        )

    def _run_batch(self) -> Evaluation:
        """Run one episode in each env."""
        task = self._task
        task.episode.fill_(self.n_episodes - 1)
        task.robot.set_noise_step(self.n_episodes * task.config.max_steps)
        self.n_episodes += 1
        return run_actions(task, self._act, task.n_envs)

    def _act(self) -> torch.Tensor:
        return torch.as_tensor(self._entity.decide_batch(self._task.observation_views(), deterministic=True))

    def close(self) -> None:
        """Free the scene."""
        self._task.close()
