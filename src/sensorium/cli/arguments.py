"""Helpers for the options of commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tyro

from sensorium.errors import DatasetError, OptionError, SensoriumError
from sensorium.files import create, explain_errors, made_folder, temporary_path
from sensorium.json_files import load_json


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
        return name, load_json(value)
    except ValueError:
        return name, value


def parse_options(option: str, texts: Sequence[str], base: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the values of several ``name=value``. ``name.key=value`` sets one key of an option that is a dict.

    Args:
        option: the option that they belong to, for the error message: "--option".
        texts: what was given.
        base: values that they change.

    Raises:
        OptionError: one has no "=", or sets a key of a value that is no dict.
    """
    found = dict(base or {})
    for text in texts:
        name, value = parse_pair(option, text)
        name, dot, key = name.partition(".")
        if dot:
            before = found.get(name, {})
            if not isinstance(before, Mapping):
                raise OptionError(f"{option} {text}: {name} is {before!r:.80}, which has no keys")
            value = {**before, key: value}
        found[name] = value
    return found


@contextmanager
def bad_input() -> Iterator[None]:
    """Report files that cannot be used as invalid options: exit code 2, as 1 means that a check failed.

    Raises:
        OptionError: the block raised an error of Sensorium, or of a file.
    """
    try:
        yield
    except SensoriumError as error:
        raise OptionError(str(error)) from None
    except OSError as error:
        if error.filename is None:  # not caused by a file of the user
            raise
        raise OptionError(f"{error.filename}: {error.strerror}") from None


def check_output(option: str, folder: Path | None) -> None:
    """Check that an output folder can be created and files can be written to it. Nothing remains of the trial.

    Args:
        option: name of the option, for the error message: "--plots".
        folder: the folder; None for none.

    Raises:
        OptionError: it cannot be created or written to.
    """
    if folder is None:
        return
    trial = temporary_path(folder / "trial")
    try:
        with made_folder(folder, keep=False), explain_errors(folder):
            create(trial).close()
            trial.unlink()
    except DatasetError as error:
        raise OptionError(f"{option}: {error}") from None
