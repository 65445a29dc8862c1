"""YAML as people write it: ``1e-3`` is a number, which PyYAML by itself takes for text."""

from __future__ import annotations

import re
from typing import Any

import yaml


class Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Plain data alone, with the numbers of YAML 1.2."""


class Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Writes what :class:`Loader` reads: text that looks like such a number in quotes."""


for _each in (Loader, Dumper):
    _each.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
    )


def load(text: str) -> Any:
    """What the text says.

    Example:
        >>> load("noise: 1e-3")
        {'noise': 0.001}

    Raises:
        yaml.YAMLError: it is no YAML.
    """
    return yaml.load(text, Loader)  # which makes plain data alone
