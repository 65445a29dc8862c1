"""How a log is read: the keyword arguments that every fit passes on to :func:`as_log`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict


class LogReading(TypedDict, total=False):
    """Keyword arguments of :func:`sensorium.fit.as_log`."""

    fields: Mapping[str, str | Sequence[str]] | None
    units: Mapping[str, str] | None
    rate: float | None
    group: str | None
