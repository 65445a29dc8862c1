"""Launching compiled kernels, and capturing what a hook launches.

At one env, calling a Numba kernel costs more than running it: every call checks and unpacks each array, about 0.1 us
per array, and a step of a whole suite makes dozens of such calls. So hooks are captured on the CPU as they are on the
GPU. A hook that is marked :func:`replayable` runs once while :func:`launch` records instead of launching, and
:mod:`sensorium.pipeline.chain` turns all records into one native call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from sensorium._arguments import checked
from sensorium.errors import OptionError

HookT = TypeVar("HookT", bound=Callable[..., object])


class StepCounter(NamedTuple):
    """An integer argument of a kernel that changes from step to step."""

    cell: np.ndarray
    """(1,) int64: the memory that holds its value."""


class Launch(NamedTuple):
    """One call of a kernel."""

    kernel: Callable[..., Any]
    arguments: tuple[Any, ...]


class _Record(threading.local):
    """The launches of the hook that is captured in this thread; None while none is captured."""

    launches: list[Launch] | None = None


_record = _Record()


@checked
def replayable(hook: HookT) -> HookT:
    """Mark a hook that, on the CPU, only calls :func:`launch`, with the same arguments in every step.

    The hook may depend on what ``SensorManager.set`` changes (whether a group is idle, or holds samples), since hooks
    are captured again after such a change.
    """
    # The mark is the hook itself: functools.wraps copies attributes, and a copied mark must not count.
    hook.replayable = hook  # type: ignore[attr-defined]
    return hook


def is_replayable(hook: object) -> bool:
    """Return whether a hook itself is marked, and not only a hook that it overrides or wraps."""
    function = getattr(hook, "__func__", hook)
    return function is not None and getattr(function, "replayable", None) is function


def launch(kernel: Callable[..., Any], *arguments: Any) -> None:
    """Call a compiled kernel, or record the call while a hook is captured.

    Args:
        kernel: a function compiled by :func:`sensorium.jit.kernel`.
        *arguments: arrays, numbers, None, and :class:`StepCounter`, whose current value is passed.

    Raises:
        OptionError: the kernel is not a function.
    """
    if _record.launches is None:
        try:
            kernel(*(int(value.cell[0]) if type(value) is StepCounter else value for value in arguments))
        except TypeError:
            if callable(kernel):
                raise
            raise OptionError(f"launch: kernel must be a compiled function, got {kernel!r:.80}") from None
    else:
        _record.launches.append(Launch(kernel, arguments))


def capture(hook: Callable[[], object]) -> list[Launch]:
    """Return what a hook launches, in order, without launching it."""
    launches: list[Launch] = []
    _record.launches = launches
    try:
        hook()
    finally:
        _record.launches = None
    return launches
