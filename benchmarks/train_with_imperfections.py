"""A balancing robot that learned from perfect readings, beside one that learned from what its sensors really read.

Both have the same body, brain and seeds. One is trained on ground truth, the other with the delay, the noise and the
biases of its sensors, each until it has 96% of the greatest return with its own sensors, or for as many steps as the
recipe has; both are evaluated with perfect sensors, and with real ones. Run again, it goes on.

python benchmarks/train_with_imperfections.py --out runs/imperfections --seeds 3 --picture train_with_imperfections.png
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
"""Options of sensors that are no imperfections."""
COLORS = {"ground truth": "#b9553a", "imperfections on": "#2f6f8f"}


def perfect(entity: EntityOptions) -> EntityOptions:
    """The same robot with sensors that read the truth, at once."""
    sensors = [
        each.model_copy(update={"options": {name: value for name, value in each.options.items() if name in KEPT}})
        for each in entity.sensors.sensors
    ]
    return entity.model_copy(update={"sensors": SensorRig(sensors=tuple(sensors))})


def trained(folder: Path, steps: int, seed: int, kind: str) -> Path:
    """Train one of the two, unless that was done before."""
    real = recipe("balance", steps=steps, seed=seed)
    options = real if kind == "imperfections on" else real.model_copy(update={"entity": perfect(real.entity)})
    run = folder / f"{kind.replace(' ', '_')}_{seed}"
    if not is_done(run, options):
        train(options, run, resume=(run / "checkpoints").is_dir())
    return run


def is_done(run: Path, options: TrainOptions) -> bool:
    """Whether a training came to its end before."""
    if not (run / "evaluations.json").is_file():
        return False
    evaluations = json.loads((run / "evaluations.json").read_bytes())
    enough = options.stop_at or 2.0
    return any(each["fraction_of_max"] >= enough or each["steps"] >= options.steps for each in evaluations)


def draw(figures: dict[str, dict[str, list[float]]], path: Path) -> None:
    """Fractions of the greatest return: one bar a kind of training and of evaluation, one dot a seed."""
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
    axes.set_ylabel("return, of the greatest")
    axes.set_ylim(0, 1.05)
    axes.set_title("Balancing from IMU and wheel encoders; dots are seeds")
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Train, evaluate, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the trainings")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=recipe("balance").steps, help="of each training")
    parser.add_argument("--episodes", type=int, default=20, help="of each evaluation")
    parser.add_argument("--picture", type=Path, help="file to draw into")
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
                assert fraction is not None, "balance has a greatest return"
                figures[kind][world].append(fraction)
                print(f"trained on {kind}, seed {seed}, evaluated with {world}: {fraction:.1%}", flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")
    if args.picture is not None:
        draw(figures, args.picture)


if __name__ == "__main__":
    main()
