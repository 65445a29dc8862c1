"""YAML and JSON files of options. ``1e-3`` is a number in YAML, as in YAML 1.2; PyYAML itself reads it as text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from sensorium.json_files import load_json

_MAX_DEPTH = 100
"""Levels of lists and mappings that a document may have; the time that PyYAML takes grows with their square."""


class Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Loader of plain data, with the numbers of YAML 1.2. Documents of more than 100 levels are refused.

    ``add_indent`` and ``fetch_flow_collection_start`` are methods of PyYAML's scanner (checked against 6.0): they begin
    a level of a list or mapping that is written by indentation, or in brackets.
    """

    def add_indent(self, column: int) -> bool:
        """Begin a level of indentation if the column is beyond the current one."""
        self._check_depth()
        return bool(super().add_indent(column))

    def fetch_flow_collection_start(self, token: type[yaml.Token]) -> None:
        """Begin a level in brackets."""
        self._check_depth()
        super().fetch_flow_collection_start(token)

    def _check_depth(self) -> None:
        if self.flow_level + len(self.indents) > _MAX_DEPTH:
            where = self.get_mark()
            raise yaml.MarkedYAMLError(
                problem=f"it is nested too deeply, more than {_MAX_DEPTH} levels", problem_mark=where
            )


class Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Dumper for :class:`Loader`: it quotes text that looks like a number of YAML 1.2."""


for _each in (Loader, Dumper):
    _each.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
    )


def load(text: str) -> Any:
    """Return the data of a YAML document: dicts, lists, numbers, strings, booleans and None.

    Example:
        >>> load("noise: 1e-3")
        {'noise': 0.001}

    Raises:
        yaml.YAMLError: the text is not valid YAML.
    """
    try:
        return yaml.load(text, Loader)  # Loader is a SafeLoader
    except RecursionError:
        raise yaml.YAMLError("it is nested too deeply") from None
    except ValueError as error:  # a date that does not exist, or a number of thousands of digits
        raise yaml.YAMLError(str(error)) from error


def read(path: Path) -> Any:
    """Return the data of a file: JSON if its name ends in ``.json``, otherwise YAML.

    Raises:
        ValueError: the file is not valid.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return load_json(text)
    try:
        return load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
