"""Measure the cost of observations beside physics and control.

.venv/bin/python benchmarks/tasks.py [--json out/tasks.json]
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

from common import Report

import sensorium as sn


def core_suite(report: Report) -> None:
    """Measure the core suite without cameras for 64 envs, beside physics and control."""
    task = sn.tasks.make("pick", n_envs=64, seed=0, keep_history=False)
    policy = sn.policies.make("planner", task)
    task.register_policy(policy)
    observation, _ = task.reset()
    observe = task._observe
    spent: list[float] = []

    def timed() -> dict[str, Any]:
        start = time.perf_counter()
        result = observe()
        spent.append(time.perf_counter() - start)
        return result

    task._observe = timed  # type: ignore[method-assign]
    steps = []
    for _ in range(120):
        action = policy.get_action(observation)  # the planner is not measured
        start = time.perf_counter()
        observation, *_ = task.step(action)
        steps.append(time.perf_counter() - start)
    sensing = statistics.median(spent)
    rest = statistics.median(whole - part for whole, part in zip(steps, spent, strict=True))
    report.add("physics and control, 64 envs, one step", rest * 1e3, "ms")
    report.add("core suite without cameras", sensing * 1e3, "ms")
    report.add("  of physics and control", 100 * sensing / rest, "%", 20.0)
    task.close()


def cameras(report: Report) -> None:
    """Measure two cameras of 640 x 368 with depth, segmentation and image points."""
    from sensorium.cameras.render_pass import RenderPass

    passes: list[int] = []
    render = RenderPass.render

    def counted(self: RenderPass, *args: Any) -> None:
        passes.append(1)
        render(self, *args)

    RenderPass.render = counted  # type: ignore[method-assign]
    wrist = {"name": "wrist", "link": "hand", "pos": (0.07, 0, 0.02), "lookat": (0.03, 0, 0.2)}
    everything = {"depth": True, "segmentation": True}
    task = sn.tasks.make(
        "pick", n_envs=4, seed=0, cameras=[{"name": "front", **everything}, {**wrist, **everything}], keep_history=False
    )
    policy = sn.policies.make("planner", task)
    task.register_policy(policy)
    observation, _ = task.reset()
    times = []
    for _ in range(12):
        passes.clear()
        start = time.perf_counter()
        observation, *_ = task.step(policy.get_action(observation))
        times.append(time.perf_counter() - start)
    per_image = statistics.median(times) / 8
    report.add("two cameras, 640 x 368, 4 envs: one step per image", per_image * 1e3, "ms")
    report.add("  passes of the renderer in a step", len(passes), "", 1.0)
    RenderPass.render = render  # type: ignore[method-assign]
    task.close()


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    report = Report("tasks", ("mujoco", "torch", "numba", "gymnasium"))
    core_suite(report)
    cameras(report)
    report.finish(arguments.json)


if __name__ == "__main__":
    main()
