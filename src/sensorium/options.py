"""The base of every options class: frozen, strict about names, and with errors that say what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from numbers import Integral
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from sensorium import _notebook
from sensorium.errors import OptionError, did_you_mean, shorten

_UNION_MEMBER = re.compile(r"(function-|tuple\[).*|float|int")
"""Parts of pydantic's error locations that name the member of a union. Checked with pydantic 2.14."""


class Options(BaseModel):
    """A frozen, validated set of options.

    Unknown names and values of the wrong kind raise :class:`~sensorium.errors.OptionError`, which names the option, the
    value that was given and what is accepted.

    Example:
        >>> class Lamp(Options):
        ...     watts: float = 5.0
        >>> Lamp(wats=3.0)
        Traceback (most recent call last):
        ...
        sensorium.errors.OptionError: Lamp has no option 'wats' (did you mean 'watts'?)
    """

    # validators are built at first use, and docstrings of fields are not parsed at run time: a third of the import time
    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True, defer_build=True
    )

    def __init__(self, **values: Any) -> None:
        numeric = _numeric_fields(type(self))
        for name, given in values.items():
            if name not in numeric:
                continue
            try:
                wrong = [value for value in _leaves(given) if isinstance(value, bool | str)]
            except RecursionError:
                raise OptionError(f"{type(self).__name__}.{name} contains itself, or is nested too deeply") from None
            if wrong:  # pydantic would make a number of it
                wanted = _wanted(type(self).model_fields[name].annotation)
                raise OptionError(f"{type(self).__name__}.{name} must be {wanted}, got {wrong[0]!r}")
        try:
            super().__init__(**values)
        except ValidationError as error:
            message = _explain(type(self), error)
        else:
            return
        raise OptionError(message)

    @classmethod
    def __pydantic_on_complete__(cls) -> None:
        super().__pydantic_on_complete__()
        if cls is Options:  # subclasses whose validators are not built yet would inherit it. Seen with pydantic 2.14.
            del cls.__signature__

    @classmethod
    def option_names(cls) -> list[str]:
        """Return the names that the constructor takes, for messages."""
        return list(cls.model_fields)

    def _repr_html_(self) -> str:
        """Return the options for a notebook: those that differ from the default, and the others folded."""
        fields = type(self).model_fields
        rows = {name: (name, _brief(getattr(self, name))) for name in fields}
        changed = [name for name, field in fields.items() if getattr(self, name) != field.get_default()]
        head = ("option", "value")
        html = _notebook.heading(type(self).__name__)
        if changed:
            html += _notebook.table(head, (rows.pop(name) for name in changed))
        if rows:
            html += _notebook.details(f"{len(rows)} options have their default", _notebook.table(head, rows.values()))
        return html


def _brief(value: object) -> str:
    """Return the text of an option; of options within it, those that were set."""
    if not isinstance(value, Options):
        text = repr(value)
        return text if len(text) <= 200 else f"{text[:197]}..."
    given = ", ".join(
        f"{name}={getattr(value, name)!r}" for name in type(value).model_fields if name in value.model_fields_set
    )
    return f"{type(value).__name__}({given})"


def checked_integer(name: str, value: object, lower: int = 0, upper: int = 2**62) -> int:
    """Return an integer argument as an int.

    Args:
        name: name of the argument, for the message.
        value: what was given: an int, or an integer of NumPy.
        lower, upper: the smallest and the largest value that are allowed.

    Raises:
        OptionError: it is not an integer, or out of range.
    """
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if number is None or not lower <= number <= upper:
        bounds = f"an integer >= {lower}" if upper == 2**62 else f"an integer in [{lower}, {upper}]"
        raise OptionError(f"{name} must be {bounds}, got {value!r}")
    return number


def snake_case(name: str) -> str:
    """Return the name of a class in snake case: "joint_encoder" for "JointEncoder", "imu" for "IMU"."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


@cache
def _numeric_fields(options: type[Options]) -> set[str]:
    """Return the names of the options that are numbers or nested tuples of numbers, and nothing else."""
    numbers = {int, float, NoneType}
    return {name for name, field in options.model_fields.items() if set(_kinds(field.annotation)) <= numbers}


def _wanted(annotation: object) -> str:
    """Return what a numeric option takes: "a number", or "numbers" if it is always a tuple."""
    is_tuple = get_origin(annotation) is tuple
    members = {annotation} if is_tuple else {*get_args(annotation)} or {annotation}
    return "a number" if members & {int, float} else "numbers"


def _kinds(annotation: Any) -> Iterator[Any]:
    """Yield the types in an annotation: int and float for ``tuple[int, ...] | float``."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    inner = [kind for kind in get_args(annotation) if kind is not Ellipsis]
    if not inner:
        yield annotation
    for kind in inner:
        yield from _kinds(kind)


def _choices(annotation: object) -> list[str]:
    """Return the texts of everything that an annotation with a ``Literal`` allows: "True", "'auto'", "a number"."""
    texts: list[str] = []
    names = {bool: ["True", "False"], NoneType: ["None"], float: ["a number"], int: ["an integer"], str: ["a string"]}
    for kind in _kinds(annotation):
        texts += names.get(kind, [repr(kind)])
    return list(dict.fromkeys(texts))


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, list | tuple):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


def _explain(options: type[Options], error: ValidationError) -> str:
    lines = []
    problems = error.errors(include_url=False)
    has_literals = {problem["loc"][0] for problem in problems if problem["type"] == "literal_error"}
    for problem in problems:
        path = ".".join(text for text in map(str, problem["loc"]) if not _UNION_MEMBER.fullmatch(text))
        name = str(problem["loc"][0]) if problem["loc"] else ""
        if problem["type"] == "extra_forbidden":
            names = options.option_names()
            hint = did_you_mean(name, names) or f"; it has {shorten(names, 40)}"
            lines.append(f"{options.__name__} has no option {name!r}{hint}")
        elif name in has_literals and name in options.model_fields:
            # a union such as bool | Literal["a"] gives one problem per member, which become the same line
            index = "".join(f"[{part}]" for part in problem["loc"][1:] if isinstance(part, int))
            allowed = _choices(options.model_fields[name].annotation)
            listed = " or ".join(part for part in (", ".join(allowed[:-1]), allowed[-1]) if part)
            given = problem["input"]
            # text is close to text alone: '3' is not a misspelt 3
            hint = did_you_mean(given, [text.strip("'") for text in allowed if text.startswith("'")])
            lines.append(f"{options.__name__}.{name}{index} must be {listed}, got {given!r}{hint}")
        elif problem["type"] == "missing" and len(problem["loc"]) > 1:
            lines.append(f"{options.__name__}.{name}: too few values, got {problem['input']!r}")
        elif problem["type"] == "missing":
            lines.append(f"{options.__name__} needs the option {path!r}")
        else:
            text = problem["msg"].removeprefix("Value error, ")
            given = "" if not problem["loc"] else f", got {problem['input']!r}"
            subject = f"{options.__name__}.{path}" if path else options.__name__
            joint = " " if text.startswith((_PYDANTIC, "must ")) else ": "
            lines.append(f"{subject}{joint}{_reword(text)}{given}")
    return "\n".join(dict.fromkeys(lines))


_PYDANTIC = "Input should be "
_SIGNS = {"greater than or equal to": ">=", "greater than": ">", "less than or equal to": "<=", "less than": "<"}


def _reword(text: str) -> str:
    """Return a message of pydantic in the wording of this package: "must be >= 0"."""
    if not text.startswith(_PYDANTIC):
        return text
    allowed = text.removeprefix(_PYDANTIC).replace("a valid tuple", "a list or a tuple")
    for words, sign in _SIGNS.items():
        allowed = allowed.replace(words, sign)
    return f"must be {allowed}"
