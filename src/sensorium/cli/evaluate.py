"""``sensorium evaluate``: evaluate a trained entity."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from sensorium.cli.arguments import check_min, default


@dataclass
class Evaluate:
    """Evaluate a trained robot.

    Runs episodes that the training did not have, and prints a table of the returns and the success rate.

    Examples:
        sensorium evaluate runs/balance --episodes 20
        sensorium evaluate runs/balance --which last --json runs/balance/figures.json
    """

    folder: Annotated[Path, tyro.conf.Positional]
    """Folder of the training."""
    episodes: int = 20
    """Number of episodes."""
    seed: Annotated[int | None, default("one that the training did not use")] = None
    """Seed of the episodes."""
    which: Literal["best", "last"] = "best"
    """Brain to evaluate: best, the one of the best evaluation during training, or last."""
    json: Annotated[Path | None, default("not written")] = None
    """JSON file to write the figures to, including those of each episode."""

    def run(self) -> int:
        """Evaluate and print a table."""
        from rich.console import Console
        from rich.table import Table

        from sensorium.files import write_whole
        from sensorium.training import evaluate

        check_min("episodes", self.episodes, 1)
        result = evaluate(self.folder, self.episodes, self.seed, self.which)
        table = Table("episodes", "return", "min", "max", "of the maximum", "success", title=str(self.folder))
        fraction = "" if result.fraction is None else f"{result.fraction:.1%}"
        returns = (f"{value:.1f}" for value in (result.mean, min(result.returns), max(result.returns)))
        table.add_row(str(len(result.returns)), *returns, fraction, f"{result.success:.0%}")
        Console().print(table)
        if self.json is not None:
            self.json.parent.mkdir(parents=True, exist_ok=True)
            figures = {**result.summary(), "each": result.model_dump(mode="json")}
            write_whole(self.json, json.dumps(figures, indent=2).encode() + b"\n")
        return 0
