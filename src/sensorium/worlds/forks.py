"""Detection of ``os.fork``: the child has no copy of the parent's threads, and would wait for them forever."""

from __future__ import annotations

import os

from sensorium.errors import DeviceError

_depth = [0]


def _note() -> None:
    _depth[0] += 1


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_note)


def fork_depth() -> int:
    """Return how often this process and those above it were forked. An object remembers it when it starts threads."""
    return _depth[0]


def check_not_forked(depth: int | None, what: str) -> None:
    """Check that the threads of an object exist in this process.

    Args:
        depth: :func:`fork_depth` when the object started them; None if it has none.
        what: the object, for the message.

    Raises:
        DeviceError: this process was forked since.
    """
    if depth is not None and depth != _depth[0]:
        raise DeviceError(
            f"{what} was made before this process was forked, and its threads do not exist here; build the scene in "
            'the child process, or start it with multiprocessing.get_context("spawn")'
        )
