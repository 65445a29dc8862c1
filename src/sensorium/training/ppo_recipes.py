"""Default options of trainings by PPO, per task."""

from __future__ import annotations

from typing import Any

from sensorium._arguments import checked
from sensorium.training.ppo_options import PPOOptions

PPO_RECIPES: dict[str, dict[str, Any]] = {
    "balance": {
        "n_envs": 64,
        "hidden": (64, 64),
        "steps": 300_000,
        "evaluate_every": 100_000,
        "checkpoint_every": 100_000,
    },
    "reach": {
        "n_envs": 64,
        "hidden": (128, 64),
        "desired_kl": 0.02,
        "stagger": True,
        "steps": 300_000,
        "evaluate_every": 100_000,
        "checkpoint_every": 100_000,
    },
    "lift": {
        "n_envs": 128,
        "hidden": (128, 128, 64),
        "desired_kl": 0.02,
        "stagger": True,
        "steps": 10_000_000,
        "evaluate_every": 500_000,
        "checkpoint_every": 500_000,
    },
}
"""Task -> options that differ from the defaults of :class:`PPOOptions`, which suit ``walk``. Numbers of envs and steps
are for two CPU cores; on a GPU use some thousand envs."""


@checked
def ppo_recipe(task: str, **changes: object) -> PPOOptions:
    """Return the default options of a task's training by PPO, with changes.

    Args:
        task: name of a tensor task. Tasks without a recipe have the defaults of :class:`PPOOptions`.
        **changes: options of :class:`PPOOptions`.

    Raises:
        OptionError: an option is unknown or cannot be used.

    Example:
        >>> train_ppo(ppo_recipe("balance", seed=3), "runs/balance")
    """
    return PPOOptions(**{"task": task, **PPO_RECIPES.get(task, {}), **changes})
