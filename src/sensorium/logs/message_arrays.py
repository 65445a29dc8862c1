"""Messages of one topic as arrays by the paths of their fields."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from sensorium.errors import DatasetError
from sensorium.json_files import load_json
from sensorium.ros.cdr import decode, parse

_MAX_VALUES = 20_000_000
"""Fields times messages, from which on elements of sequences that not all messages have are not read."""


class RawMessages(NamedTuple):
    """The messages of one topic as they are in the file."""

    message: str
    encoding: str
    schema: str
    format: str
    """Format of the schema: "ros2msg", "ros2idl", ...; "" without a schema."""
    data: list[bytes]
    log: list[int]
    publish: list[int]
    problems: list[str]
    """Why the messages cannot be read together, if they differ."""


def from_cdr(raw: RawMessages) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return path -> numbers and path -> texts of CDR messages."""
    definition = parse(raw.message, raw.schema)
    groups = list(decode(raw.message, definition, raw.data))
    n = len(raw.data)
    if len(groups) == 1:
        _, layout, columns = groups[0]
        fields = {leaf.path: columns(leaf.path) for leaf in layout.leaves if leaf.dtype}
        return fields, {leaf.path: columns(leaf.path) for leaf in layout.leaves if not leaf.dtype}
    values: dict[str, list[Any]] = {}
    kinds = {leaf.path: not leaf.dtype for _, layout, _ in groups for leaf in layout.leaves}  # whether it is text
    if len(kinds) * n > _MAX_VALUES:
        shared = set.intersection(*({leaf.path for leaf in layout.leaves} for _, layout, _ in groups))
        text = f"{raw.message} has sequences of many lengths: {len(kinds) - len(shared)} of its {len(kinds)} fields, "
        warnings.warn(text + "elements that some messages lack, are not read", stacklevel=2)
        kinds = {path: kinds[path] for path in shared}
    for numbers, layout, columns in groups:
        for leaf in layout.leaves:
            if leaf.path not in kinds:
                continue
            rows = columns(leaf.path)
            own = values.setdefault(leaf.path, [None] * n)
            for i, row in zip(numbers.tolist(), rows, strict=True):
                own[i] = row
    fields = {path: column(own) for path, own in values.items() if not kinds[path]}
    return fields, {path: text_column(own) for path, own in values.items() if kinds[path]}


def column(rows: list[Any]) -> np.ndarray | list[Any]:
    """Return values of n messages as an array; as a list if their lengths differ, or if some messages lack them.

    Missing values are None: elements of sequences that are shorter in other messages, e.g. "transforms.1...".
    """
    same = all(row is not None for row in rows) and len({np.shape(row) for row in rows}) == 1
    return np.array(rows) if same else rows


def text_column(rows: list[Any]) -> np.ndarray:
    """Return texts of n messages as an array, (n,); of objects if some messages lack them, which have None."""
    return np.array(rows, object if any(row is None for row in rows) else None)


def parse_json(raw: RawMessages, lost: dict[int, str] | None = None) -> list[dict[str, Any]]:
    """Return the fields of messages by path; messages that are no JSON objects raise, or are named in ``lost``."""
    rows: list[dict[str, Any]] = []
    for i, data in enumerate(raw.data):
        try:
            content = load_json(data)
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


def from_json(raw: RawMessages) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return path -> numbers and path -> texts of JSON messages: those that all messages have."""
    rows = parse_json(raw)
    shared = [path for path in rows[0] if all(path in row for row in rows)]
    listed = {path for row in rows for path in row if isinstance(row[path], str) and path.rpartition(".")[2].isdigit()}
    fields: dict[str, Any] = {}
    texts: dict[str, np.ndarray] = {}
    for path in dict.fromkeys([*shared, *sorted(listed)]):  # lists of names may be shorter in some messages
        own = [row.get(path) for row in rows]
        if path in listed or isinstance(own[0], str):
            texts[path] = text_column(own)
        else:
            fields[path] = column([np.array(value) for value in own])
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
