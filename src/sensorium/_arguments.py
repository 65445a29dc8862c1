"""``checked``: a decorator that checks the types of a public function's arguments against its annotations.

It is for functions that are called rarely, whose wrong arguments would otherwise raise an error of Python, NumPy or
torch somewhere below. Functions that run in every step check their arguments themselves. A call costs about 5 us.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import os
import sys
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path, PurePath
from typing import Any, ForwardRef, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

import numpy as np

from sensorium._paths import checked_path
from sensorium.errors import IndexRangeError, OptionError

P = ParamSpec("P")
R = TypeVar("R")

_WANTED = {
    int: "an integer",
    float: "a number",
    str: "text",
    bool: "True or False",
    type(None): "None",
    Path: "a path",
    os.PathLike: "a path",
    type: "a class",
    Mapping: "a mapping",
    dict: "a mapping",
    Sequence: "a sequence",
    Collection: "a collection",
    Iterable: "an iterable",
    Callable: "a function",
    range: "a range",
    slice: "a slice",
}
"""Type -> how messages call its values. Others are called by their names."""
_COLLECTIONS = (list, tuple, set, frozenset, Sequence, Collection, Iterable)


class _Names(dict[str, object]):
    """The names of a module, with those that it imports for type checkers alone: modules, and our own classes.

    They are looked up among the modules that are loaded: no object of another class can be an argument. Our class names
    are unique (tests/test_package.py).
    """

    def __missing__(self, name: str) -> object:
        full = {"np": "numpy", "th": "torch"}.get(name, name)
        if full in sys.modules:
            return sys.modules[full]
        # a copy is atomic: while a list of items is made, other threads may import
        for module, content in sys.modules.copy().items():
            found = getattr(content, "__dict__", {}).get(name) if module.startswith("sensorium.") else None
            if isinstance(found, type) and found.__name__ == name and found.__module__ == module:
                return found
        raise KeyError(name)


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with a check of its arguments: one of a wrong type raises OptionError that names it.

    Checked are numbers (NaN is refused), text, paths, flags, None, literals, collections of them, and instances of
    classes. An object fits a protocol if it has one of its names, since a function may not need all.
    Annotations that say less (``Any``, type variables without a bound) accept everything.
    """
    signature = inspect.signature(function)

    @functools.cache
    def hints() -> dict[str, object]:
        names = _Names(vars(sys.modules[function.__module__]))
        found: dict[str, object] = {}
        for name, parameter in signature.parameters.items():
            annotation = parameter.annotation
            try:
                found[name] = eval(annotation, {}, names) if isinstance(annotation, str) else annotation
            except (NameError, KeyError, AttributeError, TypeError):  # a name that only type checkers know
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
            if value is signature.parameters[name].default:
                continue
            owner = function.__qualname__.removesuffix(".__init__")
            if not _fits(value, annotation):
                hint = f"; write {name}=[{value!r}]" if isinstance(value, str) and _fits([value], annotation) else ""
                raise OptionError(f"{owner}: {name} must be {describe(annotation)}, got {value!r:.80}{hint}")
            if any(map(_is_path, _members(annotation))) and isinstance(value, str | os.PathLike):
                checked_path(f"{owner}: {name}", value)
        return function(*args, **kwargs)

    return call


def checked_flag(name: str, value: object) -> bool:
    """Return a flag of a call that must stay fast. Raise OptionError that names it if it is not True or False."""
    if value is True or value is False:
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    raise OptionError(f"{name} must be True or False, got {value!r:.80}")


def is_masked(value: object) -> bool:
    """Return whether a value is an array with masked elements, or a sequence of them. NumPy ignores their masks."""
    if type(value) is np.ndarray:
        return False
    if isinstance(value, np.ma.MaskedArray):
        return bool(np.ma.is_masked(value))
    is_sequence = isinstance(value, list | tuple)
    return is_sequence and any(isinstance(one, np.ma.MaskedArray) and is_masked(one) for one in value)  # type: ignore


def as_array(value: object) -> np.ndarray:
    """Return a value as an array.

    What cannot be one is an array of dtype object: a ragged sequence, an array with masked elements, or a tensor that
    is sparse, quantised, nested or on a device that NumPy cannot read.
    """
    if is_masked(value):
        return np.asarray(None)
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError):
        return _host_array(value)


def _host_array(value: object) -> np.ndarray:
    """Return a tensor with a gradient or of bfloat16, which NumPy does not read, as an array."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor) and value.is_cpu:
        from sensorium._tensors import host_array

        with contextlib.suppress(OptionError):
            return host_array("", value)
    return np.asarray(None)


def checked_numbers(
    name: str, value: object, shape: Sequence[int | str | types.EllipsisType] = (...,), *, finite: bool = False
) -> np.ndarray:
    """Return an argument as an array of float64.

    Args:
        name: name of the argument, for the message.
        value: what was given.
        shape: the shape; a name stands for any size, and ``...`` as the first one for any number of axes: (n, 3) is
            ``("n", 3)``.
        finite: whether NaN and infinity are refused.

    Raises:
        OptionError: it is not a number or a regular nested sequence of numbers, or has another shape.
    """
    array = as_array(value)
    if array.size and array.dtype.kind not in "fiub":
        raise OptionError(f"{name} must be numbers, got {value!r:.80}")
    sizes = [size for size in shape if size is not ...]
    own = array.shape[len(array.shape) - len(sizes) :] if ... in shape else array.shape
    if len(own) != len(sizes) or any(
        isinstance(size, int) and size != mine for size, mine in zip(sizes, own, strict=True)
    ):
        text = ", ".join("..." if size is ... else str(size) for size in shape) + "," * (len(shape) == 1)
        raise OptionError(f"{name} must be numbers of shape ({text}), got {value!r:.80} of shape {array.shape}")
    if finite and not np.isfinite(array).all():
        raise OptionError(f"{name} must be finite numbers, got {value!r:.80}")
    return array.astype(np.float64)


def checked_number(name: str, value: object, lower: float = -math.inf) -> float:
    """Return an argument as a float; raise OptionError that names it if it is not a finite number >= ``lower``."""
    fits = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not fits or not lower <= value <= sys.float_info.max or value == -math.inf:  # type: ignore[operator]
        bound = "a finite number" if lower == -math.inf else f"a number >= {lower:g}"
        raise OptionError(f"{name} must be {bound}, got {value!r:.80}")
    return float(value)  # type: ignore[arg-type]


def checked_index(owner: object, item: str, index: object, count: int) -> int:
    """Return the index of an item as a number in [0, count). Negative ones count from the end.

    Args:
        owner: what has the items, for the message: "runs/a".
        item: what they are: "step".
        index: what was given.
        count: how many there are.

    Raises:
        OptionError: it is not an integer.
        IndexRangeError: there is no such item.
    """
    if not isinstance(index, Integral) or isinstance(index, bool):
        raise OptionError(f"{owner}: a {item} number must be an integer, got {index!r:.80}")
    number = int(index)
    if not -count <= number < count:
        raise IndexRangeError(f"{owner} has {count} {item}s; there is no {item} {number}")
    return number % count


def checked_range(owner: object, item: str, items: object, count: int) -> range:
    """Return the numbers of the items that a range or a slice selects; arguments as for :func:`checked_index`.

    Raises:
        OptionError: it is neither, or a bound of the slice is not an integer.
        IndexRangeError: the range contains numbers of items that do not exist.
    """
    if isinstance(items, range):
        if items and not 0 <= min(items[0], items[-1]) <= max(items[0], items[-1]) < count:
            raise IndexRangeError(f"{owner} has {count} {item}s; the range must lie in [0, {count}], got {items!r}")
        return items
    if not isinstance(items, slice):
        raise OptionError(f"{owner}: {item}s must be a range or a slice, got {items!r:.80}")
    try:
        return range(*items.indices(count))
    except (TypeError, ValueError) as error:
        raise OptionError(f"{owner}: {items!r:.80} selects no {item}s: {error}") from None


def checked_rows(owner: object, item: str, rows: object, count: int) -> slice | np.ndarray:
    """Return a slice, an index array or a mask of items, checked; arguments as for :func:`checked_index`.

    Raises:
        OptionError: it is of another type or shape.
        IndexRangeError: there is no such item.
    """
    if isinstance(rows, slice):
        checked_range(owner, item, rows, count)
        return rows
    array = as_array(rows)
    if array.dtype.kind == "b" and array.shape == (count,):
        return array
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise OptionError(
            f"{owner}: {item}s must be a slice, numbers (n,) or a mask of shape ({count},), got {rows!r:.80}"
        )
    if array.size:
        checked_index(owner, item, int(array.min()), count)
        checked_index(owner, item, int(array.max()), count)
    return array.astype(np.intp)


def describe(annotation: object) -> str:
    """Return what an annotation accepts, for messages: "a number or None"."""
    members = _members(annotation)
    texts: list[str] = []
    for member in members:
        origin = get_origin(member) or member
        if origin is Literal:
            texts += [repr(value) for value in get_args(member)]
        elif _is_path(member) or (origin is str and any(map(_is_path, members))):
            texts.append("a path")
        elif origin in _COLLECTIONS and _element(member) in _WANTED:
            texts.append(f"a sequence whose elements are each {_WANTED[_element(member)]}")
        else:
            texts.append(_WANTED.get(origin, getattr(origin, "__name__", str(origin))))
    return " or ".join(dict.fromkeys(texts))


def _members(annotation: object) -> tuple[object, ...]:
    """Return the members of a union; of anything else, itself."""
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(inner for member in get_args(annotation) for inner in _members(member))
    if isinstance(annotation, TypeVar) and annotation.__bound__ is not None:
        return _members(annotation.__bound__)
    if isinstance(annotation, ForwardRef | str):
        try:
            text = annotation if isinstance(annotation, str) else annotation.__forward_arg__
            return _members(eval(text, {}, _Names()))
        except (NameError, KeyError, AttributeError, SyntaxError):
            return (object,)
    return (type(None),) if annotation is None else (annotation,)


def _element(annotation: object) -> object:
    inner = [one for one in get_args(annotation) if one is not Ellipsis]
    return inner[0] if len(set(inner)) == 1 else None


def _is_path(kind: object) -> bool:
    origin = get_origin(kind) or kind
    return isinstance(origin, type) and (origin is os.PathLike or issubclass(origin, PurePath))


def _fits(value: object, annotation: object) -> bool:
    members = _members(annotation)
    if isinstance(value, str) and any(map(_is_path, members)) and (not value or "\0" in value):
        return False
    return any(_fits_one(value, member) for member in members)


def _fits_one(value: object, kind: object) -> bool:
    origin = get_origin(kind) or kind
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in get_args(kind))
    if kind is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, Real) and not isinstance(value, bool) and not math.isnan(value)
    if kind is bool:
        return isinstance(value, bool | np.bool_)
    if _is_path(kind):
        return isinstance(value, os.PathLike)
    if origin in _COLLECTIONS:
        return _fits_collection(value, kind)
    if origin in (dict, Mapping):
        return isinstance(value, Mapping)
    if origin is Callable:
        return callable(value)
    if origin is type:
        return isinstance(value, type) and all(_is_subclass(value, one) for one in get_args(kind))
    if origin is Any or not isinstance(origin, type):
        return True
    if getattr(origin, "_is_protocol", False):
        names = _protocol_names(origin)
        return not names or any(hasattr(type(value), name) or hasattr(value, name) for name in names)
    return isinstance(value, origin)


def _is_subclass(value: type, kind: object) -> bool:
    return any(
        base is Any or not isinstance(base, type) or getattr(base, "_is_protocol", False) or issubclass(value, base)
        for base in (get_origin(member) or member for member in _members(kind))
    )


@functools.cache
def _protocol_names(protocol: type) -> frozenset[str]:
    """Return the public attributes and methods that a protocol asks for."""
    bases = [base for base in protocol.__mro__ if getattr(base, "_is_protocol", False)]
    names = {name for base in bases for name in (*vars(base), *inspect.get_annotations(base))}
    return frozenset(name for name in names if not name.startswith("_"))


def _fits_collection(value: object, kind: object) -> bool:
    """Return whether a value is a collection. Elements are checked, but not the numbers of an array."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return False
    if (get_origin(kind) or kind) in (set, frozenset) and not isinstance(value, set | frozenset):
        return False
    element = _element(kind)
    if element is None or not isinstance(value, Collection if element is str else list | tuple):
        return True
    return all(_fits(one, element) for one in value)
