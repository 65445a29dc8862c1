"""Messages of an MCAP chunk, many at once.

``mcap.writer.Writer.add_message`` makes a dozen calls for each message, about 12 µs. Here a message costs one call of
``struct.pack`` and the index of a chunk is packed by NumPy, about 2 µs. This uses private attributes of the writer (its
chunk builder and its statistics), as checked with mcap 1.6.0; with other versions that lack them, ``add_message`` is
used. ``tests/test_mcap.py`` compares the files of both to the byte.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

_HEAD = struct.Struct("<BQHIQQ")
"""Opcode, length of what follows, channel, sequence number, log time and publish time of a message."""
_MESSAGE, _INDEX = 0x05, 0x07
"""Opcodes of messages and of the index of a channel in a chunk."""
_BEFORE_DATA = 22
"""Bytes of a message between its length and its data."""
_LARGE = 4096
"""Mean size of messages, bytes, from which they are written one by one."""
_PARTS = ("_Writer__chunk_builder", "_Writer__statistics", "_Writer__maybe_finalize_chunk")


class _Stream(Protocol):
    def write(self, data: bytes) -> object: ...


@dataclass
class _Index:
    """Index of the messages of one channel in a chunk; the builder writes it."""

    channel_id: int
    records: list[tuple[int, int]] = field(default_factory=list)

    def write(self, stream: _Stream) -> None:
        """Write it as ``mcap.records.MessageIndex`` does."""
        size = 16 * len(self.records)
        stream.write(struct.pack("<BQHI", _INDEX, 6 + size, self.channel_id, size))
        stream.write(np.array(self.records, "<u8").tobytes())


class BulkMessages:
    """Adds messages to the current chunk of a writer.

    Args:
        writer: the writer.
        chunk_bytes: size of a chunk, bytes.
    """

    def __init__(self, writer: object, chunk_bytes: int) -> None:
        self._builder, self._statistics, self._finish_chunk = (getattr(writer, name) for name in _PARTS)
        self._chunk_bytes = chunk_bytes

    @classmethod
    def of(cls, writer: object, chunk_bytes: int) -> BulkMessages | None:
        """Return one for a writer; None for a version of ``mcap`` with another one."""
        if not all(hasattr(writer, name) for name in _PARTS):
            return None
        builder = getattr(writer, _PARTS[0])
        known = ("message_indices", "message_start_time", "message_end_time", "num_messages", "record_writer")
        return cls(writer, chunk_bytes) if all(hasattr(builder, name) for name in known) else None

    def add(
        self, messages: Iterable[tuple[int, int, str, bytes]], channels: dict[str, int], sequence: dict[str, int]
    ) -> None:
        """Write messages, and count them in ``sequence``; see :meth:`sensorium.ros.mcap_file.McapFile.write_all`."""
        builder, pack = self._builder, _HEAD.pack
        parts: list[bytes] = []
        times: list[int] = []
        counts: Counter[int] = Counter()
        at = builder.count
        for log_time, publish_time, topic, data in messages:
            channel = channels[topic]
            number = sequence[topic]
            sequence[topic] = number + 1
            parts.append(pack(_MESSAGE, _BEFORE_DATA + len(data), channel, number, log_time, publish_time))
            parts.append(data)
            index = builder.message_indices.get(channel)
            if index is None:
                index = builder.message_indices[channel] = _Index(channel)
            index.records.append((log_time, at))
            times.append(log_time)
            counts[channel] += 1
            at += _HEAD.size + len(data)
            if at >= self._chunk_bytes:
                self._put(parts, times, counts)
                parts, times, counts = [], [], Counter()
                at = builder.count
        if parts:
            self._put(parts, times, counts)

    def _put(self, parts: list[bytes], times: list[int], counts: Counter[int]) -> None:
        builder, statistics = self._builder, self._statistics
        low, high = min(times), max(times)
        size = sum(map(len, parts))
        for part in [b"".join(parts)] if size < _LARGE * len(parts) else parts:  # images are not copied once more
            builder.record_writer.write(part)
        builder.message_start_time = min(low, builder.message_start_time) if builder.num_messages else low
        builder.message_end_time = max(high, builder.message_end_time)
        builder.num_messages += len(times)
        known = statistics.message_count
        statistics.message_start_time = min(low, statistics.message_start_time) if known else low
        statistics.message_end_time = max(high, statistics.message_end_time)
        statistics.message_count += len(times)
        for channel, count in counts.items():
            statistics.channel_message_counts[channel] += count
        self._finish_chunk()
