"""Progress bars on stderr, and interruption of long commands by SIGTERM."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(label: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """Show a progress bar during the block.

    Args:
        label: text before the bar.
        total: count at the end.
        unit: what is counted: "steps", "episodes".

    Yields:
        A function that advances the bar by a count.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda count: bar.advance(task, count)


@contextmanager
def status_progress(label: str, total: int) -> Iterator[Callable[[int, str], None]]:
    """Show a progress bar with a status text during the block.

    Args:
        label: text before the bar.
        total: count at the end.

    Yields:
        A function that sets the count and the status text.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[status]}"))
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    with Progress(*columns, *times, console=Console(file=sys.stderr), transient=True) as bar:
        task = bar.add_task("", total=total, status="")
        yield lambda done, status: bar.update(task, completed=min(done, total), status=status)


class Terminated(KeyboardInterrupt):
    """SIGTERM came."""


@contextmanager
def interrupt_on_sigterm() -> Iterator[None]:
    """Turn SIGTERM into :class:`Terminated` during the block, so that it ends a command as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():  # signals reach the main thread only
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def stop_request() -> Iterator[list[int]]:
    """Catch the first Ctrl-C or SIGTERM, so that a command can end by itself; a second Ctrl-C ends it at once.

    Yields:
        The signals that came.
    """
    received: list[int] = []

    def note(number: int, _: object) -> None:
        if received and number == signal.SIGINT:
            raise KeyboardInterrupt
        received.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_by(received: list[int]) -> None:
    """Raise what the first signal would have raised, if one came."""
    if received:
        raise Terminated if received[0] == signal.SIGTERM else KeyboardInterrupt
