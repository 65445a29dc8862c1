"""Train PPO of Stable-Baselines3 on a task, in several envs. Needs pip install 'sensorium[train]'.

python examples/gymnasium_sb3.py --steps 20000
"""

from dataclasses import dataclass

import tyro
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecMonitor

import sensorium as sn


@dataclass
class Options:
    """Options of the training."""

    task: str = "reach"
    """Name of the task: see ``sn.tasks.names()``."""
    envs: int = 4
    """Number of envs."""
    steps: int = 20_000
    """Environment steps to train for."""
    episodes: int = 5
    """Episodes to evaluate."""
    seed: int = 0
    """Seed of task and policy."""


def main(options: Options) -> None:
    """Train, then evaluate on new episodes."""
    task = sn.tasks.make(options.task, n_envs=options.envs, seed=options.seed, keep_history=False)
    env = VecMonitor(task.as_sb3())
    print(f"observation {env.observation_space.shape}, action {env.action_space.shape}")
    model = PPO("MlpPolicy", env, n_steps=256 // options.envs, batch_size=64, seed=options.seed, device="cpu")
    model.learn(options.steps, progress_bar=False)
    mean, deviation = evaluate_policy(model, env, n_eval_episodes=options.episodes)
    print(f"return after {options.steps} steps: {mean:.2f} ± {deviation:.2f}")


if __name__ == "__main__":
    main(tyro.cli(Options))
