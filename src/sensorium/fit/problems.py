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
    """What is not used because of it: a channel, e.g. one with an unknown unit; "reference"; or "time", which blocks
    all figures. Default: none."""

    def __str__(self) -> str:
        return f"{self.name}: {self.message}. {self.fix[:1].upper()}{self.fix[1:]}."

    @property
    def consequence(self) -> str:
        """What the preset lacks because of it, as a sentence; empty if nothing."""
        if self.blocks == "time":
            return "Until then, the preset has no figures."
        return f"Until then, {self.blocks} is not used in the preset." if self.blocks else ""
