"""``McapFile``: an MCAP file that is written chunk by chunk, by the package ``mcap``."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal

from sensorium import _system
from sensorium.errors import OptionError
from sensorium.files import PART, create, explain_errors, publish
from sensorium.ros.bulk_messages import BulkMessages
from sensorium.ros.definitions import schema

Compression = Literal["zstd", "lz4", "none"]

INTERRUPTED = "interrupted"
"""Metadata of a file whose recording was ended by an error."""

LIBRARY = "sensorium"


def load_mcap(module: str) -> Any:
    """Return a module of the package ``mcap``.

    Raises:
        OptionError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise OptionError("MCAP files need the package mcap: pip install 'sensorium[ros]'") from None


class McapFile:
    """Writes one MCAP file of ROS 2 messages.

    It is written as ``NAME.mcap.part`` and renamed when it is closed. If the process is killed, the part file holds all
    complete chunks, and :func:`sensorium.logs.read` reads them.

    Args:
        path: the file; it must not exist.
        compression: of the chunks.
        chunk_bytes: size of a chunk, bytes. A killed process loses at most one.
        metadata: name -> mapping with a JSON form, stored in the file.

    Raises:
        OptionError: ``mcap`` is not installed, or the file exists.
    """

    def __init__(
        self,
        path: Path,
        compression: Compression = "zstd",
        chunk_bytes: int = 1 << 20,
        metadata: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        writer = load_mcap("mcap.writer")
        if path.exists():
            raise OptionError(f"{path} exists already; choose another file")
        texts = {
            name: {key: _text(value) for key, value in values.items()} for name, values in (metadata or {}).items()
        }
        self.path, self._part = path, path.with_name(path.name + PART)
        self._channels: dict[str, int] = {}
        self._schemas: dict[str, int] = {}
        self._sequence: dict[str, int] = {}
        with explain_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: BinaryIO | None = create(self._part)
            kinds = {"zstd": "ZSTD", "lz4": "LZ4", "none": "NONE"}
            self._writer = writer.Writer(
                self._file, chunk_size=chunk_bytes, compression=getattr(writer.CompressionType, kinds[compression])
            )
            self._bulk = BulkMessages.of(self._writer, chunk_bytes)
            self._writer.start(profile="ros2", library=LIBRARY)
            for name, own in texts.items():
                self._writer.add_metadata(name, own)

    def add_topic(self, topic: str, message: str) -> int:
        """Return the channel of a new topic.

        Raises:
            OptionError: there is such a topic already.
        """
        if topic in self._channels:
            raise OptionError(
                f"two signals have the topic {topic}: rename a sensor; /clock, /tf, /tf_static, /episode, /command and "
                "/truth are used by the recorder"
            )
        if message not in self._schemas:
            text = schema(message).encode()
            self._schemas[message] = self._writer.register_schema(message, "ros2msg", text)
        profile = {"offered_qos_profiles": ""}
        self._channels[topic] = self._writer.register_channel(topic, "cdr", self._schemas[message], profile)
        self._sequence[topic] = 0
        return self._channels[topic]

    def write_all(self, messages: Iterable[tuple[int, int, str, bytes]]) -> None:
        """Write messages of topics that were added.

        Args:
            messages: time of arrival (ns), time of capture (ns), topic and encoded message of each.
        """
        channels, sequence = self._channels, self._sequence
        with _system.uninterrupted(), explain_errors(self.path):
            if self._bulk is not None:
                self._bulk.add(messages, channels, sequence)
                return
            for log_time, publish_time, topic, data in messages:
                self._writer.add_message(channels[topic], log_time, data, publish_time, sequence[topic])
                sequence[topic] += 1

    def close(self) -> None:
        """Complete the file and give it its name."""
        if self._file is not None:
            with _system.uninterrupted():
                with explain_errors(self.path):
                    self._writer.finish()
                    self._file.close()
                self._file = None
                publish(self._part, self.path)

    def interrupt(self, reason: str) -> None:
        """Close the file under its temporary name, with a reason in its metadata: what was written can be read."""
        if self._file is not None:
            with _system.uninterrupted(), explain_errors(self.path):
                self._writer.add_metadata(INTERRUPTED, {"error": reason})
                self._writer.finish()
                self._file.close()
                self._file = None

    def abandon(self) -> None:
        """Close the file without completing it, and remove it."""
        if self._file is not None:
            self._file.close()
            self._file = None
            with suppress(FileNotFoundError):
                self._part.unlink()


def _text(value: object) -> str:
    try:
        return value if isinstance(value, str) else json.dumps(value)
    except (TypeError, ValueError) as error:
        raise OptionError(f"metadata: values must have a JSON form, got {type(value).__name__}: {error}") from None
