"""What happened between steps, as lines of JSON beside a file of steps: one line for each step that has any."""

from __future__ import annotations

import json
import zlib
from bisect import bisect_right
from typing import Any

import numpy as np

from sensorium.recording.rows import value_of


def events_line(row: int, events: list[Any]) -> bytes:
    """The line of a step; empty where nothing happened."""
    return json.dumps({"row": row, "events": events}, allow_nan=False).encode() if events else b""


def events_checksum(line: bytes) -> int:
    """31 bits that tell whether a line is as it was written."""
    return zlib.crc32(line) & 0x7FFFFFFF


class Events:
    """Lines of events, by the rows of their steps.

    Attributes:
        of: row -> events.

    Raises:
        ValueError: a line is none of a recording.
    """

    def __init__(self, text: bytes) -> None:
        self.of: dict[int, list[Any]] = {}
        self._lines: dict[int, bytes] = {}
        self._values: dict[int, dict[str, Any]] = {}
        now: dict[str, Any] = {}
        for line in text.split(b"\n")[:-1]:  # a last one without its end was not finished
            try:
                form = json.loads(line)
                row, events = int(form["row"]), form["events"]
                changes = [event["values"] for event in events if "values" in event]
                given = {name: value_of(form) for change in changes for name, form in change.items()}
            except (KeyError, TypeError) as error:
                raise ValueError(f"{error!r} in the line {line[:40]!r}") from None
            self.of[row], self._lines[row] = events, line
            if given:
                now = self._values[row] = now | given
        self._changes = sorted(self._values)

    def line(self, row: int) -> bytes:
        """The line of a step; empty where nothing happened."""
        return self._lines.get(row, b"")

    def sums(self, count: int) -> np.ndarray:
        """``events_checksum`` of the lines of the first ``count`` steps."""
        out = np.full(count, events_checksum(b""), np.uint64)
        for row in [row for row in self._lines if row < count]:
            out[row] = events_checksum(self._lines[row])
        return out

    def before(self, count: int) -> bytes:
        """The lines of the first ``count`` steps."""
        return b"".join(line + b"\n" for row, line in self._lines.items() if row < count)

    def values(self, row: int) -> dict[str, Any]:
        """Name -> value of what is not in the rows, as it was at a step."""
        place = bisect_right(self._changes, row)
        return self._values[self._changes[place - 1]] if place else {}

    @property
    def names(self) -> set[str]:
        """Names of all values."""
        return set(self._values[self._changes[-1]]) if self._changes else set()
