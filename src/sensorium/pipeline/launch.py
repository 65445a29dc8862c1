"""Launching compiled kernels, and taking notes of what a hook launches.

At one env, calling a Numba kernel costs more than running it: each of its arrays is looked at and unpacked in every
call, some 0.1 us apiece, and a step of a whole suite makes dozens of such calls. So hooks are captured on the CPU as
they are on the GPU: one that is marked :func:`replayable` runs once with :func:`launch` taking notes instead of
launching, and :mod:`sensorium.pipeline.chain` makes one native call of all notes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])


class StepCounter(NamedTuple):
    """An integer argument that changes from step to step."""

    cell: np.ndarray
    """(1,) int64: where its value lies."""


class Launch(NamedTuple):
    """One kernel and what it is called with."""

    kernel: Any
    arguments: tuple[Any, ...]


class _Notes(threading.local):
    """What is launched by a hook that is captured in this thread; None while none is."""

    taken: list[Launch] | None = None


_notes = _Notes()


def replayable(hook: F) -> F:
    """Mark a hook that does nothing on the CPU but :func:`launch`, with the same arguments in every step.

    It may decide by what ``SensorManager.set`` changes (whether a group is idle, or holds samples), for hooks are
    captured anew after that.
    """
    hook.replayable = hook  # type: ignore[attr-defined]  # itself, for functools.wraps copies attributes to others
    return hook


def is_replayable(hook: Any) -> bool:
    """Whether a hook is marked so: itself, not one that it overrides."""
    function = getattr(hook, "__func__", hook)
    return function is not None and getattr(function, "replayable", None) is function


def launch(kernel: Any, *arguments: Any) -> None:
    """Call a compiled kernel, or take a note of the call while a hook is captured."""
    if _notes.taken is None:
        kernel(*(int(value.cell[0]) if type(value) is StepCounter else value for value in arguments))
    else:
        _notes.taken.append(Launch(kernel, arguments))


def capture(hook: Callable[[], Any]) -> list[Launch]:
    """What a hook launches, in order; nothing is launched."""
    notes: list[Launch] = []
    _notes.taken = notes
    try:
        hook()
    finally:
        _notes.taken = None
    return notes
