"""Registry of URDF models by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sensorium.errors import DuplicateNameError
from sensorium.worlds.urdf.convert import UrdfModel


@dataclass(frozen=True)
class Registration:
    """A model, and the options of its robot."""

    model: UrdfModel
    options: Mapping[str, Any]


_REGISTRY: dict[str, Registration] = {}


def register(name: str, entry: Registration, replace: bool = False) -> None:
    """Store a model under a name. Registering the same model again has no effect.

    Args:
        name: the name.
        entry: the model.
        replace: whether to replace another model of that name.

    Raises:
        DuplicateNameError: another model has this name.
    """
    if name in _REGISTRY and not replace and _REGISTRY[name] != entry:
        raise DuplicateNameError(f"another robot is registered as {name!r}; choose another name, or give replace=True")
    _REGISTRY[name] = entry


def find(name: object) -> Registration | None:
    """Return the model that is registered under a name, or None."""
    return _REGISTRY.get(name) if isinstance(name, str) else None


def registered() -> list[str]:
    """Return the registered names, in the order of their registration."""
    return list(_REGISTRY)
