"""Buffers: the values of the component tree."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from functools import cache
from numbers import Real
from typing import Any

import numpy as np
import torch

from sensorium._arguments import checked, is_masked
from sensorium._tensors import unusual_kind
from sensorium.errors import TreeError
from sensorium.tree.containers import Component

_GROUND_TRUTH = "ground_truth_"


class Buffer(Component):
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

    Example:
        >>> speed = sn.Buffer(torch.zeros(2), tags={"wheel"})
        >>> speed.set_value([1.0, 2.0])
        >>> speed.get_value()
        tensor([1., 2.])
    """

    __slots__ = ("_current", "_get", "_value", "_version", "derived", "loaded", "tags")

    @checked
    def __init__(
        self,
        value: Any = None,
        tags: str | Iterable[str] = (),
        *,
        get: Callable[[], object] | None = None,
        derived: bool = False,
    ) -> None:
        self.tags = frozenset([tags] if isinstance(tags, str) else tags)
        self._value = value
        self._get = get
        self.derived = derived
        self.loaded = False
        self._current, self._version = value, _version(value)

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

    def get_value(self) -> Any:
        """Return :attr:`value`."""
        return self.value

    def set_value(self, value: Any) -> None:
        """Set the value, which ``write_replay_data`` applies. Tensors and arrays are set in place and keep their dtype.

        Raises:
            TreeError: the owner computes the value, or the new one does not fit in shape or type; nothing was changed.
        """
        held = self.value
        if self._get is not None:
            self.value = value  # raises
        if isinstance(held, torch.Tensor | np.ndarray) and value is not None and not is_masked(value):
            with suppress(TypeError, ValueError, RuntimeError):  # not numbers: the check below says so
                if isinstance(held, torch.Tensor):
                    value = torch.as_tensor(value).detach().to(held.dtype)
                else:
                    value = np.asarray(value.cpu() if isinstance(value, torch.Tensor) else value).astype(held.dtype)
        problem = self.mismatch(value)
        if problem is not None:
            raise TreeError(f"set_value: {problem}")
        self.load(value)

    # -- changes by hand ----------------------------------------------------------------------------------------------

    def update(self, value: torch.Tensor) -> None:
        """Copy a value of the simulation into the tensor. From now on :attr:`is_set` is False.

        Args:
            value: a tensor that does not change later, with which the value is compared then.
        """
        self.load(value)
        self.loaded = False
        self._current, self._version = value, _version(self._value)

    @property
    def is_set(self) -> bool:
        """Whether the value was loaded, set or changed in place since :meth:`update`.

        The version counter of torch detects every change by torch, also to an equal value; the comparison detects
        changes through a NumPy view.
        """
        if self.loaded or _version(self._value) != self._version:
            return True
        value, current = self._value, self._current
        if value is current or not isinstance(value, torch.Tensor):
            return value is not current
        if value.shape != current.shape or value.dtype != current.dtype:
            return True
        # diverged envs hold NaN
        return not torch.equal(value, current) and not torch.allclose(value, current, 0.0, 0.0, equal_nan=True)

    # -- selecting and loading ----------------------------------------------------------------------------------------

    @checked
    def matches(self, include: frozenset[str] | None, exclude: frozenset[str]) -> bool:
        """Return whether the buffer is selected; see :func:`selects`."""
        return selects(self.tags, include, exclude)

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
            problem = _unreadable(value)
            if problem is not None:
                return f"expected {_describe(held)}, got {problem}"
            if tuple(held.shape) != tuple(value.shape) or _dtype_name(held) != _dtype_name(value):
                return f"expected {_describe(held)}, got {_describe(value)}"
            return None
        if isinstance(held, float) and isinstance(value, int) and not isinstance(value, bool):
            return None
        fits = isinstance(value, type(held)) and isinstance(value, bool) == isinstance(held, bool)
        return None if fits else f"expected {type(held).__name__}, got {type(value).__name__}"

    def load(self, value: Any) -> None:
        """Store ``value``: copy tensors and arrays in place, keep a reference to anything else.

        Raises:
            TreeError: the value cannot be copied into the tensor or array.
        """
        held = self.value
        if value is None and self._get is not None:
            return  # the buffer had no value when it was saved
        if isinstance(held, torch.Tensor | np.ndarray) and value is not None:
            problem = _unreadable(value)
            if problem is not None:
                raise TreeError(f"load: expected {_describe(held)}, got {problem}")
            try:
                if isinstance(held, torch.Tensor):
                    given = value.detach() if isinstance(value, torch.Tensor) else torch.from_numpy(np.asarray(value))
                    held.copy_(given)
                else:
                    held[...] = value.numpy(force=True) if isinstance(value, torch.Tensor) else value
            except (RuntimeError, TypeError, ValueError) as error:
                raise TreeError(f"load: {self.mismatch(value) or error}") from error
        elif isinstance(held, float):
            if not isinstance(value, Real):
                raise TreeError(f"load: expected a number, got {value!r:.80}")
            self.value = float(value)
        else:
            self.value = value

    def __repr__(self) -> str:
        return f"Buffer({_describe(self.value)}, tags={sorted(self.tags)})"


def selects(tags: frozenset[str], include: frozenset[str] | None, exclude: frozenset[str]) -> bool:
    """Return whether a buffer with these tags is selected: a tag is in ``include`` (None: always), none in ``exclude``.

    The tag "ground_truth_X" beside "X" marks a ground truth that costs as much as the measured value, such as an image.
    Then "X" in ``include`` does not select the buffer: "ground_truth" or "ground_truth_X" does.
    """
    if not exclude.isdisjoint(tags):
        return False
    if include is None:
        return True
    return any(tag in tags and f"{_GROUND_TRUTH}{tag}" not in tags for tag in include)


def tag_set(name: str, tags: Iterable[str]) -> frozenset[str]:
    """Return tags as a set.

    Args:
        name: name of the argument, for the error message.
        tags: the tags.

    Raises:
        TypeError: ``tags`` is a single string, or not a collection of strings.
    """
    if isinstance(tags, str):
        raise TypeError(f"{name} must be a list of tags, got a string; write {name}=[{tags!r}]")
    if not isinstance(tags, Iterable) or not all(isinstance(tag, str) for tag in tags):
        raise TypeError(f"the argument {name} must be a list of tags, got {tags!r:.80}")
    return frozenset(tags)


def _version(value: object) -> int:
    """Return the number of in-place changes of a tensor; 0 for other values, and in inference mode."""
    return value._version if isinstance(value, torch.Tensor) and not value.is_inference() else 0


def _unreadable(value: object) -> str | None:
    """Return what a value is that lacks numbers which an array or a tensor has: a masked array, a sparse tensor, ..."""
    if is_masked(value):
        return "an array with masked elements"
    return unusual_kind(value) if isinstance(value, torch.Tensor) else None


def _describe(value: object) -> str:
    if isinstance(value, torch.Tensor | np.ndarray):
        return f"{_dtype_name(value)} of shape {tuple(value.shape)}"
    return repr(value)


def _dtype_name(value: torch.Tensor | np.ndarray) -> str:
    return _name_of(value.dtype)


@cache
def _name_of(dtype: Hashable) -> str:
    return str(dtype).removeprefix("torch.")
