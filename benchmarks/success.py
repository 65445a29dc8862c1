"""Measure the success rates of the planners.

.venv/bin/python benchmarks/success.py [--tasks pick opening] [--seeds 100] [--json out/success.json]

One episode per seed, in one env that is reseeded.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import sensorium as sn

MIN_RATES = {"pick": 0.8, "pick_and_place": 0.8, "opening": 0.7, "door_opening": 0.7, "nav_to_obj": 0.8}
"""Lower bound of the success rate of each task."""


def run(name: str, seeds: Iterable[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Run one episode per seed; return success, steps and retries, (seeds,) each."""
    task = sn.tasks.make(name, keep_history=False)
    policy: Any = sn.policies.make("planner", task)
    task.register_policy(policy)
    rows = []
    for seed in seeds:
        task.reseed(seed)
        observation, _ = task.reset()
        while not task.is_done().all():
            observation, *_ = task.step(policy.get_action(observation))
        rows.append((task.judge_success()[0], task.step_count[0], policy.retries[0]))
    task.close()
    success, steps, retries = (np.array(column) for column in zip(*rows, strict=True))
    return success, steps, retries


def main() -> None:
    """Run every task and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(MIN_RATES), choices=list(MIN_RATES))
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    table = Table("task", "episodes", "seeds", "success", "at least", "steps (median)", "retries (mean)", "minutes")
    rows = []
    for name in arguments.tasks:
        start = time.perf_counter()
        seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
        success, steps, retries = run(name, track(seeds, name))
        minutes = (time.perf_counter() - start) / 60
        rate = float(success.mean())
        rows.append(
            {
                "task": name,
                "episodes": len(success),
                "seeds": [seeds[0], seeds[-1]],
                "success": rate,
                "least": MIN_RATES[name],
            }
        )
        table.add_row(
            name,
            str(len(success)),
            f"{seeds[0]} to {seeds[-1]}",
            f"{rate:.0%}" + ("" if rate >= MIN_RATES[name] else " MISSED"),
            f"{MIN_RATES[name]:.0%}",
            f"{np.median(steps):.0f}",
            f"{retries.mean():.2f}",
            f"{minutes:.1f}",
        )
    Console().print(table)
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
