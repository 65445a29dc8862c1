"""What a twin remembers about where its figures come from, and the progress that a fit shows."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

from sensorium._arguments import checked_flag
from sensorium.fit.logs import SensorLog


class ProgressStep(Protocol):
    """Shows the next step of a fit."""

    def __call__(self, text: str) -> None: ...


def provenance(log: SensorLog, reference: SensorLog | None = None, **settings: object) -> dict[str, Any]:
    """Return source, hash and length of the logs, version, date (UTC) and settings of a fit."""
    try:
        release = version("sensorium")
    except PackageNotFoundError:  # the sources are on the path, but not installed
        release = "unknown"
    found: dict[str, Any] = {
        "log": log.source,
        "log_hash": log.hash,
        "samples": len(log),
        "duration": log.duration,
        "version": release,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "settings": {name: value for name, value in settings.items() if value is not None},
    }
    if reference is not None:
        found |= {"reference": reference.source, "reference_hash": reference.hash}
    return found


@contextmanager
def steps(total: int, shown: bool | None) -> Iterator[ProgressStep]:
    """Show a progress bar with ``total`` steps; ``shown=None`` shows it if stderr is a terminal."""
    if not (sys.stderr.isatty() if shown is None else checked_flag("progress", shown)):
        yield lambda text: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("fit", total=total)

        def step(text: str) -> None:
            bar.update(task, description=text, advance=1)

        yield step
