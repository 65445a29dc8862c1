"""Measure tasks and training on a GPU: steps of ``walk`` beside steps of its scene, and PPO with time.

.venv/bin/python benchmarks/learning_gpu.py [--parts quadruped lift] [--seeds 0 1 2] [--json out/learning_gpu.json]
.venv/bin/python benchmarks/learning_gpu.py --parts go1 g1 --mjlab FOLDER

With ``--mjlab``, a folder with mjlab and its versions of MuJoCo and MuJoCo Warp (see ``mjlab_walk.py``), the Go1 and
the G1 of its wheel are trained by our ``walk`` and, in another process, by mjlab's own task: the same robot,
collisions, time steps, learner, sizes of networks and of updates.

Tracking is exp(-error² / 0.25) of the horizontal velocity, 1 is perfect, as a mean over all envs and 500 steps of the
policy without exploration, with all imperfections and randomised masses, friction and motors: with one command in each
episode of 20 s, and as in the training, with a new command every 5 s and a push of up to 0.5 m/s every 4 s, after which
the robot needs time to accelerate. Returns are means over the same 256 episodes, with commands and pushes as in the
training, run once on MuJoCo Warp and once on MuJoCo's CPU engine. The time is that of learning alone: rollouts and
updates, without the start of the program, the compilation of kernels and the evaluations.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from common import Report
from unitree import G1, GO1, RobotFacts, write_robot

import sensorium as sn
from sensorium.training.ppo import PPOTrainer
from sensorium.training.ppo_evaluation import evaluate_ppo
from sensorium.training.ppo_options import PPOOptions
from sensorium.training.robot_files import save_with_robot


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


def host_seconds(calls: dict[str, Callable[[], Any]], idle: bool, rounds: int = 12) -> dict[str, float]:
    """Return the host time of each call in seconds: the lowest median of alternating rounds.

    The host is often shared, and its speed varies by a factor of three within seconds.

    Args:
        calls: the calls by name.
        idle: whether the host waits for the device before each call, or only before each round of 40.
        rounds: number of rounds.
    """
    found = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            times = []
            torch.cuda.synchronize()
            for _ in range(40):
                if idle:
                    torch.cuda.synchronize()
                start = time.perf_counter()
                call()
                times.append(time.perf_counter() - start)
            found[name] = min(found[name], statistics.median(times))
    return found


def steps(report: Report, robot: str, n_envs: int) -> None:
    """Compare a step of the task with a step of its scene, both with the same kind of actions."""
    with closing(sn.tasks.make("walk", robot=robot, n_envs=n_envs, device="cuda")) as task:
        task.reset()
        action = torch.zeros(n_envs, *task.single_action_space.shape, device="cuda")
        task.step(action)  # hooks make their random numbers in the first step, which a graph cannot contain
        act = task.scene.world.record(task.act)

        def step() -> None:
            task.step(action.normal_(0, 0.3))

        def bare_step() -> None:
            task.action.copy_(action.normal_(0, 0.3))
            act()
            task.scene.step()

        times: dict[Callable[[], None], list[float]] = {step: [], bare_step: []}
        for _ in range(5):
            for call, found in times.items():
                found.append(device_seconds(call))
        whole, scene = (statistics.median(found) for found in times.values())
        report.add(f"{robot}: scene.step with random actions, {n_envs} envs", scene * 1e3, "ms")
        report.add("  task.step / scene.step", whole / scene, "x", 1.25)
        calls: dict[str, Callable[[], Any]] = {
            "task.step": lambda: task.step(action),
            "task.step_in_place": lambda: task.step_in_place(action),
            "scene.step": task.scene.step,
            "action.add_(0)": lambda: action.add_(0),
        }
        for idle, what in ((False, "calls in a row"), (True, "device idle before it")):
            for name, seconds in host_seconds(calls, idle).items():
                bound = 60.0 if name == "task.step" else None
                report.add(f"  host time of {name}, {what}", seconds * 1e6, "us", bound)


PERFECT = {
    "sensors": [
        {"name": "imu", "type": "IMU", "mount": {"link": "torso"}},
        {"name": "attitude", "type": "Attitude", "mount": {"link": "torso"}},
        {"name": "joints", "type": "JointEncoder"},
    ]
}
"""The sensors of the quadruped without imperfections."""
IMPERFECT = "quadruped"
"""The sensors of the quadruped, as they are."""
ROOM = {"go1": {"nconmax": 40, "njmax": 150}, "g1": {"nconmax": 80, "njmax": 300}}
"""Contacts and rows of constraints per env: about twice as many as random poses and commands needed on a CPU, which are
17 and 74 for the Go1 (22,500 steps), 32 and 122 for the G1 (30,720 steps, most of them lying)."""
PARTS = ("quadruped", "lift", "go1", "g1")
CALM = {"randomize": {"push": 0.0}, "command_time": 1000.0}
"""Options of the task without pushes, and with one command for each episode."""


@dataclass
class Course:
    """How a training went."""

    curve: list[tuple[float, float]] = field(default_factory=list)
    """Seconds and tracking after each update, with exploration, as a mean over the envs and steps of the update."""
    evaluations: dict[float, tuple[float, float]] = field(default_factory=dict)
    """Seconds -> tracking of the policy without exploration: with one command per episode, and as in the training."""
    rate: float = 0.0
    """Env-steps per second, with learning."""
    returns: dict[str, float] = field(default_factory=dict)
    """Device -> mean return of the last policy without exploration."""


def learn(
    options: PPOOptions,
    seconds: float,
    marks: tuple[float, ...] = (),
    on_update: Callable[[Course, PPOTrainer], bool] = lambda course, trainer: False,
    devices: tuple[str, ...] = (),
) -> Course:
    """Train for some seconds, or until ``on_update`` returns True. Evaluations at ``marks`` do not count as time.

    The last policy is then evaluated on ``devices``.
    """
    course = Course()
    without_pushes = options.model_copy(update={"task_options": {**options.task_options, **CALM}})
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(PPOTrainer(options, Path(folder), resume=False, tensorboard=False)) as trainer,
        closing(without_pushes.make_task(n_envs=options.n_envs if marks else 1)) as calm,
    ):
        task, total = trainer.task, torch.zeros((), device=options.device)
        plain_step = trainer.env.step

        def step(action: torch.Tensor) -> Any:
            result = plain_step(action)
            total.add_(task.last_metrics()["tracking"].mean())
            return result

        trainer.env.step = step  # type: ignore[method-assign]
        trainer._begin_episodes()
        spread_episodes(task)
        for _ in range(2):  # compiles, and captures graphs
            trainer._update()
        torch.cuda.synchronize()
        start, now, updates = time.perf_counter(), 0.0, 0
        while now < seconds:
            total.zero_()
            trainer._update()
            updates += 1
            tracking = float(total) / options.horizon
            now = time.perf_counter() - start
            course.curve.append((now, tracking))
            course.rate = updates * options.horizon * options.n_envs / now
            if on_update(course, trainer):
                break
            for mark in marks:
                if now >= mark and mark not in course.evaluations:
                    course.evaluations[mark] = evaluate(trainer, calm), evaluate(trainer, trainer.task)
                    trainer._begin_episodes()
                    spread_episodes(task)
                    start = time.perf_counter() - now
        if devices:
            save_with_robot(options, Path(folder))
            trainer._save_actor("last")
            course.returns = {each: evaluate_ppo(folder, 256, which="last", device=each).mean for each in devices}
    return course


def vision(report: Report, n_envs: int = 8192, updates: int = 8) -> None:
    """Train ``lift`` from one camera of 84 x 84 pixels, with the noise of its imager; every step is an image."""
    options = PPOOptions(task="lift", device="cuda", n_envs=n_envs, task_options={"camera": True})
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(PPOTrainer(options, Path(folder), resume=False, tensorboard=False)) as trainer,
    ):
        trainer._begin_episodes()
        for _ in range(2):
            trainer._update()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(updates):
            trainer._update()
        torch.cuda.synchronize()
        rate = updates * options.horizon * n_envs / (time.perf_counter() - start)
    report.add(f"lift from a camera, {n_envs} envs: with learning", rate / 1e3, "k images/s", 100.0, at_least=True)


def beside_mjlab(report: Report, facts: RobotFacts, mjlab: Path, n_envs: int = 4096, iterations: int = 30) -> None:
    """Train a robot by our task and by mjlab's own. The bounds are those of the Go1."""
    name, has_bounds = facts.name.capitalize(), facts is GO1
    with tempfile.TemporaryDirectory() as folder:
        model, rig = write_robot(facts, mjlab, Path(folder) / facts.name)
        robot = {"robot": str(model), "keyframe": "home", "rig": str(rig), **ROOM[facts.name]}
        options = PPOOptions(device="cuda", n_envs=n_envs, hidden=(512, 256, 128), task_options=robot)
        marks = (30.0, 60.0, 90.0, 119.0)

        def is_enough(course: Course, trainer: PPOTrainer) -> bool:
            return any(calm >= 0.9 for calm, _ in course.evaluations.values())

        course = learn(options, 120.0, marks=marks, on_update=is_enough)
        report.add(f"{name}, {n_envs} envs: with learning", course.rate / 1e3, "k steps/s")
        for mark, (calm, pushed) in course.evaluations.items():
            bound = 0.9 if has_bounds and mark == max(course.evaluations) else None
            report.add(f"  tracking after {mark:.0f} s", calm, "", bound, at_least=True)
            report.add("    with changing commands and pushes", pushed, "")
        out = Path(folder) / "mjlab.json"
        command = [sys.executable, str(Path(__file__).with_name("mjlab_walk.py")), "--out", str(out)]
        command += ["--robot", name, "--envs", str(n_envs), "--iterations", str(iterations)]
        paths = os.pathsep.join([str(mjlab), os.environ.get("PYTHONPATH", "")])
        subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, check=True, stdout=subprocess.DEVNULL)
        theirs = json.loads(out.read_bytes())["steps_per_second"]
    report.add("  mjlab's own task: with learning", theirs / 1e3, "k steps/s")
    report.add("  ours / mjlab", course.rate / theirs, "x", 4.0 if has_bounds else None, at_least=True)


def spread_episodes(task: Any) -> None:
    """Let the episodes, which have begun, be at different steps in all envs, as in the middle of a training."""
    task.step_count.random_(0, task.config.max_steps)


def evaluate(trainer: PPOTrainer, task: Any, n_steps: int = 500, before: int = 100) -> float:
    """Return the mean tracking of the policy without exploration.

    The first steps do not count: all envs begin there, so that more of them accelerate than later on, when each begins
    once in 1,000 steps.
    """
    policy = trainer.algorithm.get_policy()
    trainer.algorithm.eval_mode()
    task.reset()
    spread_episodes(task)
    total = torch.zeros((), device=task.device)
    with torch.inference_mode():
        for step in range(before + n_steps):
            task.step_in_place(policy(task.as_tensordict()))
            if step >= before:
                total += task.last_metrics()["tracking"].mean()
    return float(total) / n_steps


def quadruped(report: Report, seeds: list[int]) -> None:
    """Measure steps and trainings of our quadruped."""
    steps(report, "quadruped", 4096)
    rates = []
    for seed in seeds:
        options = PPOOptions(device="cuda", n_envs=4096, seed=seed)
        course = learn(options, 60.0, marks=(30.0, 60.0), devices=("cuda", "cpu"))
        rates.append(course.rate)
        report.add(f"quadruped, seed {seed}: with learning", course.rate / 1e3, "k steps/s")
        for mark, bound in ((30.0, 0.9), (60.0, 0.97)):
            calm, pushed = course.evaluations.get(mark, (0.0, 0.0))
            report.add(f"quadruped, seed {seed}: tracking after {mark:.0f} s", calm, "", bound, at_least=True)
            report.add("  with changing commands and pushes", pushed, "")
        gpu, cpu = course.returns["cuda"], course.returns["cpu"]
        report.add("  return on MuJoCo Warp", gpu, "")
        report.add("  return on MuJoCo's CPU engine", cpu, "")
        report.add("  difference of the returns", abs(cpu / gpu - 1) * 100, "%", 5.0)
    report.add("quadruped, 4096 envs: with learning", statistics.median(rates) / 1e3, "k steps/s", 450.0, True)
    rates = []
    for sensors in (PERFECT, IMPERFECT, PERFECT, IMPERFECT):
        rates.append(learn(PPOOptions(device="cuda", n_envs=4096, task_options={"rig": sensors}), 8.0).rate)
    perfect, imperfect = rates[0] + rates[2], rates[1] + rates[3]
    report.add("  cost of imperfections", (1 - imperfect / perfect) * 100, "%", 5.0)
    rate = learn(PPOOptions(device="cuda", n_envs=16384), 12.0).rate
    report.add("quadruped, 16384 envs: with learning", rate / 1e6, "M steps/s", 1.2, at_least=True)


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds of the trainings")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what to measure")
    parser.add_argument("--mjlab", type=Path, help="folder with mjlab; without it, go1 and g1 are skipped")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    report = Report("Learning on a GPU", ())
    report.machine["gpu"] = torch.cuda.get_device_name()
    report.machine["torch"] = torch.__version__
    if "quadruped" in arguments.parts:
        quadruped(report, arguments.seeds)
    if "lift" in arguments.parts:
        vision(report)
    for facts in (GO1, G1):
        if facts.name in arguments.parts and arguments.mjlab is not None:
            beside_mjlab(report, facts, arguments.mjlab)
    report.finish(arguments.json)


if __name__ == "__main__":
    main()
