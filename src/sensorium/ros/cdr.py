"""Messages of ROS 2 to and from CDR, the encoding of DDS (OMG CDR, little-endian), many messages at once.

The values of a message lie at offsets that depend on the lengths of its strings and sequences alone. So the offsets are
found once, for the first message of a topic, and all messages with the same lengths are then encoded or decoded by one
copy per field, as rows of a NumPy array.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from sensorium.errors import DatasetError, OptionError, did_you_mean

HEADER = b"\x00\x01\x00\x00"
"""First bytes of a message: plain CDR, little-endian. Offsets of values count from behind them."""

_TYPES = {
    "bool": "?",
    "byte": "u1",
    "char": "u1",
    "int8": "i1",
    "uint8": "u1",
    "int16": "<i2",
    "uint16": "<u2",
    "int32": "<i4",
    "uint32": "<u4",
    "int64": "<i8",
    "uint64": "<u8",
    "float32": "<f4",
    "float64": "<f8",
}
"""Primitive type of ROS -> dtype."""


class Member(NamedTuple):
    """One field of a message definition."""

    name: str
    kind: str
    """A primitive type, "string", or the type of a message."""
    length: int | None
    """None: one value; -1: a sequence; otherwise an array of this length."""


Definition = dict[str, tuple[Member, ...]]
"""Type of a message -> its fields, for a message and all that it contains."""


@cache
def parse(message: str, text: str) -> Definition:
    """Return the fields of a message and of those that it contains, from a schema in the format "ros2msg".

    Raises:
        DatasetError: the text is no such schema.
    """
    found: Definition = {}
    name = _full(message)
    members: list[Member] = []
    for line in text.splitlines():
        line = line.split("#")[0].strip()
        if line.startswith("==="):
            found[name], members = tuple(members), []
        elif line.startswith("MSG:"):
            name = _full(line[4:].strip())
        elif line and not _is_constant(line):
            members.append(_member(line, name, message))
    found[name] = tuple(members)
    for owner, fields in found.items():
        for member in fields:
            if member.kind not in _TYPES and member.kind != "string" and _find(found, member.kind, owner) is None:
                raise DatasetError(f"the schema of {message} lacks the message {member.kind!r} of {owner}")
    for owner in found:
        _check_nesting(found, owner, (), message)
    return found


def _check_nesting(found: Definition, owner: str, outer: tuple[str, ...], message: str) -> None:
    if owner in outer:
        raise DatasetError(f"the schema of {message} has a message that contains itself: {owner}")
    for member in found.get(owner, ()):
        if inner := _find(found, member.kind, owner):  # None for numbers and strings
            _check_nesting(found, inner, (*outer, owner), message)


def _is_constant(line: str) -> bool:
    """Return whether a line of a definition is a constant: NAME=VALUE behind the type, outside a default in quotes."""
    words = line.split(None, 1)
    return len(words) == 2 and "=" in words[1].split('"')[0].split("'")[0]


def _member(line: str, owner: str, message: str) -> Member:
    words = line.split()
    if len(words) < 2:
        raise DatasetError(f"the schema of {message} has a line without a name in {owner}: {line!r}")
    kind, name, length = words[0], words[1], None
    if kind.endswith("]"):
        kind, _, inside = kind[:-1].partition("[")
        length = int(inside) if inside.isdigit() else -1
    kind = kind.split("<=")[0]  # bounded strings are encoded like others
    if kind == "wstring":
        raise DatasetError(f"the schema of {message} has a field of the unsupported type wstring: {owner}.{name}")
    return Member(name, kind if kind in _TYPES or kind == "string" else _full(kind), length)


def _full(kind: str) -> str:
    """Return "std_msgs/msg/Header" for "std_msgs/Header"."""
    if kind in ("time", "duration"):
        return f"builtin_interfaces/msg/{kind.capitalize()}"
    package, _, name = kind.partition("/")
    return kind if not name or name.startswith(("msg/", "srv/", "action/")) else f"{package}/msg/{name}"


def _find(found: Definition, kind: str, owner: str) -> str | None:
    """Return the key of a message, which may be named without its package; None if it is missing."""
    if kind in found:
        return kind
    if kind in ("builtin_interfaces/msg/Time", "builtin_interfaces/msg/Duration"):  # schemas may leave them out
        return kind
    local = f"{owner.rsplit('/', 1)[0]}/{kind}"
    return local if local in found else None


_TIME = (Member("sec", "int32", None), Member("nanosec", "uint32", None))


def _members(found: Definition, kind: str, owner: str) -> tuple[str, tuple[Member, ...]]:
    key = _find(found, kind, owner)
    assert key is not None  # as parse has checked
    return key, found.get(key, _TIME)


class Leaf(NamedTuple):
    """Values of one primitive field at a place in a message."""

    path: str
    """E.g. "header.stamp.sec"; elements of sequences of messages have numbers, "transforms.0.child_frame_id"."""
    offset: int
    """Bytes from the first byte behind the CDR header."""
    dtype: str
    """dtype of one value; "" for a string."""
    n: int
    """Number of values; of a string its length in bytes without the end."""
    is_array: bool
    """Whether the field is an array or a sequence."""


@dataclass(frozen=True)
class MessageLayout:
    """Where the values of a message with certain lengths are.

    Attributes:
        leaves: all values.
        lengths: (offset, value) of every word that says how long a string or sequence is.
        size: bytes of the message without the CDR header.
    """

    leaves: tuple[Leaf, ...]
    lengths: tuple[tuple[int, int], ...]
    size: int

    def leaf(self, path: str, message: str) -> Leaf:
        """Return the values of a path.

        Raises:
            OptionError: the message has no such field.
        """
        for leaf in self.leaves:
            if leaf.path == path:
                return leaf
        known = [leaf.path for leaf in self.leaves]
        raise OptionError(f"{message} has no field {path!r}{did_you_mean(path, known)}")


class _Walk:
    """Visits the values of a message in the order of their encoding.

    Args:
        found: definitions.
        lengths: returns the length of the string or sequence at (path, offset); for a string without its end.
    """

    def __init__(self, found: Definition, lengths: Callable[[str, int, bool], int]) -> None:
        self._found, self._lengths = found, lengths
        self.leaves: list[Leaf] = []
        self.words: list[tuple[int, int]] = []
        self.at = 0

    def _align(self, size: int) -> None:
        self.at += -self.at % size

    def message(self, kind: str, path: str, owner: str) -> None:
        key, members = _members(self._found, kind, owner)
        for member in members:
            name = f"{path}.{member.name}" if path else member.name
            self._member(member, name, key)

    def _member(self, member: Member, path: str, owner: str) -> None:
        count = 1 if member.length is None else member.length
        if count < 0:
            self._align(4)
            count = self._lengths(path, self.at, False)
            self.words.append((self.at, count))
            self.at += 4
        if member.kind in _TYPES:
            dtype = np.dtype(_TYPES[member.kind])
            if count:
                self._align(dtype.itemsize)
            self.leaves.append(Leaf(path, self.at, dtype.str, count, member.length is not None))
            self.at += dtype.itemsize * count
            return
        for number in range(count):
            own = path if member.length is None else f"{path}.{number}"
            if member.kind == "string":
                self._align(4)
                size = self._lengths(own, self.at, True)
                self.words.append((self.at, size + 1))
                self.leaves.append(Leaf(own, self.at + 4, "", size, False))
                self.at += 4 + size + 1
            else:
                self.message(member.kind, own, owner)


def layout_of(message: str, definition: Definition, values: Mapping[str, Any]) -> MessageLayout:
    """Return the layout of a message with these values: path -> value, for all strings and sequences.

    Sequences of messages have the path of the sequence -> their number, and paths for each element. Strings and
    sequences that are missing are empty.
    """

    def length(path: str, _: int, is_string: bool) -> int:
        value = values.get(path, "" if is_string else ())
        if is_string:
            return len(value.encode())
        return value if isinstance(value, int) else len(value)

    walk = _Walk(definition, length)
    walk.message(_full(message), "", "")
    return MessageLayout(tuple(walk.leaves), tuple(walk.words), walk.at)


def layout_from(message: str, definition: Definition, data: bytes | memoryview) -> MessageLayout:
    """Return the layout of an encoded message, without its CDR header.

    Raises:
        DatasetError: the data is shorter than the message.
    """

    def length(path: str, at: int, is_string: bool) -> int:
        if at + 4 > len(data):
            raise DatasetError(f"ends within {path}")
        value: int = struct.unpack_from("<I", data, at)[0]
        if value > len(data) - at - 4:
            raise DatasetError(f"{path} has a length of {value} beyond the end of the message")
        return max(value - 1, 0) if is_string else value

    walk = _Walk(definition, length)
    walk.message(_full(message), "", "")
    if walk.at > len(data):
        raise DatasetError(f"has {len(data)} bytes instead of {walk.at}")
    return MessageLayout(tuple(walk.leaves), tuple(walk.words), walk.at)


class Encoder:
    """Encodes messages of one topic, whose strings and lengths do not change.

    Args:
        message: type of the message.
        definition: its definition; see :func:`parse`.
        constant: path -> value of everything that is the same in all messages: strings, lengths of sequences (as
            numbers or as values), covariances.

    Example:
        >>> encoder = Encoder("std_msgs/msg/Header", parse("std_msgs/msg/Header", schema("std_msgs/msg/Header")),
        ...                   {"frame_id": "base"})
        >>> [bytes(row) for row in encoder.encode({"stamp.sec": [1, 2], "stamp.nanosec": [0, 0]})]
    """

    def __init__(self, message: str, definition: Definition, constant: Mapping[str, Any]) -> None:
        self.message = message
        layout = layout_of(message, definition, constant)
        self._template = np.zeros(len(HEADER) + layout.size, np.uint8)
        self._template[: len(HEADER)] = np.frombuffer(HEADER, np.uint8)
        body = self._template[len(HEADER) :]
        for offset, value in layout.lengths:
            body[offset : offset + 4] = np.frombuffer(struct.pack("<I", value), np.uint8)
        self._dtypes: dict[str, np.dtype] = {}
        for leaf in layout.leaves:
            if not leaf.dtype:
                text = str(constant.get(leaf.path, "")).encode()
                body[leaf.offset : leaf.offset + len(text)] = np.frombuffer(text, np.uint8)
                continue
            shape = (leaf.n,) if leaf.is_array else ()
            self._dtypes[leaf.path] = np.dtype(
                {
                    "names": ["v"],
                    "formats": [(np.dtype(leaf.dtype), shape)],
                    "offsets": [len(HEADER) + leaf.offset],
                    "itemsize": len(self._template),
                }
            )
            value = constant.get(leaf.path, 0)
            if not (leaf.is_array and isinstance(value, int)):  # a number is only the length of an array
                self._view(self._template[None], leaf.path)[0] = value

    def _view(self, rows: np.ndarray, path: str) -> np.ndarray:
        """Return one field of encoded rows (n, size), (n,) or (n, count), writable."""
        try:
            dtype = self._dtypes[path]
        except KeyError:
            raise OptionError(f"{self.message} has no field {path!r}{did_you_mean(path, self._dtypes)}") from None
        return rows.reshape(-1).view(dtype)["v"]

    @property
    def size(self) -> int:
        """Bytes of a message."""
        return len(self._template)

    def encode(self, values: Mapping[str, Any]) -> np.ndarray:
        """Return encoded messages, (n, size) uint8.

        Args:
            values: path -> values of n messages, (n,) or (n, count).
        """
        n = len(next(iter(values.values()))) if values else 1
        rows = np.empty((n, len(self._template)), np.uint8)
        rows[:] = self._template
        for path, column in values.items():
            self._view(rows, path)[:] = column
        return rows


def decode(
    message: str, definition: Definition, messages: Sequence[bytes], lost: dict[int, str] | None = None
) -> Iterator[tuple[np.ndarray, MessageLayout, Any]]:
    """Yield (numbers, layout, columns) for every group of messages with the same lengths.

    Args:
        message: type of the messages.
        definition: its definition.
        messages: encoded messages, with their CDR headers.
        lost: where messages that cannot be decoded are noted, by number; None to raise.

    Yields:
        Numbers of the messages in the group, their layout, and a function that returns a path of them as an array,
        (n,) or (n, count).

    Raises:
        DatasetError: a message is not little-endian CDR, or shorter than its definition says; names its number.
    """
    sizes = np.fromiter(map(len, messages), np.int64, len(messages))
    left = np.ones(len(messages), bool)
    while left.any():
        first = int(left.argmax())
        try:
            layout = _layout_of(message, definition, messages[first])
        except DatasetError as error:
            if lost is None:
                raise DatasetError(f"message {first} {error}") from None
            lost[first] = str(error)
            left[first] = False
            continue
        alike = np.flatnonzero(left & (sizes == sizes[first]))
        rows = np.frombuffer(b"".join(messages[i] for i in alike.tolist()), np.uint8).reshape(len(alike), -1)
        same = (rows[:, :4] == rows[0, :4]).all(axis=1)
        for offset, _ in layout.lengths:
            at = slice(4 + offset, 8 + offset)
            same &= (rows[:, at] == rows[0, at]).all(axis=1)
        chosen = alike[same]
        left[chosen] = False
        yield chosen, layout, _Columns(message, layout, rows[same])


def _layout_of(message: str, definition: Definition, data: bytes) -> MessageLayout:
    head = data[:4]
    if len(head) < 4 or head[0] != 0 or head[1] != 1:
        raise DatasetError(f"is not plain little-endian CDR: it begins with {head.hex() or 'nothing'}")
    return layout_from(message, definition, memoryview(data)[4:])


class _Columns:
    """Returns the values of a path of decoded messages."""

    def __init__(self, message: str, layout: MessageLayout, rows: np.ndarray) -> None:
        self._message, self._layout, self._rows = message, layout, rows

    def __call__(self, path: str) -> np.ndarray:
        leaf = self._layout.leaf(path, self._message)
        if not leaf.dtype:
            text = self._rows[:, 4 + leaf.offset : 4 + leaf.offset + leaf.n]
            return np.array([bytes(row).decode(errors="replace") for row in text])
        dtype = np.dtype(leaf.dtype)
        part = self._rows[:, 4 + leaf.offset : 4 + leaf.offset + dtype.itemsize * leaf.n]
        values = np.ascontiguousarray(part).view(dtype).reshape(len(part), leaf.n)
        return values if leaf.is_array else values[:, 0]
