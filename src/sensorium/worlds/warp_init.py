"""Starts Warp quietly: without its banner, and without a warning where there is no GPU. Import it before using Warp."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import warp as wp


@contextmanager
def _no_stderr() -> Iterator[None]:
    """Warp's library writes that warning itself, past Python."""
    try:
        kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    except OSError:  # a process without a standard error has nothing to keep quiet
        yield
        return
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


_level, wp.config.log_level = wp.config.log_level, wp.LOG_ERROR
with _no_stderr():
    wp.init()
wp.config.log_level = max(_level, wp.LOG_WARNING)
