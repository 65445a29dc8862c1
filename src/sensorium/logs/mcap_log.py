"""Reading MCAP files of ROS 2 messages, encoded as CDR or JSON.

A topic whose messages cannot be decoded does not hide the others: it is listed in ``Log.undecodable``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from sensorium._arguments import checked
from sensorium.errors import DatasetError, OptionError
from sensorium.logs.log import Log, TopicLog
from sensorium.logs.mcap_records import RecordReader
from sensorium.logs.message_arrays import RawMessages, from_cdr, from_json, parse_json
from sensorium.ros.cdr import decode, parse
from sensorium.ros.mcap_file import INTERRUPTED

_NANO = 1e-9
_STAMP = "header.stamp"


_CDR_HEADS = {b"\x00\x00": "big-endian CDR", b"\x00\x02": "big-endian parameter lists", b"\x00\x03": "parameter lists"}
"""First bytes of messages in other encodings than little-endian CDR -> their name (OMG DDSI-RTPS)."""


class McapSchema(Protocol):
    """A schema of the package ``mcap``."""

    name: str
    encoding: str
    data: bytes


class McapChannel(Protocol):
    """A channel of the package ``mcap``."""

    id: int
    topic: str
    message_encoding: str


@checked
def read(
    path: str | os.PathLike[str],
    topics: Sequence[str] | None = None,
    *,
    partial: bool = False,
    strict: bool = True,
) -> Log:
    """Read an MCAP file.

    Args:
        path: the file.
        topics: which topics; None for all. Those whose messages cannot be decoded are skipped then with a warning, and
            listed in ``Log.undecodable``.
        partial: whether to read what is whole in a file that ends too early, as a killed process or a full disk leaves
            it, or that has damaged chunks or messages; warnings name what is lost.
        strict: whether to raise where the time of arrival runs backwards within a topic.

    Raises:
        OptionError: there is no such file, a topic is missing, or the package ``mcap`` is not installed.
        DatasetError: the file is no MCAP file, ends too early, is damaged, has messages that do not fit their schema,
            or time runs backwards; names the topic and the number of the message. Also if none of its topics, or one
            of ``topics``, can be decoded, e.g. those of ROS 1; names their encoding.

    Example:
        >>> log = sn.logs.read("real.mcap", topics=["/imu", "/joint_states"])
    """
    file = Path(path)
    if not file.is_file():
        raise OptionError(f"there is no log file {str(file)!r}")
    raw, metadata, is_complete = _collect(file, topics, partial)
    if topics is not None:
        for topic in topics:
            if topic not in raw:
                raise OptionError(f"{file} has no messages on the topic {topic!r}")
    undecodable = {name: why for name, messages in raw.items() if (why := _problem(messages))}
    if undecodable:
        _report(file, raw, undecodable, topics is not None)
    found = {}
    for name, messages in raw.items():
        if name in undecodable:
            continue
        try:
            own = _whole(file, name, messages) if partial else messages
            if not own.data:
                continue
            decoded = _decode(name, own)
        except DatasetError as error:
            raise DatasetError(f"{file}, topic {name} ({messages.message}): {error}") from None
        if strict:
            _check_order(file, decoded)
        found[name] = decoded
    return Log(found, str(file), metadata, is_complete, undecodable)


def _problem(raw: RawMessages) -> str:
    """Return why the messages of a topic cannot be decoded; "" if they can."""
    what = raw.message or "messages without a definition"
    if raw.problems:
        return raw.problems[0]
    if raw.encoding == "json":
        return ""
    if raw.encoding != "cdr":
        return f"cannot decode {what} encoded as {raw.encoding!r}; supported are 'cdr' of ROS 2 and 'json'"
    if not raw.message:
        return "its messages are CDR without a definition"
    if raw.format not in ("ros2msg", ""):
        return f"the definition of {what} is in the format {raw.format!r}; supported is 'ros2msg'"
    try:
        parse(raw.message, raw.schema)
    except DatasetError as error:
        return str(error)
    heads = {data[:2] for data in raw.data}
    other = _CDR_HEADS.get(next(iter(heads))) if len(heads) == 1 else None
    return f"its messages are {other}; supported is little-endian CDR" if other else ""


def _report(file: Path, raw: Mapping[str, RawMessages], undecodable: Mapping[str, str], is_asked: bool) -> None:
    """Warn about topics that cannot be decoded; raise if they were asked for, or if there are no others."""
    kinds = {name: f" ({raw[name].message})" if raw[name].message else "" for name in undecodable}
    parts = [f"topic {name}{kinds[name]}: {why}" for name, why in undecodable.items()]
    if is_asked:
        raise DatasetError(f"{file}, {parts[0]}")
    if len(undecodable) == len(raw):
        encodings = ", ".join(repr(each) for each in sorted({raw[name].encoding for name in undecodable}))
        text = f"none of the {len(raw)} topics of {file} can be decoded: they are encoded as {encodings}. {parts[0]}"
        hint = ". Convert it to ROS 2 first, e.g. with rosbags-convert" if "'ros1'" in encodings else ""
        raise DatasetError(text + hint)
    count = f"{len(parts)} of its {len(raw)} topics cannot be decoded"
    warnings.warn(f"{file}: {count}: {'; '.join(parts[:5])}{'; ...' if len(parts) > 5 else ''}", stacklevel=3)


def _check_order(file: Path, topic: TopicLog) -> None:
    back = np.flatnonzero(np.diff(topic.arrival) < 0)
    if len(back):
        i = int(back[0]) + 1
        step = topic.arrival[i] - topic.arrival[i - 1]
        raise DatasetError(
            f"{file}, topic {topic.name}: time runs backwards by {-step:.6g} s at message {i}; "
            "sn.logs.read(..., strict=False) reads it all the same"
        )


def _collect(
    file: Path, topics: Sequence[str] | None, partial: bool
) -> tuple[dict[str, RawMessages], dict[str, dict[str, str]], bool]:
    """Return the messages of a file by topic, its metadata, and whether it is complete."""
    found: dict[str, RawMessages] = {}
    first: dict[str, int] = {}  # topic -> its first channel
    compared: set[int] = set()  # further channels
    with open(file, "rb") as stream:
        reader = RecordReader(stream)
        if stream.read(8) != b"\x89MCAP0\r\n":
            raise DatasetError(f"{file} is no MCAP file: it does not begin with MCAP's magic bytes")
        stream.seek(0)
        try:
            for schema, channel, message in reader:
                if topics is not None and channel.topic not in topics:
                    continue
                raw = found.get(channel.topic)
                if raw is None:
                    name = schema.name if schema is not None else ""
                    text = schema.data.decode(errors="replace") if schema is not None else ""
                    form = schema.encoding if schema is not None else ""
                    raw = found[channel.topic] = RawMessages(name, channel.message_encoding, text, form, [], [], [], [])
                    first[channel.topic] = channel.id
                elif channel.id != first[channel.topic] and channel.id not in compared:
                    compared.add(channel.id)
                    problem = _difference(raw, schema, channel)
                    raw.problems.extend([problem] if problem else [])
                raw.data.append(message.data)
                raw.log.append(message.log_time)
                raw.publish.append(message.publish_time)
        except DatasetError as error:
            raise DatasetError(f"{file}, {error}") from None
    count = sum(len(raw.data) for raw in found.values())
    faults = [f"{file}: {each}" for each in reader.damages]
    if not reader.is_complete and not faults:
        faults.append(f"{file} ends too early; {count} messages of {len(found)} topics are before its end")
    if INTERRUPTED in reader.metadata:
        reason = reader.metadata[INTERRUPTED].get("error", "an error")
        warnings.warn(f"{file} is not whole: {reason} ended its recording", stacklevel=3)
        return found, reader.metadata, False
    for text in faults:
        if not partial:
            raise DatasetError(f"{text}. Read what is whole with partial=True (--partial)")
        warnings.warn(text, stacklevel=4)
    return found, reader.metadata, not faults


def _difference(raw: RawMessages, schema: McapSchema | None, channel: McapChannel) -> str:
    """Return how the messages of a further channel of a topic differ from those of the first; "" if they do not."""
    number, name = len(raw.data), "" if schema is None else schema.name
    if name != raw.message:
        return f"message {number} is a {name or 'message without a definition'}, and those before it are {raw.message}"
    if channel.message_encoding != raw.encoding:
        other = channel.message_encoding
        return f"message {number} is encoded as {other!r}, and those before it as {raw.encoding!r}"
    text = "" if schema is None else schema.data.decode(errors="replace")
    if text == raw.schema or raw.encoding != "cdr":
        return ""
    try:
        is_same = parse(raw.message, text) == parse(raw.message, raw.schema)  # comments may differ
    except DatasetError:
        is_same = False
    return "" if is_same else f"message {number} has another definition of {name} than those before it"


def _whole(file: Path, name: str, raw: RawMessages) -> RawMessages:
    """Return the messages that fit their definition; warns about the others."""
    lost: dict[int, str] = {}
    if raw.encoding == "cdr":
        for _ in decode(raw.message, parse(raw.message, raw.schema), raw.data, lost):
            pass
    else:
        parse_json(raw, lost)
    if not lost:
        return raw
    first = min(lost)
    text = f"{len(lost)} of {len(raw.data)} messages do not fit their definition: message {first} {lost[first]}"
    warnings.warn(f"{file}, topic {name} ({raw.message}): {text}", stacklevel=4)
    kept = [i for i in range(len(raw.data)) if i not in lost]
    return raw._replace(
        data=[raw.data[i] for i in kept], log=[raw.log[i] for i in kept], publish=[raw.publish[i] for i in kept]
    )


def _decode(name: str, raw: RawMessages) -> TopicLog:
    """Return the messages of a topic as arrays."""
    log, publish = (np.array(times, np.float64) * _NANO for times in (raw.log, raw.publish))
    fields, texts = from_cdr(raw) if raw.encoding == "cdr" else from_json(raw)
    capture = publish
    if f"{_STAMP}.sec" in fields and f"{_STAMP}.nanosec" in fields:
        capture = np.asarray(fields.pop(f"{_STAMP}.sec"), np.float64) + _NANO * np.asarray(
            fields.pop(f"{_STAMP}.nanosec"), np.float64
        )
    return TopicLog(name, raw.message, capture, log, fields, texts)
