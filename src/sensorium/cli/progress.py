"""Progress bars on stderr, and what Ctrl-C and SIGTERM do during commands."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LINE_EVERY = 10.0
"""Seconds between lines of progress where stderr is no terminal."""


@contextmanager
def progress(label: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """Show a progress bar during the block; where stderr is no terminal, write a line every 10 s.

    Args:
        label: text before the bar.
        total: count at the end.
        unit: what is counted: "steps", "episodes".

    Yields:
        A function that advances the bar by a count.
    """
    if not sys.stderr.isatty():
        yield _lines(label, total, unit)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda count: bar.advance(task, count)


def _lines(label: str, total: int, unit: str) -> Callable[[int], None]:
    """Return a function that advances a count and writes it to stderr every 10 s."""
    done, last = 0, time.monotonic()

    def advance(count: int) -> None:
        nonlocal done, last
        done += count
        if time.monotonic() - last >= LINE_EVERY:
            last = time.monotonic()
            print(f"{label}: {done:,} of {total:,} {unit}", file=sys.stderr, flush=True)

    return advance


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


NOTHING_KEPT = "nothing was kept; run it again"
"""What a command says that was interrupted before it wrote anything."""
_AGAIN = 0.01
"""Seconds after which a signal is sent again: the destructor that it interrupted has ended then."""


class Terminated(KeyboardInterrupt):
    """SIGTERM came."""


def _handled() -> list[signal.Signals]:
    """Return which of SIGINT and SIGTERM can be handled here: a background job of a shell ignores SIGINT."""
    if threading.current_thread() is not threading.main_thread():  # signals reach the main thread only
        return []
    signals = (signal.SIGINT, signal.SIGTERM)
    return [each for each in signals if signal.getsignal(each) not in (signal.SIG_IGN, None)]


@contextmanager
def _handle(handler: Callable[[int, object], None]) -> Iterator[None]:
    """Handle Ctrl-C and SIGTERM during the block."""
    before = {number: signal.signal(number, handler) for number in _handled()}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


@contextmanager
def interruptible() -> Iterator[list[int]]:
    """Raise KeyboardInterrupt at Ctrl-C and :class:`Terminated` at SIGTERM during the block.

    Python ignores exceptions in destructors and prints them. If a signal comes while one runs, it is sent again.

    Yields:
        The signals that came. They are needed where another library replaces the exception: pybind11 raises TypeError
        if a handler raises while it converts arguments (seen with MuJoCo 4.0.0).
    """
    received: list[int] = []

    def interrupt(number: int, _: object) -> None:
        received.append(number)
        end_by(received)

    def send_again(ignored: sys.UnraisableHookArgs) -> None:
        if received and issubclass(ignored.exc_type, KeyboardInterrupt):
            threading.Timer(_AGAIN, signal.pthread_kill, (threading.main_thread().ident, received[0])).start()
        else:
            report(ignored)

    with _handle(interrupt):
        report, sys.unraisablehook = sys.unraisablehook, send_again
        try:
            yield received
        finally:
            sys.unraisablehook = report


@contextmanager
def signals_ignored() -> Iterator[None]:
    """Ignore Ctrl-C and SIGTERM during the block, which is short."""
    with _handle(lambda *_: None):
        yield


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

    with _handle(note):
        yield received


def end_by(received: list[int]) -> None:
    """Raise what the first signal would have raised, if one came."""
    if received:
        raise Terminated if received[0] == signal.SIGTERM else KeyboardInterrupt
