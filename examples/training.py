"""Train a balancing robot from the noisy, delayed readings of its own sensors. Needs pip install 'sensorium[train]'.

python examples/training.py --out out/balance --steps 20000
"""

from dataclasses import dataclass
from pathlib import Path

import tyro

from sensorium.training import evaluate, recipe, train


@dataclass
class Options:
    """Options of the training."""

    out: Path = Path("out/balance")
    """Folder of the run. If it has checkpoints, training resumes from the newest one."""
    task: str = "balance"
    """Task with a recipe: "balance" or "reach"."""
    steps: int = 20_000
    """Environment steps."""
    envs: int = 8
    """Number of envs."""
    seed: int = 0
    """Seed of everything random."""


def main(options: Options) -> None:
    """Train with the task's recipe, then evaluate the best policy on new episodes."""
    run = recipe(
        options.task,
        n_envs=options.envs,
        steps=options.steps,
        warmup=min(1000, options.steps // 4),
        evaluate_every=max(options.steps // 4, 1),
        checkpoint_every=max(options.steps // 4, 1),
        episodes=4,
        seed=options.seed,
    )
    sensors = ", ".join(entry.name for entry in run.entity.sensors.sensors)
    print(f"the robot senses {sensors}, with their imperfections")
    trained = train(run, options.out, resume=(options.out / "checkpoints").is_dir(), tensorboard=False)
    result = evaluate(options.out, episodes=4)
    print(f"{trained.steps} steps: mean return {result.mean:.1f} of {result.max_return:.0f}")


if __name__ == "__main__":
    main(tyro.cli(Options))
