"""How often the planners succeed at the tasks.

.venv/bin/python benchmarks/success.py [--tasks pick opening] [--episodes 100] [--json out/success.json]

Each task runs in batches of 25 envs, each batch with a seed of its own, each env with draws of its own.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import sensorium as sn

BATCH = 25
LEAST = {"pick": 0.8, "pick_and_place": 0.8, "opening": 0.7, "door_opening": 0.7, "nav_to_obj": 0.8}
"""Success rate that each must reach."""


def run(name: str, n_envs: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One episode in each env: success, steps and retries, (B,) each."""
    task = sn.tasks.make(name, n_envs=n_envs, seed=seed, keep_history=False)
    policy: Any = sn.policies.make("planner", task)
    task.register_policy(policy)
    observation, _ = task.reset()
    while not task.is_done().all():
        observation, *_ = task.step(policy.get_action(observation))
    result = task.judge_success(), task.step_count.copy(), policy.retries.copy()
    task.close()
    return result


def main() -> None:
    """Run every task and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(LEAST), choices=list(LEAST))
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    arguments = parser.parse_args()
    table = Table("task", "episodes", "seeds", "success", "at least", "steps (median)", "retries (mean)", "minutes")
    rows = []
    for name in arguments.tasks:
        start = time.perf_counter()
        sizes = [min(BATCH, arguments.episodes - first) for first in range(0, arguments.episodes, BATCH)]
        seeds = [arguments.first_seed + number for number in range(len(sizes))]
        parts = [run(name, size, seed) for size, seed in track(list(zip(sizes, seeds, strict=True)), name)]
        success, steps, retries = (np.concatenate(values) for values in zip(*parts, strict=True))
        minutes = (time.perf_counter() - start) / 60
        rate = float(success.mean())
        rows.append({"task": name, "episodes": len(success), "seeds": seeds, "success": rate, "least": LEAST[name]})
        table.add_row(
            name,
            str(len(success)),
            f"{seeds[0]} to {seeds[-1]}",
            f"{rate:.0%}" + ("" if rate >= LEAST[name] else " MISSED"),
            f"{LEAST[name]:.0%}",
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
