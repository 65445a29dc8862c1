"""``sensorium evaluate``: how good a trained robot is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from sensorium.errors import OptionError


@dataclass
class Evaluate:
    """Let a trained robot do its task, in episodes that it was not trained on.

    Example: sensorium evaluate runs/balance --episodes 20
    """

    folder: Annotated[Path, tyro.conf.Positional]
    """Of the training."""
    episodes: int = 20
    """How many."""
    seed: int | None = None
    """Of the episodes. Default: one that the training did not have."""
    which: str = "best"
    """Which brain: best, that of the best evaluation during the training; or last."""
    json: Path | None = None
    """File to write the figures to, as JSON, those of each episode too."""

    def run(self) -> int:
        """Evaluate, and print a table."""
        from rich.console import Console
        from rich.table import Table

        from sensorium.files import write_whole
        from sensorium.training import evaluate

        if self.episodes < 1:
            raise OptionError(f"--episodes must be at least 1, got {self.episodes}")
        result = evaluate(self.folder, self.episodes, self.seed, self.which)
        table = Table("episodes", "return", "min", "max", "of the greatest", "success", title=str(self.folder))
        fraction = "" if result.fraction is None else f"{result.fraction:.1%}"
        returns = (f"{value:.1f}" for value in (result.mean, min(result.returns), max(result.returns)))
        table.add_row(str(len(result.returns)), *returns, fraction, f"{result.success:.0%}")
        Console().print(table)
        if self.json is not None:
            self.json.parent.mkdir(parents=True, exist_ok=True)
            about = {**result.summary(), "each": result.model_dump(mode="json")}
            write_whole(self.json, json.dumps(about, indent=2).encode() + b"\n")
        return 0
