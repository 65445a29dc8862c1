"""Train ``walk`` on the CPU beside the same loop by hand on ``mujoco.batch``, with Stable-Baselines3's PPO.

.venv/bin/python benchmarks/learning_cpu.py [--rounds 20] [--json out/learning_cpu.json]

Both have 256 envs of the same quadruped, the same time steps, rewards, sizes of networks, of updates and of
minibatches. They alternate: one update of each, 24 steps of all envs with the learning from them. One pair is without
imperfections and randomisation, and one with them; our critic observes more in both. ``--threads`` are those of torch;
the physics uses all cores in both. The tracking is that of the last updates, with exploration, after so many steps.

The ratio is also given in processor time, which other programs on the same cores disturb less.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import torch
from common import Report
from hand_written_walk import HandWrittenWalk
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

import sensorium as sn
from sensorium.training.ppo import PPOTrainer
from sensorium.training.ppo_options import PPOOptions

MODEL = Path(sn.__file__).parent / "robots" / "models" / "quadruped.xml"
PLAIN: dict[str, Any] = {
    "ground_truth": True,
    "randomize": {
        "payload": (0.0, 0.0),
        "push": 0.0,
        **dict.fromkeys(("friction", "stiffness", "damping", "strength"), (1.0, 1.0)),
    },
}
"""Options of ``walk`` without imperfections, randomised models and pushes."""


class Ours:
    """A training by ``sensorium train walk``."""

    def __init__(self, options: PPOOptions) -> None:
        self.trainer = PPOTrainer(options, Path(tempfile.mkdtemp()), resume=False, tensorboard=False)
        self.trainer._begin_episodes()

    def update(self) -> float:
        """Make one update, and return the tracking at its end."""
        self.trainer._update()
        return float(self.trainer.task.last_metrics()["tracking"].mean())

    def close(self) -> None:
        self.trainer.close()


class Theirs:
    """The hand-written environment with Stable-Baselines3's PPO."""

    def __init__(self, options: PPOOptions, imperfect: bool) -> None:
        self.walk = HandWrittenWalk(str(MODEL), options.n_envs, imperfect)
        layers = list(options.hidden)
        self.learner = PPO(
            "MlpPolicy",
            VecNormalize(self.walk, norm_reward=False),
            n_steps=options.horizon,
            batch_size=options.n_envs * options.horizon // options.minibatches,
            n_epochs=options.epochs,
            learning_rate=options.learning_rate,
            gamma=options.gamma,
            gae_lambda=options.lam,
            clip_range=options.clip,
            ent_coef=options.entropy,
            target_kl=None,
            policy_kwargs={"net_arch": {"pi": layers, "vf": layers}, "activation_fn": torch.nn.ELU},
            device="cpu",
            seed=options.seed,
        )
        self.learn_steps = options.n_envs * options.horizon
        self.begun = False

    def update(self) -> float:
        """Make one update, and return the tracking at its end."""
        self.learner.learn(self.learn_steps, reset_num_timesteps=not self.begun)
        self.begun = True
        return float(self.walk.tracking.mean())

    def close(self) -> None:
        self.walk.close()


def compare(report: Report, imperfect: bool, rounds: int, threads: int) -> None:
    """Measure updates of both, which alternate."""
    options = PPOOptions(n_envs=256, threads=threads, task_options={} if imperfect else PLAIN)
    torch.set_num_threads(threads)
    with ExitStack() as stack:
        both: list[Ours | Theirs] = [
            stack.enter_context(closing(each)) for each in (Ours(options), Theirs(options, imperfect))
        ]
        times: list[list[float]] = [[], []]
        work: list[list[float]] = [[], []]
        last: list[list[float]] = [[], []]
        for _ in range(2):
            for each in both:
                each.update()
        for _ in range(rounds):
            for each, seconds, processor, tracking in zip(both, times, work, last, strict=True):
                start, begun = time.perf_counter(), time.process_time()
                tracking.append(each.update())
                seconds.append(time.perf_counter() - start)
                processor.append(time.process_time() - begun)
    steps = options.n_envs * options.horizon
    where = f"{'with' if imperfect else 'without'} imperfections, {threads} thread{'s'[: threads > 1]} of torch"
    for name, seconds, tracking in zip(("ours", "by hand"), times, last, strict=True):
        report.add(f"{where}: {name}", steps / statistics.median(seconds), "steps/s")
        count = (rounds + 2) * steps
        report.add(f"  tracking after {count:,} steps", statistics.fmean(tracking[-10:]), "")
    for name, found, bound in (("", times, 1.0), (", per processor time", work, None)):
        ratio = statistics.median(b / a for a, b in zip(*found, strict=True))
        report.add(f"  ours / by hand{name}", ratio, "x", bound, at_least=True)


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="updates of each")
    parser.add_argument("--threads", type=int, nargs="+", default=[1], help="threads of torch")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    report = Report("Learning on a CPU", ("mujoco", "stable-baselines3", "rsl-rl-lib", "torch"))
    for threads in arguments.threads:
        for imperfect in (False, True):
            compare(report, imperfect, arguments.rounds, threads)
    report.finish(arguments.json)


if __name__ == "__main__":
    main()
