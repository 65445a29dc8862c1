"""``progress_lines``: the progress of a training as plain lines, for output that is not a terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from sensorium.errors import OptionError

if TYPE_CHECKING:
    from sensorium.training.evaluation import Evaluation
    from sensorium.training.trainer import Progress


@contextmanager
def progress_lines(every: float = 10.0, file: TextIO | None = None) -> Iterator[Callable[[Progress], None]]:
    """Print a line about a training every few seconds during the block.

    A thread prints the lines, so that they also appear during an evaluation or a long update.

    Args:
        every: seconds between lines, > 0.
        file: where to print. Default: stderr.

    Yields:
        A function for the argument ``progress`` of :func:`train` or :func:`train_ppo`.

    Raises:
        OptionError: ``every`` is not > 0.

    Example:
        >>> with progress_lines() as progress:
        ...     train(recipe("balance"), "runs/balance", progress=progress)
        24,000 of 180,000 steps (13%), 610 steps/s, return 71.3, 4:16 left
    """
    if not 0 < every < float("inf"):
        raise OptionError(f"every must be > 0 s, got {every}")
    newest: list[Progress] = []
    ended = threading.Event()
    out = file or sys.stderr

    def show(progress: Progress) -> None:
        newest[:] = [progress]

    def print_lines() -> None:
        while not ended.wait(every):
            try:
                print(describe(newest[0]) if newest else "starting, no steps yet", file=out, flush=True)
            except (OSError, ValueError):  # the reader of the output has gone, or the file is closed
                return

    printer = threading.Thread(target=print_lines, name="progress", daemon=True)
    printer.start()
    try:
        yield show
    finally:
        ended.set()
        printer.join()


def describe(progress: Progress) -> str:
    """Return a progress as one line: steps, speed, recent return, last evaluation and time left."""
    steps = min(progress.steps, progress.total)  # the last update may go beyond
    part = f"{steps / progress.total:.0%}"
    line = f"{steps:,} of {progress.total:,} steps ({part}), {status(progress, ', ')}"
    left = max(progress.total - progress.steps, 0)
    return f"{line}, {_duration(left / progress.rate)} left" if progress.rate > 0 else line


def status(progress: Progress, separator: str = "  ") -> str:
    """Return speed, recent return and last evaluation."""
    parts = [f"{progress.rate:,.0f} steps/s"]
    if progress.recent is not None:
        parts.append(f"return {progress.recent:.1f}")
    if progress.evaluation is not None:
        parts.append(f"evaluated: {score(progress.evaluation)}")
    return separator.join(parts)


def score(evaluation: Evaluation) -> str:
    """Return the mean return of an evaluation, its fraction of the maximum, and the task's own metrics."""
    part = "" if evaluation.fraction is None else f" ({evaluation.fraction:.0%} of the maximum)"
    metrics = "".join(f", {name} {value:.3f}" for name, value in evaluation.metrics.items())
    return f"{evaluation.mean:.1f}{part}{metrics}"


def _duration(seconds: float) -> str:
    """Return a duration as 4:16 or 1:04:16."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
