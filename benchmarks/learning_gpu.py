"""Measure tasks and training on a GPU: steps of ``walk`` beside steps of its scene, and PPO with time.

.venv/bin/python benchmarks/learning_gpu.py [--seeds 0 1 2] [--seconds 60] [--json out/learning_gpu.json]

Tracking is the mean over envs of exp(-error² / 0.25) of the horizontal velocity, 1 is perfect. It is measured in the
steps that the learner takes, with its exploration, as a mean over 24 steps of all envs. The time is that of learning
alone: rollouts and updates, without the start of the program and without the compilation of kernels.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import torch
from common import Report

import sensorium as sn
from sensorium.training.ppo import PPOTrainer
from sensorium.training.ppo_options import PPOOptions


def device_seconds(call: Callable[[], Any], calls: int = 100) -> float:
    """Return the time of a call in seconds, from many calls in a row."""
    for _ in range(10):
        call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / calls


def host_seconds(call: Callable[[], Any]) -> float:
    """Return the median host time of a call in seconds, with the device idle."""
    times = []
    for _ in range(100):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def steps(report: Report, robot: str, n_envs: int) -> None:
    """Compare a step of the task with a step of its scene, in the same states."""
    with closing(sn.tasks.make("walk", robot=robot, n_envs=n_envs, device="cuda")) as task:
        task.reset()
        action = torch.zeros(n_envs, *task.single_action_space.shape, device="cuda")

        def step() -> None:
            task.step_in_place(action.normal_(0, 0.3))

        for _ in range(100):
            step()
        whole, scene = (statistics.median(each) for each in zip(
            *((device_seconds(step), device_seconds(task.scene.step)) for _ in range(5)), strict=True
        ))  # fmt: skip
        report.add(f"{robot}: scene.step, {n_envs} envs", scene * 1e3, "ms")
        report.add("  task.step / scene.step", whole / scene, "x", 1.25)
        report.add("  host time of task.step", host_seconds(lambda: task.step_in_place(action)) * 1e6, "us", 60.0)


def learn(
    seconds: float, options: PPOOptions, on_update: Callable[[float, float, PPOTrainer], None] | None = None
) -> tuple[list[tuple[float, float]], float]:
    """Train for some seconds.

    Returns:
        (time, tracking) after each update, and env-steps per second.
    """
    curve: list[tuple[float, float]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(PPOTrainer(options, Path(folder), resume=False, tensorboard=False)) as trainer,
    ):
        task, total = trainer.task, torch.zeros((), device=options.device)
        plain_step = trainer.env.step

        def step(action: torch.Tensor) -> Any:
            result = plain_step(action)
            total.add_(task.last_metrics()["tracking"].mean())
            return result

        trainer.env.step = step  # type: ignore[method-assign]
        trainer._begin_episodes()
        # the episodes of all envs are at different steps, as later in the training
        task.step_count.random_(0, task.config.max_steps)
        trainer._update()  # compiles, and captures graphs
        torch.cuda.synchronize()
        start, updates = time.perf_counter(), 0
        while (now := time.perf_counter() - start) < seconds:
            total.zero_()
            trainer._update()
            updates += 1
            now = time.perf_counter() - start
            curve.append((now, float(total) / options.horizon))
            if on_update is not None:
                on_update(*curve[-1], trainer)
        return curve, updates * options.horizon * options.n_envs / now


def best_until(curve: list[tuple[float, float]], seconds: float) -> float:
    """Return the best tracking until a time."""
    return max((tracking for now, tracking in curve if now <= seconds), default=0.0)


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds of the trainings")
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of each training")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    report = Report("Learning on a GPU", ())
    report.machine["gpu"] = torch.cuda.get_device_name()
    report.machine["torch"] = torch.__version__
    steps(report, "quadruped", 4096)
    rates = []
    for seed in arguments.seeds:
        options = PPOOptions(device="cuda", n_envs=4096, seed=seed)
        curve, rate = learn(arguments.seconds, options)
        rates.append(rate)
        report.add(f"quadruped, seed {seed}: tracking within 30 s", best_until(curve, 30.0), "", 0.9, at_least=True)
        report.add(f"quadruped, seed {seed}: tracking within 60 s", best_until(curve, 60.0), "", 0.97, at_least=True)
    report.add("quadruped, 4096 envs: with learning", statistics.median(rates) / 1e3, "k steps/s", 450.0, True)
    _, perfect = learn(10.0, PPOOptions(device="cuda", n_envs=4096, task_options={"ground_truth": True}))
    _, imperfect = learn(10.0, PPOOptions(device="cuda", n_envs=4096))
    report.add("  cost of imperfections", (1 - imperfect / perfect) * 100, "%", 5.0)
    _, rate = learn(15.0, PPOOptions(device="cuda", n_envs=16384))
    report.add("quadruped, 16384 envs: with learning", rate / 1e6, "M steps/s", 1.2, at_least=True)
    report.finish(arguments.json)


if __name__ == "__main__":
    main()
