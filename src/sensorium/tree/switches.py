"""Switches: methods named ``enable_*`` and ``disable_*``, which run on a whole tree."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sensorium.tree.module import Module

SWITCHES = ("enable_", "disable_")
"""Prefixes of their names."""


class _Running(threading.local):
    """What is running in a thread.

    Attributes:
        seen: name of a cascade -> ids of the modules that were called.
        hooks: (name, id of the module) of the hooks that are running.
    """

    def __init__(self) -> None:
        self.seen: dict[str, set[int]] = {}
        self.hooks: set[tuple[str, int]] = set()

    @contextmanager
    def hook(self, name: str, module: Module) -> Iterator[None]:
        """Mark a hook of a module as running."""
        key = (name, id(module))
        self.hooks.add(key)
        try:
            yield
        finally:
            self.hooks.discard(key)


running = _Running()


def wrap_switches(cls: type[Module]) -> None:
    """Make the methods ``enable_*`` and ``disable_*`` of a class run on the whole tree below a module.

    Constants, properties, static and class methods of such names stay what they are.
    """
    for name in dir(cls):
        if name.startswith(SWITCHES):
            member = _member(cls, name)
            if isinstance(member, FunctionType) and not hasattr(member, "switch_method"):
                setattr(cls, name, _wrap(name, member))


def _wrap(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def switch(self: Module, *args: Any, **kwargs: Any) -> Any:
        if (name, id(self)) in running.hooks:  # called by super() in the method of a subclass
            return method(self, *args, **kwargs)
        return self._switch_all(name, args, kwargs)

    switch.switch_method = method  # type: ignore[attr-defined]
    return switch


def find_hook(cls: type[Module], name: str) -> Callable[..., Any] | None:
    """Return what a cascade runs on a module of a class: the body of its switch, or its method ``_name``; or None."""
    method = getattr(_member(cls, name), "switch_method", None)
    return method if method is not None else getattr(cls, f"_{name}", None)


def is_switch(module: Module, name: str) -> bool:
    """Return whether ``module.name`` can be called as a switch: it is not a constant or property of that name."""
    if name in vars(module):
        return False
    member = _member(type(module), name)
    return member is None or hasattr(member, "switch_method")


def _member(cls: type, name: str) -> Any:
    """Return an attribute of a class as it was defined, without binding it; None if there is none."""
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
