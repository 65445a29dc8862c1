"""Components in the attributes of a module: alone, or in lists, tuples, deques, dicts, views of dicts, arrays of
objects, dataclasses and namespaces.

Containers are nested to any depth. Generators and other iterators cannot be searched without consuming them, so they
raise.
"""

from __future__ import annotations

import copy
import itertools
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import ItemsView, Iterable, Iterator, ValuesView
from types import GeneratorType, MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from sensorium.errors import TreeError

if TYPE_CHECKING:
    from sensorium.tree.buffer import Buffer
    from sensorium.tree.module import Module

_DICT: dict[object, object] = {}
_VIEWS: tuple[type, ...] = (type(_DICT.values()), type(_DICT.items()))
_OTHER_VIEWS = frozenset({ValuesView, ItemsView})
"""Views of UserDict and ChainMap. They are compared by type, since ``isinstance`` of an abstract class is slow."""
_SEQUENCES = (list, tuple, deque, UserList)
_SETS: tuple[type, ...] = (set, frozenset, type(_DICT.keys()))
_MAPPINGS = (dict, MappingProxyType, UserDict, ChainMap)
_ITERABLES: tuple[Iterable[object], ...] = ([], (), _DICT, _DICT.values(), _DICT.items(), set())
_ITERATORS: tuple[type, ...] = (
    *(GeneratorType, map, filter, zip, enumerate, reversed, itertools.chain, itertools.islice, itertools.starmap),
    *(type(iter(each)) for each in _ITERABLES),
)
"""Iterators over other values. Files and counters are iterators too, but hold no components."""
_CONTAINERS: tuple[type, ...] = (*_SEQUENCES, *_MAPPINGS, *_SETS, *_VIEWS, *_ITERATORS)
_FIELDS = "__dataclass_fields__"
"""Attribute of the classes that ``dataclasses.dataclass`` has made."""
_LEAVES = frozenset({str, int, float, bool, bytes, type(None)})
"""Types that are skipped first, since long lists of them are common."""


class Component:
    """Base class of :class:`Module` and :class:`Buffer`."""

    __slots__ = ()


def is_component(value: object) -> TypeGuard[Module | Buffer]:
    """Return whether a value is a module or a buffer."""
    return isinstance(value, Component)


def is_container(value: object) -> bool:
    """Return whether a value may hold components: a collection, a dataclass instance or a ``SimpleNamespace``."""
    return isinstance(value, _CONTAINERS) or _has_fields(value) or _is_object_array(value) or _is_view(value)


def _is_view(value: object) -> bool:
    return isinstance(value, _VIEWS) or type(value) in _OTHER_VIEWS


def _is_object_array(value: object) -> TypeGuard[np.ndarray]:
    return isinstance(value, np.ndarray) and value.dtype == object


def _has_fields(value: object) -> bool:
    cls = type(value)  # not the value: a dataclass itself is no instance, and __getattr__ of the value is not called
    return hasattr(cls, _FIELDS) or issubclass(cls, SimpleNamespace)


def _items(container: Any) -> Iterable[tuple[object, object]]:
    """Return (key, item) of a container: keys of a mapping, names of fields, indices of others.

    Fields with a leading underscore are not part of the tree.
    """
    if isinstance(container, _MAPPINGS):
        return container.items()
    if _is_object_array(container):
        return [(".".join(map(str, index)), item) for index, item in np.ndenumerate(container)]
    if isinstance(container, (*_SEQUENCES, *_SETS)) or _is_view(container):
        return enumerate(container)
    # fields, which may be in slots or not set yet, and attributes that __post_init__ has set
    names = dict.fromkeys((*getattr(type(container), _FIELDS, ()), *getattr(container, "__dict__", ())))
    return [(name, getattr(container, name)) for name in names if not name.startswith("_") and hasattr(container, name)]


def unpack(name: str, container: Any, outer: tuple[int, ...] = ()) -> Iterator[tuple[str, Module | Buffer]]:
    """Yield (path, component) of the modules and buffers in a container, also in nested ones.

    Args:
        name: name of the attribute that holds it.
        container: a value for which :func:`is_container` is True.
        outer: ids of the containers around it.

    Raises:
        TreeError: a set contains a component, which has no name there, or the container is an iterator.
    """
    if id(container) in outer:  # it contains itself
        return
    if isinstance(container, _ITERATORS):
        raise TreeError(
            f"the attribute {name!r} is a {type(container).__name__}, which cannot be searched for modules and buffers "
            "without consuming it; use a list, or a name with a leading underscore to keep it out of the tree"
        )
    outer = (*outer, id(container))
    in_set = isinstance(container, _SETS)
    for key, item in _items(container):
        if type(item) in _LEAVES:
            continue
        if is_component(item):
            found: Iterable[tuple[str, Module | Buffer]] = ((f"{name}.{key}", item),)
        elif is_container(item):
            found = unpack(f"{name}.{key}", item, outer)
        else:
            continue
        for path, component in found:
            if in_set:
                kinds = f"{type(component).__name__} in a {type(container).__name__}"
                raise TreeError(
                    f"the attribute {name!r} has a {kinds}, where it has no name; use a list or a dict, or a name with "
                    "a leading underscore to keep it out of the tree"
                )
            yield path, component


def contains(held: object, child: Module | Buffer) -> bool:
    """Return whether the value of an attribute is a component, or a container that holds it."""
    return held is child or (is_container(held) and any(one is child for _, one in unpack("", held)))


def replace_in(held: Any, child: Module | Buffer, other: Module | Buffer | None) -> object:
    """Return the value of an attribute, with ``child`` replaced by ``other`` in copies of its containers."""
    if held is child:
        return other
    if not contains(held, child):
        return held
    if isinstance(held, MappingProxyType):
        return MappingProxyType({key: replace_in(item, child, other) for key, item in held.items()})
    if _is_view(held):  # cannot be changed
        return [replace_in(item, child, other) for item in held]
    if _is_object_array(held):
        array = np.empty_like(held)
        for index in np.ndindex(held.shape):
            array[index] = replace_in(held[index], child, other)
        return array
    if isinstance(held, tuple):
        items = [replace_in(item, child, other) for item in held]
        return getattr(held, "_make", type(held))(items)  # a named tuple has _make
    twin = copy.copy(held)
    for key, item in _items(held):
        if isinstance(held, _CONTAINERS):
            twin[key] = replace_in(item, child, other)
        else:
            object.__setattr__(twin, str(key), replace_in(item, child, other))  # also of frozen dataclasses
    return twin
