"""Buffers: the values of the component tree."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import cache
from typing import Any

import numpy as np
import torch

from sensorium.errors import TreeError


class Buffer:
    """A named slot for one value, with tags.

    Args:
        value: a tensor, an array, a number, a string, or None. Tensors and arrays are loaded in place, so their address
            never changes.
        tags: strings that describe the value ("imu", "rgb", "measured", ...), for selecting buffers in ``state_dict``.
        get: returns the value, for a buffer whose value its owner holds.
        derived: whether the value can be computed from the others, as an image from the state. A state dict may lack
            derived values.

    Attributes:
        tags: the tags.
        derived: see Args.
        loaded: whether ``load_state_dict`` has written a value that its module has not used yet.
    """

    __slots__ = ("_get", "_value", "derived", "loaded", "tags")

    def __init__(
        self,
        value: Any = None,
        tags: Iterable[str] = (),
        *,
        get: Callable[[], object] | None = None,
        derived: bool = False,
    ) -> None:
        self.tags = frozenset([tags] if isinstance(tags, str) else tags)
        self._value = value
        self._get = get
        self.derived = derived
        self.loaded = False

    @property
    def is_computed(self) -> bool:
        """Whether the owner computes the value, which cannot be replaced then, only loaded."""
        return self._get is not None

    @property
    def value(self) -> Any:
        """The value itself, not a copy. With ``get``, the tensor that holds it now."""
        return self._value if self._get is None else self._get()

    @value.setter
    def value(self, value: Any) -> None:
        if self._get is not None:
            raise TreeError(
                "the value of this buffer cannot be replaced, since its owner computes it; load it by load_state_dict"
            )
        self._value = value

    def matches(self, include: frozenset[str] | None, exclude: frozenset[str]) -> bool:
        """Return whether a tag is in ``include`` (None: always) and no tag is in ``exclude``."""
        return (include is None or not include.isdisjoint(self.tags)) and exclude.isdisjoint(self.tags)

    def mismatch(self, value: object) -> str | None:
        """Return why ``value`` does not fit this slot (shape, dtype or type), or None if it fits."""
        held = self.value
        if held is None:
            return None if self._get is None or value is None else "it has no value to load into yet"
        if value is None:
            return f"expected {_describe(held)}, got None"
        if isinstance(held, torch.Tensor | np.ndarray):
            if not isinstance(value, torch.Tensor | np.ndarray):
                return f"expected {_describe(held)}, got {type(value).__name__}"
            if tuple(held.shape) != tuple(value.shape) or _dtype_name(held) != _dtype_name(value):
                return f"expected {_describe(held)}, got {_describe(value)}"
            return None
        if isinstance(held, float) and isinstance(value, int) and not isinstance(value, bool):
            return None
        fits = isinstance(value, type(held)) and isinstance(value, bool) == isinstance(held, bool)
        return None if fits else f"expected {type(held).__name__}, got {type(value).__name__}"

    def load(self, value: Any) -> None:
        """Store ``value``: copy tensors and arrays in place, keep a reference to anything else."""
        held = self.value
        if value is None and self._get is not None:
            return  # the buffer had no value when it was saved
        if isinstance(held, torch.Tensor) and value is not None:
            held.copy_(value if isinstance(value, torch.Tensor) else torch.from_numpy(np.asarray(value)))
        elif isinstance(held, np.ndarray) and value is not None:
            held[...] = value.numpy(force=True) if isinstance(value, torch.Tensor) else value
        else:
            self.value = float(value) if isinstance(held, float) else value

    def __repr__(self) -> str:
        return f"Buffer({_describe(self.value)}, tags={sorted(self.tags)})"


def tag_set(name: str, tags: Iterable[str]) -> frozenset[str]:
    """Return tags as a set.

    Args:
        name: name of the argument, for the error message.
        tags: the tags.

    Raises:
        TypeError: ``tags`` is a single string.
    """
    if isinstance(tags, str):
        raise TypeError(f"{name} must be a list of tags, got a string; write {name}=[{tags!r}]")
    return frozenset(tags)


def _describe(value: object) -> str:
    if isinstance(value, torch.Tensor | np.ndarray):
        return f"{_dtype_name(value)} of shape {tuple(value.shape)}"
    return repr(value)


def _dtype_name(value: torch.Tensor | np.ndarray) -> str:
    return _name_of(value.dtype)


@cache
def _name_of(dtype: Hashable) -> str:
    return str(dtype).removeprefix("torch.")
