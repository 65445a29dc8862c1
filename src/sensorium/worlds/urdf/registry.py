"""URDF models by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sensorium.errors import DuplicateNameError
from sensorium.worlds.urdf.convert import UrdfModel


@dataclass(frozen=True)
class Registration:
    """A model, and the options of the robot that is made of it."""

    model: UrdfModel
    options: Mapping[str, Any]


_KNOWN: dict[str, Registration] = {}


def register(name: str, entry: Registration, replace: bool = False) -> None:
    """Keep a model under a name; the same one again is no error.

    Raises:
        DuplicateNameError: another model has this name, and shall not be replaced.
    """
    if name in _KNOWN and not replace and _KNOWN[name] != entry:
        raise DuplicateNameError(f"another robot is registered as {name!r}; choose another name, or give replace=True")
    _KNOWN[name] = entry


def find(name: object) -> Registration | None:
    """What is registered under a name, or None."""
    return _KNOWN.get(name) if isinstance(name, str) else None


def registered() -> list[str]:
    """The names, in the order in which they were registered."""
    return list(_KNOWN)
