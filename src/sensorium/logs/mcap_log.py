"""Reading MCAP files of ROS 2 messages, encoded as CDR or JSON."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sensorium._arguments import checked
from sensorium.errors import DatasetError, OptionError
from sensorium.logs.log import Log, TopicLog
from sensorium.logs.mcap_records import RecordReader
from sensorium.ros.cdr import decode, parse

_NANO = 1e-9
_STAMP = "header.stamp"


class _Raw(NamedTuple):
    """The messages of one topic as they are in the file."""

    message: str
    encoding: str
    schema: str
    data: list[bytes]
    log: list[int]
    publish: list[int]


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
        topics: which topics; None for all whose messages can be decoded.
        partial: whether to read what is whole in a file that ends too early, as a killed process or a full disk leaves
            it, or that has damaged chunks or messages; warnings name what is lost.
        strict: whether to raise where the time of arrival runs backwards within a topic.

    Raises:
        OptionError: there is no such file, a topic is missing, or the package ``mcap`` is not installed.
        DatasetError: the file is no MCAP file, ends too early, is damaged, has messages that do not fit their schema,
            or time runs backwards; names the topic and the number of the message.

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
    found = {}
    for name, messages in raw.items():
        try:
            own = _whole(file, name, messages) if partial else messages
            if not own.data:
                continue
            decoded = _decode(name, own)
        except DatasetError as error:
            raise DatasetError(f"{file}, topic {name} ({messages.message}): {error}") from None
        if decoded is None:
            if topics is not None:
                raise DatasetError(
                    f"{file}, topic {name}: cannot decode {messages.message} encoded as {messages.encoding!r}"
                )
            continue
        if strict:
            _check_order(file, decoded)
        found[name] = decoded
    return Log(found, str(file), metadata, is_complete)


def _check_order(file: Path, topic: TopicLog) -> None:
    back = np.flatnonzero(np.diff(topic.arrival) < 0)
    if len(back):
        i = int(back[0]) + 1
        step = topic.arrival[i] - topic.arrival[i - 1]
        raise DatasetError(
            f"{file}, topic {topic.name}: time runs backwards by {-step:.6g} s at message {i}; pass strict=False to "
            "read it all the same"
        )


def _collect(
    file: Path, topics: Sequence[str] | None, partial: bool
) -> tuple[dict[str, _Raw], dict[str, dict[str, str]], bool]:
    """Return the messages of a file by topic, its metadata, and whether it is complete."""
    found: dict[str, _Raw] = {}
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
                    raw = found[channel.topic] = _Raw(name, channel.message_encoding, text, [], [], [])
                elif schema is not None and schema.name != raw.message:
                    raise DatasetError(
                        f"topic {channel.topic}: message {len(raw.data)} is a {schema.name}, and those before it are "
                        f"{raw.message}"
                    )
                raw.data.append(message.data)
                raw.log.append(message.log_time)
                raw.publish.append(message.publish_time)
        except DatasetError as error:
            raise DatasetError(f"{file}, {error}") from None
    count = sum(len(raw.data) for raw in found.values())
    faults = [f"{file}: {each}" for each in reader.damages]
    if not reader.is_complete and not faults:
        faults.append(f"{file} ends too early; {count} messages of {len(found)} topics are before its end")
    for text in faults:
        if not partial:
            raise DatasetError(f"{text}. Read what is whole with partial=True (--partial)")
        warnings.warn(text, stacklevel=4)
    return found, reader.metadata, not faults


def _whole(file: Path, name: str, raw: _Raw) -> _Raw:
    """Return the messages that fit their definition; warns about the others."""
    if raw.encoding not in ("cdr", "json"):
        return raw
    lost: dict[int, str] = {}
    if raw.encoding == "cdr":
        for _ in decode(raw.message, parse(raw.message, raw.schema), raw.data, lost):
            pass
    else:
        _parse_json(raw, lost)
    if not lost:
        return raw
    first = min(lost)
    text = f"{len(lost)} of {len(raw.data)} messages do not fit their definition: message {first} {lost[first]}"
    warnings.warn(f"{file}, topic {name} ({raw.message}): {text}", stacklevel=4)
    kept = [i for i in range(len(raw.data)) if i not in lost]
    return raw._replace(
        data=[raw.data[i] for i in kept], log=[raw.log[i] for i in kept], publish=[raw.publish[i] for i in kept]
    )


def _decode(name: str, raw: _Raw) -> TopicLog | None:
    """Return the messages of a topic as arrays; None if their encoding is not known."""
    log, publish = (np.array(times, np.float64) * _NANO for times in (raw.log, raw.publish))
    if raw.encoding == "cdr":
        fields, texts = _from_cdr(raw)
    elif raw.encoding == "json":
        fields, texts = _from_json(raw)
    else:
        return None
    capture = publish
    if f"{_STAMP}.sec" in fields and f"{_STAMP}.nanosec" in fields:
        capture = np.asarray(fields.pop(f"{_STAMP}.sec"), np.float64) + _NANO * np.asarray(
            fields.pop(f"{_STAMP}.nanosec"), np.float64
        )
    return TopicLog(name, raw.message, capture, log, fields, texts)


def _from_cdr(raw: _Raw) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    definition = parse(raw.message, raw.schema)
    groups = list(decode(raw.message, definition, raw.data))
    n = len(raw.data)
    if len(groups) == 1:
        _, layout, columns = groups[0]
        fields = {leaf.path: columns(leaf.path) for leaf in layout.leaves if leaf.dtype}
        return fields, {leaf.path: columns(leaf.path) for leaf in layout.leaves if not leaf.dtype}
    values: dict[str, list[Any]] = {}
    texts: dict[str, np.ndarray] = {}
    shared = set.intersection(*({leaf.path for leaf in layout.leaves} for _, layout, _ in groups))
    for numbers, layout, columns in groups:
        for leaf in layout.leaves:
            if leaf.path in shared:
                rows = columns(leaf.path)
                own = values.setdefault(leaf.path, [None] * n)
                for i, row in zip(numbers.tolist(), rows, strict=True):
                    own[i] = row
    fields = {}
    for path, own in values.items():
        if isinstance(own[0], str):
            texts[path] = np.array(own)
        else:
            same = len({np.shape(row) for row in own}) == 1
            fields[path] = np.array(own) if same else own  # lengths differ, e.g. compressed images
    return fields, texts


def _parse_json(raw: _Raw, lost: dict[int, str] | None = None) -> list[dict[str, Any]]:
    """Return the fields of messages by path; messages that are no JSON objects raise, or are named in ``lost``."""
    rows: list[dict[str, Any]] = []
    for i, data in enumerate(raw.data):
        try:
            content = json.loads(data)
            problem = "" if isinstance(content, dict) else f"is no JSON object, but {str(content)[:40]!r}"
        except ValueError as error:
            problem = f"is no JSON: {error}"
        if problem and lost is None:
            raise DatasetError(f"message {i} {problem}")
        if problem and lost is not None:
            lost[i] = problem
        else:
            rows.append(dict(_flat(content)))
    return rows


def _from_json(raw: _Raw) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    rows = _parse_json(raw)
    shared = [path for path in rows[0] if all(path in row for row in rows)]
    fields: dict[str, Any] = {}
    texts: dict[str, np.ndarray] = {}
    for path in shared:
        own = [row[path] for row in rows]
        if isinstance(own[0], str):
            texts[path] = np.array(own)
        else:
            same = len({np.shape(value) for value in own}) == 1
            fields[path] = np.array(own) if same else [np.array(value) for value in own]
    return fields, texts


def _flat(value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, own in value.items():
        name = f"{path}.{key}" if path else key
        if isinstance(own, Mapping):
            yield from _flat(own, name)
        elif isinstance(own, list) and own and isinstance(own[0], str):
            yield from ((f"{name}.{i}", text) for i, text in enumerate(own))
        elif isinstance(own, (int, float, str)) or (
            isinstance(own, list) and all(isinstance(x, (int, float)) for x in own)
        ):
            yield name, own
