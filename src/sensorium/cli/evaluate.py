"""``sensorium evaluate``: evaluate a trained entity."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from sensorium.cli.arguments import check_min, default

if TYPE_CHECKING:
    from sensorium.training import Evaluation


@dataclass
class Evaluate:
    """Evaluate a trained robot.

    Runs episodes that the training did not have, and prints a table of the returns and the success rate.

    Examples:
        sensorium evaluate runs/balance --episodes 20
        sensorium evaluate runs/walk --episodes 64 --device cpu
        sensorium evaluate runs/balance --which last --json runs/balance/figures.json
    """

    folder: Annotated[Path, tyro.conf.Positional]
    """Folder of the training."""
    episodes: int = 20
    """Number of episodes."""
    seed: Annotated[int | None, default("one that the training did not use")] = None
    """Seed of the episodes."""
    device: Annotated[str | None, default("that of the training")] = None
    """Device to run the episodes on: cpu, or for a training on tensors also cuda, cuda:1, ..."""
    which: Literal["best", "last"] = "best"
    """Brain to evaluate: best, the one of the best evaluation during training, or last."""
    json: Annotated[Path | None, default("not written")] = None
    """JSON file to write the figures to, including those of each episode."""
    modules: Annotated[tuple[str, ...], default("none", aliases=("--module",))] = ()
    """Python files to import first, with tasks and robots of your own, or names of installed modules. The
    working folder is not searched."""

    def run(self) -> int:
        """Evaluate and print a table."""
        from sensorium.user_modules import import_modules

        import_modules(self.modules)
        from sensorium.files import check_replaceable, made_folder, write_whole

        check_min("episodes", self.episodes, 1)
        if self.json is None:
            self._print(self._evaluate())
            return 0
        check_replaceable(self.json)
        with made_folder(self.json.parent, self.json):
            result = self._evaluate()
            self._print(result)
            figures = {**result.summary(), "each": result.model_dump(mode="json")}
            write_whole(self.json, json.dumps(figures, indent=2).encode() + b"\n")
        return 0

    def _print(self, result: Evaluation) -> None:
        """Print the table of the figures."""
        from rich.console import Console
        from rich.table import Table

        names = ("episodes", "return", "min", "max", "of the maximum", "success", *result.metrics)
        table = Table(*names, title=str(self.folder))
        fraction = "" if result.fraction is None else f"{result.fraction:.1%}"
        returns = (f"{value:.1f}" for value in (result.mean, min(result.returns), max(result.returns)))
        metrics = (f"{value:.3f}" for value in result.metrics.values())
        table.add_row(str(len(result.returns)), *returns, fraction, f"{result.success:.0%}", *metrics)
        Console(markup=False, emoji=False).print(table)  # names of users are no markup

    def _evaluate(self) -> Evaluation:
        from sensorium.training import TrainOptions, evaluate, evaluate_ppo
        from sensorium.training.ppo_options import is_ppo

        if is_ppo(self.folder):
            return evaluate_ppo(self.folder, self.episodes, self.seed, self.which, self.device)
        on_arrays = self.device == "cpu" and TrainOptions.load(self.folder).device is None
        device = None if on_arrays else self.device
        return evaluate(self.folder, self.episodes, self.seed, self.which, device=device)
