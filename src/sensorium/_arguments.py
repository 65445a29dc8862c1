"""``checked``: a decorator that checks the types of a public function's arguments against its annotations.

It is for functions that are called rarely, whose wrong arguments would otherwise raise an error of Python, NumPy or
torch somewhere below. Functions that run in every step check their arguments themselves. A call costs about 5 us.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path, PurePath
from typing import Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from sensorium.errors import OptionError

P = ParamSpec("P")
R = TypeVar("R")

_WANTED = {
    int: "an integer",
    float: "a number",
    str: "text",
    bool: "True or False",
    type(None): "None",
    Path: "a path",
    Mapping: "a mapping",
    dict: "a mapping",
    Sequence: "a sequence",
    Iterable: "an iterable",
    Callable: "a function",
}
"""Type -> how messages call its values. Others are called by their names."""


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with a check of its arguments: one of a wrong type raises OptionError that names it.

    Checked are numbers (NaN is refused), text, paths, flags, None, literals, collections of them, and instances of
    classes. Annotations that say less (protocols, arrays, type variables) accept everything.
    """
    signature = inspect.signature(function)

    @functools.cache
    def hints() -> dict[str, object]:
        names = vars(sys.modules[function.__module__])
        found: dict[str, object] = {}
        for name, parameter in signature.parameters.items():
            annotation = parameter.annotation
            try:
                found[name] = eval(annotation, names) if isinstance(annotation, str) else annotation
            except (NameError, AttributeError, TypeError):  # a name that is imported for type checkers alone
                continue
        return found

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return function(*args, **kwargs)  # raises Python's own error, which names the argument
        for name, annotation in hints().items():
            if name not in given or annotation is inspect.Parameter.empty:
                continue
            kind = signature.parameters[name].kind
            if kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
                continue
            value = given[name]
            if value is not signature.parameters[name].default and not _fits(value, annotation):
                owner = function.__qualname__.removesuffix(".__init__")
                raise OptionError(f"{owner}: {name} must be {describe(annotation)}, got {value!r:.80}")
        return function(*args, **kwargs)

    return call


def describe(annotation: object) -> str:
    """Return what an annotation accepts, for messages: "a number or None"."""
    members = _members(annotation)
    texts: list[str] = []
    for member in members:
        origin = get_origin(member) or member
        if origin is Literal:
            texts += [repr(value) for value in get_args(member)]
        elif origin in (str, Path) and {str, Path} <= set(members):
            texts.append("a path")
        elif origin in (list, tuple, set, Sequence, Iterable) and _element(member) in _WANTED:
            texts.append(f"a sequence whose elements are each {_WANTED[_element(member)]}")
        else:
            texts.append(_WANTED.get(origin, getattr(origin, "__name__", str(origin))))
    return " or ".join(dict.fromkeys(texts))


def _members(annotation: object) -> tuple[object, ...]:
    """Return the members of a union; of anything else, itself."""
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(inner for member in get_args(annotation) for inner in _members(member))
    return (type(None),) if annotation is None else (annotation,)


def _element(annotation: object) -> object:
    inner = [one for one in get_args(annotation) if one is not Ellipsis]
    return inner[0] if len(set(inner)) == 1 else None


def _fits(value: object, annotation: object) -> bool:
    return any(_fits_one(value, member) for member in _members(annotation))


def _fits_one(value: object, kind: object) -> bool:
    origin = get_origin(kind) or kind
    if origin is Literal:
        return any(value == one and type(value) is type(one) for one in get_args(kind))
    if kind is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, Real) and not isinstance(value, bool) and not math.isnan(value)
    if kind is str:
        return isinstance(value, str)
    if isinstance(origin, type) and issubclass(origin, PurePath):
        return isinstance(value, os.PathLike)
    if origin in (list, tuple, set, Sequence, Iterable):
        return _fits_collection(value, kind, origin)
    if origin in (dict, Mapping):
        return isinstance(value, Mapping)
    if origin is Callable:
        return callable(value)
    if not isinstance(origin, type) or getattr(origin, "_is_protocol", False):
        return True
    return isinstance(value, origin)


def _fits_collection(value: object, kind: object, origin: object) -> bool:
    """Return whether a value is a collection; the elements of lists and tuples are checked too."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return False
    element = _element(kind)
    if element is None or not isinstance(value, list | tuple):
        return True
    return all(_fits(one, element) for one in value)
