"""Compare a balancing robot that is trained on ground truth with one that is trained with imperfect sensors.

Both have the same body, brain and seeds. One is trained on ground truth, the other with the delay, noise and biases of
its sensors. Each training ends at 96% of the maximum return with its own sensors, or after the number of steps of the
recipe. Both are evaluated with perfect and with imperfect sensors. Run the command again to resume it.

.venv/bin/python benchmarks/train_with_imperfections.py --out runs/imperfections --seeds 3 --picture out/returns.png
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from sensorium.robots import SensorRig
from sensorium.training import EntityOptions, TrainOptions, evaluate, recipe, train

KEPT = ("joints", "history_length", "rate")
"""Sensor options that are not imperfections."""
COLORS = {"ground truth": "#b9553a", "imperfections on": "#2f6f8f"}


def perfect(entity: EntityOptions) -> EntityOptions:
    """Return the options of the same robot with sensors that read ground truth without delay."""
    sensors = [
        each.model_copy(update={"options": {name: value for name, value in each.options.items() if name in KEPT}})
        for each in entity.sensors.sensors
    ]
    return entity.model_copy(update={"sensors": SensorRig(sensors=tuple(sensors))})


def trained(folder: Path, steps: int, seed: int, kind: str) -> Path:
    """Train one of the two robots, unless its training is complete; return the folder of the training."""
    real = recipe("balance", steps=steps, seed=seed)
    options = real if kind == "imperfections on" else real.model_copy(update={"entity": perfect(real.entity)})
    run = folder / f"{kind.replace(' ', '_')}_{seed}"
    if not is_done(run, options):
        train(options, run, resume=(run / "checkpoints").is_dir())
    return run


def is_done(run: Path, options: TrainOptions) -> bool:
    """Return whether a training is complete."""
    if not (run / "evaluations.json").is_file():
        return False
    evaluations = json.loads((run / "evaluations.json").read_bytes())
    enough = options.stop_at or 2.0
    return any(each["fraction_of_max"] >= enough or each["steps"] >= options.steps for each in evaluations)


def draw(figures: dict[str, dict[str, list[float]]], path: Path) -> None:
    """Draw the fractions of the maximum return: one bar per training and evaluation, one dot per seed."""
    figure, axes = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
    worlds = list(next(iter(figures.values())))
    for place, (kind, found) in enumerate(figures.items()):
        for group, world in enumerate(worlds):
            x = group + (place - 0.5) * 0.36
            values = found[world]
            label = f"trained on {kind}" if kind == "ground truth" else "trained with imperfections on"
            axes.bar(x, np.mean(values), 0.33, color=COLORS[kind], label=label if group == 0 else None)
            axes.plot(np.full(len(values), x), values, "o", color="black", markersize=4, alpha=0.6)
            axes.annotate(f"{np.mean(values):.0%}", (x, 0.02), ha="center", color="white", weight="bold")
    axes.set_xticks(range(len(worlds)), [f"evaluated with\n{world}" for world in worlds])
    axes.set_ylabel("fraction of the maximum return")
    axes.set_ylim(0, 1.05)
    axes.set_title("Balancing from IMU and wheel encoders; dots are seeds")
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Train, evaluate and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the trainings")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=recipe("balance").steps, help="steps of each training")
    parser.add_argument("--episodes", type=int, default=20, help="episodes of each evaluation")
    parser.add_argument("--picture", type=Path, help="file of the figure")
    args = parser.parse_args()
    real = recipe("balance").entity
    worlds = {"perfect sensors": perfect(real), "imperfections on": real}
    figures: dict[str, dict[str, list[float]]] = {}
    for kind in COLORS:
        figures[kind] = {world: [] for world in worlds}
        for seed in range(args.seeds):
            run = trained(args.out, args.steps, seed, kind)
            for world, entity in worlds.items():
                fraction = evaluate(run, args.episodes, entity=entity).fraction
                assert fraction is not None, "the maximum return of balance is known"
                figures[kind][world].append(fraction)
                print(f"trained on {kind}, seed {seed}, evaluated with {world}: {fraction:.1%}", flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")
    if args.picture is not None:
        draw(figures, args.picture)


if __name__ == "__main__":
    main()
