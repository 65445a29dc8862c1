"""XML parsing with line numbers, so that errors can name the line."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

import numpy as np

from sensorium._paths import path_text
from sensorium.errors import ModelError, OptionError
from sensorium.files import read_file

_MAX_DEPTH = 64
"""Max nesting depth of elements; robots need six."""
_BLANKS = "\ufeff \t\r\n"
_MAX_LISTED = 20
"""Max number of problems that an error lists."""
_MAX_VALUE = 1e20
"""Larger numbers are refused: they have no physical meaning, and products of them overflow."""


@dataclass
class Node:
    """An element of an XML document."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Node] = field(default_factory=list)
    text: str = ""

    def all(self, tag: str) -> list[Node]:
        """Return the children of that tag."""
        return [child for child in self.children if child.tag == tag]

    def first(self, tag: str) -> Node | None:
        """Return the first child of that tag, or None."""
        return next((child for child in self.children if child.tag == tag), None)


class Problems:
    """The problems of a document, collected and raised as one error, so that all can be fixed at once.

    Args:
        source: the file name, or another name of the document for messages.
        strict: whether problems that can be ignored or approximated are errors.
    """

    def __init__(self, source: str, strict: bool = True) -> None:
        self.source = source
        self.strict = strict
        self._lines: list[tuple[int, str]] = []
        self._tolerable: set[tuple[int, str]] = set()
        self._tolerated: list[tuple[int, str]] = []

    def add(self, node: Node, text: str) -> None:
        """Add a problem of an element."""
        self._lines.append((node.line, text))

    def tolerate(self, node: Node, text: str, outcome: str, fix: str = "") -> None:
        """Add a problem that a document may have unless it is read strictly.

        Args:
            node: the element.
            text: the problem.
            outcome: how it is handled if it is tolerated: "it is ignored".
            fix: advice if it is an error, after the text.
        """
        if self.strict:
            self.add(node, f"{text}{fix}")
            self._tolerable.add(self._lines[-1])
        else:
            self._tolerated.append((node.line, f"{text}; {outcome}"))

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def tolerated(self) -> list[str]:
        """The tolerated problems with their lines; equal ones are one entry."""
        lines: dict[str, list[int]] = {}
        for line, text in sorted(set(self._tolerated)):
            lines.setdefault(text, []).append(line)
        more = {text: f" and {len(at) - 1} more" if len(at) > 1 else "" for text, at in lines.items()}
        return [f"line {at[0]}{more[text]}: {text}" for text, at in lines.items()]

    def check(self) -> None:
        """Raise ModelError with all problems, each with its line, if there are any."""
        if not self._lines:
            return
        lines = dict.fromkeys(f"{self.source}:{line}: {text}" for line, text in sorted(self._lines))
        listed = [*list(lines)[:_MAX_LISTED]]
        if len(lines) > _MAX_LISTED:
            listed.append(f"... and {len(lines) - _MAX_LISTED} more")
        if self._tolerable:
            count, every = len(self._tolerable), len(set(self._lines))
            which = "it" if every == 1 else "all of them" if count == every else f"{count} of {every}"
            listed.append(f"strict=False accepts {which}, with a warning")
        raise ModelError("\n".join(listed))

    def numbers(self, node: Node, name: str, count: int, default: tuple[float, ...] | None = None) -> tuple[float, ...]:
        """Return ``count`` finite numbers of an attribute.

        Args:
            node: the element.
            name: the attribute.
            count: how many numbers it must have.
            default: returned if the attribute is missing. Without a default, a missing attribute is a problem, and
                zeros are returned.
        """
        text = node.attributes.get(name)
        if text is None:
            if default is None:
                self.add(node, f"<{node.tag}> needs the attribute {name!r}")
            return default or (0.0,) * count
        try:
            values = tuple(float(word) for word in text.split())
        except ValueError:
            values = ()
        if len(values) != count or not (np.abs(values) < _MAX_VALUE).all():
            wanted = "a finite number" if count == 1 else f"{count} finite numbers"
            self.add(node, f"{name} of <{node.tag}> must be {wanted}, got {text!r}")
            return default or (0.0,) * count
        return values

    def number(self, node: Node, name: str, default: float | None = None) -> float:
        """Return the one finite number of an attribute; see :meth:`numbers`."""
        return self.numbers(node, name, 1, None if default is None else (default,))[0]


def read_document(document: str | os.PathLike[str], what: str) -> tuple[str | bytes, str, Path | None]:
    """Read a file, or take text as it is.

    Args:
        document: a file; or text, which must start with "<".
        what: what the document should be, for messages: "URDF".

    Returns:
        The content, its name for messages, and the folder of the file (None for text).

    Raises:
        ModelError: the file cannot be read.
    """
    if isinstance(document, str) and document.lstrip(_BLANKS).startswith("<"):
        return document, f"the {what} text", None
    if not isinstance(document, str | os.PathLike):
        raise OptionError(f"a {what} must be a file or text, got {type(document).__name__}")
    path = Path(path_text(f"a {what}", document))
    try:
        return read_file(path), os.fspath(path), path.resolve().parent
    except (OSError, ValueError) as error:
        raise ModelError(
            f"cannot read the {what} file {os.fspath(path)!r} (text must start with '<'): {error}"
        ) from error


def parse(document: str | bytes, source: str) -> Node:
    """Return the root element of a document.

    Raises:
        ModelError: the document is not well-formed XML, or declares entities; the message has the line.
    """
    text = document.lstrip(_BLANKS) if isinstance(document, str) else document  # an XML declaration must come first
    skipped = document[: len(document) - len(text)].count("\n") if isinstance(document, str) else 0
    parser = expat.ParserCreate()
    parser.buffer_text = True
    stack = [Node("", {}, 0)]

    def refuse(why: str) -> None:
        raise ModelError(f"{source}:{parser.CurrentLineNumber + skipped}: {why}")

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(stack) > _MAX_DEPTH:
            refuse(f"<{tag}> is nested too deeply")
        node = Node(tag, attributes, parser.CurrentLineNumber + skipped)
        stack[-1].children.append(node)
        stack.append(node)

    def end(_: str) -> None:
        stack.pop()

    def characters(data: str) -> None:
        stack[-1].text += data

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, characters
    parser.EntityDeclHandler = lambda *_: refuse("entity declarations are not supported; write their content out")
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        message = expat.ErrorString(error.code)
        line = error.lineno + skipped
        raise ModelError(f"{source}:{line}: malformed XML: {message} (column {error.offset + 1})") from error
    except (ValueError, LookupError) as error:  # characters that cannot be encoded, or an unknown encoding
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{source}:{parser.CurrentLineNumber + skipped}: malformed XML: {error}") from error
    return stack[0].children[0]
