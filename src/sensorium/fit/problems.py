"""``Problem``: something in a log or a reference that limits a fit, with what to do about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """A limit of a log or a reference.

    Example:
        >>> print(Problem("acc.units", "the accelerometer reads 1.00 at rest", 'pass units={"acc": "g"}'))
        acc.units: the accelerometer reads 1.00 at rest. Pass units={"acc": "g"}.
    """

    name: str
    """Part of the log and kind of the problem: "acc.units", "time.jumps", "reference.gaps"."""
    message: str
    """What was found, with numbers."""
    fix: str
    """What to record or to pass instead."""
    blocks: str = ""
    """Channel whose figures cannot be used, e.g. because of an unknown unit; or "reference". Default: none."""

    def __str__(self) -> str:
        return f"{self.name}: {self.message}. {self.fix[:1].upper()}{self.fix[1:]}."
