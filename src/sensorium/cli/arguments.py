"""Helpers for the options of commands."""

from __future__ import annotations

import json
from typing import Any

import tyro

from sensorium.errors import OptionError


def default(text: str, metavar: str | None = None, aliases: tuple[str, ...] = ()) -> object:
    """Return an annotation that describes the default of an option: ``Annotated[int | None, default("all")]``.

    The help of the option then ends with "(default: all)" instead of "(default: None)".

    Args:
        text: description of the default.
        metavar: placeholder of the value in the help. Default: made from the type.
        aliases: further names of the option: "--module".
    """
    return tyro.conf.arg(help_behavior_hint=f"(default: {text})", metavar=metavar, aliases=aliases)


def check_min(name: str, value: float, lower: float) -> None:
    """Check a lower bound of an option.

    Raises:
        OptionError: the value is smaller.
    """
    if value < lower:
        raise OptionError(f"--{name} must be >= {lower}, got {value}")


def parse_pair(option: str, text: str) -> tuple[str, Any]:
    """Return the name and the value of ``name=value``; the value is parsed as JSON, or else taken as text.

    Args:
        option: the option that it belongs to, for the error message: "--option".
        text: what was given.

    Raises:
        OptionError: there is no "=".
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise OptionError(f"{option} takes name=value, got {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
