"""``sensorium export-policy``: write a trained policy as an ONNX file with its contract."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from sensorium.cli.arguments import default


@dataclass
class ExportPolicy:
    """Write a trained policy as an ONNX file for a robot.

    The file holds the network with its normalisation, and the contract: order, unit, frame, topic, rate, latency and
    noise of every observation, and joints, unit, scale and limits of every action. The contract is also written beside
    it as JSON. Python programs run the file with sensorium.deploy, which needs NumPy and onnxruntime only.

    Examples:
        sensorium export-policy runs/balance --out policy.onnx
        sensorium export-policy runs/walk --which last --out walk.onnx
    """

    run_folder: Annotated[Path, tyro.conf.Positional]
    """Folder of the training."""
    out: Annotated[Path | None, default("policy.onnx in the folder")] = None
    """File to write; its contract is written beside it with the ending .json."""
    which: Literal["best", "last"] = "best"
    """Policy to export: best, the one of the best evaluation during training, or last."""
    modules: Annotated[tuple[str, ...], default("none", aliases=("--module",))] = ()
    """Python files to import first, with tasks and robots of your own, or names of installed modules. The
    working folder is not searched."""

    def run(self) -> int:
        """Export and print a table of the terms."""
        from sensorium.user_modules import import_modules

        import_modules(self.modules)
        from rich.console import Console
        from rich.table import Table

        from sensorium.training import export_policy
        from sensorium.training.policy_file import FILE

        contract = export_policy(self.run_folder, self.out, self.which)
        path = self.run_folder / FILE if self.out is None else self.out
        table = Table("observation", "values", "unit", "frame", "rate", "from")
        for term in contract.observations:
            size = "×".join(map(str, ((term.history,) if term.history > 1 else ()) + term.shape))
            table.add_row(
                term.name,
                size,
                term.unit if isinstance(term.unit, str) else ", ".join(term.unit),
                term.frame,
                f"{term.rate:g} Hz",
                f"{term.topic} {term.field}" if term.source == "sensor" else term.source,
            )
        Console(markup=False, emoji=False).print(table)  # names of users are no markup
        for action in contract.actions:
            unit = action.unit if isinstance(action.unit, str) else ", ".join(action.unit)
            print(f"action {action.name}: {action.kind} of {', '.join(action.names)} in {unit} at {action.rate:g} Hz")
        print(
            f"{path} and {path.with_suffix('.json').name}: {contract.n_observations} inputs, hash {contract.hash[:16]}"
        )
        return 0
