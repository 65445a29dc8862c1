"""Records of MCAP files, chunk by chunk, so that a damaged chunk does not hide the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO

from sensorium import _system
from sensorium.errors import DatasetError, shorten
from sensorium.ros.mcap_file import load_mcap


class RecordReader:
    """Iterates over (schema, channel, message) of an MCAP file in its order.

    Args:
        stream: the file, at its beginning.

    Attributes:
        metadata: name -> its values, as far as the file was read.
        damages: one text for each damaged part, with topics and numbers of the messages that are lost.
        is_complete: whether the file has an end.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.metadata: dict[str, dict[str, str]] = {}
        self.damages: list[str] = []
        self.is_complete = False
        self._stream = stream
        self._records = load_mcap("mcap.records")
        self._schemas: dict[int, object] = {}
        self._channels: dict[int, Any] = {}
        self._counts: Counter[int] = Counter()  # messages by channel, lost ones as well
        self._last: int | None = None  # channel of the last message

    def __iter__(self) -> Iterator[tuple[Any, Any, Any]]:
        reader, records, errors = load_mcap("mcap.stream_reader"), self._records, load_mcap("mcap.exceptions")
        broken: Exception | None = None
        lost: Counter[int] = Counter()
        try:
            for record in reader.StreamReader(self._stream, emit_chunks=True, validate_crcs=True).records:
                if broken is not None and isinstance(record, records.MessageIndex):
                    lost[record.channel_id] += len(record.records)
                    continue
                if broken is not None:
                    self._report(broken, lost)
                    broken, lost = None, Counter()
                if not isinstance(record, records.Chunk):
                    yield from self._take(record)
                    continue
                try:
                    _check_size(record.compression, record.data, record.uncompressed_size)
                    inner = reader.breakup_chunk(record, validate_crc=True)
                except errors.UnsupportedCompressionError as error:
                    raise DatasetError(f"its chunks cannot be read: {error}") from None
                except Exception as error:  # of checksums, of the compression, or of records that do not fit
                    broken = error
                    continue
                for each in inner:
                    yield from self._take(each)
        except (errors.EndOfFile, EOFError):
            pass
        except DatasetError:
            raise
        except Exception as error:  # damaged between chunks
            if not self.damages:
                self.damages.append(f"it is damaged after {self._where() or 'its beginning'}: {error}")
        if broken is not None:
            self._report(broken, lost)

    def _take(self, record: object) -> Iterator[tuple[Any, Any, Any]]:
        records = self._records
        if isinstance(record, records.Schema):
            self._schemas[record.id] = record  # type: ignore[attr-defined]
        elif isinstance(record, records.Channel):
            self._channels[record.id] = record  # type: ignore[attr-defined]
        elif isinstance(record, records.Metadata):
            self.metadata[record.name] = dict(record.metadata)  # type: ignore[attr-defined]
        elif isinstance(record, records.Footer):
            self.is_complete = True
        elif isinstance(record, records.Message):
            number = record.channel_id  # type: ignore[attr-defined]
            channel = self._channels.get(number)
            if channel is None:
                text = "messages of a channel that the file does not define"
                if text not in self.damages:
                    self.damages.append(text)
                return
            self._last = number
            self._counts[number] += 1
            yield self._schemas.get(channel.schema_id), channel, record

    def _where(self) -> str:
        """Return the last message that was read, for messages; "" if there is none."""
        if self._last is None:
            return ""
        return f"message {self._counts[self._last] - 1} of {self._channels[self._last].topic}"

    def _report(self, error: Exception, lost: Counter[int]) -> None:
        """Add the damage of a chunk: its messages are known from the index behind it."""
        self._read_summary()
        parts = []
        for number, count in lost.items():
            first, channel = self._counts[number], self._channels.get(number)
            topic = f"channel {number}" if channel is None else channel.topic
            parts.append(f"messages {first} to {first + count - 1} of {topic}")
            self._counts[number] += count
        what = shorten(parts).replace("'", "") if parts else f"messages after {self._where() or 'the beginning'}"
        self.damages.append(f"a chunk is damaged ({error}): lost are {what}")

    def _read_summary(self) -> None:
        """Read schemas and channels from the end of the file: they may have been in the damaged chunk."""
        at = self._stream.tell()
        self._stream.seek(0)
        try:
            summary = load_mcap("mcap.reader").SeekingReader(self._stream).get_summary()
        except Exception:  # the end is missing or damaged, too
            summary = None
        finally:
            self._stream.seek(at)
        if summary is not None:
            self._schemas = {**summary.schemas, **self._schemas}
            self._channels = {**summary.channels, **self._channels}


def _check_size(compression: str, data: bytes, size: int) -> None:
    """Check that a chunk fits in memory before it is decompressed: a few kB can hold many GB of zeros.

    Args:
        compression: name of the compression.
        data: the compressed data.
        size: uncompressed size that the chunk names, bytes.

    Raises:
        ValueError: it does not fit, or its compressed data has another size than it says.
    """
    if compression == "zstd":
        held = load_mcap("zstandard").frame_content_size(data)  # -1: unknown; the reader limits it to ``size``
        if held not in (-1, size):
            raise ValueError(f"its data has {held} bytes instead of {size}")
    free = _system.free_memory()
    if free is not None and size > free / 2:  # the messages are copies
        raise ValueError(f"it has {_system.memory_text(size)}, and {_system.memory_text(free)} of memory are free")
