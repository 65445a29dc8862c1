"""XML with line numbers, so that what is wrong with a file can be said with the place where it is."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

import numpy as np

from sensorium.errors import ModelError, OptionError

_DEPTH = 64
"""How deeply elements may be nested; robots need six."""
_BLANKS = "\ufeff \t\r\n"
_SHOWN = 20
"""How many problems an error lists."""
_GREATEST = 1e20
"""Numbers beyond this are no measure of anything, and overflow when they are multiplied."""


@dataclass
class Node:
    """An element of an XML document."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Node] = field(default_factory=list)
    text: str = ""

    def all(self, tag: str) -> list[Node]:
        """Its children of that tag."""
        return [child for child in self.children if child.tag == tag]

    def first(self, tag: str) -> Node | None:
        """Its first child of that tag."""
        return next((child for child in self.children if child.tag == tag), None)


class Problems:
    """What is wrong with a document: gathered, then raised as one error, for a user mends all of it at once.

    Args:
        source: the file, or what else the document is called.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._lines: list[tuple[int, str]] = []

    def add(self, node: Node, text: str) -> None:
        """Note a problem of an element."""
        self._lines.append((node.line, text))

    def __len__(self) -> int:
        return len(self._lines)

    def check(self) -> None:
        """Raise :class:`ModelError` with the problems, each with its line, if there are any."""
        if self._lines:
            lines = dict.fromkeys(f"{self.source}:{line}: {text}" for line, text in sorted(self._lines))
            more = [f"... and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
            raise ModelError("\n".join([*list(lines)[:_SHOWN], *more]))

    def numbers(self, node: Node, name: str, count: int, default: tuple[float, ...] | None = None) -> tuple[float, ...]:
        """``count`` finite numbers of an attribute; ``default`` where it is not there, or zeros and a problem."""
        text = node.attributes.get(name)
        if text is None:
            if default is None:
                self.add(node, f"<{node.tag}> needs the attribute {name!r}")
            return default or (0.0,) * count
        try:
            values = tuple(float(word) for word in text.split())
        except ValueError:
            values = ()
        if len(values) != count or not (np.abs(values) < _GREATEST).all():
            wanted = "a finite number" if count == 1 else f"{count} finite numbers"
            self.add(node, f"{name} of <{node.tag}> must be {wanted}, got {text!r}")
            return default or (0.0,) * count
        return values

    def number(self, node: Node, name: str, default: float | None = None) -> float:
        """One finite number of an attribute, likewise."""
        return self.numbers(node, name, 1, None if default is None else (default,))[0]


def read_document(document: str | os.PathLike[str], what: str) -> tuple[str | bytes, str, Path | None]:
    """The content of a file, or text as it is; what to call it in errors; and the file's folder.

    Args:
        document: a file, or text, which starts with "<".
        what: what it should be, for errors: "URDF".
    """
    if isinstance(document, str) and document.lstrip(_BLANKS).startswith("<"):
        return document, f"the {what} text", None
    if not isinstance(document, str | os.PathLike):
        raise OptionError(f"give a {what} file or text, got {type(document).__name__}")
    path = Path(document)
    try:
        return path.read_bytes(), os.fspath(path), path.resolve().parent
    except (OSError, ValueError) as error:
        raise ModelError(f"there is no {what} file {os.fspath(path)!r} (text must start with '<'): {error}") from error


def parse(document: str | bytes, source: str) -> Node:
    """The root element of a document.

    Raises:
        ModelError: it is not well-formed XML, or declares entities, with the line.
    """
    text = document.lstrip(_BLANKS) if isinstance(document, str) else document  # none may be before a declaration
    skipped = document[: len(document) - len(text)].count("\n") if isinstance(document, str) else 0
    parser = expat.ParserCreate()
    parser.buffer_text = True
    stack = [Node("", {}, 0)]

    def refuse(why: str) -> None:
        raise ModelError(f"{source}:{parser.CurrentLineNumber + skipped}: {why}")

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(stack) > _DEPTH:
            refuse(f"<{tag}> is nested too deeply")
        node = Node(tag, attributes, parser.CurrentLineNumber + skipped)
        stack[-1].children.append(node)
        stack.append(node)

    def end(_: str) -> None:
        stack.pop()

    def characters(data: str) -> None:
        stack[-1].text += data

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, characters
    parser.EntityDeclHandler = lambda *_: refuse("entities must be written out, they are not read")
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        message = expat.ErrorString(error.code)
        line = error.lineno + skipped
        raise ModelError(f"{source}:{line}: malformed XML: {message} (column {error.offset + 1})") from error
    except (ValueError, LookupError) as error:  # letters that cannot be encoded, or an unknown encoding
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{source}:{parser.CurrentLineNumber + skipped}: malformed XML: {error}") from error
    return stack[0].children[0]
