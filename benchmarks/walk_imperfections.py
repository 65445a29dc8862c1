"""Measure what imperfect sensors cost a walking policy that was trained without them, and one trained with them.

.venv/bin/python benchmarks/walk_imperfections.py train --out runs/walk_imperfections [--device cuda] [--envs 4096]
.venv/bin/python benchmarks/walk_imperfections.py evaluate --out runs/walk_imperfections [--picture out/tracking.png]

``train`` makes eight trainings per seed: on ground truth, with all imperfections, and with each one alone.
``evaluate`` runs the first two policies on the CPU with ground truth, with each imperfection alone, and with all of
them. Each of the other six is run with its own imperfection and with ground truth. It prints the tracking (1 is
perfect) and how many of the episodes of 20 s end with a fall. Episodes have pushes and changing commands, as in the
training.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.table import Table

from sensorium.training.ppo import train_ppo
from sensorium.training.ppo_evaluation import evaluate_ppo
from sensorium.training.ppo_options import PPOOptions

BOTH = {"truth": "ground truth", "imperfect": "all imperfections"}
"""Name in files -> what a policy was trained with, of those that are evaluated with every imperfection."""
SENSORS = {"imu": "IMU", "attitude": "Attitude", "joints": "JointEncoder"}
ALONE: dict[str, dict[str, dict[str, float]]] = {
    "noise": {
        "imu": {"acc_noise": 0.1, "gyro_noise": 0.05},
        "attitude": {"noise": 0.02},
        "joints": {"noise": 0.01, "vel_noise": 0.5},
    },
    "bias": {
        "imu": {"acc_bias_spread": 0.1, "gyro_bias_spread": 0.05},
        "attitude": {"bias_spread": 0.03},
        "joints": {"bias_spread": 0.02},
    },
    "delay": {name: {"delay": 0.03} for name in SENSORS},
    "jitter": {name: {"delay": 0.015, "jitter": 0.015} for name in SENSORS},
    "rate": {name: {"rate": 25.0} for name in SENSORS},
    "quantisation": {
        "imu": {"acc_resolution": 0.2, "gyro_resolution": 0.1},
        "attitude": {"resolution": 0.05},
        "joints": {"resolution": 0.02, "vel_resolution": 0.5},
    },
}
"""Imperfection -> sensor -> options, in rad, rad/s, m/s², s and Hz."""
ALL = ("noise", "bias", "jitter", "rate", "quantisation")
"""Imperfections that act together; jitter has a delay of its own."""
PERFECT = "ground truth"
KINDS = (*BOTH, *ALONE)
"""What policies are trained with, as in the names of their folders."""


def rig(*imperfections: str) -> dict[str, Any]:
    """Return the sensors of the quadruped with these imperfections."""
    sensors = []
    for name, kind in SENSORS.items():
        options: dict[str, float] = {}
        for imperfection in imperfections:
            options |= ALONE[imperfection][name]
        mount = {} if kind == "JointEncoder" else {"mount": {"link": "torso"}}
        sensors.append({"name": name, "type": kind, "options": options, **mount})
    return {"sensors": sensors}


def options_of(kind: str, seed: int, arguments: argparse.Namespace) -> PPOOptions:
    """Return the options of a training."""
    return PPOOptions(
        task="walk",
        device=arguments.device,
        n_envs=arguments.envs,
        steps=arguments.steps,
        seed=seed,
        stagger=True,
        evaluate_every=arguments.steps,
        checkpoint_every=arguments.steps,
        task_options={"rig": rig(kind) if kind in ALONE else rig(*ALL), "ground_truth": kind == "truth"},
    )


Result = dict[str, dict[str, list[tuple[float, float]]]]
"""Kind of training -> condition -> tracking and fraction of falls of every seed."""


def evaluate(arguments: argparse.Namespace) -> Result:
    """Evaluate all policies of the kinds that were asked for."""
    conditions = {PERFECT: rig(), **{name: rig(name) for name in ALONE}, "all": rig(*ALL)}
    found: Result = {}
    for kind in arguments.kinds:
        found[kind] = {name: [] for name in (conditions if kind in BOTH else (PERFECT, kind))}
        for seed in arguments.seeds:
            for name, results in found[kind].items():
                result = evaluate_ppo(
                    arguments.out / f"{kind}_{seed}",
                    episodes=arguments.episodes,
                    which="last",
                    device="cpu",
                    rig=conditions[name],
                    ground_truth=False,
                )
                value = result.metrics["tracking"], 1.0 - result.success
                results.append(value)
                Console().print(
                    f"{kind} {seed}, {name}: tracking {value[0]:.3f}, falls {value[1]:.1%}", highlight=False
                )
    return found


def print_table(found: Result) -> None:
    """Print means over the seeds, with the lowest and the highest."""
    kinds = [kind for kind in BOTH if kind in found]
    table = Table("evaluated with", *(f"trained with {BOTH[kind]}" for kind in kinds), "with it alone", "… on truth")
    for name in (PERFECT, *ALONE, "all"):
        cells = [_cell(found[kind][name]) for kind in kinds]
        cells += [_cell(found[name][condition]) if name in found else "" for condition in (name, PERFECT)]
        table.add_row(name, *cells)
    Console(width=160).print(table)


def _cell(values: list[tuple[float, float]]) -> str:
    tracking, falls = zip(*values, strict=True)
    low, high, mean = min(tracking), max(tracking), statistics.mean(tracking)
    return f"{mean:.3f} ({low:.3f} to {high:.3f}), falls {statistics.mean(falls):.0%}"


def draw(found: Result, path: Path) -> None:
    """Draw the tracking: one bar per training and condition, one dot per seed."""
    figure, axes = plt.subplots(figsize=(9.0, 3.8), layout="constrained")
    names = [PERFECT, *ALONE, "all"]
    trainings = {
        **{
            f"trained with {what}": [found[kind][name] for name in names]
            for kind, what in BOTH.items()
            if kind in found
        },
        "trained with it alone": [found[name][name] if name in found else [] for name in names],
    }
    colors = ("#b9553a", "#2f6f8f", "#8fae5d")
    for place, (label, results) in enumerate(trainings.items()):
        x = np.arange(len(names)) + (place - 1) * 0.27
        here = [number for number, values in enumerate(results) if values]
        if not here:
            continue
        seeds = np.array([[tracking for tracking, _ in results[number]] for number in here])
        axes.bar(x[here], seeds.mean(axis=1), 0.25, color=colors[place], label=label)
        axes.plot(x[here], seeds, "o", color="black", markersize=3, alpha=0.6)
    axes.set_xticks(range(len(names)), names)
    axes.set_xlabel("evaluated with")
    axes.set_ylabel("tracking (1 is perfect)")
    axes.set_ylim(0, 1)
    axes.set_title("Walking with one imperfection at a time; dots are seeds")
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=3)
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Train or evaluate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("train", "evaluate"))
    parser.add_argument("--out", type=Path, required=True, help="folder of the trainings")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds of the trainings")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="kinds of trainings")
    parser.add_argument("--device", default="cuda", help="device of the trainings")
    parser.add_argument("--envs", type=int, default=4096, help="envs of the trainings")
    parser.add_argument("--steps", type=int, default=25_000_000, help="steps of each training")
    parser.add_argument("--episodes", type=int, default=64, help="episodes per evaluation")
    parser.add_argument("--picture", type=Path, help="also draw the result")
    parser.add_argument("--json", type=Path, help="also write the result to this file")
    arguments = parser.parse_args()
    if arguments.command == "train":
        for kind in arguments.kinds:
            for seed in arguments.seeds:
                result = train_ppo(
                    options_of(kind, seed, arguments), arguments.out / f"{kind}_{seed}", tensorboard=False
                )
                assert result.best is not None
                Console().print(f"{kind} {seed}: return {result.best.mean:.2f} on {arguments.device}")
        return
    found = evaluate(arguments)
    print_table(found)
    if arguments.picture:
        draw(found, arguments.picture)
    if arguments.json:
        arguments.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
