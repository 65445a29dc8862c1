"""Shared code of the benchmarks: interleaved timing, so that load affects all contenders equally, and the report."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def interleave(contenders: dict[str, Callable[[], Any]], rounds: int, calls: int) -> dict[str, list[float]]:
    """Return the seconds per call of each contender for each round.

    The contenders alternate: each round makes ``calls`` calls of every contender.
    """
    for call in contenders.values():
        for _ in range(max(3, calls // 4)):
            call()
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            start = time.perf_counter()
            for _ in range(calls):
                call()
            times[name].append((time.perf_counter() - start) / calls)
    return times


def difference(times: dict[str, list[float]], full: str, bare: str) -> float:
    """Return the median over rounds of the time of ``full`` minus the time of ``bare``, in seconds."""
    return statistics.median(a - b for a, b in zip(times[full], times[bare], strict=True))


def spread(times: dict[str, list[float]], full: str, bare: str) -> float:
    """Return the interquartile range of the differences, in seconds: the uncertainty of :func:`difference`."""
    low, _, high = statistics.quantiles((a - b for a, b in zip(times[full], times[bare], strict=True)), n=4)
    return high - low


def ratio(times: dict[str, list[float]], ours: str, other: str) -> float:
    """Return the median over rounds of ours / other."""
    return statistics.median(a / b for a, b in zip(times[ours], times[other], strict=True))


class Report:
    """Measured values with units and upper bounds, printed as a table and written as JSON."""

    def __init__(self, title: str, packages: tuple[str, ...]) -> None:
        self.title = title
        self.rows: list[dict[str, Any]] = []
        self.machine = {
            "date": time.strftime("%Y-%m-%d"),
            "python": platform.python_version(),
            "cpu": _cpu(),
            "cores": len(os.sched_getaffinity(0)),
            **{package: version(package) for package in packages},
        }

    def add(self, what: str, value: float, unit: str, bound: float | None = None, at_least: bool = False) -> None:
        """Add one measured value; ``bound`` is its upper bound, or with ``at_least`` its lower bound."""
        self.rows.append({"what": what, "value": value, "unit": unit, "bound": bound, "at_least": at_least})
        Console().print(f"  {what}: {value:.4g} {unit}", highlight=False)

    def finish(self, path: Path | None) -> None:
        """Print the table, and write JSON to ``path`` if given."""
        table = Table("what", "measured", "bound", "", title=self.title)
        for row in self.rows:
            side = "at least" if row["at_least"] else "at most"
            bound = "" if row["bound"] is None else f"{side} {row['bound']:g} {row['unit']}"
            holds = (
                row["bound"] is None
                or (row["value"] >= row["bound"]) == row["at_least"]
                or row["value"] == row["bound"]
            )
            verdict = "" if row["bound"] is None else ("ok" if holds else "MISSED")
            table.add_row(row["what"], f"{row['value']:.3g} {row['unit']}", bound, verdict)
        console = Console()
        console.print(table)
        console.print(self.machine)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(
                json.dumps({"title": self.title, "machine": self.machine, "rows": self.rows}, indent=2) + "\n"
            )


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()
