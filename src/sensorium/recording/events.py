"""One recorded step, and the events between steps: JSON lines beside a chunk of steps, one for each that has some."""

from __future__ import annotations

import base64
import json
import zlib
from bisect import bisect_right
from typing import Any, NamedTuple

import numpy as np

from sensorium.json_files import load_json
from sensorium.recording.rows import from_json_value

Event = dict[str, Any]
"""JSON form of one event: a restart of envs, a change of a sensor, or new values of buffers outside the rows."""


class Step(NamedTuple):
    """Everything about one recorded step that replay needs."""

    number: int
    """Step count of the scene, on which randomness depends."""
    before: np.ndarray | None
    """Physics state before the last substep, (B, n_state); None for recordings of a GPU."""
    values: dict[str, Any]
    """Dotted name -> value, of the buffers that were asked for."""
    events: list[Event]
    """Events since the previous step."""


def events_line(row: int, events: list[Event]) -> bytes:
    """Return the JSON line of the events of a step, or an empty one if there are none."""
    return json.dumps({"row": row, "events": events}, allow_nan=False).encode() if events else b""


def events_checksum(line: bytes) -> int:
    """Return the lower 31 bits of the CRC-32 of an event line."""
    return zlib.crc32(line) & 0x7FFFFFFF


def restart_state(event: Event, n_state: int) -> np.ndarray:
    """Return the physics states that a restart event sets, (n, n_state) float64."""
    return np.frombuffer(base64.b64decode(event["state"]), "<f8").reshape(-1, n_state)


class Events:
    """The events of one chunk, by row.

    Args:
        text: content of the ``.jsonl`` file. A last line without a line break is ignored: it is incomplete.

    Attributes:
        by_row: row -> events.

    Raises:
        ValueError: a line does not have the format of a recording.
    """

    def __init__(self, text: bytes) -> None:
        self.by_row: dict[int, list[Event]] = {}
        self._lines: dict[int, bytes] = {}
        self._values: dict[int, dict[str, Any]] = {}
        current: dict[str, Any] = {}
        for line in text.split(b"\n")[:-1]:
            try:
                form = load_json(line)
                row, events = int(form["row"]), form["events"]
                changes = [event["values"] for event in events if "values" in event]
                given = {name: from_json_value(value) for change in changes for name, value in change.items()}
            except (KeyError, TypeError) as error:
                raise ValueError(f"{error!r} in the line {line[:40]!r}") from None
            self.by_row[row], self._lines[row] = events, line
            if given:
                current = self._values[row] = current | given
        self._changed_rows = sorted(self._values)

    def line(self, row: int) -> bytes:
        """Return the stored line of a row, or an empty one if it has no events."""
        return self._lines.get(row, b"")

    def checksums(self, count: int) -> np.ndarray:
        """Return :func:`events_checksum` of the lines of the first ``count`` rows, (count,) uint64."""
        out = np.full(count, events_checksum(b""), np.uint64)
        for row in [row for row in self._lines if row < count]:
            out[row] = events_checksum(self._lines[row])
        return out

    def before(self, count: int) -> bytes:
        """Return the lines of the first ``count`` rows, as they are in the file."""
        return b"".join(line + b"\n" for row, line in self._lines.items() if row < count)

    def values(self, row: int) -> dict[str, Any]:
        """Return the values outside the rows that were current at a row: buffer name -> value."""
        index = bisect_right(self._changed_rows, row)
        return self._values[self._changed_rows[index - 1]] if index else {}

    @property
    def names(self) -> set[str]:
        """Names of all buffers that have values here."""
        return set(self._values[self._changed_rows[-1]]) if self._changed_rows else set()
