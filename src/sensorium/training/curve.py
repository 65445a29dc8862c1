"""The files about the evaluations of a training: ``evaluations.json`` and the learning curve ``curve.png``."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sensorium.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVE = "curve.png"
_WIDTH, _HEIGHT = 7.0, 2.8
"""Size of a panel, inches at 100 pixels per inch."""


def write_evaluations(folder: Path, evaluations: Sequence[Mapping[str, Any]]) -> None:
    """Write ``evaluations.json`` and ``curve.png`` to the folder of a training.

    Args:
        folder: the folder.
        evaluations: entries with ``steps``, the statistics of :meth:`Evaluation.summary`, and ``episodes``.
    """
    write_whole(folder / "evaluations.json", json.dumps(evaluations, indent=1).encode())
    write_whole(folder / CURVE, draw_curve(evaluations))


def draw_curve(evaluations: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the learning curve as PNG: returns over steps, and a panel for each metric of the task.

    Args:
        evaluations: see :func:`write_evaluations`, at least one.
    """
    from matplotlib.figure import Figure  # pyplot would need a display, or change the user's backend

    metrics = list(evaluations[-1]["episodes"].get("metrics", {}))  # a training of an older version has none
    figure = Figure(figsize=(_WIDTH, _HEIGHT * (1 + len(metrics))), dpi=100, layout="constrained")
    panels = figure.subplots(1 + len(metrics), 1, sharex=True, squeeze=False)[:, 0]
    steps = [entry["steps"] for entry in evaluations]
    _draw_returns(panels[0], steps, evaluations)
    for panel, name in zip(panels[1:], metrics, strict=True):
        panel.plot(steps, [entry.get(name, float("nan")) for entry in evaluations], marker=".", color="tab:green")
        panel.set_ylabel(name)
        panel.grid(alpha=0.3)
    panels[-1].set_xlabel("env steps")
    panels[-1].xaxis.set_major_formatter("{x:,.0f}")
    png = io.BytesIO()
    figure.savefig(png, format="png")
    return png.getvalue()


def _draw_returns(panel: Axes, steps: Sequence[int], evaluations: Sequence[Mapping[str, Any]]) -> None:
    lowest, highest, mean = ([entry[f"return_{name}"] for entry in evaluations] for name in ("min", "max", "mean"))
    panel.fill_between(steps, lowest, highest, alpha=0.2, color="tab:blue", linewidth=0, label="all episodes")
    panel.plot(steps, mean, marker=".", color="tab:blue", label="mean")
    maximum = evaluations[-1]["episodes"]["max_return"]
    if maximum is not None:
        panel.axhline(maximum, color="gray", linestyle="--", linewidth=1, label="maximum of the task")
    panel.set_ylabel("return in evaluations")
    panel.grid(alpha=0.3)
    panel.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, fontsize="small")
