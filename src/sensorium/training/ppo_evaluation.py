"""Evaluation of a policy that PPO trained: whole episodes without exploration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sensorium._arguments import checked
from sensorium.tasks.tensor import TensorTask
from sensorium.training.evaluation import SEED, Evaluation
from sensorium.training.ppo_options import PPOOptions
from sensorium.training.run_folder import brain_folder
from sensorium.training.tensor_evaluation import MAX_ENVS, run_actions

if TYPE_CHECKING:
    from rsl_rl.models import MLPModel


def run_episodes(
    task: TensorTask[Any], policy: MLPModel, episodes: int, on_step: Callable[[], None] = lambda: None
) -> Evaluation:
    """Run the next episode of the first envs of a task at its full difficulty, with the mean action of the policy.

    Args:
        task: the task.
        policy: the actor.
        episodes: number of episodes, at most the number of envs.
        on_step: called after each step.

    Returns:
        The result. An episode succeeds if it lasts ``max_steps`` steps and, for a task with the metric "reached", if
        the goal is reached at its end.
    """
    return run_actions(task, lambda: policy(task.as_tensordict()), episodes, policy.reset, on_step)


@checked
def evaluate_ppo(
    folder: str | Path,
    episodes: int = 64,
    seed: int | None = None,
    which: str = "best",
    device: str | None = None,
    **task_options: object,
) -> Evaluation:
    """Evaluate the policy of a training by PPO.

    Args:
        folder: folder of the training.
        episodes: number of episodes.
        seed: seed of the episodes. Default: one that the training did not use.
        which: "best", the policy of the best evaluation during the training, or "last".
        device: device to evaluate on. Default: that of the training.
        **task_options: options of the task that replace those of the training, for example ``ground_truth=True``.

    Raises:
        DatasetError: the folder holds no training, or the training has no such policy yet.

    Example:
        >>> evaluate_ppo("runs/walk", device="cpu").metrics["tracking"]      # 1 is perfect
    """
    options = PPOOptions.load(Path(folder))
    options = options.model_copy(update={"task_options": {**options.task_options, **task_options}})
    n_envs = min(episodes, MAX_ENVS)
    task = options.make_task(n_envs, options.seed + 2 * SEED if seed is None else seed, device)
    try:
        return run_episodes(task, load_policy(folder, task, which), n_envs)
    finally:
        task.close()


@checked
def load_policy(folder: str | Path, task: TensorTask[Any], which: str = "best") -> MLPModel:
    """Return the actor of a training for a task with the same observations and actions, on its device.

    Raises:
        DatasetError: the folder holds no training, or the training has no such policy yet.

    Example:
        >>> policy = load_policy("runs/walk", task)
        >>> action = policy(env.get_observations())    # of env = task.as_rsl_rl()
    """
    from sensorium.training.ppo_policy import load_actor

    folder = Path(folder)
    options = PPOOptions.load(folder)
    n_actions = int(task.single_action_space.shape[0])
    return load_actor(options, brain_folder(folder, which), task.as_tensordict(), n_actions, task.actor_parts)
